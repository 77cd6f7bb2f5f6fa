-- Ingest, step 5: the first ARGV[3] marks of ARGV[1] are dead letters now; ARGV[4] is where in the dead-letter topic to look from, should it ever be in doubt.
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
redis.call('LTRIM', KEYS[1] .. 'rejects:' .. ARGV[1], ARGV[3], -1)
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1] .. 'ingest', 'floor:' .. ARGV[1], ARGV[4]) end
return 'ok'
