-- strace: system calls and signals, as strace prints them.
--   kitlua strace -- ls -l
--   kitlua strace -f -e trace=%file -o trace.txt -- ./prog
local kit = require "kit"
local options = require "kit.options"
local decoder = require "kit.decode"

local opt = options.parse({...}, {
  usage = "strace [options] -- PROGRAM [args]",
  about = "Traces system calls and signals of PROGRAM, in strace's text.",
  {"f", nil, "forked children and threads too, each line with its id"},
  {"e", "EXPR", "trace=LIST (names, /regex, %class, !: all but), signal=LIST, status=successful|failed", many = true},
  {"o", "FILE", "write there instead of to stderr"},
  {"c", nil, "a summary of counts, errors and time instead"},
  {"C", nil, "the same, besides the trace"},
  {"w", nil, "accepted: the summary's time is always wall-clock time"},
  {"s", "N", "bytes of strings to show", default = 32, number = true},
  {"v", nil, "structs and environments in full"},
  {"y", nil, "descriptors with the paths they were opened by"},
  {"z", nil, "only calls that succeeded"},
  {"Z", nil, "only calls that failed"},
  {"P", "PATH", "only calls that name this path", many = true},
  {"r", nil, "time since the last line"},
  {"t", nil, "time of day"},
  {"tt", nil, "... with microseconds", dash = "-"},
  {"ttt", nil, "... in seconds since 1970", dash = "-"},
  {"T", nil, "time spent in each call"},
})

local emu <close> = assert(kit.open(kit.command))
local decode = decoder.new(emu, {strings = opt.s, verbose = opt.v})
local root = emu.pid -- the process that was started; forked children have other ids

-- ---- which calls and signals ---------------------------------------------------------------------------------

