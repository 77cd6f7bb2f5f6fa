-- elements of what the desk of bucket ARGV[5] found are not there any more; the desk must write them again.
-- ARGV: shard, token, release, digest of the vector, bucket
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
redis.call('HDEL', KEYS[1] .. 'course', 'gathered:' .. ARGV[5])
return 'ok'
