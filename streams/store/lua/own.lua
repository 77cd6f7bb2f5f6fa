-- Make ARGV[2] the token of the owner of ARGV[1]: a partition's number, `external:p`, or `triggers`. The former owner
-- is refused from now on.
if redis.call('EXISTS', KEYS[1] .. 'meta') == 0 then return 'lost' end
redis.call('HSET', KEYS[1] .. 'ingest', 'token:' .. ARGV[1], ARGV[2])
return 'ok'
