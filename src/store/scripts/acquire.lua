-- Takes the lock, or says who is in the way. Sending it again with the same token changes nothing.
--
-- KEYS  1 lock   2 fence   3 mark of this token   4 wake list   5 waiter mark
-- ARGV  1 token  2 TTL, ms  3 floor of the fence: µs of wall time, 16 digits  4 TTL of the fence, ms
--       5 TTL of the waiter mark, ms; 0: does not wait  6 the reservation that the caller was handed
-- Keys 4 and 5 and arguments 5 and 6 are needed only by who waits, or met a reservation.
--
-- Returns the fence | {'contended', PTTL} | {'reserved', PTTL} | {'dead'}

local call = redis.call
local mark = call('GET', KEYS[3])
if mark and string.sub(mark, 1, 13) == 'reserved:dead' then return {'dead'} end

if not call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local holder = call('GET', KEYS[1])
  local reserved = string.sub(holder, 1, 9) == 'reserved:'
  if holder == ARGV[1] then
    local left, wanted = call('PTTL', KEYS[1]), tonumber(ARGV[2])
    call('PEXPIRE', KEYS[1], math.max(left, wanted))
    if left < wanted then call('PEXPIRE', KEYS[2], ARGV[4]) end
    local fence = call('GET', KEYS[2])
    if fence and string.sub(fence, 18) == ARGV[1] then
      return tonumber(string.sub(fence, 1, 16))
    end
  elseif reserved and KEYS[4] and (holder == ARGV[6] or call('LREM', KEYS[4], 1, holder) == 1) then
    -- The reservation is the caller's, or nobody was there to take it.
    call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  else
    if KEYS[5] and ARGV[5] ~= '0' then call('SET', KEYS[5], 1, 'PX', ARGV[5]) end
    return {reserved and 'reserved' or 'contended', call('PTTL', KEYS[1])}
  end
end

-- The fence is 16 digits, a colon, and the token it was minted for: strings of one length compare as
-- their numbers do.
local before = redis.pcall('SET', KEYS[2], ARGV[3] .. ':' .. ARGV[1], 'PX', ARGV[4], 'GET')
if type(before) == 'table' then
  -- No fence, no lock: what was done is undone.
  call('DEL', KEYS[1])
  return before
end
if not before or before < ARGV[3] then return tonumber(ARGV[3]) end

-- A clock behind, or two grants in one microsecond: the fence rises all the same.
local fence = math.max((tonumber(string.sub(before, 1, 16)) or 0) + 1, tonumber(ARGV[3]))
call('SET', KEYS[2], string.format('%016.0f:%s', fence, ARGV[1]), 'PX', ARGV[4])
return fence
