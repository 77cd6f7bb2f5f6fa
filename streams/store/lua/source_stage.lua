-- Source, step 3: write down what a batch will change, before Kafka is asked to commit it. ARGV: token, batch.
local meta = KEYS[1] .. 'meta'
local token = redis.call('HGET', meta, 'token')
if not token then return 'lost' end
if token ~= ARGV[1] then return 'fenced' end
redis.call('HSET', meta, 'staged', ARGV[2])
return 'ok'
