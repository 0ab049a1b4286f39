-- What a call really spent takes the place of its reservation, once per request id. Returns 1, or 0 when it was done.
-- With `released` nothing was spent and the id stays unsettled.

if not A.released then
  if not redis.call('SET', P .. 'done:' .. A.request, '1', 'NX', 'EX', A.remember) then return 0 end
end
for _, part in ipairs(A.spent) do
  local scope, amount = part[1], part[2]
  drop(scope, A.request)
  local key = P .. scope
  if not A.released and redis.call('EXISTS', key) == 1 then
    local row = redis.call('HMGET', key, 'spent', 'since')
    if row[1] then redis.call('HSET', key, 'spent', text(add(parse(row[1]), amount))) end
    redis.call('HSET', key, 'since', text(add(parse(row[2]), amount)))
  end
end
return 1
