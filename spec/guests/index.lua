-- Every run of a guest program that the specs make, and what it must give. One row a run:
--   name    the program; build/guests/ARCH/NAME
--   args    list of arguments (default none)      stdin  its input (default empty)
--   env     list of "NAME=value" (default {"LANG=C"}; nothing else is passed on)
--   out     exact standard output (default "ok\n"); false: not fixed, see `why`
--   err     exact standard error (default ""); false: not fixed
--   status  exit status (default 0); 128 + N: killed by signal N
--   links   {"static", "dyn"} (default), or fewer; "pie" for assembly guests
--   arch    list of architectures (default every one)
--   stable  false: instruction counts, addresses or interleaving differ from run to run
--   qemu    a sentence: how qemu-user differs from the kernel; a native build is the judge then
--   insns   instructions retired (by hand, or by qemu-riscv64 -singlestep -d nochain,exec)
--   tags    set of what it exercises, to choose from: threads, fork, signals, files, memory, fp, slow ...
local M = {}

local function tags(text)
  local set = {}
  for tag in text:gmatch("%S+") do set[tag] = true end
  return set
end

local RV64, X64, ASM = {"rv64"}, {"x64"}, {"static"}

M.runs = {
  {name = "planes", arch = X64, out = false, why = "as wide as the machine", tags = tags "basic"},
  -- start, arguments, end
  {name = "hello", out = "hello, world\n", tags = tags "basic"},
  {name = "asm_hello", arch = RV64, links = {"static", "pie"}, out = "hello, world\n", status = 7, insns = 16,
   tags = tags "basic asm"},
  {name = "exitcode", args = {"42"}, out = "atexit\n", status = 42, tags = tags "exit"},
  {name = "exitcode", args = {"256"}, out = "atexit\n", tags = tags "exit"},
  {name = "exitcode", args = {"-1", "exit"}, out = "atexit\n", status = 255, tags = tags "exit"},
  {name = "exitcode", args = {"7", "_exit"}, out = "", status = 7, tags = tags "exit"},
  {name = "exitcode", args = {"8", "quick_exit"}, out = "", status = 8, tags = tags "exit"},
  {name = "args", args = {"", "a b", "--", "-x", "ü"},
   out = "argc = 6\nargv[1] = <>\nargv[2] = <a b>\nargv[3] = <-->\nargv[4] = <-x>\nargv[5] = <ü>\nenv <LANG=C>\nok\n",
   tags = tags "start"},
  {name = "args", env = {"A=1", "EMPTY=", "B=x y"}, out = "argc = 1\nenv <A=1>\nenv <EMPTY=>\nenv <B=x y>\nok\n",
   qemu = "qemu-user 7.2 reverses the order of the environment", tags = tags "start"},
  {name = "auxv", tags = tags "start"},
  {name = "procself", stable = false, tags = tags "start files"},
  {name = "procviews", stable = false, tags = tags "start files threads",
   qemu = "qemu-user shows itself in status, limits, environ, task and fd"},
  {name = "identity", stable = false, err = false, tags = tags "process fork"},

  -- calls
  {name = "fib", out = "fib(20) = 6765\n", tags = tags "basic calls"},
  {name = "fib", args = {"15"}, out = "fib(15) = 610\n", tags = tags "basic calls"},
  {name = "intercept", out = "4 21 42 61\n10\n", tags = tags "calls"},
  {name = "badmem", out = "hello 5\n", tags = tags "calls"},
  {name = "callptr", out = "acc = -719528\nok\n", tags = tags "calls"},
  {name = "longjmp", tags = tags "calls signals"},
  {name = "throws", out = "4950 0 5061 37 13122 18500 2\n", stable = false, tags = tags "calls threads"},
  {name = "tailcall", tags = tags "calls"},
  {name = "recurse", tags = tags "calls"},
  {name = "bigstack", tags = tags "calls memory threads"},
  {name = "loop", out = "652cf958c2958ad6\n", tags = tags "speed"},
  {name = "demo", out = "60000 words, 546 of them distinct\n  5372 kaka\n  2219 kakaka\n  1825 kara\n  1782 kami\n"
    .. "  1780 luka\n", tags = tags "calls"},
  {name = "watched", out = "1122334455667788\n", tags = tags "watch"},

  -- instructions
  {name = "insnmix", arch = RV64, links = ASM, out = "ace304bc0c2b5733\n", insns = 39343, tags = tags "asm fp"},
  {name = "bitmanip", arch = RV64, links = ASM, out = "", tags = tags "asm"},
  {name = "divzero", arch = RV64, links = ASM, out = "", tags = tags "asm"},
  {name = "lrsc", arch = RV64, links = ASM, out = "", tags = tags "asm atomics"},
  {name = "divide", tags = tags "integer"},
  {name = "misaligned", arch = RV64, tags = tags "memory"},
  {name = "fpbits", arch = RV64, tags = tags "fp"},
  {name = "fpprint", out = false, tags = tags "fp"},
  {name = "atomics", stable = false, tags = tags "atomics threads"},
  {name = "selfmod", arch = RV64, tags = tags "code"},

  -- memory
  {name = "memory", stable = false, tags = tags "memory fork files"},
  {name = "noreplace", qemu = "qemu-user 7.2 ignores MAP_FIXED_NOREPLACE", tags = tags "memory"},
  {name = "hugemap", qemu = "qemu-user 7.2 takes seconds over it: it walks every page", tags = tags "memory"},
  {name = "heap", stable = false, tags = tags "memory threads"},

  -- threads and processes
  {name = "threads", stable = false, tags = tags "threads"},
  {name = "manythreads", stable = false, tags = tags "threads"},
  {name = "stress", stable = false, tags = tags "threads"},
  {name = "manythreads", args = {"500"}, stable = false, tags = tags "threads slow"},
  {name = "forks", out = "10 children\nok\n", stable = false, tags = tags "fork"},
  {name = "forks", args = {"3"}, out = "3 children\nok\n", stable = false, tags = tags "fork"},
  {name = "spawn", args = {"$GUEST/exitcode"}, stable = false, tags = tags "fork exec",
   qemu = "qemu-user makes a plain fork of CLONE_VM|CLONE_VFORK, so a failed exec is not seen in the parent"},
  {name = "execs", args = {"$GUEST/args", "x", "y z"},
   out = "argc = 3\nargv[1] = <x>\nargv[2] = <y z>\nenv <FRESH=yes>\nok\n", tags = tags "exec",
   qemu = "the wrapper script that lets qemu-user exec a riscv64 file adds to the environment"},
  {name = "execs", args = {"$GUEST/exitcode", "9", "_exit"}, out = "", status = 9, tags = tags "exec"},
  {name = "execs", args = {"/does/not/exist"}, out = "", status = 1, err = "execve: No such file or directory\n",
   tags = tags "exec"},
  {name = "script", args = {"$GUEST/args"}, tags = tags "exec files", out = "argc = 6\nargv[1] = <one word>\n"
    .. "argv[2] = <./a-script>\nargv[3] = <two>\nargv[4] = <>\nargv[5] = <three>\nenv <LANG=C>\nok\n",
    qemu = "the wrapper script that lets qemu-user exec a riscv64 file adds to the environment"},
  {name = "futexes", stable = false, tags = tags "threads fork time"},
  {name = "threadfork", status = 23, stable = false, tags = tags "threads fork",
    qemu = "qemu-user 7.2 fails an assertion when a thread other than the first forks"},
  {name = "stop_cont", stable = false, tags = tags "fork signals"},

  -- signals
  {name = "signals", stable = false, tags = tags "signals threads fork"},
  {name = "sigfix", tags = tags "signals memory"},
  {name = "sigstack", stable = false, tags = tags "signals calls"},
  {name = "sigedit", arch = RV64, tags = tags "signals"},
  {name = "sigframe_x64", arch = X64, tags = tags "signals"},
  {name = "legacy_calls", arch = X64, tags = tags "files fork"},
  {name = "timers", stable = false, tags = tags "signals time"},
  {name = "alarm_spin", stable = false, tags = tags "signals"},
  {name = "promptly", stable = false, tags = tags "signals time"},
  {name = "thread_signals", stable = false, tags = tags "signals threads"},
  {name = "sig_calls", stable = false, tags = tags "signals time fork"},
  {name = "sig_queue", stable = false, tags = tags "signals threads fork",
   qemu = "qemu-user 7.2 hangs: SIGSEGV and kin, blocked and sent by kill, do not wait for sigwaitinfo"},
  {name = "sig_alt", stable = false, tags = tags "signals fork",
   qemu = "qemu-user 7.2 does not know SS_AUTODISARM"},
  {name = "sig_cancel", stable = false, tags = tags "signals threads time"},
  {name = "sig_storm", stable = false, tags = tags "signals threads fork time"},
  {name = "sig_storm", args = {"20"}, stable = false, tags = tags "signals threads fork time slow"},
  {name = "proc_clone", stable = false, tags = tags "fork signals",
   qemu = "qemu-user 7.2 has no clone3, and makes a plain fork of vfork"},
  {name = "proc_futex", stable = false, tags = tags "threads fork time",
   qemu = "qemu-user 7.2 dies over a misaligned futex and loses robust locks between processes"},
  {name = "proc_exec", stable = false, tags = tags "exec fork signals threads",
   qemu = "qemu-user 7.2 cannot exec a riscv64 program without binfmt_misc"},

  -- input and output
  {name = "cat", out = "", err = "0 bytes\n", tags = tags "io"},
  {name = "cat", stdin = ("some input\n"):rep(2000), out = ("some input\n"):rep(2000), err = "22000 bytes\n",
   tags = tags "io"},
  {name = "files", stable = false, tags = tags "files"},
  {name = "fds", stable = false, tags = tags "files io"},
  {name = "kernelmisc", stable = false, tags = tags "files fork"},
  {name = "gone_pages", tags = tags "files memory", qemu = "qemu-user 7.2 fails an assertion"},
  {name = "ipc", stable = false, tags = tags "files fork io memory",
   qemu = "qemu-user 7.2 has neither epoll_pwait2 nor openat2, and refuses buffers that are mapped only in part"},
  {name = "pipes", stable = false, tags = tags "fork io"},
  {name = "sockets", stable = false, tags = tags "threads io"},
  {name = "polling", stable = false, tags = tags "io signals"},
  {name = "clocks", stable = false, tags = tags "time"},
}

