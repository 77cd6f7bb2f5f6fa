-- Leave one record out: an operator's `skip`. If its partition has read it into an open window, that window is read again from its start.
-- ARGV: planner's token, label, offset, where the open window of an events partition begins, its release, a fresh token for the partition
local ingest, label, offset = KEYS[1] .. 'ingest', ARGV[2], tonumber(ARGV[3])
local token = redis.call('HGET', ingest, 'token:triggers')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local member = label .. ':' .. ARGV[3]
if redis.call('SISMEMBER', KEYS[1] .. 'skipped', member) == 1 then return 'known' end
if label == 'triggers' then
  if offset < tonumber(redis.call('HGET', ingest, 'trigger') or '0') then return 'late' end
elseif string.match(label, '^external:') then
  local taken = redis.call('HGET', KEYS[1] .. 'external', string.sub(label, 10))
  if taken and offset < tonumber(taken) then return 'late' end
else
  local at = redis.call('HGET', ingest, 'offset:' .. label)
  if not at then return 'unknown' end
  if offset < tonumber(ARGV[4]) then return 'late' end
  if offset < tonumber(at) then
    redis.call('HSET', ingest, 'offset:' .. label, ARGV[4], 'window:' .. label, ARGV[5], 'floor:' .. label, '0')
    local shards = tonumber(redis.call('HGET', KEYS[1] .. 'meta', 'shards') or '1')
    for _, release in ipairs({ARGV[5], string.format('%d', tonumber(ARGV[5]) + 1)}) do
      local window = KEYS[1] .. 'window:' .. release .. ':' .. label .. ':'
      for bucket = 0, shards - 1 do redis.call('UNLINK', window .. string.format('%d', bucket)) end
    end
  end
  redis.call('HSET', ingest, 'token:' .. label, ARGV[6]) -- its worker loads it again, and learns what to leave out
end
redis.call('HDEL', KEYS[1] .. 'barrier', 'vector') -- what was gathered and planned of a window with it counts no more
redis.call('SADD', KEYS[1] .. 'skipped', member)
return 'ok'
