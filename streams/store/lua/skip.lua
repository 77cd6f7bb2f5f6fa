-- A trigger that makes no release: stale, or bad (then ARGV[3] is its mark).
local held = redis.call('HMGET', KEYS[1] .. 'ingest', 'token:triggers', 'trigger')
if not held[1] then return 'lost' end
if held[1] ~= ARGV[1] then return 'fenced' end
if held[2] and tonumber(ARGV[2]) < tonumber(held[2]) then return 'seen' end
redis.call('HSET', KEYS[1] .. 'ingest', 'trigger', string.format('%d', tonumber(ARGV[2]) + 1))
if ARGV[3] ~= '' then redis.call('RPUSH', KEYS[1] .. 'rejects:triggers', ARGV[3]) end
return 'ok'
