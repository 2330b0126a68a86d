-- Extends the lock while the token owns it. Never creates it, never shortens it.
--
-- KEYS  1 lock   2 state
-- ARGV  1 token  2 TTL, ms  3 floor of the fence, µs of wall time  4 TTL of the state, ms
--
-- Returns {'held', fence} | {'lost', taken 0|1}

local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return {'lost', (holder and string.sub(holder, 1, 9) ~= 'reserved:') and 1 or 0}
end

if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
end

local fence, owner = unpack(redis.call('HMGET', KEYS[2], 'f', 'o'))
if owner == ARGV[1] then return {'held', tonumber(fence)} end

-- The state was lost, or a client that mints no fence took the lock: this owner's fence begins here.
fence = math.max((tonumber(fence) or 0) + 1, tonumber(ARGV[3]))
redis.call('HSET', KEYS[2], 'f', string.format('%.0f', fence), 'o', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return {'held', fence}
