-- For the x86-64 oracle (x64_oracle.h): a Lua function at every event of the jobs' code, and of no more, as the runner itself
-- executes a thousand times as many.
local kit = require "kit"

local emu <close> = assert(kit.open(kit.command))
for _, event in ipairs{"exec", "insn", "block", "branch", "call", "ret", "jump", "cond", "load", "store", "access"} do
  assert(emu:on(event, {pc = 0x10000000, pc_len = 0x40000}, function() end))
end
for _, event in ipairs{"map", "unmap", "protect", "syscall", "sysret", "signal", "fault"} do
  assert(emu:on(event, function() end))
end
emu:run()
