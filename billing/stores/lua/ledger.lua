-- A look at the ledger: without `spent` it begins and returns its mark; with it, it ends (see Reservations.load).

local key = P .. A.scope
if not A.spent then
  redis.call('HSET', key, 'since', '0:0')
  redis.call('EXPIRE', key, KEEP)
  return cjson.encode(redis.call('HINCRBY', key, 'mark', 1))
end
if redis.call('HGET', key, 'mark') ~= A.mark then return 0 end
local spent = add(A.spent, parse(redis.call('HGET', key, 'since')))
redis.call('HSET', key, 'spent', text(spent))
return cjson.encode(spent)
