-- Step 3: some of what the desk of bucket ARGV[1] found in the windows of release ARGV[3].
-- ARGV: bucket, token, release, digest of the vector, shard or `strays`, '1' if what is there is replaced, elements…
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
local moves = KEYS[1] .. 'moves:' .. ARGV[3] .. ':' .. ARGV[1] .. ':' .. ARGV[5]
if ARGV[6] == '1' then redis.call('UNLINK', moves) end
for i = 7, #ARGV do redis.call('RPUSH', moves, ARGV[i]) end
return 'ok'
