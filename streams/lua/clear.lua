-- Ingest, step 5: the first ARGV[3] marks of ARGV[1] are dead letters now; ARGV[4] is where in the dead-letter topic to look from, should it ever be in doubt.
-- ARGV[5] is where that was so far, ARGV[6] and ARGV[7] are the first and the last of those marks. If Redis was set back meanwhile they are not there, nothing is done, and the topic must be looked at again.
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local marks = KEYS[1] .. 'rejects:' .. ARGV[1]
if (redis.call('HGET', KEYS[1] .. 'ingest', 'floor:' .. ARGV[1]) or '0') ~= ARGV[5] then return 'moved' end
if redis.call('LINDEX', marks, 0) ~= ARGV[6] or redis.call('LINDEX', marks, ARGV[3] - 1) ~= ARGV[7] then return 'moved' end
redis.call('LTRIM', marks, ARGV[3], -1)
redis.call('HSET', KEYS[1] .. 'ingest', 'floor:' .. ARGV[1], ARGV[4])
return 'ok'
