-- Makes a C program of many different functions, each called once: a program that translators spend their time translating.
--   lua5.4 bench/functions.lua COUNT >FILE.c
local count = assert(math.tointeger(tonumber(...)))
local x = 42
local function random(n)
  x = x * 6364136223846793005 + 1442695040888963407
  return (x >> 33) % n
end
local function var() return ("v%d"):format(random(6)) end

local statements = {
  function() return ("%s += %s * %du;"):format(var(), var(), random(1 << 16)) end,
  function() return ("%s ^= %s >> %d;"):format(var(), var(), 1 + random(60)) end,
  function() return ("if (%s > %s) %s -= %du;"):format(var(), var(), var(), random(5000)) end,
  function() return ("%s = memory[%s %% 64] + %s;"):format(var(), var(), var()) end,
  function() return ("memory[%d] = %s;"):format(random(64), var()) end,
  function()
    return ("if (%s & %d) { %s |= %s << %d; memory[%d]++; }"):format(var(), 1 << random(8), var(), var(), random(30), random(64))
  end,
  function() return ("%s = (%s & %s) + (%s | %du);"):format(var(), var(), var(), var(), random(1 << 20)) end,
  function() return ("while (%s > %du) %s >>= 9;"):format("v5", 1 << 30, "v5") end,
}

local function body()
  local lines = {}
  for i = 1, 50 do lines[i] = "  " .. statements[1 + random(#statements)]() end
  return table.concat(lines, "\n")
end

io.write("#include <stdint.h>\n#include <stdio.h>\nstatic uint64_t memory[64];\n")
for i = 1, count do
  io.write(("static uint64_t f%d(uint64_t v0, uint64_t v1) {\n"):format(i),
    ("  uint64_t v2 = v0 + %d, v3 = v1 ^ v0, v4 = ~v1, v5 = v0 * v1;\n"):format(i), body(), "\n  return v0 ^ v1 ^ v2 ^ v3 ^ v4 ^ v5;\n}\n")
end
io.write("static uint64_t (*const table[])(uint64_t, uint64_t) = {\n")
for i = 1, count do io.write(("  f%d,\n"):format(i)) end
io.write([[
};
int main(void) {
  uint64_t sum = 1;
  for (unsigned i = 0; i < sizeof table / sizeof *table; i++) sum = sum * 31 + table[i](sum, i);
  printf("%llu\n", (unsigned long long)sum);
}
]])
