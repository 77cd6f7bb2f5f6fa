-- Step 5: release ARGV[2] becomes the current one, if every shard has reported for this vector what its
-- manifest was made of, and every chunk is staged.
-- ARGV: token, release, sha256 of the manifest before or "", sha256 of its own, packed meta, digest of the vector,
-- counts, what the policy means that takes over or '', number of shards, report of each shard…, number of fields for `shards`, which step 10 writes, (field,
-- value)…, (field, value)… for the outbox
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
local meta, course = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'manifest'), KEYS[1] .. 'course'
if not token or not meta[1] then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local before = string.format('%d', tonumber(ARGV[2]) - 1)
if meta[1] ~= before or meta[2] ~= ARGV[3] then return 'stale' end
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector')
if frozen[1] ~= ARGV[2] or frozen[2] ~= ARGV[6] then return 'stale' end
local stage, shards = KEYS[1] .. 'stage:' .. ARGV[2] .. ':', tonumber(ARGV[9])
for number = 0, shards - 1 do
  local shard = string.format('%d', number)
  local told = redis.call('HMGET', course, 'report:' .. shard, 'chunks:' .. shard)
  if told[1] ~= ARGV[10 + number] then return 'stale' end
  if redis.call('SCARD', stage .. 'shard:' .. shard .. ':chunks') ~= tonumber(told[2]) then
    redis.call('HDEL', course, 'report:' .. shard) -- its owner stages it again
    return 'incomplete'
  end
end
local first = 11 + shards
local last = first + 2 * tonumber(ARGV[first - 1])
for i = first, last - 1, 2 do redis.call('HSET', stage .. 'shards', ARGV[i], ARGV[i + 1]) end
for i = last, #ARGV, 2 do redis.call('HSET', stage .. 'outbox', ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1] .. 'meta', 'release', ARGV[2], 'manifest', ARGV[4], 'state', ARGV[5], 'counts', ARGV[7])
if ARGV[8] ~= '' then
  redis.call('HSET', KEYS[1] .. 'meta', 'policy', ARGV[8])
  -- Nobody who runs under the policy before may take another event: every partition needs a new owner. Owners of
  -- shards go on: they read no events, and have a part to send.
  local ingest = redis.call('HGETALL', KEYS[1] .. 'ingest')
  for i = 1, #ingest, 2 do
    local label = string.match(ingest[i], '^token:(.*)')
    if label and label ~= 'triggers' and not string.match(label, '^shard:') then
      redis.call('HSET', KEYS[1] .. 'ingest', ingest[i], 'none since release ' .. ARGV[2])
    end
  end
end
redis.call('DEL', KEYS[1] .. 'barrier')
redis.call('HDEL', KEYS[1] .. 'ingest', 'accepted:' .. ARGV[2])
return 'ok'
