-- An empty hook: at calls of `hot`, or at its stores to `target`.  hook.lua none|call|store
local kit = require "kit"
local which = ...
local emu <close> = assert(kit.open(kit.command))
local hook
if which == "call" then
  hook = emu:on("call", {to = "hot"}, function() end)
elseif which == "store" then
  hook = emu:on("store", {addr = assert(emu:symbol("target")).address, len = 8}, function() end)
end
emu:on("exit", function() io.stderr:write("hits ", hook and hook:hits() or 0, "\n") end)
emu:run()
