-- Step 9: bring staged hashes of shard ARGV[1] into the current state. Doing it again changes nothing.
-- Answers 'more' if some are left because those before them had thousands of fields. ARGV: shard, token, release, key…
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:shard:' .. ARGV[1])
if not token then return 'lost' end
if token ~= ARGV[2] then return 'fenced' end
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'sent', 'applied')
local before = string.format('%d', tonumber(ARGV[3]) - 1)
if meta[2] ~= ARGV[3] or meta[3] ~= before then return 'stale' end
local stage, done = KEYS[1] .. 'stage:' .. ARGV[3] .. ':shard:' .. ARGV[1] .. ':', 0
for number = 4, #ARGV do
  if done > 2000 then return 'more' end
  done = done + bring(stage, ARGV[number])
end
return 'ok'
