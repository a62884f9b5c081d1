-- Makes a variable read-only: the first store to it becomes a fault, as if its page were protected, and is reported.
--   kitlua examples/deny_store.lua counter -- ./prog
local kit = require "kit"
local name = assert(..., "which variable? give its name")

local emu <close> = assert(kit.open(kit.command))
local variable = assert(emu:symbol(name))

emu:on("store", {addr = variable.address, len = variable.size}, function() return "deny" end)

emu:on("fault", function(ev)
  if ev.addr < variable.address or ev.addr >= variable.address + variable.size then return end
  io.stderr:write(("store to %s denied at\n"):format(name))
  for i, f in ipairs(emu:backtrace()) do
    io.stderr:write(("  #%d %s %s:%d\n"):format(i - 1, f.fn, f.file:match("[^/]*$"), f.line))
  end
end)

local stop = emu:run()
io.stderr:write(("the program ended by %s\n"):format(stop.signal or "exit"))
