-- Garbage: cycles, weak tables, finalisers, generational and incremental modes, resurrecting churn.
local function churn(n)
  local keep = {}
  for i = 1, n do
    local node = {i, {}, tostring(i)}
    node[2].back = node
    if i % 100 == 0 then keep[#keep + 1] = node end
  end
  return #keep
end
for _, mode in ipairs {"incremental", "generational"} do
  collectgarbage(mode)
  print(mode, churn(20000))
end
local weak, finalised = setmetatable({}, {__mode = "v"}), 0
for i = 1, 100 do
  weak[i] = setmetatable({}, {__gc = function() finalised = finalised + 1 end})
end
collectgarbage() collectgarbage()
print(next(weak), finalised)
local ephemeron = setmetatable({}, {__mode = "k"})
do local key = {} ephemeron[key] = key end
collectgarbage()
print(next(ephemeron))
local before = collectgarbage("count")
local big = ("x"):rep(1 << 20)
assert(collectgarbage("count") - before > 1000 and #big == 1 << 20)
do local _ <close> = setmetatable({}, {__close = function() print("closed") end}) end
