-- billing/core/reserving.py `judge` and `kept` in one step; the conformance suite holds both to it.

local standings, unknown = {}, {}
for _, claim in ipairs(A.claims) do
  drop(claim.scope, A.request)
  drop_elapsed(claim.scope)
  local row = redis.call('HMGET', P .. claim.scope, 'spent', 'reserved')
  if row[1] then
    local spent, reserved = parse(row[1]), parse(row[2])
    local flying = redis.call('ZCARD', P .. claim.scope .. ':leases')
    standings[#standings + 1] = {claim.scope, spent, reserved, flying}
    local all = add(add(spent, reserved), claim.estimate)
    claim.full = below(claim.amount, all) and not (flying == 0 and below(spent, claim.amount))
  else
    unknown[#unknown + 1] = claim.scope
  end
end
if #unknown > 0 then return cjson.encode({granted = false, refused = {}, unknown = unknown, standings = {}}) end

local fatal, full, closed = {}, {}, {}
for _, claim in ipairs(A.claims) do
  if claim.full then
    full[#full + 1] = claim.scope
    if claim.account then closed[claim.account] = true else fatal[#fatal + 1] = claim.scope end
  end
end
if #fatal > 0 then return cjson.encode({granted = false, refused = fatal, unknown = {}, standings = standings}) end

local open = A.free or #full == 0
for _, claim in ipairs(A.claims) do
  if claim.account and not closed[claim.account] then open = true end
end
if not open then return cjson.encode({granted = false, refused = full, unknown = {}, standings = standings}) end

for _, claim in ipairs(A.claims) do
  if not claim.account or not closed[claim.account] then hold(claim.scope, A.request, claim.estimate) end
end
return cjson.encode({granted = true, refused = full, unknown = {}, standings = standings})
