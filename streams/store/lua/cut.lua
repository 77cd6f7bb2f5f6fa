-- Step 3, before there are cuts: what the owner of shard 0 found, the cuts or that there are none yet.
-- ARGV: shard, token, release, digest of the vector, packed cuts
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
redis.call('HSET', KEYS[1] .. 'course', 'cuts', ARGV[5])
return 'ok'
