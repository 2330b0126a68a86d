-- Gives the lock back if the token owns it, and remembers that it did: sent again, it says so again.
--
-- KEYS  1 lock   2 state   3 wake list   4 waiter mark   5 dead mark of this token, only if wanted
-- ARGV  1 token  2 TTL of the state, ms  3 window of a reservation, ms  4 TTL of the dead mark, ms
-- State d: the tokens released last, newest first, each as "length:token".
--
-- Returns {'released'} | {'lost', taken 0|1}

local holder = redis.call('GET', KEYS[1])
local released = ''
local outcome

if holder == ARGV[1] then
  free(KEYS[1], KEYS[3], KEYS[4], ARGV[1], ARGV[3])
  released = redis.call('HGET', KEYS[2], 'd') or ''
  -- Eight tokens of ours; a longer one of somebody else's pushes out more.
  released = string.sub(#ARGV[1] .. ':' .. ARGV[1] .. released, 1, 280)
  if redis.call('HSET', KEYS[2], 'd', released) == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
  outcome = {'released'}
else
  released = redis.call('HGET', KEYS[2], 'd') or ''
  local at = 1
  while at <= #released and not outcome do
    local _, colon, length = string.find(released, '^(%d+):', at)
    if not colon then break end
    at = colon + 1 + length
    if string.sub(released, colon + 1, at - 1) == ARGV[1] then outcome = {'released'} end
  end
end

-- An acquire of this token went unanswered and may still arrive: it must find the mark.
if KEYS[5] then redis.call('SET', KEYS[5], 1, 'PX', ARGV[4]) end

return outcome or {'lost', (holder and string.sub(holder, 1, 9) ~= 'reserved:') and 1 or 0}
