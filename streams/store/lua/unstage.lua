-- Step 4: throw away what an earlier attempt staged for shard ARGV[1] and release ARGV[3], which is not
-- sealed. ARGV: shard, token, release, digest of the vector
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
local stage = KEYS[1] .. 'stage:' .. ARGV[3] .. ':shard:' .. ARGV[1] .. ':'
for _, key in ipairs(redis.call('SMEMBERS', stage .. 'keys')) do redis.call('UNLINK', stage .. key) end
redis.call('UNLINK', stage .. 'keys', stage .. 'chunks')
redis.call('HDEL', KEYS[1] .. 'course', 'report:' .. ARGV[1], 'chunks:' .. ARGV[1], 'failed:' .. ARGV[1])
return 'ok'
