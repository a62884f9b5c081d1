-- Traces as text: what the spec of strace.lua compares. A trace (of strace itself or of strace.lua) becomes the lines of each process,
-- and in them what differs from run to run, and between x86-64 and riscv64, is masked.
--
--   local trace = text.parse(text_of_a_trace)   -- trace[1] = lines of the first process, trace[2] = of the next one ...
--   local lines = text.masked(trace)            -- one list, each process under a heading; start-up and allocation left out
local M = {}

-- Joins "x <unfinished ...>" and "<... x resumed>y" and sorts the lines by process, in order of appearance.
function M.parse(trace)
  local processes, by_pid, open = {}, {}, {}
  for line in trace:gmatch("[^\n]+") do
    local pid, rest = line:match("^(%d+) +(.*)$")
    if not pid then pid, rest = line:match("^%[pid +(%d+)%] (.*)$") end
    if not pid then pid, rest = "first", line end
    if not by_pid[pid] then
      by_pid[pid] = {pid = pid}
      processes[#processes + 1] = by_pid[pid]
    end
    local lines = by_pid[pid]
    local begun = rest:match("^(.*) <unfinished %.%.%.>$")
    local resumed = rest:match("^<%.%.%. [%w_]+ resumed>(.*)$")
    if begun then
      lines[#lines + 1] = begun
      open[pid] = #lines
    elseif resumed and open[pid] then
      lines[open[pid]] = lines[open[pid]] .. resumed
      open[pid] = nil
    elseif not rest:find("^strace: Process") then
      lines[#lines + 1] = rest
    end
  end
  processes.pids = by_pid
  return processes
end

local function with_cwd(name, extra)
  return function(a) return name, "AT_FDCWD, " .. a .. (extra or "") end
end

-- Calls that riscv64 does not have, in the form in which its C library makes them.
local modern = {
  access = with_cwd("faccessat"), readlink = with_cwd("readlinkat"), mkdir = with_cwd("mkdirat"), chmod = with_cwd("fchmodat"),
  unlink = with_cwd("unlinkat", ", 0"), rmdir = with_cwd("unlinkat", ", AT_REMOVEDIR"),
  symlink = function(a) return "symlinkat", (a:gsub('^(".-"), ', "%1, AT_FDCWD, ")) end,
  link = function(a) return "linkat", (a:gsub('^(".-"), (.*)$', "AT_FDCWD, %1, AT_FDCWD, %2, 0")) end,
  rename = function(a) return "renameat2", (a:gsub('^(".-"), (.*)$', "AT_FDCWD, %1, AT_FDCWD, %2, 0")) end,
  renameat = function(a) return "renameat2", a .. ", 0" end,
  dup2 = function(a) return "dup3", a .. ", 0" end,
  pipe = function(a) return "pipe2", a .. ", 0" end,
  epoll_wait = function(a) return "epoll_pwait", a .. ", NULL, 8" end,
  getpgrp = function() return "getpgid", "0" end,
  poll = function(a) return "ppoll", a end,
  clone3 = function() return "clone", "..." end,
  vfork = function() return "clone", "..." end,
}

local function modernise(line)
  local name, args, rest = line:match("^([%w_]+)%((.*)%)( += .*)$")
  if not modern[name] then return line end
  local new_name, new_args = modern[name](args)
  return ("%s(%s)%s"):format(new_name, new_args, rest)
end

-- pattern, what replaces it, in this order
local masks = {
  {" +(=) ", " %1 ", 1},
  {"^clone%(.*%) = ", "clone(...) = "},          -- with clone3 or without
  {"0x%x%x%x%x%x+", "ADDR"},
  {"/tmp/kitlua%-spec%.%w+", "DIR"},
  {"si_([us])time=%d+[^,}]*", "si_%1time=T"},    -- "1 /* 0.01 s */"
  {"SA_RESTORER|?", ""}, {", sa_restorer=ADDR", ""}, {"sa_flags=}", "sa_flags=0}"}, -- x86-64 only
  {"^(rt_sigreturn%(.*%)) = .*", "%1"},          -- shows a register
  {"^(ppoll%(.-)], (%d+), .-%) = ", "%1], %2, TIME) = "}, {"^ppoll%(NULL.-%) = ", "pause() = "}, {",? ?left {.-}", ""},
  {"tv_nsec=%d%d%d%d%d%d+", "tv_nsec=N"}, {"tv_sec=%d%d%d%d+", "tv_sec=N"}, {"tv_usec=%d%d%d%d+", "tv_usec=N"},
  {"htons%(%d%d%d%d+%)", "htons(PORT)"},
  {'^getrandom%(".-"', 'getrandom("..."'}, {"^(times%(){.-}%) = %d+", "%1...)"}, {"^(sysinfo%(){.-}", "%1..."},
  {"(f_%a+)=%d+", "%1=N"}, {"ru_(%a+)={.-}", "ru_%1=T"},
  {'^read%((%d+), ".-"..., 128%)', "read(%1, SIGINFO, 128)"},
  {"^(getpp?g?id%(%d?%)) = %d+", "%1 = PID"},
  {'^read%((%d+), "%x+%-%x+ r[^"]*"..., (%d+)%) = %d+', "read(%1, MAPS, %2)"}, -- /proc/self/maps
  {"si_overrun=%d+", "si_overrun=N"}, {"^(timer_getoverrun%(%d+%)) = %d+", "%1 = N"},
}

-- Lines that are there or not as the architecture, the vdso, or the moment of a signal has it.
local left_out = {"^brk%(", "^rseq%(", "^getcpu%(", "^clock_gettime%(", "^gettimeofday%(", "^time%(", "^alarm%(", "^setitimer%(ITIMER_REAL",
  "^wait4%(.* = %? ERESTARTSYS", "^%-%-%- SIGCHLD",
  '^read%(%d+, "\\%d\\0\\0\\0\\0\\0\\0\\0", 8%) = 8$'} -- of a timer: as often as it has gone off

local function mask(line, pids)
  line = modernise(line)
  for _, m in ipairs(masks) do line = line:gsub(m[1], m[2], m[3]) end
  line = line:gsub("%d%d%d+", function(n) return pids[n] and "PID" or nil end)
  for _, pattern in ipairs(left_out) do if line:find(pattern) then return nil end end
  return line
end

-- Everything up to the C library's mprotect of its read-only data is start-up.
local function masked_process(lines, pids, from_start)
  local out, begun = {}, not from_start
  for _, line in ipairs(lines) do
    if begun then out[#out + 1] = mask(line, pids) end
    begun = begun or line:find("^mprotect%(.*PROT_READ%)") ~= nil
  end
  return table.concat(out, "\n")
end

-- Children end in any order: theirs are sorted by what they do.
function M.masked(processes)
  local children = {}
  for i = 2, #processes do children[#children + 1] = masked_process(processes[i], processes.pids) end
  table.sort(children)
  table.insert(children, 1, masked_process(processes[1], processes.pids, true))
  return table.concat(children, "\n== another process\n") .. "\n"
end

return M
