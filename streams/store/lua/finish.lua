-- Step 10, at its end: all shards are applied; the windows of release ARGV[2], what desks found in them and
-- what step 4 staged are deleted, and the records of the shards as a whole are those of this release. ARGV: token, release, number of partitions, number of shards
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'sent', 'applied')
local before = string.format('%d', tonumber(ARGV[2]) - 1)
if meta[1] ~= ARGV[2] or meta[2] ~= before then return 'stale' end
local stage, last = KEYS[1] .. 'stage:' .. ARGV[2] .. ':shard:', tonumber(ARGV[4]) - 1
for number = 0, last do
  local shard = string.format('%d', number)
  if redis.call('HGET', KEYS[1] .. 'course', 'applied:' .. shard) ~= ARGV[2] then return 'incomplete' end
  if redis.call('SCARD', stage .. shard .. ':keys') ~= 0 then return 'incomplete' end
end
for number = 0, last do
  local bucket = string.format('%d', number)
  redis.call('UNLINK', stage .. bucket .. ':chunks', KEYS[1] .. 'moves:' .. ARGV[2] .. ':' .. bucket .. ':strays')
  for shard = 0, last do
    redis.call('UNLINK', KEYS[1] .. 'moves:' .. ARGV[2] .. ':' .. bucket .. ':' .. string.format('%d', shard))
  end
  for partition = 0, tonumber(ARGV[3]) - 1 do
    redis.call('UNLINK', KEYS[1] .. 'window:' .. ARGV[2] .. ':' .. string.format('%d', partition) .. ':' .. bucket)
  end
end
for partition = 0, tonumber(ARGV[3]) - 1 do
  redis.call('UNLINK', KEYS[1] .. 'foreign:' .. before .. ':' .. string.format('%d', partition))
end
local lasting = redis.call('HGETALL', KEYS[1] .. 'stage:' .. ARGV[2] .. ':shards')
for i = 1, #lasting, 2 do redis.call('HSET', KEYS[1] .. 'shards', lasting[i], lasting[i + 1]) end
redis.call('UNLINK', KEYS[1] .. 'stage:' .. ARGV[2] .. ':shards', KEYS[1] .. 'course')
redis.call('HSET', KEYS[1] .. 'meta', 'applied', ARGV[2])
return 'ok'
