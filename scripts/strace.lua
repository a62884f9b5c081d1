-- strace: system calls and signals, as strace prints them.
--   kitlua strace -- ls -l
--   kitlua strace -f -e trace=%file -o trace.txt -- ./prog
local kit = require "kit"
local options = require "kit.options"
local decoder = require "kit.decode"
local calls = require "kit.calls"
local siginfo = require "kit.siginfo"
local tally = require "kit.tally"

-- A program that a traced one executed comes back here with --continued=PID,FILE: the process where tracing began, and its output.
local words = {...}
local first, file = (words[1] or ""):match("^%-%-continued=(%d+),(.*)$")
if first then table.remove(words, 1) end

local opt = options.parse(words, {
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

-- The output by a name that is still good when the guest has gone to another folder.
local function lasting(name)
  if name:sub(1, 1) == "/" then return name end
  local pwd <close> = assert(io.popen("pwd"))
  return pwd:read("l") .. "/" .. name
end

local function own_pid()
  local stat <close> = assert(io.open("/proc/self/stat"))
  return stat:read("n")
end

-- strace goes on after an exec, whether --trace-children was given or not.
local root = math.tointeger(first) or own_pid()
local again = kit.options.reexec
if kit.options.trace_children then again = table.move(again, 1, #again - #arg - 1, 1, {}) end
again[#again + 1] = lasting(debug.getinfo(1, "S").source:sub(2)) -- this file, whatever folder the program is in by then
again[#again + 1] = ("--continued=%d,%s"):format(root, first and file or opt.o and lasting(opt.o) or "")
kit.options.reexec, kit.options.trace_children = table.move(words, 1, #words, #again + 1, again), true

local emu <close> = assert(kit.open(kit.command))
if not opt.f and emu.pid ~= root then -- a child's exec: not asked for
  emu:run()
  return
end

-- Opened now, when files have got numbers that the guest does not see.
local out = io.stderr
if opt.o then
  local message
  if not first then -- what children append must not be written over
    local new = io.open(opt.o, "w")
    if new then new:close() end
  end
  out, message = io.open(first and file or opt.o, "a")
  if not out then options.fail("strace: cannot write the trace: %s", message) end
end
out:setvbuf("full", 65536)

local decode = decoder.new(emu, {strings = opt.s, verbose = opt.v})

-- ---- which calls and signals ---------------------------------------------------------------------------------

-- All names that a call may be chosen by, so that a misspelt one is not taken for one that is never called.
local function known_calls()
  local known = {}
  for nr = 0, 1023 do
    local info = emu:syscall_info(nr)
    if info then
      known[info.name] = true
      for class in info.classes:gmatch("%S+") do known[class] = true end
    end
  end
  return known
end

local function known_signals()
  local known = {}
  for signo = 1, 64 do known[kit.signal_name(signo):gsub("^SIG", "")] = true end
  return known
end

-- A function that tells whether the list names a call (or signal). `?name` may be unknown.
local function member(list, known, what)
  local negated = list:sub(1, 1) == "!"
  local names, classes, patterns = {}, {}, {}
  for word in list:gsub("^!", ""):gmatch("[^,]+") do
    local optional = word:sub(1, 1) == "?"
    if optional then word = word:sub(2) end
    if known and not optional and not known[word] and word ~= "all" and word ~= "none" and word:sub(1, 1) ~= "/" then
      options.fail("strace: there is no %s '%s'", what, word)
    end
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
  if key == "trace" or key == "t" then want_call = member(list, known_calls(), "system call or class")
  elseif key == "signal" or key == "s" then want_signal = member(list:gsub("%f[%a]SIG", ""), known_signals(), "signal")
  elseif key == "status" and (list == "successful" or list == "failed") then want_status = list
  elseif key == "status" then options.fail("strace: -e status= is one of successful, failed, not '%s'", list)
  else options.fail("strace: -e %s= is not supported (trace, signal, status)", key) end
end

-- ---- output -----------------------------------------------------------------------------------------------------

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

local several = emu.pid ~= root -- ids are shown on stderr once there is more than one
local stamped = opt.t or opt.tt or opt.ttt or opt.r
local function prefix(tid, now)
  local id = ""
  if opt.f and opt.o then id = ("%-5d "):format(tid)
  elseif opt.f and several then id = ("[pid %5d] "):format(tid) end
  return stamped and id .. stamp(now or kit.clock()) or id
end

-- A call's line is begun at its entry and ended at its exit; if another thread's line comes between, it is cut in two, "<unfinished
-- ...>" and "<... resumed>". Processes that were forked write to the same file and know nothing of each other's lines, so where there
-- are several, a line is held until it is whole.
local states = {} -- by process: pending, the call that each thread is in; open_line, the call whose line is begun; counts; status
local shared_counts = (opt.c or opt.C) and tally.file()
local here = {pid = emu.pid, pending = {}, counts = tally.new()}
local family = several -- there are other processes
states[emu.pid] = here

-- Each hook begins here: in a forked child, what its parent had begun is not its own. (A child of vfork shares all this with its parent.)
local function enter_process()
  local pid = emu.pid
  if pid == here.pid then return end
  local known = states[pid]
  here, several, family = known or {pid = pid, pending = {}, counts = tally.new()}, true, true
  states[pid] = here
  if not known and opt.f and not opt.o and not opt.c then
    out:write(("strace: Process %d attached\n"):format(pid))
    out:flush()
  end
end

local function cut_lines()
  if here.open_line then
    out:write(" <unfinished ...>\n")
    here.open_line.cut = true
    here.open_line = nil
  end
  for _, call in pairs(here.pending) do
    if call.held then
      out:write(call.held, " <unfinished ...>\n")
      call.held, call.cut = nil, true
    end
  end
end

local function line(tid, text)
  if opt.c then return end
  cut_lines()
  out:write(prefix(tid), text, "\n")
  out:flush()
end

local function begin_line(call, hold)
  local head = prefix(call.tid) .. call.text
  call.column = #head
  if hold or family then
    call.held = head
    return
  end
  cut_lines()
  out:write(head)
  if not opt.o then out:flush() end -- somebody may be watching
  here.open_line = call
end

local blanks = {}
for n = 1, 39 do blanks[n] = (" "):rep(n) end

local function end_line(call, text, tail)
  local head = call.held
  call.held = nil
  if here.open_line == call then
    here.open_line = nil
  elseif not head or call.cut then
    cut_lines()
    head = prefix(call.tid) .. (call.cut and ("<... %s resumed>"):format(call.info.name) or call.text)
  end
  text = text .. ")"
  local gap = 39 - (head and #head or call.column) - #text
  out:write(head or "", text, gap > 0 and blanks[gap] or "", " = ", tail, "\n")
  out:flush()
end

-- ---- calls ------------------------------------------------------------------------------------------------------

local paths = {}
if opt.y then decode.fd_text = function(fd) return paths[fd] and ("%d<%s>"):format(fd, paths[fd]) or ("%d"):format(fd) end end

local function unknown_call(nr)
  local info = {name = ("syscall_%#x"):format(nr), args = {}, ret = "int", classes = ""}
  for i = 1, 6 do info.args[i] = {kind = "hex", name = ""} end
  return info
end

-- Looked up once: what is wanted of a call, and how its arguments and result are shown.
local function plan(info)
  local own, late = calls.arg[info.name] or {}, {}
  info.whole, info.before, info.own_result = calls.whole[info.name], calls.before[info.name], calls.result[info.name]
  info.late, info.show = late, {}
  for i, a in ipairs(info.args) do
    local one = own[i]
    late[i] = decoder.late[a.kind]
    if one then
      late[i] = one.late
      info.show[i] = function(call, result) return one.fn(decode, call.args[i], call.args, result, call.before) end
    else
      local fn = decoder.decoder_of(info, i)
      info.show[i] = function(call, result) return fn(decode, call.args[i], a, call.args, result) end
    end
  end
  info.plain_result = info.ret ~= "hex" and info.ret ~= "mode" and not (info.ret == "fd" and decode.fd_text)
end

local infos = {}
local function info_of(nr)
  local info = infos[nr]
  if info == nil then
    info = emu:syscall_info(nr) or unknown_call(nr)
    info.wanted = want_call(info.name, info.classes)
    plan(info)
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

-- Arguments up to the first that only the end of the call knows.
local function entry_text(call)
  local info = call.info
  local n, show, late = #info.args, info.show, info.late
  if info.before then call.before = info.before(decode, call.args) end
  local whole = info.whole and info.whole(decode, call.args, info)
  if whole then
    call.next = n + 1
    return whole
  end
  local text, i = "", 1
  while i <= n and not late[i] do
    local one = show[i](call) -- nil where the list ends before it, false where it is left out
    if one == nil then i = n end
    if one then text = text == "" and one or text .. ", " .. one end
    i = i + 1
  end
  call.next = i
  call.comma = text ~= "" and i <= n and ", " or ""
  return text
end

local function exit_text(call, result)
  local info, text = call.info, ""
  for i = call.next, #info.args do
    local one = info.show[i](call, result)
    if one == nil then break end
    if one then text = text == "" and one or text .. ", " .. one end
  end
  return text ~= "" and call.comma .. text or text
end

local EINTR, ERESTARTSYS = 4, 512
local function result_text(call, result)
  local info = call.info
  if result >= 0 and info.plain_result and not info.own_result then return ("%d"):format(result) end
  local name = info.name
  if result == -ERESTARTSYS or result == -EINTR and calls.interrupted[name] then
    return "? " .. (calls.interrupted[name] or calls.interrupted.read)
  end
  local own = result >= 0 and info.own_result
  return own and own(decode, result, call.args) or decode:result(call.info, result)
end

local function traced(ev)
  return opt.f or ev.tid == root
end

local no_return = {exit = true, exit_group = true}
local forks = {clone = true, clone3 = true, fork = true, vfork = true}

emu:on("syscall", function(ev)
  enter_process()
  if not traced(ev) then return end
  local info = info_of(ev.nr)
  if not info.wanted then return end
  local call = {info = info, args = ev.args, tid = ev.tid, start = (opt.T or opt.c or opt.C) and kit.clock() or 0}
  here.pending[ev.tid] = call
  if opt.c or not names_path(call) then
    call.hidden = true
    return
  end
  call.text = info.name .. "(" .. entry_text(call)
  if want_status then return end -- shown when it is known whether it succeeds
  if no_return[info.name] then
    call.column = 0
    end_line(call, "", "?")
    here.status = ev.args[1] & 255
    here.pending[ev.tid] = nil
  else
    begin_line(call, forks[info.name] or info.name == "execve")
  end
end)

local function track_paths(call, result)
  if not (opt.y or opt.P) or result < 0 then return end
  local name = call.info.name
  if name == "openat" then paths[result] = emu.mem:cstring(call.args[2])
  elseif name == "close" then paths[call.args[1]] = nil end
end

emu:on("sysret", function(ev)
  enter_process()
  local call = here.pending[ev.tid]
  here.pending[ev.tid] = nil
  if not call then return end -- the child's side of a fork
  local result = ev.result
  local failed = result < 0 and result > -4096
  if opt.c or opt.C then here.counts:add(call.info.name, kit.clock() - call.start, failed) end
  if not call.hidden then
    if not want_status or (want_status == "failed") == failed then
      local took = opt.T and (" <%.6f>"):format(kit.clock() - call.start) or ""
      end_line(call, exit_text(call, result), result_text(call, result) .. took)
    end
  end
  track_paths(call, result)
end)

-- ---- signals, children, the end ------------------------------------------------------------------------------------

emu:on("signal", function(ev)
  enter_process()
  if not traced(ev) or not want_signal((ev.name:gsub("^SIG", ""))) then return end
  line(ev.tid, ("--- %s %s ---"):format(ev.name, siginfo.text(ev.siginfo)))
end)

emu:on("fork", function(ev)
  enter_process()
  several, family = true, true
  local child = ev.vfork and states[ev.child] -- it has no exit hook
  if not child then return end
  here.counts:merge(child.counts)
  if child.status and opt.f then line(ev.child, ("+++ exited with %d +++"):format(child.status)) end
end)

emu:on("thread", function(ev)
  enter_process()
  if ev.created and ev.child ~= here.pid then
    several = true
    if opt.f and not opt.o and not opt.c then
      cut_lines()
      out:write(("strace: Process %d attached\n"):format(ev.child))
    end
  elseif not ev.created and opt.f and ev.child ~= here.pid then line(ev.child, "+++ exited with 0 +++") end
end)

-- Threads that the end of the process takes along, in whatever call they are.
local function other_threads_end(tid, how)
  local tids = {}
  for other in pairs(here.pending) do if other ~= tid then tids[#tids + 1] = other end end
  table.sort(tids)
  for _, other in ipairs(tids) do
    local call = here.pending[other]
    if not call.hidden and (call.cut or call.held or here.open_line == call) then end_line(call, "", "?") end
  end
  here.pending = {}
  for _, other in ipairs(tids) do line(other, how) end
end

emu:on("exit", function(ev)
  enter_process()
  if not opt.f and emu.pid ~= root then return end
  local how = ev.signo > 0 and ("+++ killed by %s +++"):format(kit.signal_name(ev.signo)) or ("+++ exited with %d +++"):format(ev.status)
  cut_lines()
  if opt.f then other_threads_end(ev.tid, how) end
  line(ev.tid, how)
  if (opt.c or opt.C) and emu.pid ~= root then here.counts:leave(shared_counts)
  elseif opt.c or opt.C then
    here.counts:take(shared_counts)
    here.counts:print(out)
  end
  out:flush()
end)

-- The exec that started this program, as its stack has it.
if not first and want_call("execve", "%file %process") then here.counts:add("execve", 0, false) end
if want_call("execve", "%file %process") and want_status ~= "failed" and not opt.c and not opt.P then
  local sp, program = emu.regs.sp, kit.command[1]
  local argc = emu.mem.u64[sp]
  local call = {info = {name = "execve"}, tid = emu.pid, text = "execve("}
  begin_line(call, true)
  end_line(call, ("%s, %s, %s"):format(decoder.quote(program:find("/") and program or emu.images[1].path), decode:strings_at(sp + 8),
    decode:environment(sp + 8 * (argc + 2))), "0")
end
emu:run()
