-- What the table of programs does not show: hooks, rings, start-up, translating, memory, the interpreter.
local run = require "bench.run"

local M = {}
local CALLGRIND = "KITLUA callgrind.lua --top=0 --out=WORK/callgrind.out -- PROGRAM"

local function must(r, message) return r or error("bench: " .. tostring(message), 0) end

-- The same in one line a figure; the bar is looked up by the line's name.
local function printer(arch, bars, out)
  return function(name, value, note)
    name = arch .. " " .. name
    local bar = bars[name]
    out(("%-44s %10.1f%s%s"):format(name, value, note and "  (" .. note .. ")" or "",
      bar and (", bar %.4g: %s"):format(bar, value <= bar and "met" or "MISSED") or ""))
  end
end

local function hooks(at, show)
  local calls = 2000000
  local names = {program = at .. "hot " .. calls}
  local none = must(run.least(3, "KITLUA BENCH/scripts/hook.lua none -- PROGRAM", names))
  for _, kind in ipairs {"call", "store"} do
    local r = must(run.least(3, "KITLUA BENCH/scripts/hook.lua " .. kind .. " -- PROGRAM", names))
    local hits = tonumber(r.err:match("hits (%d+)"))
    if hits ~= calls then error(("bench: %d hits of the %s hook, not %d"):format(hits or -1, kind, calls), 0) end
    show(kind == "call" and "hook call, ns" or "store hook, ns", (r.seconds - none.seconds) / calls * 1e9)
  end
end

-- Reading only, and all of it: appending, flushing, reading, over a run without a ring.
local function rings(at, show)
  local names = {program = at .. "hot 2000000"}
  local none = must(run.least(3, "KITLUA BENCH/scripts/hook.lua none -- PROGRAM", names))
  local reading, whole, events = math.huge, math.huge, nil
  for _ = 1, 3 do
    local r = must(run.least(1, "KITLUA BENCH/scripts/ring.lua -- PROGRAM", names))
    local n, seconds, dropped = r.err:match("events (%d+) seconds (%S+) dropped (%d+)")
    if dropped ~= "0" then error("bench: the ring dropped records", 0) end
    events = tonumber(n)
    reading, whole = math.min(reading, tonumber(seconds)), math.min(whole, r.seconds - none.seconds)
  end
  show("ring event read, ns", reading / events * 1e9)
  show("ring event appended and read, ns", whole / events * 1e9)
end

local function start_up(at, show, arch)
  local names = {program = at .. "true", arch = arch}
  local columns = {{"no tool", "KITLUA -- PROGRAM"}, {"callgrind.lua", CALLGRIND}}
  if run.has(run.arch[arch].qemu) then columns[#columns + 1] = {"qemu-user", "QEMU PROGRAM"} end
  if arch == "x64" and run.has("valgrind") then
    columns[#columns + 1] = {"valgrind callgrind", "valgrind -q --tool=callgrind --callgrind-out-file=/dev/null PROGRAM"}
  end
  for _, c in ipairs(columns) do
    show("start-up, " .. c[1] .. ", ms", must(run.least(10, c[2], names)).seconds * 1000)
  end
end

-- A program of functions that are called once: what it takes beyond a start-up and its time natively, by translated instruction.
local function translating(at, show, arch)
  local names, nothing = {program = at .. "functions", arch = arch}, {program = at .. "true", arch = arch}
  local insns = tonumber(must(run.least(1, "KITLUA BENCH/scripts/stats.lua -- PROGRAM", names)).err:match("region_insns (%d+)"))
  local native = must(run.least(3, "DIR/x64/functions", names)).seconds
  local function cost(command)
    local whole, start = must(run.least(3, command, names)), must(run.least(3, command, nothing))
    return (whole.seconds - start.seconds - native) / insns * 1e9
  end
  local note = ("%d instructions"):format(insns)
  show("translating, ns an instruction", cost("KITLUA -- PROGRAM"), note)
  show("translating for callgrind.lua, ns", cost(CALLGRIND))
  if run.has(run.arch[arch].qemu) then show("translating, qemu-user, ns", cost("QEMU PROGRAM"), "the same count") end
end

local function memory(at, show)
  local script = " " .. run.root .. "/bench/lua/mix.lua 5"
  local native = must(run.least(1, "DIR/x64/lua" .. script, {}))
  for _, c in ipairs {{"no tool", "KITLUA -- PROGRAM"}, {"callgrind.lua", CALLGRIND}} do
    show("memory over native, lua, " .. c[1] .. ", MiB", must(run.least(1, c[2], {program = at .. "lua" .. script})).rss - native.rss)
  end
end

-- On x86-64 the compiler proper is the judge of translating.
local function compiler(show, guest)
  local pipe = assert(io.popen("gcc -print-prog-name=cc1"))
  local names = {program = pipe:read("l") .. " -fpreprocessed -O2 -quiet DIR/lvm.i -o WORK/lvm.s"}
  pipe:close()
  names.program = run.expand(names.program, {})
  local native = must(run.least(2, "PROGRAM", names)).seconds
  local ours = guest and must(run.least(1, "KITLUA -- PROGRAM", names)).seconds
  local theirs = run.has("valgrind") and must(run.least(1, "valgrind -q --tool=none PROGRAM", names)).seconds
  if ours then show("cc1 -O2, no tool, over native", ours / native) end
  if theirs then show("cc1 -O2, valgrind none, over native", theirs / native) end
  if ours and theirs then show("cc1 -O2, no tool, % of valgrind none", ours / theirs * 100) end
end

-- Programs that are on the machine, dynamic and stripped.
local function installed(show)
  show("start-up, /bin/true, callgrind.lua, ms", must(run.least(10, CALLGRIND, {program = "/bin/true"})).seconds * 1000)
  local bash = {program = "/bin/bash " .. run.root .. "/bench/scripts/loop.sh"}
  local native = must(run.least(1, "PROGRAM", bash)).rss
  show("memory over native, bash, no tool, MiB", must(run.least(1, "KITLUA -- PROGRAM", bash)).rss - native)
end

-- The interpreter over native, on the programs' short inputs: `measure` is the main table's.
local function interpreter(show, arch, measure)
  local set = measure(arch, {columns = {native = true, interp = true}, rounds = 1, quick = true})
  local figure = set:figure("interp", "native")
  if not figure then return end
  local all = {}
  for _, p in ipairs(set.programs) do all[#all + 1] = set:ratio(p.name, "interp", "native") end
  show("interpreter over native, short inputs", figure, ("%.0f to %.0f"):format(math.min(table.unpack(all)), math.max(table.unpack(all))))
end

function M.measure(arch, bars, measure, out)
  local at = ("%s/%s/"):format(run.dir, arch)
  local guest = run.has_guest(arch)
  local files = {run.dir .. "/x64/lua", run.dir .. "/x64/functions"}
  for _, name in ipairs {"hot", "true", "functions", "lua"} do files[#files + 1] = at .. name end
  if arch == "x64" then files[#files + 1] = run.dir .. "/lvm.i" end
  run.make(files)
  local show = printer(arch, bars, out)
  if not guest then
    out(("%s: no micro-benchmarks of kitlua: it has no %s guest yet"):format(arch, run.arch[arch].name))
  else
    hooks(at, show)
    rings(at, show)
    start_up(at, show, arch)
    translating(at, show, arch)
    memory(at, show)
    if arch == "x64" then installed(show) else interpreter(show, arch, measure) end
  end
  if arch == "x64" then compiler(show, guest) end
end

return M
