-- Who runs a call that must not run twice. A claim is the JSON of what its holder said; `op` is one of
--   take: put mine where none stands; returns the one that stands, or 0 when mine does now
--   keep: put mine again unless another's stands; returns 1 while it is mine
--   free: take mine away, and leave what it came to for those who wait, where something is said

local key = P .. 'claim:' .. A.name
local held = redis.call('GET', key)
local mine = not held or cjson.decode(held).owner == A.claim.owner

if A.op == 'take' then
  if held then return held end
  redis.call('SET', key, cjson.encode(A.claim), 'PX', num(A.lease * 1000))
  return 0
end
if A.op == 'keep' then
  if not mine then return 0 end
  redis.call('SET', key, cjson.encode(A.claim), 'PX', num(A.lease * 1000))
  return 1
end
if A.said then redis.call('SET', P .. 'said:' .. A.claim.owner, A.said, 'PX', num(A.lease * 1000)) end
if held and mine then redis.call('DEL', key) end
return 1
