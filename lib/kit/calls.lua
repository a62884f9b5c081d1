-- Calls that strace shows in a way that the engine's tables do not tell: an argument whose meaning depends on another one, text
-- behind the result, arguments that are left out.
--
--   calls.whole[name](decode, args, info)      all the arguments, known at entry; nil: as the table says
--   calls.arg[name][i] = {late = true?, fn = function(decode, value, args, result, before)}
--                                              one argument; nil ends the list, false leaves it out
--   calls.result[name](decode, result, args)   the result's text, for a call that did not fail; nil: as the table says
--   calls.before[name](decode, args)           what is kept from entry to exit
--   calls.interrupted[name]                    the errno that the kernel gives while it decides about a restart
local kit = require "kit"
local decoder = require "kit.decode"

local M = {whole = {}, arg = {}, result = {}, before = {}, interrupted = {}}
local whole, arg, result, before = M.whole, M.arg, M.result, M.before

local address, int32 = decoder.address, decoder.int32

local function each(names, set)
  for name in names:gmatch("%S+") do set(name) end
end

-- Shorthand: argument i of the calls `names` by fn; `late` ones are decoded when the call has returned.
local function argument(names, i, fn, late)
  each(names, function(name)
    arg[name] = arg[name] or {}
    arg[name][i] = {fn = fn, late = late}
  end)
end

-- ---- processes -------------------------------------------------------------------------------------------------

