-- With shards, step 9: bring staged hashes of shard ARGV[1] into the current state. Doing it again changes nothing.
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
  local key = ARGV[number]
  local source, target = stage .. key, KEYS[1] .. key
  if redis.call('EXISTS', source) == 1 then
    local rejects = string.match(key, '^rejects:')
    if not rejects and redis.call('EXISTS', target) == 0 then
      redis.call('RENAME', source, target)
    else
      local all = redis.call('HGETALL', source)
      if rejects then
        local values = {}
        for i = 2, #all, 2 do values[#values + 1] = all[i] end
        for i = 1, #values, 1000 do redis.call('RPUSH', target, unpack(values, i, math.min(i + 999, #values))) end
      else
        for i = 1, #all, 2000 do redis.call('HSET', target, unpack(all, i, math.min(i + 1999, #all))) end
      end
      redis.call('UNLINK', source)
      done = done + #all / 2
    end
  end
  redis.call('SREM', stage .. 'keys', key)
end
return 'ok'
