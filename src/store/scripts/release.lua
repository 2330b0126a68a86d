-- Gives the lock back if the token owns it. Sent again, it gives the same answer: the lock's value
-- moves to the token's own mark, so no other owner can come between.
--
-- KEYS  1 lock   2 mark of this token   3 wake list   4 waiter mark
-- ARGV  1 token  2 TTL of the mark, ms; without it, what is left of the lock's is right
--       3 'dead' when an acquire of this token may still arrive, and must be refused
--
-- Returns 1 | {'lost', taken 0|1}

local call = redis.call
local holder = call('GET', KEYS[1])
local released = holder == ARGV[1]

if released then
  call('RENAME', KEYS[1], KEYS[2])
  reserve(KEYS[1], KEYS[3], KEYS[4], ARGV[1])
  if ARGV[2] then call('PEXPIRE', KEYS[2], ARGV[2]) end
else
  local mark = call('GET', KEYS[2])
  released = mark == ARGV[1] or mark == 'reserved:dead, released'
end

if ARGV[3] == 'dead' then
  call('SET', KEYS[2], released and 'reserved:dead, released' or 'reserved:dead', 'PX', ARGV[2])
end

if released then return 1 end
return {'lost', (holder and string.sub(holder, 1, 9) ~= 'reserved:') and 1 or 0}
