-- Ingest, step 5: the first ARGV[3] rejects of the source ARGV[1] are dead letters now, and its floor moves from
-- ARGV[5] to ARGV[4].
-- ARGV[6] and ARGV[7] are the first and the last of those rejects. If Redis was set back meanwhile they are not there,
-- or the floor is another one: 'moved', nothing is done, and the owner must look at the topic again.
-- ARGV[8], unless it is '': offsets up to this one may be rejected again, until they are passed, release ARGV[9] is
-- applied and no reject is left. Until then the rejects go and the floor stays: 'kept'.
local ingest, rejects = KEYS[1] .. 'ingest', KEYS[1] .. 'rejects:' .. ARGV[1]
local token = redis.call('HGET', ingest, 'token:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
if (redis.call('HGET', ingest, 'floor:' .. ARGV[1]) or '0') ~= ARGV[5] then return 'moved' end
if redis.call('LINDEX', rejects, 0) ~= ARGV[6] or redis.call('LINDEX', rejects, ARGV[3] - 1) ~= ARGV[7] then return 'moved' end
redis.call('LTRIM', rejects, ARGV[3], -1)
if ARGV[8] ~= '' then
  local passed = tonumber(redis.call('HGET', ingest, ARGV[1] == 'triggers' and 'trigger' or 'offset:' .. ARGV[1]) or '0') > tonumber(ARGV[8])
  local applied = tonumber(redis.call('HGET', KEYS[1] .. 'meta', 'applied') or '0') >= tonumber(ARGV[9])
  if not passed or not applied or redis.call('LLEN', rejects) > 0 then return 'kept' end
end
redis.call('HSET', ingest, 'floor:' .. ARGV[1], ARGV[4])
return 'ok'
