-- A tool for the transparency spec: sets hooks as its argument says, and when the program ends writes what is left of
-- it (registers, memory, instruction count) to the file named last. Without a file it only watches.
--   kitlua observe.lua none|hooks|fast [FILE] -- PROGRAM
local kit = require "kit"
local what, path = ...

local emu <close> = assert(kit.open(kit.command))
emu:count_insns()
local root = emu.pid

local function nothing() end

if what == "hooks" then
  for _, event in ipairs(kit.event_names) do
    if event ~= "exit" then emu:on(event, nothing) end
  end
elseif what == "fast" then
  emu:count("insn", {by = "insn"})
  emu:count("branch", {by = "edge"})
  emu:callgraph()
  emu:trace("access", {fields = {"pc", "addr", "size", "write"}, capacity = 1000})
  local plane = assert(emu:plane{name = "marks", bits = 1})
  plane:fill(0x10000, 16, 1) -- below everything that the guests touch
  plane:check("access", nothing)
  emu:on("store", {addr = 1, len = 1}, nothing)
end

if not path then
  emu:run()
  return
end

-- What the kernel makes up is fixed: the bytes behind AT_RANDOM, and those of getrandom.
local function fix_random()
  local at = emu.regs.sp + 8
  for _ = 1, 2 do -- argv, envp
    while emu.mem.u64[at] ~= 0 do at = at + 8 end
    at = at + 8
  end
  while emu.mem.u64[at] ~= 0 do
    if emu.mem.u64[at] == 25 then emu.mem:write(emu.mem.u64[at + 8], ("kitlua"):rep(3):sub(1, 16)) end
    at = at + 16
  end
end
fix_random()

emu:on("syscall", {name = "getrandom"}, function(ev)
  emu.mem:write(ev.args[1], ("\x5a"):rep(ev.args[2]))
  ev.result = ev.args[2]
end)

-- The process has the same id in every run: what it is told, and what it says of itself.
local ID = 0x4b4954
for _, name in ipairs{"getpid", "gettid", "set_tid_address"} do
  emu:on("sysret", {name = name}, function(ev)
    if ev.result == root then ev.result = ID end
  end)
end
local first_args = emu.arch == "riscv64" and {"a0", "a1"} or {"rdi", "rsi"}
for _, name in ipairs{"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"} do
  emu:on("syscall", {name = name}, function()
    for _, reg in ipairs(first_args) do
      if emu.regs[reg] == ID then emu.regs[reg] = root end
    end
  end)
end

-- Files have neither inode numbers nor times of their own; struct stat starts alike on all architectures.
for name, which in pairs{fstat = 2, newfstatat = 3} do
  emu:on("sysret", {name = name}, function(ev)
    if ev.result ~= 0 then return end
    emu.mem.u64[ev.args[which] + 8] = ID
    emu.mem:write(ev.args[which] + 72, ("\0"):rep(48))
  end)
end

local function checksum(s)
  local h = 5381
  for i = 1, #s - 7, 8 do h = h * 33 ~ (string.unpack("<i8", s, i)) end
  return h
end

local function text(value) -- of a register; those of vectors are strings
  return type(value) == "string" and value:gsub(".", function(c) return ("%02x"):format(c:byte()) end) or ("%x"):format(value)
end

emu:on("exit", function(ev)
  if emu.pid ~= root then return end
  local file = assert(io.open(path, "w"))
  file:write(("exit %d %d\ninsns %d\n"):format(ev.status, ev.signo, emu.insns))
  for name, value in pairs(emu.regs) do file:write(("%s %s\n"):format(name, value == root and "pid" or text(value))) end
  for _, m in ipairs(emu.mem:maps()) do
    local bytes = m.prot:match("^rw") and m.name ~= "[stack]" and m.stop - m.start <= 1 << 20 and emu.mem:read(m.start, m.stop - m.start)
    file:write(("%x-%x %s %s\n"):format(m.start, m.stop, m.prot, bytes and ("%x"):format(checksum(bytes)) or "-"))
  end
  file:close()
end)

emu:run()
