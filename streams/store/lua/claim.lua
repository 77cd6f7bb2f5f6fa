-- Make ARGV[2] the token under which ARGV[1] (a partition's number, or `triggers`) is worked on. Whoever held it before is refused from now on.
if redis.call('EXISTS', KEYS[1] .. 'meta') == 0 then return 'lost' end
redis.call('HSET', KEYS[1] .. 'ingest', 'token:' .. ARGV[1], ARGV[2])
return 'ok'
