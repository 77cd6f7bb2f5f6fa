-- Step 3: those of some people who have a record, in whichever shard and partition it is.
-- ARGV: shards, (partitions, number of the hash, number of fields, field…)…; numbers are separated by commas.
-- Returns shard, field and value of each.
local shards, found, at = {}, {}, 2
for shard in string.gmatch(ARGV[1], '%d+') do shards[#shards + 1] = shard end
while at <= #ARGV do
  local count = tonumber(ARGV[at + 2])
  local first, last = at + 3, at + 2 + count
  for partition in string.gmatch(ARGV[at], '%d+') do
    for _, shard in ipairs(shards) do
      local key = KEYS[1] .. 'shard:' .. shard .. ':people:' .. partition .. ':' .. ARGV[at + 1]
      local values = redis.call('HMGET', key, unpack(ARGV, first, last))
      for place = 1, count do
        if values[place] then
          found[#found + 1] = shard
          found[#found + 1] = ARGV[first + place - 1]
          found[#found + 1] = values[place]
        end
      end
    end
  end
  at = last + 1
end
return found
