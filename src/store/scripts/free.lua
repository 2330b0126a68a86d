-- Prelude of the scripts that free a lock: keeps it for a waiter, if there is one. The lock holds a
-- reservation, and the same value on the wake list lets one waiter turn it into a lease.
-- The lock is gone already: that works when Redis is out of memory, and lets what follows work too.
local function reserve(lock, wake, waiter, token)
  if redis.call('EXISTS', waiter) == 0 then return end
  local reservation, window = 'reserved:' .. token, 100
  redis.call('SET', lock, reservation, 'PX', window)
  redis.call('DEL', wake)
  redis.call('RPUSH', wake, reservation)
  redis.call('PEXPIRE', wake, window)
end

