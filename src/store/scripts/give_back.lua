-- Passes a reservation on that its waiter cannot use: to the next waiter, or the lock is free.
--
-- KEYS  1 lock   2 wake list   3 waiter mark
-- ARGV  1 the reservation
--
-- Returns 1 | 0

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
reserve(KEYS[1], KEYS[2], KEYS[3], string.sub(ARGV[1], 10))
return 1
