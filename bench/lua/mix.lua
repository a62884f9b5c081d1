-- Branchy interpreter: what Lua programs do: objects, closures, strings and patterns, tables sorted and joined, coroutines.
local rounds = math.tointeger(tonumber(... or 1))

local Shape = {}
Shape.__index = Shape
local function new(kind, size) return setmetatable({kind = kind, size = size}, Shape) end
function Shape:area() return self.kind == "square" and self.size * self.size or self.size * 3 end

local function objects()
  local sum = 0
  for i = 1, 20000 do sum = sum + new(i % 3 == 0 and "square" or "line", i % 17):area() end
  return sum
end

local function words()
  local text, seen = {}, {}
  for i = 1, 2000 do text[i] = ("word%d-%x"):format(i % 97, i * 7919 % 4096) end
  local line = table.concat(text, " ")
  for word in line:gmatch("(%w+)%-") do seen[word] = (seen[word] or 0) + 1 end
  local n = select(2, line:gsub("%d+", function(d) return #d > 1 and d:reverse() or nil end))
  return n + seen.word5 + #line:upper()
end

local function sorting()
  local list, x = {}, 42
  for i = 1, 6000 do
    x = (x * 1103515245 + 12345) & 0x7fffffff
    list[i] = x
  end
  table.sort(list)
  table.sort(list, function(a, b) return a % 1000 < b % 1000 or a % 1000 == b % 1000 and a < b end)
  return list[1] + list[3000]
end

local function generators()
  local sum = 0
  for n in coroutine.wrap(function() for i = 1, 10000 do coroutine.yield(i) end end) do sum = sum + n end
  local add = function(k) return function(v) return v + k end end
  for i = 1, 10000 do sum = add(i)(sum) end
  return sum
end

local function sieve()
  local composite, count = {}, 0
  for i = 2, 40000 do
    if not composite[i] then
      count = count + 1
      for k = i * i, 40000, i do composite[k] = true end
    end
  end
  return count
end

local total = 0
for _ = 1, rounds do total = total + objects() + words() + sorting() + generators() + sieve() end
print(total)