function whole.clone(decode, a, info)
  local flags, signal = a[1] & 0xffffff00, a[1] & 255
  local tls, child_tid = a[4], a[5]
  if info.args[5].name == "tls" then tls, child_tid = child_tid, tls end
  local text = decode:flags("clone", flags)
  if flags == 0 then text = signal == 0 and "0" or kit.signal_name(signal)
  elseif signal ~= 0 then text = text .. "|" .. kit.signal_name(signal) end
  local shown = {("child_stack=%s"):format(address(a[2])), "flags=" .. text}
  if flags & 0x100000 ~= 0 then shown[#shown + 1] = ("parent_tid=%s"):format(address(a[3])) end
  if flags & 0x80000 ~= 0 then shown[#shown + 1] = ("tls=%#x"):format(tls) end
  if flags & 0x1200000 ~= 0 then shown[#shown + 1] = ("child_tidptr=%s"):format(address(child_tid)) end
  return table.concat(shown, ", ")
end

argument("clone3", 1, function(decode, va, _, value)
  local flags, _, child_tid, parent_tid, signal, stack, size, tls = decode.mem:unpack("<I8I8I8I8I8I8I8I8", va)
  if not tls then return address(va) end
  local shown = {"flags=" .. decode:flags("clone", flags)}
  if flags & 0x1200000 ~= 0 then shown[2] = ("child_tid=%s"):format(address(child_tid)) end
  if flags & 0x100000 ~= 0 then shown[#shown + 1] = ("parent_tid=%s"):format(address(parent_tid)) end
  shown[#shown + 1] = "exit_signal=" .. (signal == 0 and "0" or kit.signal_name(signal))
  shown[#shown + 1] = ("stack=%s, stack_size=%s"):format(address(stack), size == 0 and "0" or ("%#x"):format(size))
  if flags & 0x80000 ~= 0 then shown[#shown + 1] = ("tls=%#x"):format(tls) end
  local tid = value > 0 and flags & 0x100000 ~= 0 and decode.mem.i32[parent_tid]
  return ("{%s}%s"):format(table.concat(shown, ", "), tid and (" => {parent_tid=[%d]}"):format(tid) or "")
end, true)

function whole.exit(_, a) return tostring(a[1] & 0xffffffff) end
whole.exit_group = whole.exit

-- ---- files -----------------------------------------------------------------------------------------------------

-- The mode matters only where a file may be made.
argument("openat", 4, function(_, mode, a) if a[3] & 0x400040 ~= 0 then return decoder.octal(mode & 0xfff) end end)
argument("open", 3, function(_, mode, a) if a[2] & 0x400040 ~= 0 then return decoder.octal(mode & 0xfff) end end)
for name, i in pairs{mknodat = 3, mknod = 2} do
  argument(name, i, function(_, mode) return decoder.mode(mode & 0xffff) end)
  argument(name, i + 1, function(_, dev, a)
    local kind = a[i] & 0xf000
    if kind == 0x2000 or kind == 0x6000 then return decoder.makedev(dev) end
  end)
end
argument("preadv pwritev preadv2 pwritev2", 5, function() return false end) -- the upper half of the position, for machines of 32 bits
argument("close_range", 1, function(_, v) return ("%d"):format(v & 0xffffffff) end)
argument("close_range", 2, function(_, v) return ("%d"):format(v & 0xffffffff) end)
argument("statx", 3, function(decode, v)
  local sync = v & 0x6000
  local rest = decode:flags("at", v & 0xffff9fff)
  local name = sync == 0 and "AT_STATX_SYNC_AS_STAT" or decode:flags("at", sync)
  return v & ~0x6000 == 0 and name or name .. "|" .. rest
end)

local function time_of_file(decode, va)
  local sec, nsec = decode.mem:unpack("<i8i8", va)
  if nsec == 0x3fffffff then return "UTIME_NOW" end
  if nsec == 0x3ffffffe then return "UTIME_OMIT" end
  return ("{tv_sec=%d, tv_nsec=%d}%s"):format(sec, nsec, decoder.date(sec, nsec))
end
argument("utimensat", 3, function(decode, va)
  if va == 0 or not decode.mem:read(va, 32) then return address(va) end
  return ("[%s, %s]"):format(time_of_file(decode, va), time_of_file(decode, va + 16))
end)

argument("getdents64 getdents", 2, function(decode, va, _, n)
  if n < 0 then return address(va) end
  local entries, at = 0, 0
  while at < n do
    local len = decode.mem.u16[va + at + 16]
    if not len or len == 0 then break end
    entries, at = entries + 1, at + len
  end
  return ("%s /* %d entries */"):format(address(va), entries)
end, true)
local function times_of_file(decode, va)
  if va == 0 or not decode.mem:read(va, 32) then return address(va) end
  local out = {}
  for i = 0, 1 do
    local sec, usec = decode.mem:unpack("<i8i8", va + 16 * i)
    out[i + 1] = ("{tv_sec=%d, tv_usec=%d}%s"):format(sec, usec, decoder.date(sec, usec, 6))
  end
  return ("[%s]"):format(table.concat(out, ", "))
end
argument("time", 1, function(decode, va)
  local sec = va ~= 0 and decode.mem.i64[va]
  return sec and ("[%d%s]"):format(sec, decoder.date(sec)) or address(va)
end, true)
function result.time(_, v) return ("%d (%s)"):format(v, decoder.date(v):match("%S+T%S+")) end
argument("ustat", 1, function(_, dev) return decoder.makedev(dev) end)
argument("ustat", 2, function(_, va) return address(va) end)
argument("utimes", 2, times_of_file)
argument("futimesat", 3, times_of_file)

argument("getcwd", 1, function(decode, va, _, n) return n < 0 and address(va) or decode:buffer(va, n - 1) end, true)
argument("getrandom", 1, function(decode, va, _, n)
  if n < 0 then return address(va) end
  local bytes = decode.mem:read(va, math.min(n, decode.strings))
  if not bytes then return address(va) end
  return '"' .. bytes:gsub(".", function(c) return ("\\x%02x"):format(c:byte()) end) .. '"' .. (n > #bytes and "..." or "")
end, true)

argument("sendfile", 3, function(decode, va, _, _, old)
  local new = va ~= 0 and decode.mem.i64[va]
  if not new then return address(va) end
  return old and old ~= new and ("[%d] => [%d]"):format(old, new) or ("[%d]"):format(new)
end, true)
function before.sendfile(decode, a) return a[3] ~= 0 and decode.mem.i64[a[3]] or nil end

-- struct flock: type and whence, start, length, process
local function lock(decode, va, with_pid)
  local kind, whence, start, len, pid = decode.mem:unpack("<i2i2xxxxi8i8i4", va)
  if not pid then return address(va) end
  return ("{l_type=%s, l_whence=%s, l_start=%d, l_len=%d%s}"):format(decode:flags("lock", kind), decode:flags("seek", whence), start, len,
    with_pid and (", l_pid=%d"):format(pid) or "")
end

local GETLK, OFD_GETLK = 5, 36
local lock_commands = {[5] = true, [6] = true, [7] = true, [36] = true, [37] = true, [38] = true}
local no_argument = {[1] = true, [3] = true, [9] = true, [11] = true, [1025] = true, [1032] = true, [1034] = true}
local plain_argument = {[0] = true, [8] = true, [1030] = true, [1031] = true}
argument("fcntl", 3, function(decode, v, a, value)
  local cmd = int32(a[2])
  if no_argument[cmd] then return nil end
  if plain_argument[cmd] then return ("%d"):format(int32(v)) end
  if cmd == 2 then return v == 1 and "FD_CLOEXEC" or v == 0 and "0" or ("%#x"):format(v) end
  if cmd == 4 then return decode:flags("open", v) end
  if cmd == 10 then return kit.signal_name(int32(v)) end
  if cmd == 1024 then return decode:flags("lock", v) end
  if cmd == 1033 then return decode:flags("seals", v) end
  if lock_commands[cmd] then return lock(decode, v, value >= 0 and cmd == GETLK or cmd == OFD_GETLK and false) end
  return ("%#x"):format(v)
end, true)
function result.fcntl(decode, v, a)
  local cmd = int32(a[2])
  local text = cmd == 1 and (v == 0 and "" or "flags FD_CLOEXEC") or cmd == 3 and "flags " .. decode:flags("open", v)
    or cmd == 1034 and v ~= 0 and "seals " .. decode:flags("seals", v) or cmd == 1025 and decode:flags("lock", v)
  if not text then return nil end
  return text == "" and "0" or ("%s (%s)"):format(v == 0 and "0" or ("%#x"):format(v), text)
end

local FIONREAD, FIONBIO, TIOCGPGRP, TIOCSPGRP, TIOCGWINSZ, TIOCSWINSZ = 0x541b, 0x5421, 0x540f, 0x5410, 0x5413, 0x5414
local FICLONE = 0x40049409
local int_ioctl = {[FIONREAD] = true, [FIONBIO] = true, [TIOCGPGRP] = true, [TIOCSPGRP] = true}
local directions = {[0] = "_IOC_NONE", "_IOC_WRITE", "_IOC_READ", "_IOC_READ|_IOC_WRITE"}
argument("ioctl", 2, function(decode, v)
  v = v & 0xffffffff
  local name = decode:flags("ioctl", v)
  if not name:find("^0") then return name end
  return ("_IOC(%s, %#x, %#x, %#x)"):format(directions[v >> 30], v >> 8 & 255, v & 255, v >> 16 & 0x3fff):gsub("0x0%f[%W]", "0")
end)
argument("ioctl", 3, function(decode, v, a, value)
  local cmd = a[2] & 0xffffffff
  if cmd == FICLONE then return ("%d"):format(int32(v)) end
  local n = int_ioctl[cmd] and value >= 0 and decode.mem.i32[v]
  if n then return ("[%d]"):format(n) end
  if (cmd == TIOCGWINSZ or cmd == TIOCSWINSZ) and value >= 0 then
    local rows, columns, x, y = decode.mem:unpack("<I2I2I2I2", v)
    if y then return ("{ws_row=%d, ws_col=%d, ws_xpixel=%d, ws_ypixel=%d}"):format(rows, columns, x, y) end
  end
  return address(v)
end, true)

-- ---- waiting for descriptors --------------------------------------------------------------------------------------

local function left(decode, va)
  local sec, nsec = decode.mem:unpack("<i8i8", va)
  return va ~= 0 and nsec and (", left {tv_sec=%d, tv_nsec=%d}"):format(sec, nsec) or ""
end

local function poll_result(decode, v, a)
  if v == 0 then return "0 (Timeout)" end
  return ("%d (%s"):format(v, decode:pollfds(a[1], a[2], true))
end
function result.poll(decode, v, a) return poll_result(decode, v, a) .. (v ~= 0 and ")" or "") end
function result.ppoll(decode, v, a) return poll_result(decode, v, a) .. (v ~= 0 and left(decode, a[3]) .. ")" or "") end
each("poll ppoll", function(name)
  argument(name, 1, function(decode, v, a) return v == 0 and "NULL" or decode:pollfds(v, a[2]) end)
end)

-- The sets are shown as they were at entry, those of the result behind it.
argument("pselect6", 6, function(decode, v)
  local set, size = decode.mem:unpack("<I8I8", v)
  if v == 0 or not size then return address(v) end
  local mask = set ~= 0 and decode.mem.u64[set]
  return mask and ("{sigmask=%s, sigsetsize=%d}"):format(decoder.sigset(mask), size) or "NULL"
end)
local function select_result(decode, v, a, time_left)
  if v == 0 then return "0 (Timeout)" end
  local out = {}
  for i, name in ipairs{"in", "out", "except"} do
    local set = decode:fdset(a[i + 1], a[1])
    if a[i + 1] ~= 0 and set ~= "[]" then out[#out + 1] = name .. " " .. set end
  end
  return ("%d (%s%s)"):format(v, table.concat(out, ", "), time_left(decode, a[5]))
end
function result.pselect6(decode, v, a) return select_result(decode, v, a, left) end
function result.select(decode, v, a)
  return select_result(decode, v, a, function(_, va)
    local sec, usec = decode.mem:unpack("<i8i8", va)
    return va ~= 0 and usec and (", left {tv_sec=%d, tv_usec=%d}"):format(sec, usec) or ""
  end)
end

-- ---- sockets ------------------------------------------------------------------------------------------------------

argument("socket socketpair", 3, function(decode, v, a)
  local family = int32(a[1])
  if family == 2 or family == 10 then return decode:flags("ipproto", int32(v)) end
  return family == 16 and decode:flags("netlink", int32(v)) or ("%d"):format(int32(v))
end)

local option_sets = {[1] = "so", [6] = "tcp", [0] = "ip", [41] = "ipv6"}
argument("setsockopt getsockopt", 3, function(decode, v, a)
  local set = option_sets[int32(a[2])]
  return set and decode:flags(set, int32(v)) or ("%#x"):format(v)
end)
local LINGER, PEERCRED = 13, 17
local function option_value(decode, va, a, n)
  if va == 0 or n < 0 then return address(va) end
  local socket_level, name = int32(a[2]) == 1, int32(a[3])
  if n == 4 then
    local v = decode.mem.i32[va]
    return v and ("[%d]"):format(v) or address(va)
  end
  if socket_level and name == LINGER and n >= 8 and decode.mem:read(va, 8) then
    return ("{l_onoff=%d, l_linger=%d}"):format(decode.mem:unpack("<i4i4", va))
  elseif socket_level and name == PEERCRED and n >= 12 and decode.mem:read(va, 12) then
    return ("{pid=%d, uid=%d, gid=%d}"):format(decode.mem:unpack("<i4i4i4", va))
  end
  return decode:buffer(va, n)
end
argument("setsockopt", 4, function(decode, va, a) return option_value(decode, va, a, int32(a[5])) end)
argument("getsockopt", 4, function(decode, va, a, value)
  return value < 0 and address(va) or option_value(decode, va, a, decode.mem.i32[a[5]] or -1)
end, true)

-- A length that the call changes: [128 => 16].
local function length(i)
  return function(decode, va, a, value, old)
    if va == 0 then return "NULL" end
    local new = decode.mem.i32[va]
    if not new then return address(va) end
    if value < 0 or a[i - 1] == 0 or not old or old == new then return ("[%d]"):format(new) end
    return ("[%d => %d]"):format(old, new)
  end
end
for names, i in pairs{["accept accept4 getsockname getpeername"] = 3, recvfrom = 6, getsockopt = 5} do
  argument(names, i, length(i), true)
  each(names, function(name)
    before[name] = function(decode, a) return a[i] ~= 0 and decode.mem.i32[a[i]] or nil end
  end)
end

-- ---- memory, time, signals, scheduling ----------------------------------------------------------------------------

function whole.brk(_, a) return address(a[1]) end
argument("mremap", 5, function(_, v, a) if a[4] & 2 ~= 0 then return address(v) end end)

function whole.futex(decode, a)
  local op = a[2] & 0xffffffff
  local command, value = op & 0x7f, ("%d"):format(a[3] & 0xffffffff)
  local shown = {("%#x"):format(a[1]), decode:flags("futex", op), value}
  if command == 0 or command == 9 then shown[4] = decode:struct("timespec", a[4]) end
  if command == 9 or command == 10 then
    shown[#shown + 1] = a[6] & 0xffffffff == 0xffffffff and "FUTEX_BITSET_MATCH_ANY" or ("%#x"):format(a[6] & 0xffffffff)
  end
  return (command == 0 or command == 1 or command == 9 or command == 10) and table.concat(shown, ", ") or nil
end

-- What is left of a sleep is written only if a signal ended it.
argument("nanosleep", 2, function(decode, va, _, value)
  return value == -4 and decode:struct("timespec", va) or address(va)
end, true)
argument("clock_nanosleep", 4, function(decode, va, a, value)
  return value == -4 and a[2] & 1 == 0 and decode:struct("timespec", va) or address(va)
end, true)

-- Where the signal frame, at the stack pointer (x86-64: the return address is popped), keeps the mask that comes back.
local frame_mask = {riscv64 = {"sp", 128 + 40}, ["x86-64"] = {"rsp", 296}}
function whole.rt_sigreturn(decode)
  local emu = decode.emu
  local at = frame_mask[emu.arch]
  local mask = at and decode.mem.u64[emu.regs[at[1]] + at[2]]
  return mask and ("{mask=%s}"):format(decoder.sigset(mask)) or ""
end
argument("rt_sigtimedwait", 2, function(decode, va, _, value)
  return value > 0 and va ~= 0 and decode:siginfo_at(va) or address(va)
end, true)
argument("rt_sigqueueinfo", 3, function(decode, va) return va ~= 0 and decode:siginfo_at(va) or "NULL" end)
argument("rt_tgsigqueueinfo", 4, function(decode, va) return va ~= 0 and decode:siginfo_at(va) or "NULL" end)
argument("waitid", 3, function(decode, va, _, value)
  return value >= 0 and va ~= 0 and decode:siginfo_at(va) or address(va)
end, true)
function result.rt_sigtimedwait(_, v) return ("%d (%s)"):format(v, kit.signal_name(v)) end

argument("getgroups", 2, function(decode, va, a, n)
  if n < 0 or va == 0 or a[1] & 0xffffffff == 0 then return n == 0 and va ~= 0 and "[]" or address(va) end
  local out = {}
  for i = 0, math.min(n, 32) - 1 do out[#out + 1] = tostring(decode.mem.u32[va + 4 * i]) end
  return "[" .. table.concat(out, ", ") .. (n > 32 and ", ..." or "") .. "]"
end, true)
argument("sched_get_priority_max sched_get_priority_min", 1, function(decode, v) return decode:flags("sched", int32(v)) end)
argument("sched_setscheduler", 2, function(decode, v) return decode:flags("sched", int32(v)) end)
argument("sched_setscheduler", 3, function(decode, va) return decode.mem.i32[va] and ("[%d]"):format(decode.mem.i32[va]) or address(va) end)
argument("sched_getparam", 2, function(decode, va, _, value)
  return value >= 0 and decode.mem.i32[va] and ("[%d]"):format(decode.mem.i32[va]) or address(va)
end, true)
function result.sched_getscheduler(decode, v) return ("%d (%s)"):format(v, decode:flags("sched", v)) end
argument("sched_getaffinity", 3, function(decode, va, _, value)
  return value > 0 and decode:fdset(va, 8 * value) or address(va)
end, true)

-- What the call writes, where it reads a base.
argument("arch_prctl", 2, function(decode, v, a, value)
  local code = int32(a[1])
  local got = (code == 0x1003 or code == 0x1004) and value == 0 and decode.mem.u64[v]
  return got and ("[%#x]"):format(got) or ("%#x"):format(v)
end, true)

local PR_SET_PDEATHSIG, PR_SET_NAME, PR_GET_NAME = 1, 15, 16
local prctl_arguments = {[3] = 0, [PR_SET_NAME] = 1, [PR_GET_NAME] = 1, [PR_SET_PDEATHSIG] = 1, [2] = 1, [4] = 1, [36] = 1}
for i = 2, 5 do
  argument("prctl", i, function(decode, v, a)
    local option = int32(a[1])
    if i - 1 > (prctl_arguments[option] or 4) then return nil end
    if option == PR_SET_PDEATHSIG then return v == 0 and "0" or kit.signal_name(int32(v)) end
    if option == PR_SET_NAME or option == PR_GET_NAME then return decode:cstring(v, 15) end
    return v >= 0 and v < 10 and ("%d"):format(v) or ("%#x"):format(v)
  end, i == 2)
end

-- ---- interrupted calls -----------------------------------------------------------------------------------------------

-- What strace sees when a signal comes: the kernel's own errno, before it decides whether the call is made again or gives EINTR.
local sys = "ERESTARTSYS (To be restarted if SA_RESTART is set)"
local no_handler = "ERESTARTNOHAND (To be restarted if no handler)"
local block = "ERESTART_RESTARTBLOCK (Interrupted by signal)"
each("read write readv writev wait4 waitid accept accept4 connect recvfrom recvmsg sendto sendmsg openat flock fcntl futex",
  function(name) M.interrupted[name] = sys end)
each("rt_sigsuspend ppoll pselect6 select pause msgrcv msgsnd", function(name) M.interrupted[name] = no_handler end)
each("nanosleep clock_nanosleep poll", function(name) M.interrupted[name] = block end)

return M
