-- Make ARGV[1] the token of the only `shoal source` that may write here, if the mapping that was begun with has the
-- fingerprint ARGV[2]. Returns the fingerprint that was begun with: a source with another mapping refuses nobody.
local meta = KEYS[1] .. 'meta'
local mapping = redis.call('HGET', meta, 'mapping')
if not mapping or mapping == ARGV[2] then redis.call('HSET', meta, 'token', ARGV[1], 'mapping', ARGV[2]) end
return mapping or ARGV[2]
