-- How often each part of a buffer is touched: a plane finds the accesses, one character stands for each slice of it.
--   kitlua examples/heat_map.lua table -- ./prog
local kit = require "kit"
local name = assert(..., "which variable? give its name")
local slices, shades = 64, " .:-=+*#%@"

local emu <close> = assert(kit.open(kit.command))
local buffer = assert(emu:symbol(name))
local heat, most = {}, 1

local plane = assert(emu:plane{name = "buffer", bits = 1})
plane:fill(buffer.address, buffer.size, 1)
plane:check("access", function(_, addr, size)
  for at = math.max(addr, buffer.address), math.min(addr + size, buffer.address + buffer.size) - 1 do
    local slice = (at - buffer.address) * slices // buffer.size
    heat[slice] = (heat[slice] or 0) + 1
    most = math.max(most, heat[slice])
  end
end, {low = buffer.address, high = buffer.address + buffer.size, not_stack = true, loose_stop = true})

emu:on("exit", function()
  local line = {}
  for slice = 0, slices - 1 do
    local n = heat[slice] or 0
    line[#line + 1] = shades:sub(n == 0 and 1 or 2 + n * (#shades - 2) // most, n == 0 and 1 or 2 + n * (#shades - 2) // most)
  end
  io.stderr:write(("%s, %d bytes: [%s]\n"):format(name, buffer.size, table.concat(line)))
end)

emu:run()
