-- Step 7: the part of shard ARGV[1] is on its partition, from offset ARGV[4] to before ARGV[5]. ARGV:
-- shard, token, release, first offset, end
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'sent', 'applied')
local before = string.format('%d', tonumber(ARGV[3]) - 1)
if meta[1] ~= ARGV[3] or meta[2] ~= before then return 'stale' end
redis.call('HSET', KEYS[1] .. 'course', 'part:' .. ARGV[1], ARGV[4] .. ',' .. ARGV[5])
return 'ok'