-- Deaths. Whether and what kitlua says of them on stderr is not a guest's business.
local function dies(name, how, signal, more)
  local run = {name = name, args = {how}, out = "before\n", err = false, status = 128 + signal, tags = tags "dies"}
  for key, value in pairs(more or {}) do run[key] = value end
  M.runs[#M.runs + 1] = run
end

local SIGILL, SIGTRAP, SIGABRT, SIGSEGV = 4, 5, 6, 11
for signal = 1, 64 do -- all that end a process: not CHLD CONT STOP TSTP TTIN TTOU URG WINCH, nor libc's 32 and 33
  local spared = signal >= 17 and signal <= 23 or signal == 28 or signal == 32 or signal == 33
  if not spared then
    dies("die", tostring(signal), signal, {links = {"static"},
      qemu = signal > 33 and "qemu-user 7.2 turns real-time signal N into the host's N + 2" or nil})
  end
end
for _, spared in ipairs {"17", "18", "23", "28"} do
  M.runs[#M.runs + 1] = {name = "die", args = {spared}, out = "before\nsurvived\n", tags = tags "signals"}
end
for how in ("store load high kernel noncanonical rodata jump noexec stack thread"):gmatch("%S+") do
  dies("die", how, SIGSEGV)
end
dies("die", "abort", SIGABRT)
dies("die", "trap", SIGTRAP, {arch = RV64})
dies("die_rv64", "illegal", SIGILL, {arch = RV64})
dies("die_rv64", "zero", SIGILL, {arch = RV64})
dies("die_rv64", "csr", SIGILL, {arch = RV64})
dies("die_rv64", "ebreak", SIGTRAP, {arch = RV64})
dies("die_rv64", "edge", SIGSEGV, {arch = RV64})

for _, run in ipairs(M.runs) do
  run.args, run.stdin, run.env = run.args or {}, run.stdin or "", run.env or {"LANG=C"}
  if run.out == nil then run.out = "ok\n" end
  if run.err == nil then run.err = "" end
  run.status, run.links = run.status or 0, run.links or {"static", "dyn"}
end

-- The path under build/guests of one run, linked as `link` says, and a title that is unique to both.
function M.program(run, arch, link)
  return arch .. "/" .. run.name .. (link == "static" and "" or "-" .. link)
end

-- The arguments of a run; $GUEST in them stands for the directory where a guest finds guests to execute.
function M.args(run, guest_dir)
  local args = {}
  for i, arg in ipairs(run.args) do args[i] = arg:gsub("%$GUEST", (guest_dir:gsub("%%", "%%%%"))) end
  return args
end

function M.title(run, link)
  return table.concat({run.name .. "(" .. link .. ")", table.unpack(run.args)}, " ")
end

-- Calls f(run, link) for each run that exists for `arch` and for which `want(run)`, when given, is true.
function M.each(arch, f, want)
  for _, run in ipairs(M.runs) do
    local here = not run.arch
    for _, name in ipairs(run.arch or {}) do here = here or name == arch end
    if here and (not want or want(run)) then
      for _, link in ipairs(run.links) do f(run, link) end
    end
  end
end

return M
