-- Takes the lock, or says who is in the way. Sending it again with the same token changes nothing.
--
-- KEYS  1 lock   2 state   3 dead mark of this token   4 wake list   5 waiter mark
-- ARGV  1 token  2 TTL, ms  3 floor of the fence, µs of wall time  4 TTL of the state, ms
--       5 TTL of the waiter mark, ms; 0 does not wait   6 reservation the caller was handed, or ''
-- State f: fence high-water. o: the token that f was minted for. d: tokens released last.
--
-- Returns {'held', fence} | {'contended', PTTL, reserved 0|1} | {'dead'}

local holder, dead = unpack(redis.call('MGET', KEYS[1], KEYS[3]))
if dead then return {'dead'} end

if holder == ARGV[1] then
  local fence, owner = unpack(redis.call('HMGET', KEYS[2], 'f', 'o'))
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
  end
  if owner == ARGV[1] then return {'held', tonumber(fence)} end
elseif holder and not (string.sub(holder, 1, 9) == 'reserved:'
    and (holder == ARGV[6] or redis.call('LREM', KEYS[4], 1, holder) == 1)) then
  if ARGV[5] ~= '0' then redis.call('SET', KEYS[5], 1, 'PX', ARGV[5]) end
  return {'contended', redis.call('PTTL', KEYS[1]), string.sub(holder, 1, 9) == 'reserved:' and 1 or 0}
elseif holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('GET', KEYS[1]) -- MGET shows a key of another type as absent: this one raises WRONGTYPE.
end

local fence = math.max((tonumber(redis.call('HGET', KEYS[2], 'f')) or 0) + 1, tonumber(ARGV[3]))
redis.call('HSET', KEYS[2], 'f', string.format('%.0f', fence), 'o', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return {'held', fence}
