-- what could not be planned is to be tried again. ARGV: token, number of shards
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
for shard = 0, tonumber(ARGV[2]) - 1 do
  redis.call('HDEL', KEYS[1] .. 'course', 'failed:' .. string.format('%d', shard))
end
return 'ok'
