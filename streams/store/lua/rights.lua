-- Which of the commands that Shoal gives, here and in the other scripts, this user may not give: their names. A script that is refused in its middle would be half done, so this is asked before the first one runs.
local key, denied, failed = KEYS[1] .. 'rights', {}, nil
local function try(name, ...)
  local answer = redis.pcall(name, ...)
  local wrong = type(answer) == 'table' and answer.err
  if not wrong or string.find(wrong, 'no such key') then return true end
  if string.find(wrong, 'NOPERM') or string.find(wrong, 'permission') or string.find(wrong, "can't run this command") then
    denied[#denied + 1] = name
  else
    failed = failed or answer
  end
  return false
end
-- The first write finds a full memory or a replica. It ends by itself if it cannot be taken back.
try('SET', key, '1', 'EX', 60)
if failed then return failed end
if not try('UNLINK', key, key .. ':2') then return denied end
try('HSET', key, 'a', '1')
for _, read in ipairs({'HGETALL', 'HLEN', 'EXISTS'}) do try(read, key) end
try('HGET', key, 'a')
try('HMGET', key, 'a')
try('HINCRBY', key, 'b', 1)
try('HDEL', key, 'b')
try('HSCAN', key, '0')
try('SCAN', '0', 'MATCH', key, 'COUNT', 1)
redis.call('UNLINK', key)
try('RPUSH', key, 'a')
try('RENAME', key, key .. ':2')
redis.call('UNLINK', key, key .. ':2')
try('LLEN', key)
try('LINDEX', key, 0)
try('LSET', key, 0, 'a')
try('LRANGE', key, 0, -1)
try('LTRIM', key, 1, 0)
try('SADD', key, 'a')
try('SCARD', key)
try('SMEMBERS', key)
try('SISMEMBER', key, 'a')
try('SREM', key, 'a')
try('DEL', key)
redis.call('UNLINK', key)
return failed or denied
