-- Step 2: every partition has passed the barrier of release ARGV[2], so that its vector is complete, and
-- owners may begin. What was gathered or reported for another vector is thrown away. Cuts that there are already stand
-- for this release, too.
-- ARGV: token, release, digest of the vector, number of partitions, what the vector is, packed, what the policy means
-- that takes over with this release or ''
local ingest, barrier, course = KEYS[1] .. 'ingest', KEYS[1] .. 'barrier', KEYS[1] .. 'course'
local token = redis.call('HGET', ingest, 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
if redis.call('HGET', barrier, 'release') ~= ARGV[2] then return 'stale' end
for partition = 0, tonumber(ARGV[4]) - 1 do
  local window = redis.call('HGET', ingest, 'window:' .. string.format('%d', partition))
  if not window then return 'lost' end
  if tonumber(window) <= tonumber(ARGV[2]) then return 'stale' end
end
redis.call('HSET', barrier, 'vector', ARGV[3])
local begun = redis.call('HMGET', course, 'release', 'vector')
if begun[1] ~= ARGV[2] or begun[2] ~= ARGV[3] then
  redis.call('UNLINK', course)
  redis.call('HSET', course, 'release', ARGV[2], 'vector', ARGV[3], 'origin', ARGV[5])
  if ARGV[6] ~= '' then redis.call('HSET', course, 'policy', ARGV[6]) end
  local cuts = redis.call('HGET', KEYS[1] .. 'shards', 'cuts')
  if cuts then redis.call('HSET', course, 'cuts', cuts) end
end
return 'ok'
