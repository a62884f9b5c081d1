-- How many guest instructions were translated.
local kit = require "kit"
local emu <close> = assert(kit.open(kit.command))
emu:on("exit", function() io.stderr:write("region_insns ", emu:stats().region_insns, "\n") end)
emu:run()
