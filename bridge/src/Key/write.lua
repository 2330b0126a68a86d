-- Writes or deletes a value, unless a higher fence has written it.
--
-- KEYS  1 value   2 fence
-- ARGV  1 fence   2 TTL of the fence, ms; 0: none   3 value; left out: delete   4 TTL of the value, ms; 0: none
--
-- Returns {1, whether there was a value} | {0, the stored fence}

local call = redis.call
local fence = ARGV[1]
local stored = call('GET', KEYS[2])
if stored then
  if not string.find(stored, '^%d+$') then
    return redis.error_reply('ERR the key for the fence holds something else')
  end
  -- Lua's numbers end at 2^53: digits are compared, the longer number being the higher.
  if #stored > #fence or (#stored == #fence and stored > fence) then return {0, stored} end
end

-- The fence first: whatever ends the script early, no older one writes afterwards.
if ARGV[2] == '0' then
  call('SET', KEYS[2], fence)
else
  call('SET', KEYS[2], fence, 'PX', ARGV[2])
end
if not ARGV[3] then return {1, call('DEL', KEYS[1])} end

local there = call('EXISTS', KEYS[1])
if ARGV[4] == '0' then
  call('SET', KEYS[1], ARGV[3])
else
  call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
end
return {1, there}
