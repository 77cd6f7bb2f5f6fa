-- Create a table that Redis knows nothing of: its meta, and where each partition starts. ARGV: number of partitions,
-- (field, value) of meta…
if redis.call('EXISTS', KEYS[1] .. 'meta') == 1 then return 'exists' end
for partition = 0, tonumber(ARGV[1]) - 1 do
  redis.call('HSET', KEYS[1] .. 'ingest', 'offset:' .. partition, '0', 'window:' .. partition, '1')
end
redis.call('HSET', KEYS[1] .. 'meta', unpack(ARGV, 2))
return 'ok'
