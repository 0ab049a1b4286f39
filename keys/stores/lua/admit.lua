-- One try to get under way: callers' limits, then the first key with a slot, and its half-open lease. See AdmitRequest.

local function blocked(scope, caps)
  local worst = nil
  local of_tokens = false
  local ahead = 0
  if caps.slots or #caps.windows > 0 then ahead = ahead_of(scope, A.ticket) end
  for _, w in ipairs(caps.windows) do
    local amount = 1 + ahead
    if w.of_tokens then
      amount = A.tokens
      of_tokens = true
    end
    local left = frees_in(scope, w, amount)
    if left > 0 and (not worst or left > worst[3]) then worst = {scope, w.name, left} end
  end
  if worst then return worst end
  if ahead > 0 and of_tokens then return {scope, 'queue'} end
  if A.slots and caps.slots then
    local held = slots_held(scope)
    if held >= caps.slots then return {scope, 'concurrency'} end
    if held + ahead >= caps.slots then return {scope, 'queue'} end
  end
  return nil
end

local function take(scope, caps)
  for _, w in ipairs(caps.windows) do
    window_add(scope, w, w.of_tokens and A.tokens or 1)
  end
  if A.slots and caps.slots then slot_hold(scope, A.ticket) end
end

-- Queueing

local function leave_queues()
  for _, scope in ipairs(A.queued) do redis.call('ZREM', P .. 'queue:' .. scope, A.ticket) end
end

-- The next in line may have looked while this one stood before it.
local function wake_next()
  for _, scope in ipairs(A.queued) do tell_waiters(scope) end
end

local function refuse(answer)
  leave_queues()
  for _, block in ipairs(answer.blocks) do
    if A.left > 0 and (not block[3] or block[3] <= A.left) then
      local key = P .. 'queue:' .. block[1]
      redis.call('ZADD', key, at(A.arrived), A.ticket)
      redis.call('EXPIRE', key, WAIT_MAX * 2)
    end
  end
  return cjson.encode(answer)
end

-- The try

local refused = {}
for _, caller in ipairs(A.callers) do refused[#refused + 1] = blocked(caller.scope, caller.caps) end
if #refused > 0 then return refuse({passed = false, blocks = refused}) end
for _, caller in ipairs(A.callers) do take(caller.scope, caller.caps) end

local busy = {}
for _, key in ipairs(A.keys) do
  local block = nil
  for _, target in ipairs(key.probes) do
    if not block and lease_left(target) > 0 then block = {target, 'probe'} end
  end
  block = block or blocked(key.scope, key.caps)
  if not block then
    leave_queues()
    wake_next()
    take(key.scope, key.caps)
    for _, target in ipairs(key.probes) do lease_take(target, A.ticket) end
    return cjson.encode({passed = true, key = key.id, busy = busy})
  end
  busy[#busy + 1] = block
end
return refuse({passed = true, blocks = busy})
