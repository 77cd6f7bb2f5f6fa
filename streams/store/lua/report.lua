-- Step 4, at its end: shard ARGV[1] is planned and staged, if all its chunks are there. ARGV: shard, token,
-- release, digest of the vector, number of chunks, report
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
local stage = KEYS[1] .. 'stage:' .. ARGV[3] .. ':shard:' .. ARGV[1] .. ':'
if redis.call('SCARD', stage .. 'chunks') ~= tonumber(ARGV[5]) then return 'incomplete' end
redis.call('HSET', KEYS[1] .. 'course', 'report:' .. ARGV[1], ARGV[6], 'chunks:' .. ARGV[1], ARGV[5])
return 'ok'
