-- Step 4: some of what release ARGV[3] will change for shard ARGV[1], beside the current state.
-- ARGV: shard, token, release, digest of the vector, number of this piece, (key, number of values, (field, value)…)…
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[3] or frozen[2] ~= ARGV[4] then return 'stale' end
local stage = KEYS[1] .. 'stage:' .. ARGV[3] .. ':shard:' .. ARGV[1] .. ':'
local at = 6
while at <= #ARGV do
  local last = at + 1 + tonumber(ARGV[at + 1])
  for i = at + 2, last, 2000 do
    redis.call('HSET', stage .. ARGV[at], unpack(ARGV, i, math.min(i + 1999, last)))
  end
  redis.call('SADD', stage .. 'keys', ARGV[at])
  at = last + 1
end
redis.call('SADD', stage .. 'chunks', ARGV[5])
return 'ok'
