-- Make ARGV[2] the token of the owner of ARGV[1]: a partition's number, `external:p`, or `triggers`. The former owner
-- is refused from now on. ARGV[3]: what the policy means that the owner runs under, or ''
local policy = redis.call('HGET', KEYS[1] .. 'meta', 'policy')
if not policy then return 'lost' end
if ARGV[3] ~= '' and ARGV[3] ~= policy then return 'policy' end
redis.call('HSET', KEYS[1] .. 'ingest', 'token:' .. ARGV[1], ARGV[2])
return 'ok'
