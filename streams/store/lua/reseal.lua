-- Note under which keys values may be from now on: ARGV[2], if they are ARGV[1] now. ARGV[3] is the fingerprint of the
-- key that everything is being brought under, "" if that is over, `as-it-was` to leave that alone. ARGV[4…] are labels
-- whose owners are refused from now on, until they take ownership again.
local seal = redis.call('HGET', KEYS[1] .. 'meta', 'seal')
if not seal then return 'lost' end
if seal ~= ARGV[1] then return 'moved' end
redis.call('HSET', KEYS[1] .. 'meta', 'seal', ARGV[2])
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1] .. 'meta', 'rekey')
elseif ARGV[3] ~= 'as-it-was' then
  redis.call('HSET', KEYS[1] .. 'meta', 'rekey', ARGV[3])
end
for i = 4, #ARGV do redis.call('HSET', KEYS[1] .. 'ingest', 'token:' .. ARGV[i], 'rekeyed') end
return 'ok'
