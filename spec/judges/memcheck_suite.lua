-- Valgrind's own tests of Memcheck, under Valgrind (without undefined values) and under memcheck.lua: are the reports the same?
--   lua5.4 spec/judges/memcheck_suite.lua [NAME...]      below $BUILD/judges/memcheck; the sources are fetched by fetch.sh
-- For each test one line: same, differs (NAME.diff says how), other (no program, or neither side says anything). Reports are
-- compared without process ids, addresses, and which file or object a frame of a library is in.
local build = os.getenv("BUILD") or "build"
local tests = build .. "/src/valgrind-memcheck/memcheck/tests/"
local out = build .. "/judges/memcheck/"
local M = {}

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function run(format, ...) return (os.execute(format:format(...))) end

-- What of a .vgtest matters here.
function M.parse(text)
  local t = {opts = {}, args = ""}
  for line in text:gmatch("[^\n]+") do
    local key, value = line:match("^(%w+):%s*(.-)%s*$")
    if key == "prog" then t.prog = value elseif key == "args" then t.args = value
    elseif key == "vgopts" then t.opts[#t.opts + 1] = value end
  end
  t.opts = table.concat(t.opts, " ")
  return t
end

-- Options that both sides know.
local known = {"leak%-check", "show%-leak%-kinds", "show%-reachable", "leak%-check%-heuristics", "num%-callers", "freelist%-vol",
  "freelist%-big%-blocks", "malloc%-fill", "free%-fill", "partial%-loads%-ok", "show%-mismatched%-frees", "redzone%-size",
  "errors%-for%-leak%-kinds", "run%-libc%-freeres"}
local function options(text)
  local list = {"-q"}
  for word in text:gmatch("%S+") do
    for _, name in ipairs(known) do
      if word:match("^%-%-" .. name .. "=") then list[#list + 1] = word end
    end
  end
  return table.concat(list, " ")
end

-- The report, comparable.
function M.plain(text, prog)
  local lines = {}
  for line in text:gmatch("[^\n]*") do
    local report = line:match("^==%d+== ?(.*)")
    if report then
      report = report:gsub("0x%x+", "0x"):gsub(" %(in .-%)$", "")
      if not report:find("(" .. prog .. ".c", 1, true) then report = report:gsub(" %([%w_./+-]+:%d+%)$", "") end
      lines[#lines + 1] = report
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

local function compile(name)
  if read(out .. name) then return true end
  for _, source in ipairs{{".c", "gcc"}, {".cpp", "g++"}, {".cc", "g++"}} do
    local path = tests .. name .. source[1]
    if read(path) then
      return run("%s -w -g -O0 -fno-builtin -pthread -I%s -I%s.. -I%s../../include -o %s %s -lm -ldl >%s.log 2>&1", source[2],
        tests, tests, tests, out .. name, path, out .. name)
    end
  end
  return false
end

function M.judge(name)
  local t = M.parse(read(tests .. name .. ".vgtest"))
  if not t.prog or not compile(t.prog:match("[^/]+$")) then return "other" end
  local prog = t.prog:match("[^/]+$")
  local function one(command, to)
    run("cd %s && timeout -k 2 60 %s %s %s >%s.out 2>%s </dev/null", tests, command, out .. prog, t.args, to, to)
    return M.plain(read(to) or "", prog)
  end
  local opts = options(t.opts)
  local theirs = one("valgrind --undef-value-errors=no " .. opts, out .. name .. ".valgrind")
  local ours = one(build .. "/kitlua memcheck " .. opts .. " --", out .. name .. ".kitlua")
  if theirs == ours then return #theirs > 1 and "same" or "silent" end
  write(out .. name .. ".a", theirs)
  write(out .. name .. ".b", ours)
  run("diff -u %s.a %s.b >%s.diff", out .. name, out .. name, out .. name)
  return "differs"
end

function M.names()
  local list = {}
  for path in io.popen("ls " .. tests .. "*.vgtest"):lines() do list[#list + 1] = path:match("([^/]+)%.vgtest$") end
  return list
end

function M.main(names)
  build = io.popen("cd " .. build .. " && pwd"):read("l")
  tests, out = build .. "/src/valgrind-memcheck/memcheck/tests/", build .. "/judges/memcheck/"
  run("mkdir -p %s", out)
  local counts = {}
  for _, name in ipairs(#names > 0 and names or M.names()) do
    local verdict = M.judge(name)
    counts[verdict] = (counts[verdict] or 0) + 1
    print(verdict, name)
    io.stdout:flush()
  end
  for verdict, n in pairs(counts) do print(n, verdict) end
end

if arg and arg[0]:match("memcheck_suite.lua$") then M.main(arg) end

return M
