-- With shards, step 10: take the fields that are staged under `gone:` and ARGV[4] away from shard ARGV[3]. By now every
-- shard has written what came to it, so somebody who moved is there already. ARGV: token, release, shard, key
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local meta, course = redis.call('HMGET', KEYS[1] .. 'meta', 'sent', 'applied', 'shards'), KEYS[1] .. 'course'
if meta[1] ~= ARGV[2] or meta[2] ~= string.format('%d', tonumber(ARGV[2]) - 1) then return 'stale' end
for shard = 0, tonumber(meta[3]) - 1 do
  if redis.call('HGET', course, 'applied:' .. string.format('%d', shard)) ~= ARGV[2] then return 'incomplete' end
end
local stage = KEYS[1] .. 'stage:' .. ARGV[2] .. ':shard:' .. ARGV[3] .. ':'
local all = redis.call('HGETALL', stage .. 'gone:' .. ARGV[4])
for i = 1, #all, 2 do redis.call('HDEL', KEYS[1] .. ARGV[4], all[i]) end
redis.call('UNLINK', stage .. 'gone:' .. ARGV[4])
redis.call('SREM', stage .. 'keys', 'gone:' .. ARGV[4])
return 'ok'
