-- Prelude of the scripts that free a lock. With a waiter, the lock is kept for the waiter: it holds a
-- reservation, and the same value on the wake list lets one waiter turn it into a lease.
-- DEL comes first: it works when Redis is out of memory, and lets what follows work too.
local function free(lock, wake, waiter, token, window)
  local awaited = redis.call('EXISTS', waiter) == 1
  redis.call('DEL', lock)
  if not awaited then return end
  local reservation = 'reserved:' .. token
  redis.call('SET', lock, reservation, 'PX', window)
  redis.call('DEL', wake)
  redis.call('RPUSH', wake, reservation)
  redis.call('PEXPIRE', wake, window)
end

