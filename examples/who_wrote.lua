-- Who writes to a variable: function, line and value at every store to a global.
--   kitlua examples/who_wrote.lua counter -- ./prog
local kit = require "kit"
local name = assert(..., "which variable? give its name")

local emu <close> = assert(kit.open(kit.command))
local variable = assert(emu:symbol(name))

local last -- a store hook runs before the store: the value is there at the next one
local function show()
  if last then io.stderr:write(("%s = %d  by %s\n"):format(name, emu.mem["i" .. variable.size * 8][variable.address], last)) end
end

emu:on("store", {addr = variable.address, len = variable.size}, function(pc)
  show()
  local frame = emu:lookup(pc)[1]
  last = frame.line > 0 and ("%s (%s:%d)"):format(frame.fn, frame.file:match("[^/]*$"), frame.line) or frame.fn
end)
emu:on("exit", show)

emu:run()
