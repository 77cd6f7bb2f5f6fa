-- Make ARGV[1] the token of the only `shoal source` that may write here, of a mapping with the fingerprint ARGV[2].
-- ARGV[3] is a key for names, kept if there is none yet. Returns {fingerprint of the mapping that was begun with, key}.
local meta = KEYS[1] .. 'meta'
redis.call('HSET', meta, 'token', ARGV[1])
if not redis.call('HGET', meta, 'mapping') then redis.call('HSET', meta, 'mapping', ARGV[2]) end
if not redis.call('HGET', meta, 'names') then redis.call('HSET', meta, 'names', ARGV[3]) end
return redis.call('HMGET', meta, 'mapping', 'names')
