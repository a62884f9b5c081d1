-- A detector of uses after free and of what lies behind blocks: the engine's heap and its plane.
--   kitlua examples/use_after_free.lua -- ./prog
local kit = require "kit"
local emu <close> = assert(kit.open(kit.command))

local plane = assert(emu:plane{bits = 1})
local heap = emu:heap{plane = plane, on_error = function(e) print(e.kind, e.fn, ("%x"):format(e.addr)) end}
local usage, seen = heap:usage(), {}

plane:check("access", function(pc, addr, size, is_write)
  if seen[pc] then return end
  seen[pc] = true
  local frame, block = emu:lookup(pc)[1], heap:block(addr, 64)
  print(("%s of %d bytes in %s:%d, %s"):format(is_write and "write" or "read", size, frame.fn, frame.line,
    not block and "in no block" or block.freed and "in a freed block" or ("at %d of %d"):format(addr - block.addr, block.size)))
end, {low = usage.low, high = usage.limit, not_stack = true, loose_stop = true})

emu:run()
