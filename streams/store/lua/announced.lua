-- Step 6: the `sealed` record of release ARGV[2] is committed; owners may send their parts. ARGV: token,
-- release, (shard, offset at which its partition of the parts topic goes on)…
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'sent')
if meta[1] ~= ARGV[2] or meta[2] ~= string.format('%d', tonumber(ARGV[2]) - 1) then return 'stale' end
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[1] .. 'course', 'begin:' .. ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1] .. 'course', 'announced', ARGV[2])
return 'ok'
