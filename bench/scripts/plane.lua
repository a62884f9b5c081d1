-- A plane check on every load and store, none of which ever hits.
local kit = require "kit"
local emu <close> = assert(kit.open(kit.command))
local plane = assert(emu:plane{name = "bench", bits = 1})
plane:check("access", function(pc, addr) error(("hit at %x by %x"):format(addr, pc)) end)
emu:run()
