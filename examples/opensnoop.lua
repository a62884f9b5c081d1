-- Which files a program opens, and which it fails to open.
--   kitlua examples/opensnoop.lua -- ./prog
local kit = require "kit"

local emu <close> = assert(kit.open(kit.command))
local names = {} -- by thread: a call's path is read when it begins, its result comes later

emu:on("syscall", {name = "openat"}, function(ev)
  names[ev.tid] = emu.mem:cstring(ev.args[2])
end)

emu:on("sysret", {name = "openat"}, function(ev)
  local outcome = ev.result >= 0 and ("fd %d"):format(ev.result) or kit.errno_name(-ev.result)
  io.stderr:write(("%-8s %s\n"):format(outcome, names[ev.tid]))
end)

emu:run()
