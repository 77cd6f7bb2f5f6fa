-- With shards, step 4: one chunk of what release ARGV[3] will change for shard ARGV[1], beside the current state.
-- ARGV: shard, token, release, digest of the vector, chunk number, key, (field, value)…
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
local stage = KEYS[1] .. 'stage:' .. ARGV[3] .. ':shard:' .. ARGV[1] .. ':'
for i = 7, #ARGV, 2000 do
  redis.call('HSET', stage .. ARGV[6], unpack(ARGV, i, math.min(i + 1999, #ARGV)))
end
redis.call('SADD', stage .. 'keys', ARGV[6])
redis.call('SADD', stage .. 'chunks', ARGV[5])
return 'ok'
