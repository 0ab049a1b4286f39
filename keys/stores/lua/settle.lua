-- What follows an attempt: states by compare-and-set, counters, slots, leases, token windows. See SettleRequest.
-- A stored state is 'version|json'. Rows whose version is not the expected one are left alone and returned.

local function version_of(row)
  return row and tonumber(string.match(row, '^(%d+)|')) or 0
end

local conflicts, versions, fits = {}, {}, true
for _, move in ipairs(A.moves) do
  local row = redis.call('HGET', P .. 'states', move.target)
  if version_of(row) ~= move.expect then
    conflicts[#conflicts + 1] = {move.target, row or ''}
    fits = false
  end
end
if fits then
  for _, move in ipairs(A.moves) do
    local row = num(move.expect + 1) .. '|' .. move.state
    redis.call('HSET', P .. 'states', move.target, row)
    local gen = redis.call('INCR', P .. 'gen')
    redis.call('PUBLISH', NEWS, cjson.encode({'state', move.target, row, gen}))
  end
end

local function prune(key, bucket)
  local stale = {}
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local hour = tonumber(string.match(field, '^h(%d+)$') or nil)
    if hour and (hour <= bucket / A.buckets - 24) then stale[#stale + 1] = field end
    local old = tonumber(string.match(field, '^[cf](%d+)$') or nil)
    if old and (old <= bucket - A.buckets or old > bucket + A.buckets) then stale[#stale + 1] = field end
  end
  if #stale > 0 then redis.call('HDEL', key, unpack(stale)) end
end

for _, count in ipairs(A.counts) do
  local key = P .. 'count:' .. num(count.key)
  redis.call('HINCRBY', key, 'calls', 1)
  redis.call('HINCRBY', key, 'h' .. num(count.hour), 1)
  if redis.call('HINCRBY', key, 'c' .. num(count.bucket), 1) == 1 then
    redis.call('SADD', P .. 'counted', num(count.key))
    prune(key, count.bucket)
  end
  if count.error then
    redis.call('HINCRBY', key, 'failures', 1)
    redis.call('HINCRBY', key, 'f' .. num(count.bucket), 1)
    redis.call('HSET', key, 'last_error', count.error)
  elseif count.served then
    redis.call('HSET', key, 'last_served', at(NOW))
  end
end

for _, fix in ipairs(A.fixes) do
  window_correct(fix.scope, fix.window, fix.bucket, fix.delta)
end

for _, slot in ipairs(A.releases) do
  if redis.call('ZREM', P .. 'slots:' .. slot[1], slot[2]) == 1 then tell_waiters(slot[1]) end
end
for _, slot in ipairs(A.renewals) do slot_hold(slot[1], slot[2]) end
for _, place in ipairs(A.leaves) do
  if redis.call('ZREM', P .. 'queue:' .. place[1], place[2]) == 1 then tell_waiters(place[1]) end
end

for _, lease in ipairs(A.ends) do
  local target, holder = lease[1], lease[2]
  local held = redis.call('HGET', P .. 'probes', target)
  if held and string.match(held, '^(.*)|') == holder then
    redis.call('HDEL', P .. 'probes', target)
    redis.call('PUBLISH', NEWS, cjson.encode({'unlease', target, holder}))
    tell_waiters(target)
  end
end

for _, text in ipairs(A.tell) do redis.call('PUBLISH', NEWS, text) end

return cjson.encode({conflicts = conflicts})
