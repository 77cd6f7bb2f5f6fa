-- Replace values of the key ARGV[1], a hash or a list, each only if it still is what it was read as. Returns how many
-- were replaced. ARGV: key, `hash` or `list`, (field or index, value before, value after)…
local key, count = KEYS[1] .. ARGV[1], 0
local read, write = 'HGET', 'HSET'
if ARGV[2] == 'list' then read, write = 'LINDEX', 'LSET' end
for i = 3, #ARGV, 3 do
  if redis.call(read, key, ARGV[i]) == ARGV[i + 1] then
    redis.call(write, key, ARGV[i], ARGV[i + 2])
    count = count + 1
  end
end
return count
