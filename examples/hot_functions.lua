-- The functions in which a program spends its instructions, without any profile file.
--   kitlua examples/hot_functions.lua 10 -- ./prog
local kit = require "kit"
local top = assert(math.tointeger(tonumber((...) or 10)), "how many functions? give a number")

local emu <close> = assert(kit.open(kit.command))
local insns = emu:count("insn", {by = "function"})

emu:on("exit", function()
  local total = insns:total()
  for name, n in kit.top(insns, top) do
    io.stderr:write(("%12d %6.2f%%  %s\n"):format(n, 100 * n / total, name))
  end
end)

emu:run()
