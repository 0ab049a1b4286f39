-- What calls in flight have reserved, per scope: amount and count.

local found = {}
for _, scope in ipairs(A.scopes) do
  drop_elapsed(scope)
  local reserved = parse(redis.call('HGET', P .. scope, 'reserved'))
  found[#found + 1] = {reserved[1], reserved[2], redis.call('ZCARD', P .. scope .. ':leases')}
end
if #found == 0 then return '[]' end
return cjson.encode(found)
