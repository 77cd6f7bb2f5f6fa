-- Step 10: take the fields that are staged under `gone:` and a key away from shard ARGV[3]. By now every
-- shard has written what came to it, so somebody who moved is there already. ARGV: token, release, shard, key…
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local meta, course = redis.call('HMGET', KEYS[1] .. 'meta', 'sent', 'applied', 'shards'), KEYS[1] .. 'course'
if meta[1] ~= ARGV[2] or meta[2] ~= string.format('%d', tonumber(ARGV[2]) - 1) then return 'stale' end
for shard = 0, tonumber(meta[3] or '1') - 1 do
  if redis.call('HGET', course, 'applied:' .. string.format('%d', shard)) ~= ARGV[2] then return 'incomplete' end
end
local stage = KEYS[1] .. 'stage:' .. ARGV[2] .. ':shard:' .. ARGV[3] .. ':'
for number = 4, #ARGV do
  local gone = 'gone:' .. ARGV[number]
  local all = redis.call('HGETALL', stage .. gone)
  for i = 1, #all, 2 do redis.call('HDEL', KEYS[1] .. ARGV[number], all[i]) end
  redis.call('UNLINK', stage .. gone)
  redis.call('SREM', stage .. 'keys', gone)
end
return 'ok'
