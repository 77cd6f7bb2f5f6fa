-- Release, step 9: bring one staged hash, ARGV[3], into the current state. Doing it again changes nothing. ARGV: token,
-- release, key
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local stage = KEYS[1] .. 'stage:' .. ARGV[2] .. ':'
local source, target = stage .. ARGV[3], KEYS[1] .. ARGV[3]
if redis.call('EXISTS', source) == 1 then
  local rejects = string.match(ARGV[3], '^rejects:')
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
  end
end
redis.call('SREM', stage .. 'keys', ARGV[3])
return 'ok'
