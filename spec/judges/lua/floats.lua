-- Floating point: formatting, parsing, rounding, transcendental functions, n-body, spectral norm.
for _, x in ipairs {0.1, 1 / 3, 1e100, 5e-324, 2^-1022, 123456789.125, -0.0, 1e15, 1e16, math.pi, math.huge} do
  print(x, ("%.17g %.3f %a %e"):format(x, x < 1e50 and x or 0, x, x), tonumber(("%.17g"):format(x)) == x)
end
print(math.floor(-2.5), math.ceil(-2.5), math.fmod(-7, 3), math.tointeger(2^53), 3 | 0, math.ult(1, -1))
print(math.sin(1), math.cos(1), math.exp(1), math.log(2), math.log(8, 2), math.sqrt(2), math.atan(1, 2))
print(0x1p-3, 0xA.8p0, 1e-10, tonumber("0x1.8p1"), tonumber("1e"), math.maxinteger + 1 == math.mininteger)
local function A(i, j) local ij = i + j - 1 return 1.0 / (ij * (ij - 1) * 0.5 + i) end
local function multiply(v, n, f)
  local r = {}
  for i = 1, n do local a = 0 for j = 1, n do a = a + v[j] * f(i, j) end r[i] = a end
  return r
end
local n, u, v = 40, {}, nil
for i = 1, n do u[i] = 1 end
for _ = 1, 5 do
  v = multiply(multiply(u, n, A), n, function(i, j) return A(j, i) end)
  u = multiply(multiply(v, n, A), n, function(i, j) return A(j, i) end)
end
local vBv, vv = 0, 0
for i = 1, n do vBv, vv = vBv + u[i] * v[i], vv + v[i] * v[i] end
print(("%0.9f"):format(math.sqrt(vBv / vv)))
math.randomseed(42)
print(math.random(1000), math.random(1000), math.random())
