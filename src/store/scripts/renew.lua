-- Extends the lock while the token owns it. Never creates it, never shortens it.
--
-- KEYS  1 lock   2 fence
-- ARGV  1 token  2 TTL, ms  3 floor of the fence: µs of wall time, 16 digits  4 TTL of the fence, ms
--       5 given when the lease was over for its owner: its fence rises to the floor, since a server that
--         lost its data may have granted the lock to others meanwhile
--
-- Returns the fence | {'lost', taken 0|1}

local call = redis.call
local holder = call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return {'lost', (holder and string.sub(holder, 1, 9) ~= 'reserved:') and 1 or 0}
end

-- Always a write, so that a server that has become a replica refuses.
local left, wanted = call('PTTL', KEYS[1]), tonumber(ARGV[2])
call('PEXPIRE', KEYS[1], math.max(left, wanted))
if left < wanted then call('PEXPIRE', KEYS[2], ARGV[4]) end

local before = call('GET', KEYS[2])
if before and string.sub(before, 18) == ARGV[1] and not ARGV[5] then
  return tonumber(string.sub(before, 1, 16))
end

-- The fence was lost, or is to begin anew, or a client that mints none took the lock.
local fence = math.max((tonumber(string.sub(before or '', 1, 16)) or 0) + 1, tonumber(ARGV[3]))
call('SET', KEYS[2], string.format('%016.0f:%s', fence, ARGV[1]), 'PX', ARGV[4])
return fence
