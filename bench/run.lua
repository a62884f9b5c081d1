-- Running one command of the benchmark: whole-process CPU time by bench/cputime.c, output and status kept for comparison.
--
--   local run = require "bench.run"
--   local r = run.command("KITLUA -- PROGRAM", {program = "/path/fib 40", arch = "rv64", stdin = path})
--   r.seconds  r.status  r.out  r.err  r.rss (MiB)
local M = {}

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("a"):gsub("%s+$", "")
  pipe:close()
  return text
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

M.root = capture("pwd")
M.build = os.getenv("BUILD") or "build"
if M.build:sub(1, 1) ~= "/" then M.build = M.root .. "/" .. M.build end
M.dir = M.build .. "/bench"
M.work = M.dir .. "/work"
M.timeout = 600

-- What an architecture is called by the tools around it.
M.arch = {
  rv64 = {name = "riscv64", qemu = "qemu-riscv64", cc = "riscv64-linux-gnu-gcc"},
  x64 = {name = "x86-64", qemu = "qemu-x86_64", cc = "gcc"},
  aa64 = {name = "aarch64", qemu = "qemu-aarch64", cc = "aarch64-linux-gnu-gcc"},
}

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

function M.has(command)
  return capture("command -v " .. quote(command)) ~= ""
end

function M.exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

-- Makes files of bench/bench.mk, with whatever they are made from.
function M.make(files)
  local words = {"make -s --no-print-directory BUILD=" .. quote(M.build)}
  for _, file in ipairs(files) do words[#words + 1] = quote(file) end
  if not os.execute(table.concat(words, " ") .. " >&2") then error("bench: make failed", 0) end
end

-- The words of a command of bench/columns.def, its names replaced.
function M.expand(command, names)
  local values = {
    KITLUA = M.build .. "/kitlua", BENCH = M.root .. "/bench", ROOT = M.root, WORK = M.work, DIR = M.dir,
    QEMU = names.arch and M.arch[names.arch].qemu, PROGRAM = names.program, NATIVE = names.native,
  }
  return (command:gsub("%u+", values))
end

-- Where programs run: in memory, for a disk's journal costs now this, now that.
local scratch
local function folder()
  if not scratch then
    scratch = capture("mktemp -d -p /dev/shm kitlua-bench.XXXXXX 2>/dev/null")
    if scratch == "" then scratch = M.work .. "/run" end
  end
  return scratch .. "/cwd"
end

-- Removes what the runs left.
function M.clean()
  if scratch then os.execute("rm -rf " .. quote(scratch)) end
  scratch = nil
end

-- Runs a command in an empty folder of its own.
function M.command(command, names)
  local files, work = folder(), quote(M.work)
  local words = {}
  for word in M.expand(command, names):gmatch("%S+") do words[#words + 1] = quote(word) end
  local line = ("cd %s && LC_ALL=C %s/cputime %s/report %s %s/out %s/err %d %s"):format(
    quote(files), quote(M.dir), work, quote(names.stdin or "/dev/null"), work, work, M.timeout, table.concat(words, " "))
  os.execute(("rm -rf %s && mkdir -p %s %s"):format(quote(files), quote(files), work))
  assert(os.execute(line), "bench: cputime failed")
  local user, sys, rss, status = read(M.work .. "/report"):match("(%d+) (%d+) (%d+) (%d+)")
  return {
    seconds = (user + sys) / 1e6, rss = rss / 1024, status = math.tointeger(tonumber(status)),
    out = read(M.work .. "/out"), err = read(M.work .. "/err"),
  }
end

-- The least CPU time of n runs, which all must end with status 0; returns the last run with that time.
function M.least(n, command, names)
  local least = math.huge
  local r
  for _ = 1, n do
    r = M.command(command, names)
    if r.status ~= 0 then return nil, ("%s: status %d: %s"):format(M.expand(command, names), r.status, r.err:sub(1, 300)) end
    least = math.min(least, r.seconds)
  end
  r.seconds = least
  return r
end

-- Whether kitlua has this guest: it is asked to run a program that does nothing.
function M.has_guest(arch)
  M.make {M.dir .. "/" .. arch .. "/true"}
  return M.command("KITLUA -- PROGRAM", {program = M.dir .. "/" .. arch .. "/true"}).status == 0
end

function M.machine()
  local cpu = capture("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1")
  return ("%s, %s, Linux %s, kitlua %s"):format(os.date("!%Y-%m-%d"), cpu, capture("uname -r"),
    capture("git rev-parse --short HEAD 2>/dev/null; git diff --quiet HEAD 2>/dev/null || echo '(changed)'"):gsub("%s+", " "))
end

return M
