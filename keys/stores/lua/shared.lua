-- Read in front of each script. KEYS[1] is the prefix of every key (one hash slot), ARGV[1] the request as JSON.
-- Times are seconds since 1970 as the caller sees them; Redis's own clock is used for nothing but forgetting.
-- Windows repeat keys/core/windows.py; tests/keys/stores holds both to one suite.

local P = KEYS[1]
local A = cjson.decode(ARGV[1])
local NOW = A.now
local NEWS = P .. 'news'
local PROBE_LEASE = 10
local SLOT_LEASE = 30
local WAIT_MAX = 60

local function at(seconds)
  return string.format('%.6f', seconds)
end

local function num(value)
  return string.format('%.0f', value)
end

-- Windows: a hash of bucket -> count, with the running total, the last bucket looked at and the newest one.

local function window_key(scope, w)
  return P .. 'window:' .. scope .. ':' .. w.name
end

local function sum_and_drop(key, from, to)
  local fields = {}
  for bucket = from, to do fields[#fields + 1] = num(bucket) end
  if #fields == 0 then return 0 end
  local dropped = 0
  for _, count in ipairs(redis.call('HMGET', key, unpack(fields))) do
    dropped = dropped + (tonumber(count) or 0)
  end
  if dropped ~= 0 then redis.call('HDEL', key, unpack(fields)) end
  return dropped
end

local function roll(key, w)
  local head = math.floor(NOW / w.width)
  local kept = redis.call('HMGET', key, 'head', 'total', 'top')
  if not kept[1] then return head, 0 end
  local old, total, top = tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3])
  if old == head then return head, total end
  if top < head - w.buckets or top > head + w.buckets then
    redis.call('DEL', key)
    return head, 0
  end
  if head > old then
    total = total - sum_and_drop(key, old - w.buckets, math.min(head - w.buckets - 1, top))
  end
  redis.call('HSET', key, 'head', num(head), 'total', num(total))
  return head, total
end

local function window_add(scope, w, amount)
  local key = window_key(scope, w)
  local head, total = roll(key, w)
  local top = tonumber(redis.call('HGET', key, 'top') or head)
  redis.call('HINCRBY', key, num(head), amount)
  redis.call('HSET', key, 'head', num(head), 'total', num(total + amount), 'top', num(math.max(head, top)))
  redis.call('EXPIRE', key, (w.buckets + 2) * w.width)
end

local function window_correct(scope, w, bucket, delta)
  local key = window_key(scope, w)
  local _, total = roll(key, w)
  local count = tonumber(redis.call('HGET', key, num(bucket)) or nil)
  if count then
    local change = math.max(delta, -count)
    redis.call('HINCRBY', key, num(bucket), change)
    redis.call('HINCRBY', key, 'total', change)
  end
end

-- Seconds until the amount fits; 0 when it fits.
local function frees_in(scope, w, amount)
  local length = w.width * w.buckets
  if w.limit <= 0 then return length end
  local key = window_key(scope, w)
  local head, total = roll(key, w)
  local excess = total + math.min(amount, w.limit) - w.limit
  if excess <= 0 then return 0 end
  local fields, first = {}, head - w.buckets
  local top = tonumber(redis.call('HGET', key, 'top') or head)
  for bucket = first, top do fields[#fields + 1] = num(bucket) end
  for index, count in ipairs(redis.call('HMGET', key, unpack(fields))) do
    excess = excess - (tonumber(count) or 0)
    if excess <= 0 then return (first + index - 1 + w.buckets + 1) * w.width - NOW end
  end
  return length
end

-- Slots and queues: sorted sets of tickets, by the lease's end and by arrival.

local function slots_held(scope)
  local key = P .. 'slots:' .. scope
  redis.call('ZREMRANGEBYSCORE', key, '-inf', at(NOW))
  return redis.call('ZCARD', key)
end

local function slot_hold(scope, ticket)
  local key = P .. 'slots:' .. scope
  redis.call('ZADD', key, at(NOW + SLOT_LEASE), ticket)
  redis.call('EXPIRE', key, SLOT_LEASE * 4)
end

local function ahead_of(scope, ticket)
  local key = P .. 'queue:' .. scope
  redis.call('ZREMRANGEBYSCORE', key, '-inf', at(NOW - WAIT_MAX))
  return redis.call('ZRANK', key, ticket) or redis.call('ZCARD', key)
end

local function tell_waiters(scope)
  if redis.call('EXISTS', P .. 'queue:' .. scope) == 1 then
    redis.call('PUBLISH', NEWS, cjson.encode({'free', scope}))
  end
end

-- Half-open leases: target -> holder|end.

local function lease_left(target)
  local held = redis.call('HGET', P .. 'probes', target)
  if not held then return 0 end
  local left = tonumber(string.match(held, '|([%d%.]+)$')) - NOW
  -- Far more than a whole lease left means that a clock stepped back.
  if left > 0 and left <= 2 * PROBE_LEASE then return left end
  return 0
end

local function lease_take(target, holder)
  local value = holder .. '|' .. at(NOW + PROBE_LEASE)
  redis.call('HSET', P .. 'probes', target, value)
  redis.call('PUBLISH', NEWS, cjson.encode({'lease', target, value}))
end
