-- Raises the fence of a lock that the token owns: several nodes must agree on one number.
--
-- KEYS  1 lock   2 fence
-- ARGV  1 token  2 the fence to reach: 16 digits  3 TTL of the fence, ms
--
-- Returns the fence, which may be higher | {'lost', taken 0|1}

local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return {'lost', (holder and string.sub(holder, 1, 9) ~= 'reserved:') and 1 or 0}
end

local before = redis.call('GET', KEYS[2])
local fence = before and string.sub(before, 1, 16)
if not fence or fence < ARGV[2] then
  fence = ARGV[2]
  redis.call('SET', KEYS[2], fence .. ':' .. ARGV[1], 'PX', ARGV[3])
end
return tonumber(fence)
