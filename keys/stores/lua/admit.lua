-- One try to get under way: callers' limits, draw of member and key, slot and half-open lease. See AdmitRequest.

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

-- Calls left under a key's caps; nil = uncapped.
local function room_of(key)
  local room = nil
  for _, w in ipairs(key.caps.windows) do
    if not w.of_tokens then
      local _, total = roll(window_key(key.scope, w), w)
      room = math.min(room or math.huge, w.limit - total)
    end
  end
  if key.caps.slots then room = math.min(room or math.huge, key.caps.slots - slots_held(key.scope)) end
  return room
end

local function member_room(member)
  local sum = 0
  for _, key in ipairs(member.free) do
    local room = room_of(key)
    if not room then return nil end
    sum = sum + room
  end
  return sum
end

-- Draws. An entrant is {id, weight, room function}; `best` wants the first of the largest.

local function best(entrants, value)
  local winner, top = nil, nil
  for _, one in ipairs(entrants) do
    local mine = value(one)
    if not top or mine > top then winner, top = one, mine end
  end
  return winner
end

local function wheel_number(wheel, field)
  return tonumber(redis.call('HGET', wheel, field) or 0)
end

local HOUR = math.floor(NOW / 3600)

-- Calls of 24 h by member; those who are new start at the others' minimum.
local function calls_of(wheel, entrants)
  local calls, stale = {}, {}
  local rows = redis.call('HGETALL', wheel .. ':used')
  for index = 1, #rows, 2 do
    local id, hour = string.match(rows[index], '^(%d+):(%d+)$')
    hour = tonumber(hour)
    if hour > HOUR - 24 and hour <= HOUR then
      calls[id] = (calls[id] or 0) + tonumber(rows[index + 1])
    else
      stale[#stale + 1] = rows[index]
    end
  end
  if #stale > 0 then redis.call('HDEL', wheel .. ':used', unpack(stale)) end
  local least = nil
  for _, one in ipairs(entrants) do
    local known = calls[num(one.id)]
    if known then least = math.min(least or known, known) end
  end
  for _, one in ipairs(entrants) do
    if not calls[num(one.id)] then
      calls[num(one.id)] = least or 0
      redis.call('HSET', wheel .. ':used', num(one.id) .. ':' .. num(HOUR), least or 0)
    end
  end
  return calls
end

local function weigh(wheel, entrants, lead)
  local total = 0
  for _, one in ipairs(entrants) do total = total + one.weight end
  for _, one in ipairs(entrants) do
    local current = wheel_number(wheel, 'c' .. num(one.id)) + one.weight
    if one.id == lead then current = current - total end
    redis.call('HSET', wheel, 'c' .. num(one.id), num(math.max(-total, math.min(total, current))))
  end
end

local DRAW = {
  listed = function(_, entrants) return entrants[1] end,
  round_robin = function(wheel, entrants)
    return best(entrants, function(one) return -wheel_number(wheel, 's' .. num(one.id)) end)
  end,
  weighted = function(wheel, entrants)
    return best(entrants, function(one) return wheel_number(wheel, 'c' .. num(one.id)) + one.weight end)
  end,
  least_used = function(wheel, entrants)
    local calls = calls_of(wheel, entrants)
    return best(entrants, function(one) return -calls[num(one.id)] end)
  end,
  headroom = function(_, entrants)
    return best(entrants, function(one) return one.room() or -math.huge end)
  end,
}

local CHARGE = {
  listed = function() end,
  headroom = function() end,
  round_robin = function(wheel, _, lead)
    redis.call('HSET', wheel, 's' .. num(lead), redis.call('HINCRBY', wheel, 'turn', 1))
  end,
  weighted = weigh,
  least_used = function(wheel, entrants, lead)
    calls_of(wheel, entrants)
    redis.call('HINCRBY', wheel .. ':used', num(lead) .. ':' .. num(HOUR), 1)
  end,
}

local function turn(scope, kind, entrants, wanted)
  if scope == '' and kind ~= 'headroom' then kind = 'listed' end
  local wheel = P .. 'wheel:' .. scope
  local lead = wanted or DRAW[kind](wheel, entrants).id
  if A.charge or kind == 'least_used' then CHARGE[kind](wheel, entrants, lead) end
  return lead
end

local function entrants_of(list, id, room)
  local entrants = {}
  for index, one in ipairs(list) do
    entrants[index] = {id = one[id], weight = one.weight, room = function() return room(one) end}
  end
  return entrants
end

local function find(list, field, value)
  for _, one in ipairs(list) do
    if one[field] == value then return one end
  end
  return nil
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

local free, busy = {}, {}
for _, member in ipairs(A.members) do
  member.free = {}
  for _, key in ipairs(member.keys) do
    local block = nil
    for _, target in ipairs(key.probes) do
      if not block and lease_left(target) > 0 then block = {target, 'probe'} end
    end
    block = block or blocked(key.scope, key.caps)
    if block then busy[#busy + 1] = block else member.free[#member.free + 1] = key end
  end
  if #member.free > 0 then free[#free + 1] = member end
end
if #free == 0 then return refuse({passed = true, blocks = busy}) end

local wanted = nil
for _, member in ipairs(free) do
  if A.lead and not wanted and find(member.free, 'id', A.lead) then wanted = member.id end
end
local lead = turn(A.group, A.strategy, entrants_of(free, 'id', member_room), wanted)
local member = find(free, 'id', lead)
local scope = 'upstream:' .. num(member.id)
local key_id = turn(scope, member.rotation, entrants_of(member.free, 'id', room_of), wanted and A.lead)
local key = find(member.free, 'id', key_id)
leave_queues()
wake_next()
take(key.scope, key.caps)
for _, target in ipairs(key.probes) do lease_take(target, A.ticket) end
return cjson.encode({passed = true, key = key.id, member = member.id, busy = busy})
