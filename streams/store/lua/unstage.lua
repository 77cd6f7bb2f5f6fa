-- Throw away what an earlier attempt staged for release ARGV[2], which is not sealed. ARGV: token, release
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
if redis.call('HGET', KEYS[1] .. 'meta', 'release') ~= string.format('%d', tonumber(ARGV[2]) - 1) then return 'stale' end
local stage = KEYS[1] .. 'stage:' .. ARGV[2] .. ':'
for _, key in ipairs(redis.call('SMEMBERS', stage .. 'keys')) do redis.call('UNLINK', stage .. key) end
redis.call('UNLINK', stage .. 'keys', stage .. 'chunks')
return 'ok'
