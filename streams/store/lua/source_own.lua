-- Make ARGV[1] the token of the only `shoal source` that may write here, of a mapping with the fingerprint ARGV[2].
-- Returns {fingerprint of the mapping that was begun with, number of the last batch, its place or '', staged batch or ''}.
local meta = KEYS[1] .. 'meta'
redis.call('HSET', meta, 'token', ARGV[1])
if not redis.call('HGET', meta, 'mapping') then redis.call('HSET', meta, 'mapping', ARGV[2]) end
local found = redis.call('HMGET', meta, 'mapping', 'number', 'place', 'staged')
return {found[1], found[2] or '0', found[3] or '', found[4] or ''}
