-- Release, step 9: bring one staged hash, ARGV[3], into the current state. Doing it again changes nothing. ARGV: token,
-- release, key
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
bring(KEYS[1] .. 'stage:' .. ARGV[2] .. ':', ARGV[3])
return 'ok'
