-- Step 1: the barrier of release ARGV[2], once per trigger.
-- ARGV: token, release, trigger offset, time of the trigger or '', clock in seconds, what the policy means that takes
-- over with this release or '', (partition, end offset)…
local ingest = KEYS[1] .. 'ingest'
local stored = redis.call('HMGET', ingest, 'token:triggers', 'trigger')
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'applied', 'sent')
if not stored[1] or not meta[1] then return 'lost' end
if stored[1] ~= ARGV[1] then return 'fenced' end
if stored[2] and tonumber(ARGV[3]) < tonumber(stored[2]) then return 'seen' end
local before = string.format('%d', tonumber(ARGV[2]) - 1)
if meta[1] ~= before or meta[2] ~= before or meta[3] ~= before then return 'stale' end
if redis.call('EXISTS', KEYS[1] .. 'barrier') == 1 then return 'frozen' end
redis.call('HSET', KEYS[1] .. 'barrier', 'release', ARGV[2], 'trigger', ARGV[3], 'at', ARGV[4])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1] .. 'barrier', 'policy', ARGV[6]) end
for i = 7, #ARGV, 2 do redis.call('HSET', KEYS[1] .. 'barrier', 'given:' .. ARGV[i], ARGV[i + 1]) end
redis.call('HSET', ingest, 'trigger', string.format('%d', tonumber(ARGV[3]) + 1), 'fired', ARGV[5])
if ARGV[4] ~= '' then redis.call('HSET', ingest, 'at', ARGV[4]) end
return 'ok'
