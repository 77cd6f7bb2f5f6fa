-- Source, step 5: what a committed batch has changed, all of it or nothing.
-- ARGV: token, number of the batch, place after it, then for each write: what, key, field or member, value.
local meta = KEYS[1] .. 'meta'
local found = redis.call('HMGET', meta, 'token', 'number')
if not found[1] then return 'lost' end
if found[1] ~= ARGV[1] then return 'fenced' end
if found[2] and tonumber(found[2]) + 1 ~= tonumber(ARGV[2]) then return 'moved' end
for i = 4, #ARGV, 4 do
  local what, key = ARGV[i], KEYS[1] .. ARGV[i + 1]
  if what == 'put' then redis.call('HSET', key, ARGV[i + 2], ARGV[i + 3])
  elseif what == 'remove' then redis.call('HDEL', key, ARGV[i + 2])
  elseif what == 'add' then redis.call('SADD', key, ARGV[i + 2])
  elseif what == 'take' then redis.call('SREM', key, ARGV[i + 2])
  else redis.call('UNLINK', key) end
end
redis.call('HSET', meta, 'number', ARGV[2], 'place', ARGV[3])
redis.call('HDEL', meta, 'staged')
return 'ok'
