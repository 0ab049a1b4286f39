-- Take the half-open leases of all targets, or of none. Returns 1 or 0.

for _, target in ipairs(A.targets) do
  if lease_left(target) > 0 then return 0 end
end
for _, target in ipairs(A.targets) do lease_take(target, A.holder) end
return 1
