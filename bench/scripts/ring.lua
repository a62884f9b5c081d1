-- Every store of the program through a ring, each record read in Lua; says how many, and the CPU time of reading them.
local kit = require "kit"
local emu <close> = assert(kit.open(kit.command))
local events, seconds, sum = 0, 0, 0
local function read(ring)
  local begin, n, last = os.clock(), 0, 0
  for pc, addr in ring:records() do n, last = n + 1, pc ~ addr end
  seconds, events, sum = seconds + os.clock() - begin, events + n, sum ~ last
end
local ring
ring = emu:trace("store", {fields = {"pc", "addr"}, capacity = 65536, flush = function()
  read(ring)
  ring:clear()
end})
emu:on("exit", function()
  read(ring)
  io.stderr:write(("events %d seconds %.6f dropped %d\n"):format(events, seconds, ring:dropped()))
end)
emu:run()
