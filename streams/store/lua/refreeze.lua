-- release ARGV[2] was announced, and Redis was set back behind that. It is frozen again at the vector that
-- its `sealed` record names. A partition that has read on, or was frozen elsewhere, reads its window again, and all do
-- if other records were left out of it than Redis knows of.
-- ARGV: token, release, trigger, time of the trigger or '', clock in seconds, number of shards, a fresh token for
-- partitions, number of partitions, number of records left out, number of records left out too late, what the policy
-- means that takes over with it or '', (begin, end) of each partition, members of `skipped`…, those that it must not have…, (label, end)… of the external topic
local ingest, barrier = KEYS[1] .. 'ingest', KEYS[1] .. 'barrier'
local token = redis.call('HGET', ingest, 'token:triggers')
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'applied', 'sent')
if not token or not meta[1] then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local before = string.format('%d', tonumber(ARGV[2]) - 1)
if meta[1] ~= before or meta[2] ~= before or meta[3] ~= before then return 'stale' end
local after, marks, again = string.format('%d', tonumber(ARGV[2]) + 1), {}, false
local late = 12 + 2 * tonumber(ARGV[8]) + tonumber(ARGV[9])
local others = late + tonumber(ARGV[10])
for i = late - tonumber(ARGV[9]), late - 1 do
  again = redis.call('SADD', KEYS[1] .. 'skipped', ARGV[i]) == 1 or again
end
for i = late, others - 1 do
  again = redis.call('SREM', KEYS[1] .. 'skipped', ARGV[i]) == 1 or again
end
for number = 0, tonumber(ARGV[8]) - 1 do
  local partition = string.format('%d', number)
  local first, last = ARGV[12 + 2 * number], ARGV[13 + 2 * number]
  local place = redis.call('HMGET', ingest, 'offset:' .. partition, 'window:' .. partition)
  if not place[1] or not place[2] then return 'lost' end
  local frozen = redis.call('HMGET', barrier, 'release', 'mark:' .. partition)
  local stays = place[2] == ARGV[2] and tonumber(place[1]) <= tonumber(last)
  stays = stays or (place[2] == after and frozen[1] == ARGV[2] and frozen[2] == last)
  if again or not stays then
    redis.call('HSET', ingest, 'offset:' .. partition, first, 'window:' .. partition, ARGV[2],
      'floor:' .. partition, '0', 'token:' .. partition, ARGV[7])
    for _, release in ipairs({ARGV[2], after}) do
      for bucket = 0, tonumber(ARGV[6]) - 1 do
        redis.call('UNLINK', KEYS[1] .. 'window:' .. release .. ':' .. partition .. ':' .. string.format('%d', bucket))
      end
    end
  end
  marks[#marks + 1] = 'mark:' .. partition
  marks[#marks + 1] = last
end
redis.call('DEL', barrier)
redis.call('UNLINK', KEYS[1] .. 'course')
redis.call('HSET', barrier, 'release', ARGV[2], 'trigger', ARGV[3], 'at', ARGV[4], 'again', ARGV[7], unpack(marks))
if ARGV[11] ~= '' then redis.call('HSET', barrier, 'policy', ARGV[11]) end
for i = others, #ARGV, 2 do redis.call('HSET', barrier, 'given:' .. ARGV[i], ARGV[i + 1]) end
local seen = redis.call('HGET', ingest, 'trigger')
if not seen or tonumber(seen) <= tonumber(ARGV[3]) then
  redis.call('HSET', ingest, 'trigger', string.format('%d', tonumber(ARGV[3]) + 1))
end
redis.call('HSET', ingest, 'fired', ARGV[5])
if ARGV[4] ~= '' then redis.call('HSET', ingest, 'at', ARGV[4]) end
return 'ok'
