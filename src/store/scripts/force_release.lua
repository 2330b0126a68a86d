-- Removes the lock, whoever holds it. A reserved lock is free already.
--
-- KEYS  1 lock   2 wake list   3 waiter mark
-- ARGV  1 window of a reservation, ms
--
-- Returns {'released'} | {'lost', 0}

local holder = redis.call('GET', KEYS[1])
if not holder or string.sub(holder, 1, 9) == 'reserved:' then return {'lost', 0} end
free(KEYS[1], KEYS[2], KEYS[3], holder, ARGV[1])
return {'released'}
