-- `make bench`: kitlua, native, qemu-user and Valgrind side by side over bench/programs.def, by the CPU time of whole process
-- trees, runs interleaved; prints ratios, means and bars, and writes them to doc/bench.txt.
--   lua5.4 bench/bench.lua --programs 'lua|fib' --rounds 1      make bench BENCH_ARGS='--arch rv64 --quick'
package.path = "lib/?.lua;?.lua;" .. package.path
local options = require "kit.options"
local run = require "bench.run"
local figures = require "bench.figures"
local micro = require "bench.micro"

local SPEC = {
  usage = "bench.lua [options]",
  about = "Whole-process CPU-time ratios. Run it from the top of the tree.",
  {"arch", "rv64,x64,aa64", "architectures; default: those that kitlua has guests for"},
  {"programs", "PATTERN", "programs or categories: Lua patterns, separated by |"},
  {"columns", "LIST", "columns (bench/columns.def), separated by commas; native is always there"},
  {"rounds", "N", "interleaved runs; the least time counts", default = 3, number = true},
  {"quick", nil, "short inputs"},
  {"micro", "yes|no|only", "the micro-benchmarks", default = "yes"},
  {"timeout", "SECONDS", "of one run", default = 600, number = true},
  {"out", "FILE", "the table; default: doc/bench.txt for a full run, none for a part"},
}

local tables = dofile("bench/columns.def")
local failures, lines = {}, {}

