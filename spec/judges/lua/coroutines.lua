-- Coroutines: generators, producers and consumers, errors across resumes, deep recursion, wrap and close.
local function permutations(list, n)
  n = n or #list
  if n <= 1 then coroutine.yield(table.concat(list)) end
  for i = 1, n do
    list[i], list[n] = list[n], list[i]
    permutations(list, n - 1)
    list[i], list[n] = list[n], list[i]
  end
end
local count, last = 0, nil
for p in coroutine.wrap(function() permutations {"a", "b", "c", "d", "e", "f"} end) do count, last = count + 1, p end
print(count, last)
local stages = {}
for i = 1, 50 do
  local from = stages[i - 1] or coroutine.wrap(function() for n = 1, 200 do coroutine.yield(n) end end)
  stages[i] = coroutine.wrap(function() for n in from do coroutine.yield(n + i) end end)
end
local sum = 0
for n in stages[50] do sum = sum + n end
print(sum)
local co = coroutine.create(function(x) local y = coroutine.yield(x + 1) error({code = y}) end)
print(coroutine.resume(co, 1))
local ok, err = coroutine.resume(co, 42)
print(ok, err.code, coroutine.status(co), coroutine.resume(co))
local function deep(n) return n == 0 and 0 or 1 + deep(n - 1) end
print(deep(15000), pcall(function() local function f() return 1 + f() end return f() end) == false)
print(select(2, pcall(error, "message", 0)))
print(xpcall(function() local x = nil; return x.y end, function(m) return "handled: " .. m end))
