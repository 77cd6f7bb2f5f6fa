-- Take every ownership of a table away, and give it another engine, ARGV[2], unless that is ''. A worker that takes its
-- part again is found by its token, which is not ARGV[1] then.
local ingest, meta = KEYS[1] .. 'ingest', KEYS[1] .. 'meta'
if redis.call('EXISTS', meta) == 0 then return 'lost' end
local fields = redis.call('HGETALL', ingest)
for i = 1, #fields, 2 do
  if string.match(fields[i], '^token:') then redis.call('HSET', ingest, fields[i], ARGV[1]) end
end
if ARGV[2] ~= '' then redis.call('HSET', meta, 'engine', ARGV[2]) end
return 'ok'
