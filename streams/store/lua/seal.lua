-- Release, step 6: release ARGV[2] becomes the current one, if every chunk of it is staged.
-- ARGV: token, release, sha256 of the manifest before or "", sha256 of its own, packed meta, number of chunks, counts:
-- how many records of each kind there are then, what the policy means that takes over or ''
local token = redis.call('HGET', KEYS[1] .. 'ingest', 'token:triggers')
local meta = redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'manifest')
if not token or not meta[1] then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
local before = string.format('%d', tonumber(ARGV[2]) - 1)
if meta[1] ~= before or meta[2] ~= ARGV[3] then return 'stale' end
if redis.call('HGET', KEYS[1] .. 'barrier', 'release') ~= ARGV[2] then return 'stale' end
if redis.call('SCARD', KEYS[1] .. 'stage:' .. ARGV[2] .. ':chunks') ~= tonumber(ARGV[6]) then return 'incomplete' end
redis.call('HSET', KEYS[1] .. 'meta', 'release', ARGV[2], 'manifest', ARGV[4], 'state', ARGV[5], 'counts', ARGV[7])
if ARGV[8] ~= '' then
  redis.call('HSET', KEYS[1] .. 'meta', 'policy', ARGV[8])
  -- Nobody who runs under the policy before may take another event: every partition needs a new owner.
  local ingest = redis.call('HGETALL', KEYS[1] .. 'ingest')
  for i = 1, #ingest, 2 do
    if string.match(ingest[i], '^token:') and ingest[i] ~= 'token:triggers' then
      redis.call('HSET', KEYS[1] .. 'ingest', ingest[i], 'none since release ' .. ARGV[2])
    end
  end
end
redis.call('DEL', KEYS[1] .. 'barrier')
redis.call('HDEL', KEYS[1] .. 'ingest', 'accepted:' .. ARGV[2])
return 'ok'
