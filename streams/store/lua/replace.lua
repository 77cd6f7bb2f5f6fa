-- Put the keys that stand beside a table's own in their place, all at once, unless somebody has taken a part of the
-- table since `fence`. ARGV: the token that every owner was given then, how many keys go, their names…, the names of
-- those that come…
local tokens = redis.call('HGETALL', KEYS[1] .. 'ingest')
for i = 1, #tokens, 2 do
  if string.match(tokens[i], '^token:') and tokens[i + 1] ~= ARGV[1] then return 'owned' end
end
local last = 2 + tonumber(ARGV[2])
for i = 3, last do redis.call('UNLINK', KEYS[1] .. ARGV[i]) end
for i = last + 1, #ARGV do redis.call('RENAME', KEYS[1] .. 'beside:' .. ARGV[i], KEYS[1] .. ARGV[i]) end
return 'ok'