local function out(text)
  print(text)
  lines[#lines + 1] = text
end

local function fail(...)
  failures[#failures + 1] = ("FAILED: " .. ...)
  io.stderr:write(failures[#failures], "\n")
end

local function matches(patterns, name, category)
  if not patterns then return true end
  for pattern in patterns:gmatch("[^|]+") do
    if name:find(pattern) or category:find(pattern) then return true end
  end
  return false
end

-- The rows of bench/programs.def that were asked for, inputs chosen.
local function programs(pattern, quick)
  local list, which = {}, quick and 2 or 1
  for _, group in ipairs(dofile("bench/programs.def")) do
    for _, row in ipairs(group) do
      if matches(pattern, row[1], group.category) then
        list[#list + 1] = {
          name = row[1], category = group.category, varies = row.varies, args = run.expand(row.args[which], {}),
          stdin = row.stdin and run.dir .. "/" .. row.stdin[which],
        }
      end
    end
  end
  return list
end

-- Which columns there are for an architecture; why others are not is said in one line each.
local function columns(arch, wanted)
  local list, no_guest = {}, {}
  local guest = run.has_guest(arch)
  for _, row in ipairs(tables.rows) do
    local name, command = row[1], row[2]
    local asked = name == "native" or (wanted and wanted[name] or not wanted and not row.off)
    local needs = row.needs and run.expand(row.needs, {arch = arch})
    if not asked or row.arch and not row.arch:find(arch) then goto continue end
    if needs and not (needs:find("/") and run.exists(needs) or run.has(needs)) then
      out(("%s: no column %s: %s is not there"):format(arch, name, row.needs == "QEMU" and needs or row.needs))
    elseif command:find("^KITLUA") and not guest then
      no_guest[#no_guest + 1] = name
    else
      list[#list + 1] = {name = name, command = command, only = row.only}
    end
    ::continue::
  end
  if #no_guest > 0 then
    out(("%s: no columns %s: kitlua has no %s guest yet"):format(arch, table.concat(no_guest, ", "), run.arch[arch].name))
  end
  return list
end

local function build(arch, list)
  local files = {run.dir .. "/cputime"}
  for _, p in ipairs(list) do
    for _, a in ipairs {"x64", arch} do files[#files + 1] = ("%s/%s/%s"):format(run.dir, a, p.name) end
    files[#files + 1] = p.stdin
  end
  run.make(files)
end

-- One run of a program in a column; its output must be that of the first run natively.
local function measure_one(set, arch, p, column)
  local words = " " .. p.args
  local r = run.command(column.command, {
    arch = arch, stdin = p.stdin, native = ("%s/x64/%s%s"):format(run.dir, p.name, words),
    program = ("%s/%s/%s%s"):format(run.dir, arch, p.name, words),
  })
  local text = p.varies and r.out:gsub(p.varies, "") or r.out
  local where = ("%s %s under %s: "):format(arch, p.name, column.name)
  p.expected = p.expected or text
  if r.status ~= 0 then
    fail(where .. (r.status == 124 and "stopped after " .. run.timeout .. " s" or ("status %d: %s"):format(r.status, r.err:sub(1, 300))))
  elseif text ~= p.expected or #text == 0 then
    fail(where .. "output differs from native's")
  else
    set:add(p.name, column.name, r.seconds)
    return ("%s %.2f s"):format(column.name, r.seconds)
  end
  column.failed = column.failed or {}
  column.failed[p.name] = true -- once is enough
  return column.name .. " FAILED"
end

-- how: columns (a set of names or nil), programs, rounds, quick. Returns the figures.
local function measure(arch, how)
  local list, cols = programs(how.programs, how.quick), columns(arch, how.columns)
  if #list == 0 then options.fail("bench: no such program") end
  build(arch, list)
  local set = figures.new(list, cols)
  for round = 1, how.rounds do
    for _, p in ipairs(list) do
      local seen = {}
      for _, c in ipairs(cols) do
        if (not c.only or c.only == p.category) and not (c.failed and c.failed[p.name]) then
          seen[#seen + 1] = measure_one(set, arch, p, c)
        end
      end
      io.stderr:write(("%s round %d, %s: %s\n"):format(arch, round, p.name, table.concat(seen, ", ")))
    end
  end
  return set
end

local function architectures(asked)
  local list = {}
  for _, arch in ipairs {"rv64", "x64", "aa64"} do
    if asked and not (","..asked..","):find("," .. arch .. ",", 1, true) then goto continue end
    if not run.has(run.arch[arch].cc) then
      out(("%s: not built: %s is not installed"):format(arch, run.arch[arch].cc))
    elseif asked or run.has_guest(arch) then
      list[#list + 1] = arch
    else
      out(("%s: left out: kitlua has no %s guest yet (--arch %s: the other columns)"):format(arch, run.arch[arch].name, arch))
    end
    ::continue::
  end
  return list
end

local function set_of(words)
  local set = words and {}
  for word in (words or ""):gmatch("[^,]+") do set[word] = true end
  return set
end

local function check_names(wanted, known, what)
  for name in pairs(wanted or {}) do
    if not known[name] then options.fail("bench: no such %s: %s", what, name) end
  end
end

local function main(args)
  local opt = options.parse(args, SPEC)
  local wanted, known = set_of(opt.columns), {}
  for _, row in ipairs(tables.rows) do known[row[1]] = true end
  check_names(wanted, known, "column")
  check_names(set_of(opt.arch), run.arch, "architecture")
  if opt.out then options.check_writable(opt.out) end
  local full = not (opt.programs or opt.columns or opt.quick or opt.arch or opt.micro ~= "yes")
  run.timeout = opt.timeout
  run.make {run.dir .. "/cputime"}
  out(run.machine())
  local list = architectures(opt.arch)
  for _, arch in ipairs(opt.micro ~= "only" and list or {}) do
    out("")
    local set = measure(arch, {programs = opt.programs, columns = wanted, rounds = opt.rounds, quick = opt.quick})
    out(set:text(("%s, %s %d"):format(run.arch[arch].name, opt.quick and "quick" or "least of", opt.rounds)))
    local bars = set:bars(arch, tables.bars)
    if bars ~= "" then out(bars) end
  end
  for _, arch in ipairs(opt.micro ~= "no" and list or {}) do
    out("")
    micro.measure(arch, tables.micro, measure, out)
  end
  for _, failure in ipairs(failures) do lines[#lines + 1] = failure end
  local path = opt.out or full and "doc/bench.txt"
  if path then
    local file = assert(io.open(path, "w"))
    assert(file:write(table.concat(lines, "\n"), "\n"))
    assert(file:close())
  end
  if #failures > 0 then options.fail("bench: %d runs failed or printed something else than native", #failures) end
end

local ok, message = xpcall(main, function(m) return type(m) == "string" and debug.traceback(m) or tostring(m) end, arg)
run.clean()
if not ok then
  io.stderr:write(message, "\n")
  os.exit(1)
end
