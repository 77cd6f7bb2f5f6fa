-- shard ARGV[1] cannot be gathered or planned; ARGV[5] says why, in words that say nothing about people.
-- ARGV: shard, token, release, digest of the vector, sentence
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
redis.call('HDEL', KEYS[1] .. 'course', 'report:' .. ARGV[1])
redis.call('HSET', KEYS[1] .. 'course', 'failed:' .. ARGV[1], ARGV[5])
return 'ok'
