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
--   qemu    a sentence: how and why qemu-user differs, when it is not to be compared
--   insns   instructions retired, where that can be counted by hand
--   tags    set of what it exercises, to choose from: threads, fork, signals, files, memory, fp, slow ...
local M = {}

local function tags(text)
  local set = {}
  for tag in text:gmatch("%S+") do set[tag] = true end
  return set
end

M.runs = {
  {name = "hello", out = "hello, world\n", tags = tags "basic"},
  {name = "asm_hello", arch = {"rv64"}, links = {"static", "pie"}, out = "hello, world\n", status = 7, insns = 16,
   tags = tags "basic asm"},
  {name = "fib", out = "fib(20) = 6765\n", tags = tags "basic calls"},
  {name = "fib", args = {"15"}, out = "fib(15) = 610\n", tags = tags "basic calls"},
  {name = "callptr", out = "acc = -719528\nok\n", tags = tags "calls"},
  {name = "longjmp", tags = tags "calls signals"},
  {name = "tailcall", tags = tags "calls"},
  {name = "recurse", tags = tags "calls"},
  {name = "exitcode", args = {"42"}, out = "atexit\n", status = 42, tags = tags "exit"},
  {name = "exitcode", args = {"256"}, out = "atexit\n", tags = tags "exit"},
  {name = "exitcode", args = {"-1", "exit"}, out = "atexit\n", status = 255, tags = tags "exit"},
  {name = "exitcode", args = {"7", "_exit"}, out = "", status = 7, tags = tags "exit"},
  {name = "exitcode", args = {"8", "quick_exit"}, out = "", status = 8, tags = tags "exit"},
  {name = "cat", out = "", err = "0 bytes\n", tags = tags "io"},
  {name = "cat", stdin = ("some input\n"):rep(2000), out = ("some input\n"):rep(2000), err = "22000 bytes\n",
   tags = tags "io"},
  {name = "args", args = {"", "a b", "--", "-x", "ü"}, env = {"A=1", "EMPTY=", "B=x y"},
   out = "argc = 6\nargv[1] = <>\nargv[2] = <a b>\nargv[3] = <-->\nargv[4] = <-x>\nargv[5] = <ü>\n"
     .. "env <A=1>\nenv <EMPTY=>\nenv <B=x y>\nok\n", tags = tags "start"},
  {name = "auxv", tags = tags "start"},
  {name = "threads", stable = false, tags = tags "threads"},
  {name = "forks", out = "10 children\nok\n", tags = tags "fork"},
  {name = "forks", args = {"3"}, out = "3 children\nok\n", tags = tags "fork"},
  {name = "loop", out = "652cf958c2958ad6\n", tags = tags "speed"},
  {name = "watched", out = "1122334455667788\n", tags = tags "watch"},
}

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

-- The arguments of a run; $BUILD in them stands for the build directory.
function M.args(run, build)
  local args = {}
  for i, arg in ipairs(run.args) do args[i] = arg:gsub("%$BUILD", build) end
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
