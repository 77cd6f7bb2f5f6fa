-- how far a release has come; fields of `meta`, `barrier` and `course` at one moment.
return {
  redis.call('HMGET', KEYS[1] .. 'meta', 'release', 'sent', 'applied', 'policy'),
  redis.call('HMGET', KEYS[1] .. 'barrier', 'release', 'vector'),
  redis.call('HGETALL', KEYS[1] .. 'course'),
}
