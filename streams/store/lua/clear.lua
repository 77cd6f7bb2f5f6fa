-- Ingest, step 5: the first ARGV[3] marks of ARGV[1] are dead letters now; ARGV[4] is where in the dead-letter topic to look from, should it ever be in doubt.
-- ARGV[5] is where that was so far, ARGV[6] and ARGV[7] are the first and the last of those marks. If Redis was set back meanwhile they are not there, nothing is done, and the topic must be looked at again.
-- ARGV[8], unless it is '': offsets up to this one may be marked again, until they are passed, release ARGV[9] is applied and no mark is left. As long as that is so the marks go and the place stays: 'kept'.
local ingest, marks = KEYS[1] .. 'ingest', KEYS[1] .. 'rejects:' .. ARGV[1]
local token = redis.call('HGET', ingest, 'token:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
if (redis.call('HGET', ingest, 'floor:' .. ARGV[1]) or '0') ~= ARGV[5] then return 'moved' end
if redis.call('LINDEX', marks, 0) ~= ARGV[6] or redis.call('LINDEX', marks, ARGV[3] - 1) ~= ARGV[7] then return 'moved' end
redis.call('LTRIM', marks, ARGV[3], -1)
if ARGV[8] ~= '' then
  local passed = tonumber(redis.call('HGET', ingest, ARGV[1] == 'triggers' and 'trigger' or 'offset:' .. ARGV[1]) or '0') > tonumber(ARGV[8])
  local applied = tonumber(redis.call('HGET', KEYS[1] .. 'meta', 'applied') or '0') >= tonumber(ARGV[9])
  if not passed or not applied or redis.call('LLEN', marks) > 0 then return 'kept' end
end
redis.call('HSET', ingest, 'floor:' .. ARGV[1], ARGV[4])
return 'ok'
