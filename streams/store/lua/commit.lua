-- Ingest, step 3: one batch of one partition, all of it or nothing.
-- ARGV: partition, token, offset before, window, offset after, accepted, last release whose homes the worker knows,
-- number of rejects and how many elements the log of each bucket is given ('3,1,0,2'), rejects…, elements of the
-- window's log… (if the first of them is empty, the others replace the log)
-- Returns {'ok', applied release, barrier or '', passed (0, 1, or 2 if another policy takes over with the release), rejects
-- waiting} or {refusal, …} without any effect.
local ingest, partition = KEYS[1] .. 'ingest', ARGV[1]
local stored = redis.call('HMGET', ingest, 'token:' .. partition, 'offset:' .. partition, 'window:' .. partition)
local applied = redis.call('HGET', KEYS[1] .. 'meta', 'applied')
if not stored[1] or not applied then return {'lost'} end
if stored[1] ~= ARGV[2] then return {'fenced'} end
if stored[2] ~= ARGV[3] or stored[3] ~= ARGV[4] then return {'moved'} end

local barrier, passed = '', 0
local frozen = redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'given:' .. partition, 'mark:' .. partition, 'policy')
if frozen[1] == ARGV[4] then
  barrier = frozen[3]
  if not barrier then
    -- The first batch after the freeze fixes this partition's barrier: it went into the window before its worker could
    -- know of the freeze.
    barrier = ARGV[5]
    if frozen[2] and tonumber(frozen[2]) > tonumber(barrier) then barrier = frozen[2] end
  end
  if tonumber(ARGV[5]) > tonumber(barrier) then return {'straddles', barrier} end
  if ARGV[5] == barrier then
    -- A person found to be at home elsewhere must be out of this partition's roster before the next window closes.
    if ARGV[7] ~= applied then return {'homes-unknown', applied} end
    passed = frozen[4] and 2 or 1
  end
  redis.call('HSET', KEYS[1] .. 'barrier', 'mark:' .. partition, barrier)
end

local counts = {}
for count in string.gmatch(ARGV[8], '%d+') do counts[#counts + 1] = tonumber(count) end
local first = 9 + counts[1]
for i = 9, first - 1, 1000 do
  redis.call('RPUSH', KEYS[1] .. 'rejects:' .. partition, unpack(ARGV, i, math.min(i + 999, first - 1)))
end
local window = KEYS[1] .. 'window:' .. ARGV[4] .. ':' .. partition
local replaces = ARGV[first] == ''
if replaces then first = first + 1 end
local function append(log, last)
  if replaces then redis.call('UNLINK', log) end
  for i = first, last do redis.call('RPUSH', log, ARGV[i]) end
  first = last + 1
end
for bucket = 2, #counts do append(window .. ':' .. string.format('%d', bucket - 2), first + counts[bucket] - 1) end
if ARGV[6] ~= '0' then redis.call('HINCRBY', ingest, 'accepted:' .. ARGV[4], ARGV[6]) end
redis.call('HSET', ingest, 'offset:' .. partition, ARGV[5])
if passed > 0 then redis.call('HINCRBY', ingest, 'window:' .. partition, 1) end
return {'ok', applied, barrier, passed, redis.call('LLEN', KEYS[1] .. 'rejects:' .. partition)}
