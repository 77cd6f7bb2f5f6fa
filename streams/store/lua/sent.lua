-- Step 8: release ARGV[2] is on the releases topic; the outbox is not needed any more. ARGV: token,
-- release
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
if redis.call('HGET', KEYS[1] .. 'meta', 'release') ~= ARGV[2] then return 'stale' end
redis.call('HSET', KEYS[1] .. 'meta', 'sent', ARGV[2])
redis.call('UNLINK', KEYS[1] .. 'stage:' .. ARGV[2] .. ':outbox')
return 'ok'
