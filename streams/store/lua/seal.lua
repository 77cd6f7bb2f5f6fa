-- Release, step 6: release ARGV[2] becomes the current one, if every chunk of it is staged.
-- ARGV: token, release, sha256 of the manifest before or "", sha256 of its own, packed meta, number of chunks, counts:
-- how many records of each kind there are then
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'manifest')
if not token or not meta[1] then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local before = string.format('%d', tonumber(ARGV[2]) - 1)
if meta[1] ~= before or meta[2] ~= ARGV[3] then return 'stale' end
if redis.call('HGET', KEYS[1] .. 'barrier', 'release') ~= ARGV[2] then return 'stale' end
if redis.call('SCARD', KEYS[1] .. 'stage:' .. ARGV[2] .. ':chunks') ~= tonumber(ARGV[6]) then return 'incomplete' end
redis.call('HSET', KEYS[1] .. 'meta', 'release', ARGV[2], 'manifest', ARGV[4], 'state', ARGV[5], 'counts', ARGV[7])
redis.call('DEL', KEYS[1] .. 'barrier')
redis.call('HDEL', KEYS[1] .. 'ingest', 'accepted:' .. ARGV[2])
return 'ok'
