-- Take every ownership of a table away, if ARGV[2] is its last release, and give it the engine ARGV[3], unless that is
-- ''. A worker that takes its part again is found by its token, which is not ARGV[1] then. What shards have gathered and
-- reported under the engine before goes: no release is made by two of them.
local ingest, meta = KEYS[1] .. 'ingest', KEYS[1] .. 'meta'
local release = redis.call('HGET', meta, 'release')
if not release then return 'lost' end
if release ~= ARGV[2] then return 'moved' end
if ARGV[3] ~= '' and redis.call('HGET', meta, 'shards') then
  if redis.call('HGET', meta, 'applied') ~= release then return 'moved' end
  redis.call('UNLINK', KEYS[1] .. 'course')
  redis.call('HDEL', KEYS[1] .. 'barrier', 'vector')
end
local fields = redis.call('HGETALL', ingest)
for i = 1, #fields, 2 do
  if string.match(fields[i], '^token:') then redis.call('HSET', ingest, fields[i], ARGV[1]) end
end
if ARGV[3] ~= '' then redis.call('HSET', meta, 'engine', ARGV[3]) end
return 'ok'
