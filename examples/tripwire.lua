-- Stops the program where it first writes to bytes of a variable, and says how it came there.
--   kitlua examples/tripwire.lua VARIABLE OFFSET LENGTH -- ./prog
local kit = require "kit"
local name, offset, length = ...
local emu <close> = assert(kit.open(kit.command))
local variable = assert(emu:symbol(name))

local wire = assert(emu:plane{name = "tripwire", bits = 1})
wire:fill(variable.address + (tonumber(offset) or 0), tonumber(length) or variable.size, 1)
wire:check("store")

local stop = emu:run()
if stop.reason ~= "watch" then return print(name .. " was left alone") end
print(("%d bytes written at %s+%d"):format(stop.size, name, stop.addr - variable.address))
for _, f in ipairs(emu:backtrace()) do
  print(("  %s%s"):format(f.fn, f.line > 0 and (" (%s:%d)"):format(f.file:match("[^/]*$"), f.line) or ""))
  if f.fn == "main" then break end
end
