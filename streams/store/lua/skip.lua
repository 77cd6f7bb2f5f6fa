-- A trigger that makes no release: stale, or rejected (then ARGV[3] is its reject). ARGV: token, trigger offset, reject
-- or ''
local stored = redis.call('HMGET', KEYS[1] .. 'ingest', 'token:triggers', 'trigger')
if not stored[1] then return 'lost' end
if stored[1] ~= ARGV[1] then return 'fenced' end
if stored[2] and tonumber(ARGV[2]) < tonumber(stored[2]) then return 'seen' end
redis.call('HSET', KEYS[1] .. 'ingest', 'trigger', string.format('%d', tonumber(ARGV[2]) + 1))
if ARGV[3] ~= '' then redis.call('RPUSH', KEYS[1] .. 'rejects:triggers', ARGV[3]) end
return 'ok'
