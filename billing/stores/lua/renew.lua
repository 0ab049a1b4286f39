-- Extend leases; a reservation that Redis lost is made again, unless its call was settled meanwhile.

for _, one in ipairs(A.holds) do
  local scope, id, estimate = one[1], one[2], one[3]
  if redis.call('EXISTS', P .. 'done:' .. id) == 0 then hold(scope, id, estimate) end
end
return 1
