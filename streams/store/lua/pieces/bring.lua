-- A piece of the scripts that apply a release: one staged hash becomes a part of the current state, and is no longer
-- staged. Doing it again changes nothing. Returns how many fields were copied.
local function bring(stage, key)
  local source, target, copied = stage .. key, KEYS[1] .. key, 0
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
      copied = #all / 2
    end
  end
  redis.call('SREM', stage .. 'keys', key)
  return copied
end
