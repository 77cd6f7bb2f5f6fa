-- Make ARGV[2] the token of the owner of ARGV[1]: a partition's number, `external:p`, or `triggers`. The former owner
-- is refused from now on. ARGV[3] is the fingerprint of the key that the new one encrypts with, "" for none. It must be
-- one that values may be under, and the one that `shoal rekey` brings everything under, if it has begun to. ARGV[4] is
-- what the policy means that the new one runs under, "" for whoever neither ingests nor plans. ARGV[5] is its engine.
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'seal', 'rekey', 'policy', 'engine')
if not meta[1] then return 'lost' end
if not string.find(',' .. meta[1] .. ',', ',' .. ARGV[3] .. ',', 1, true) then return 'other-key' end
if meta[2] and meta[2] ~= ARGV[3] then return 'other-key' end
if meta[4] ~= ARGV[5] then return 'engine' end
if ARGV[4] ~= '' and ARGV[4] ~= meta[3] then return 'policy' end
redis.call('HSET', KEYS[1] .. 'ingest', 'token:' .. ARGV[1], ARGV[2])
return 'ok'
