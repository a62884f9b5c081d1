-- Tables, metatables, closures, sorting, integer arithmetic, goto, load; n-queens and a sieve.
local Point = {}
Point.__index = Point
Point.__add = function(a, b) return setmetatable({x = a.x + b.x}, Point) end
Point.__eq = function(a, b) return a.x == b.x end
Point.__lt = function(a, b) return a.x < b.x end
Point.__call = function(self, k) return self.x * k end
Point.__tostring = function(self) return "P" .. self.x end
Point.__len, Point.__concat = function() return 99 end, function(a, b) return tostring(a) .. "&" .. tostring(b) end
local p = setmetatable({x = 3}, Point) + setmetatable({x = 4}, Point)
print(tostring(p), p(6), #p, p == setmetatable({x = 7}, Point), p .. "end", p < p)
local list = {}
for i = 1, 3000 do list[i] = (i * 7919) % 3001 end
table.sort(list, function(a, b) return a > b end)
print(list[1], list[1500], list[3000], table.unpack(list, 10, 13))
local function queens(n)
  local solutions, columns = 0, {}
  local function place(row)
    if row > n then solutions = solutions + 1 return end
    for c = 1, n do
      for r = 1, row - 1 do
        if columns[r] == c or columns[r] - c == r - row or columns[r] - c == row - r then goto next end
      end
      columns[row] = c
      place(row + 1)
      ::next::
    end
  end
  place(1)
  return solutions
end
print(queens(7))
local sieve, primes = {}, 0
for i = 2, 30000 do
  if not sieve[i] then primes = primes + 1 for j = i * i, 30000, i do sieve[j] = true end end
end
print(primes, load("return ... * 2")(21), 1 << 63, 1 << 64, ~0 >> 60, 5 // 0.0, pcall(function() return 5 // 0 end))
print(math.mininteger // -1, math.mininteger % -1, 0xffffffffffffffff, 3 == 3.0, #"\u{7FFFFFFF}")