local function member(list)
  local negated = list:sub(1, 1) == "!"
  local names, classes, patterns = {}, {}, {}
  for word in list:gsub("^!", ""):gmatch("[^,]+") do
    if word:sub(1, 1) == "%" then classes[word] = true
    elseif word:sub(1, 1) == "/" then patterns[#patterns + 1] = word:sub(2)
    elseif word == "all" then patterns[#patterns + 1] = "."
    elseif word ~= "none" then names[word] = true end
  end
  return function(name, class_list)
    local hit = names[name] or false
    for class in (class_list or ""):gmatch("%S+") do hit = hit or classes[class] or false end
    for _, p in ipairs(patterns) do hit = hit or name:find(p) ~= nil end
    return hit ~= negated
  end
end

local want_call, want_signal, want_status = member("all"), member("all"), opt.z and "successful" or opt.Z and "failed"
for _, e in ipairs(opt.e or {}) do
  local key, list = e:match("^(%a+)=(.*)$")
  if not key then key, list = "trace", e end
  if key == "trace" or key == "t" then want_call = member(list)
  elseif key == "signal" or key == "s" then want_signal = member((list:gsub("%f[%a]SIG", "")))
  elseif key == "status" then want_status = list
  else options.fail("strace: -e %s= is not supported (trace, signal, status)", key) end
end

-- ---- output -----------------------------------------------------------------------------------------------------

local out = io.stderr
if opt.o then
  local message
  out, message = io.open(opt.o, "w")
  if not out then options.fail("strace: cannot write the trace: %s", message) end
end
out:setvbuf("full", 65536)

local last_time
local function stamp(now)
  if opt.ttt then return ("%.6f "):format(now) end
  if opt.tt then return os.date("%H:%M:%S", now // 1 | 0) .. (".%06d "):format(now % 1 * 1000000 // 1) end
  if opt.t then return os.date("%H:%M:%S ", now // 1 | 0) end
  if not opt.r then return "" end
  local since = last_time and now - last_time or 0
  last_time = now
  return ("%11.6f "):format(since)
end

local several = false -- ids are shown on stderr once there is more than one
local function prefix(tid, now)
  local id = ""
  if opt.f and opt.o then id = ("%-5d "):format(tid)
  elseif opt.f and several then id = ("[pid %5d] "):format(tid) end
  return id .. stamp(now or (opt.t or opt.tt or opt.ttt or opt.r) and kit.clock() or 0)
end

local unfinished -- the call whose line is begun on the terminal, by thread

local function interrupt_line()
  if unfinished then
    out:write(" <unfinished ...>\n")
    unfinished.resumed = true
    unfinished = nil
  end
end

local function line(tid, text)
  if opt.c then return end
  interrupt_line()
  out:write(prefix(tid), text, "\n")
  out:flush()
end

-- ---- calls ------------------------------------------------------------------------------------------------------

local pending, stats, paths = {}, {}, {}
if opt.y then decode.fd_text = function(fd) return paths[fd] and ("%d<%s>"):format(fd, paths[fd]) or ("%d"):format(fd) end end

local infos = {}
local function info_of(nr)
  local info = infos[nr]
  if info == nil then
    info = emu:syscall_info(nr) or {name = ("syscall_%#x"):format(nr), args = {}, ret = "int", classes = ""}
    info.wanted = want_call(info.name, info.classes)
    infos[nr] = info
  end
  return info
end

local function names_path(call)
  if not opt.P then return true end
  for i, a in ipairs(call.info.args) do
    if a.kind == "path" or a.kind == "pathnull" then
      local p = emu.mem:cstring(call.args[i])
      for _, want in ipairs(opt.P) do if p == want then return true end end
    elseif a.kind == "fd" then
      for _, want in ipairs(opt.P) do if paths[call.args[i]] == want then return true end end
    end
  end
  return false
end

-- Some calls have an order or arguments of their own.
local special = {}
function special.clone(call)
  local a = call.args
  local flags, signal = a[1] & ~255, a[1] & 255
  local text = decode:flags("clone", flags)
  if flags == 0 then text = signal == 0 and "0" or kit.signal_name(signal)
  elseif signal ~= 0 then text = text .. "|" .. kit.signal_name(signal) end
  local more = {("child_stack=%s"):format(decoder.address(a[2])), "flags=" .. text}
  if flags & 0x100000 ~= 0 then more[#more + 1] = ("parent_tid=%s"):format(decoder.address(a[3])) end
  if flags & 0x80000 ~= 0 then more[#more + 1] = ("tls=%#x"):format(a[4]) end
  if flags & 0x1200000 ~= 0 then more[#more + 1] = ("child_tidptr=%s"):format(decoder.address(a[5])) end
  return table.concat(more, ", ")
end
function special.futex(call)
  local a, shown = call.args, nil
  local op = a[2] & 0xffffffff
  local command = op & 0x7f
  if command == 0 or command == 9 then
    shown = {("%#x"):format(a[1]), decode:flags("futex", op), ("%d"):format(a[3] & 0xffffffff), decode:struct("timespec", a[4])}
    if command == 9 then
      shown[5] = "NULL"
      shown[6] = a[6] & 0xffffffff == 0xffffffff and "FUTEX_BITSET_MATCH_ANY" or ("%#x"):format(a[6])
    end
  elseif command == 1 then
    shown = {("%#x"):format(a[1]), decode:flags("futex", op), ("%d"):format(a[3] & 0xffffffff)}
  end
  return shown and table.concat(shown, ", ")
end
-- The third argument matters only where a file may be made.
function special.openat(call)
  local n = call.args[3] & 0x40 ~= 0 and 4 or 3
  local shown = {}
  for i = 1, n do shown[i] = decode:arg(call.info, i, call.args) end
  return table.concat(shown, ", ")
end
function special.fcntl(call)
  local cmd = call.args[2]
  local text = decode:arg(call.info, 1, call.args) .. ", " .. decode:flags("fcntl", cmd)
  if cmd == 1 or cmd == 3 then return text end
  if cmd == 2 then return text .. ", " .. (call.args[3] & 1 == 1 and "FD_CLOEXEC" or "0") end
  if cmd == 4 then return text .. ", " .. decode:flags("open", call.args[3]) end
  return text .. ", " .. ((cmd == 0 or cmd == 1030) and tostring(call.args[3]) or ("%#x"):format(call.args[3]))
end
function special.brk(call) return decoder.address(call.args[1]) end
function special.exit(call) return tostring(call.args[1] & 0xffffffff) end
special.exit_group = special.exit

-- Arguments up to the first that only the end of the call knows.
local function entry_text(call)
  local own = special[call.info.name]
  local text = own and own(call)
  if text then
    call.next = #call.info.args + 1
    return text
  end
  local shown = {}
  for i, a in ipairs(call.info.args) do
    if decoder.late[a.kind] then break end
    shown[i] = decode:arg(call.info, i, call.args)
  end
  call.next = #shown + 1
  return table.concat(shown, ", ")
end

local function exit_text(call, result)
  local shown = {}
  for i = call.next, #call.info.args do shown[#shown + 1] = decode:arg(call.info, i, call.args, result) end
  return (call.next > 1 and #shown > 0 and ", " or "") .. table.concat(shown, ", ")
end

local function traced(ev)
  return opt.f or ev.tid == root
end

local no_return = {exit = true, exit_group = true}

emu:on("syscall", function(ev)
  if not traced(ev) then return end
  local info = info_of(ev.nr)
  if not info.wanted then return end
  local call = {info = info, args = ev.args, tid = ev.tid, pid = emu.pid, start = (opt.T or opt.c or opt.C) and kit.clock() or 0}
  pending[ev.tid] = call
  if opt.c or not names_path(call) then
    call.hidden = true
    return
  end
  call.text = ("%s(%s"):format(info.name, entry_text(call))
  if info.name == "execve" or want_status then return end -- shown when it is known whether it succeeds
  interrupt_line()
  out:write(prefix(ev.tid), call.text)
  if no_return[info.name] then
    out:write(")", (" "):rep(39 - #call.text - 1), " = ?\n")
    call.hidden = true
  else
    call.begun = true
    unfinished = call
  end
  out:flush()
end)

local function count(call, result)
  local s = stats[call.info.name]
  if not s then
    s = {name = call.info.name, calls = 0, errors = 0, seconds = 0}
    stats[call.info.name] = s
  end
  s.calls = s.calls + 1
  s.seconds = s.seconds + (kit.clock() - call.start)
  if result < 0 and result > -4096 then s.errors = s.errors + 1 end
end

local function track_paths(call, result)
  if not (opt.y or opt.P) or result < 0 then return end
  local name = call.info.name
  if name == "openat" then paths[result] = emu.mem:cstring(call.args[2])
  elseif name == "close" then paths[call.args[1]] = nil end
end

emu:on("sysret", function(ev)
  local call = pending[ev.tid]
  pending[ev.tid] = nil
  if not call or call.pid ~= emu.pid then return end -- the child's side of a fork
  local result = ev.result
  if opt.c or opt.C then count(call, result) end
  if not call.hidden then
    local failed = result < 0 and result > -4096
    local show = not want_status or (want_status == "failed") == failed
    local text = exit_text(call, result) .. ")"
    local head = call.text
    if call.begun then
      if unfinished == call then
        unfinished = nil
      else
        head = ("<... %s resumed>"):format(call.info.name)
        interrupt_line()
        out:write(prefix(ev.tid), head)
      end
    elseif show then
      interrupt_line()
      out:write(prefix(ev.tid), head)
    end
    if show then
      local took = opt.T and (" <%.6f>"):format(kit.clock() - call.start) or ""
      out:write(text, (" "):rep(39 - #head - #text), " = ", decode:result(call.info, result), took, "\n")
    end
    out:flush()
  end
  track_paths(call, result)
end)

-- ---- signals, children, the end ------------------------------------------------------------------------------------

local codes = {SIGCHLD = {"CLD_EXITED", "CLD_KILLED", "CLD_DUMPED", "CLD_TRAPPED", "CLD_STOPPED", "CLD_CONTINUED"},
  SIGSEGV = {"SEGV_MAPERR", "SEGV_ACCERR"}, SIGBUS = {"BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR"},
  SIGILL = {"ILL_ILLOPC", "ILL_ILLOPN"}, SIGTRAP = {"TRAP_BRKPT", "TRAP_TRACE"}}
local sent = {[0] = "SI_USER", [-1] = "SI_QUEUE", [-2] = "SI_TIMER", [-6] = "SI_TKILL", [128] = "SI_KERNEL"}

local function siginfo(ev)
  local code = sent[ev.code] or codes[ev.name] and codes[ev.name][ev.code] or tostring(ev.code)
  local text = ("{si_signo=%s, si_code=%s"):format(ev.name, code)
  local info = ev.siginfo
  if ev.code > 0 and ev.code ~= 128 and ev.name ~= "SIGCHLD" then return ("%s, si_addr=%s}"):format(text, decoder.address(ev.addr)) end
  if ev.code == 128 or ev.code == -2 or not info then return text .. "}" end
  local pid, uid, status, utime, stime = string.unpack("<i4I4i4i4i8", info, 17)
  text = ("%s, si_pid=%d, si_uid=%d"):format(text, pid, uid)
  if ev.name ~= "SIGCHLD" then return text .. "}" end
  local shown = ev.code == 1 and tostring(status) or kit.signal_name(status)
  return ("%s, si_status=%s, si_utime=%d, si_stime=%d}"):format(text, shown, utime, stime)
end

emu:on("signal", function(ev)
  if not traced(ev) or not want_signal((ev.name:gsub("^SIG", ""))) then return end
  line(ev.tid, ("--- %s %s ---"):format(ev.name, siginfo(ev)))
end)

emu:on("fork", function(ev)
  several = true
  if opt.f and not opt.o and not opt.c then
    interrupt_line()
    out:write(("strace: Process %d attached\n"):format(ev.child))
    out:flush()
  end
end)

emu:on("thread", function(ev)
  if ev.created and ev.child ~= root then several = true
  elseif not ev.created and opt.f and ev.child ~= root then line(ev.child, "+++ exited with 0 +++") end
end)

local function summary()
  local list, total = {}, {calls = 0, errors = 0, seconds = 0}
  for _, s in pairs(stats) do
    list[#list + 1] = s
    for k, v in pairs(total) do total[k] = v + s[k] end
  end
  table.sort(list, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return a.name < b.name
  end)
  local row = "%6.2f %11.6f %11d %9d %9s %s\n"
  out:write("% time     seconds  usecs/call     calls    errors syscall\n",
    "------ ----------- ----------- --------- --------- ----------------\n")
  local function put(s, share)
    local each = s.calls > 0 and s.seconds * 1000000 // s.calls | 0 or 0
    out:write(row:format(share, s.seconds, each, s.calls, s.errors > 0 and s.errors or "", s.name))
  end
  for _, s in ipairs(list) do put(s, total.seconds > 0 and 100 * s.seconds / total.seconds or 0) end
  out:write("------ ----------- ----------- --------- --------- ----------------\n")
  total.name = "total"
  put(total, 100)
end

emu:on("exit", function(ev)
  if not opt.f and emu.pid ~= root then return end
  if ev.signo > 0 then line(ev.tid, ("+++ killed by %s +++"):format(kit.signal_name(ev.signo)))
  else line(ev.tid, ("+++ exited with %d +++"):format(ev.status)) end
  if (opt.c or opt.C) and emu.pid == root then summary() end
  out:flush()
end)

emu:run()
