-- Read in front of each script. KEYS[1] is the prefix of every key (one hash slot), ARGV[1] the request as JSON.
-- An amount is two numbers, whole units and 1e-12ths (0 <= lower < 1e12): doubles hold both exactly.
-- A scope is a hash (spent, since, mark, reserved), the estimates held there, and their leases by end.

local P = KEYS[1] .. 'budget:'
local A = cjson.decode(ARGV[1])
local SCALE = 1e12
local KEEP = 35 * 86400

local function add(a, b)
  local hi, lo = a[1] + b[1], a[2] + b[2]
  if lo >= SCALE then return {hi + 1, lo - SCALE} end
  return {hi, lo}
end

local function sub(a, b)
  local hi, lo = a[1] - b[1], a[2] - b[2]
  if lo < 0 then return {hi - 1, lo + SCALE} end
  return {hi, lo}
end

local function below(a, b)
  return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2])
end

local function text(a)
  return string.format('%.0f:%.0f', a[1], a[2])
end

local function parse(s)
  if not s then return {0, 0} end
  local hi, lo = string.match(s, '^(%-?%d+):(%d+)$')
  return {tonumber(hi), tonumber(lo)}
end

local function drop(scope, id)
  local key = P .. scope
  local held = redis.call('HGET', key .. ':held', id)
  if not held then return end
  redis.call('HDEL', key .. ':held', id)
  redis.call('ZREM', key .. ':leases', id)
  local left = sub(parse(redis.call('HGET', key, 'reserved')), parse(held))
  redis.call('HSET', key, 'reserved', text(left))
end

local function drop_elapsed(scope)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. scope .. ':leases', '-inf', string.format('%.6f', A.now))) do
    drop(scope, id)
  end
end

local function hold(scope, id, estimate)
  local key = P .. scope
  drop(scope, id)
  redis.call('HSET', key .. ':held', id, text(estimate))
  redis.call('ZADD', key .. ':leases', string.format('%.6f', A.now + A.lease), id)
  redis.call('HSET', key, 'reserved', text(add(parse(redis.call('HGET', key, 'reserved')), estimate)))
  for _, name in ipairs({key, key .. ':held', key .. ':leases'}) do redis.call('EXPIRE', name, KEEP) end
end
