-- Step 9, at its end: everything that shard ARGV[1] writes is in the current state; what it takes away
-- goes in step 10. ARGV: shard, token, release
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'sent', 'applied')
local before = string.format('%d', tonumber(ARGV[3]) - 1)
if meta[2] ~= ARGV[3] or meta[3] ~= before then return 'stale' end
for _, key in ipairs(redis.call('SMEMBERS', KEYS[1] .. 'stage:' .. ARGV[3] .. ':shard:' .. ARGV[1] .. ':keys')) do
  if not string.match(key, '^gone:') then return 'incomplete' end
end
redis.call('HSET', KEYS[1] .. 'course', 'applied:' .. ARGV[1], ARGV[3])
return 'ok'
