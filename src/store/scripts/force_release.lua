-- Removes the lock, whoever holds it. A reserved lock is free already.
--
-- KEYS  1 lock   2 wake list   3 waiter mark
--
-- Returns 1 | 0

local holder = redis.call('GET', KEYS[1])
if not holder or string.sub(holder, 1, 9) == 'reserved:' then return 0 end
redis.call('DEL', KEYS[1])
reserve(KEYS[1], KEYS[2], KEYS[3], holder)
return 1
