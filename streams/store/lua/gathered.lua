-- Step 3, at its end: the desk of bucket ARGV[1] has written everything, if as many elements are there as
-- it says. ARGV: bucket, token, release, digest of the vector, (shard or `strays`, number of elements)…
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
local told = {}
for i = 5, #ARGV, 2 do
  if redis.call('LLEN', KEYS[1] .. 'moves:' .. ARGV[3] .. ':' .. ARGV[1] .. ':' .. ARGV[i]) ~= tonumber(ARGV[i + 1]) then
    return 'incomplete'
  end
  told[#told + 1] = ARGV[i + 1]
end
redis.call('HSET', KEYS[1] .. 'course', 'gathered:' .. ARGV[1], table.concat(told, ','))
return 'ok'
