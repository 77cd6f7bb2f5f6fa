-- Release, step 9, at its end: the windows of release ARGV[2] and what step 5 staged are deleted. ARGV: token, release,
-- number of partitions
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local stage = KEYS[1] .. 'stage:' .. ARGV[2] .. ':'
if redis.call('SCARD', stage .. 'keys') ~= 0 then return 'incomplete' end
local before = string.format('%d', tonumber(ARGV[2]) - 1)
for partition = 0, tonumber(ARGV[3]) - 1 do
  redis.call('UNLINK', KEYS[1] .. 'window:' .. ARGV[2] .. ':' .. partition, KEYS[1] .. 'foreign:' .. before .. ':' .. partition)
end
redis.call('UNLINK', stage .. 'chunks')
redis.call('HSET', KEYS[1] .. 'meta', 'applied', ARGV[2])
return 'ok'
