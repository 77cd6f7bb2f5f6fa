-- Release, step 5: one chunk of what release ARGV[2] will change, beside the current state. ARGV: token, release, chunk
-- number, key, (field, value)…
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
if redis.call('HGET', KEYS[1] .. 'meta', 'release') ~= string.format('%d', tonumber(ARGV[2]) - 1) then return 'stale' end
local stage = KEYS[1] .. 'stage:' .. ARGV[2] .. ':'
for i = 5, #ARGV, 2000 do
  redis.call('HSET', stage .. ARGV[4], unpack(ARGV, i, math.min(i + 1999, #ARGV)))
end
redis.call('SADD', stage .. 'keys', ARGV[4])
redis.call('SADD', stage .. 'chunks', ARGV[3])
return 'ok'
