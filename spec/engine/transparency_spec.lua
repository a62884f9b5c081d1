-- DESIGN.md section 3, rule 6: tools change speed and observability, never what the guest computes. Every guest whose run
-- repeats, on every architecture, under no tool, an observe-everything tool, the fast paths, one-instruction regions, without
-- optimiser, without chaining, by the interpreter, with the code cache flushed all the time, on a host without BMI and FMA:
local support = require "spec.support"
local index = require "spec.guests.index"

-- name, options, what observe.lua does; script: instead of observe.lua, so that only output and status are compared.
-- arch: only there (x86-64 code is copied, not optimised, and has no interpreter); x64 = "verify": there not in every `make test`.
local ways = {
  {"no tool", {}},
  {"no script", {}, script = {}, x64 = "verify"},
  {"every hook", {}, "hooks"},
  {"fast paths", {}, "fast", x64 = "verify"},
  {"callgrind.lua", {}, script = {"callgrind", "--top=0", "--out=/dev/null", "--dump-instr=yes", "--collect-jumps=yes"}, x64 = "verify"},
  {"one instruction a region", {"--one-insn"}},
  {"no optimiser", {"--no-optimise"}, arch = "rv64"},
  {"no chaining", {"--dispatch"}, x64 = "verify"},
  {"checked IR", {"--check-ir"}, x64 = "verify"},
  {"interpreter", {"--interp"}, arch = "rv64"},
  {"interpreter, one instruction a region", {"--interp", "--one-insn"}, arch = "rv64"},
  {"interpreter, every hook", {"--interp"}, "hooks", arch = "rv64"},
  {"small code cache", {"--code-size", "262144"}, x64 = "verify"},
  {"small code cache, every hook", {"--code-size", "262144"}, "hooks", arch = "x64", x64 = "verify"},
  {"flush at every chance", {"--max-regions", "1"}, slow = {demo = true}, x64 = "verify"},
  {"JIT and interpreter in lockstep", {"--lockstep"}, arch = "rv64"},
  {"an old host", {"--no-bmi", "--no-fma"}, arch = "rv64"},
  {"an old host, fast paths", {"--no-bmi"}, "fast", arch = "rv64"},
}

-- Guests that take long with a Lua call at every instruction.
local slow_under_hooks = {loop = true, demo = true, fpprint = true, manythreads = true, heap = true, throws = true, sig_storm = true,
  recurse = true, hugemap = true, insnmix = true, selfmod = true}

-- Whose final state depends on the outside: ids, times, addresses of the environment.
local function state_repeats(run)
  return run.stable ~= false and not (run.tags.fork or run.tags.exec or run.tags.time or run.tags.random)
end

local function command(arch, run, link, way)
  local options = {table.unpack(way[2])}
  local tool = way.script or {support.root .. "/spec/tools/observe.lua", way[3] or "none", "state"}
  table.move(tool, 1, #tool, #options + 1, options)
  return support.with(support.guest(index.program(run, arch, link), index.args(run, support.exec_dir(arch)), options),
    {stdin = run.stdin, env = run.env, timeout = 120})
end

-- Flags that a region overwrites before it reads them are not kept for an access that faults before that: when one has killed an
-- x86-64 program, the status flags are not compared.
local function without_lost_flags(state)
  return state and state:match("^exit 0 11\n") and state:gsub("\nrflags (%x+)", function(flags)
    return ("\nrflags %x"):format(tonumber(flags, 16) & ~0x8d5)
  end) or state
end

-- What is wrong with run b, which is to equal a; nil: nothing. Their final states are compared where there are two.
local function difference(a, b, state_a, state_b)
  if a.out ~= b.out or a.status ~= b.status then return ("%s\n-- and --\n%s"):format(support.describe(a), support.describe(b)) end
  if without_lost_flags(state_a) ~= without_lost_flags(state_b) then return ("final state\n%s\n-- and --\n%s"):format(state_a, state_b) end
end

local function compare_way(arch, link, way)
  local cases, commands = {}, {}
  index.each(arch, function(run, its_link)
    local slow = way[3] == "hooks" and slow_under_hooks or way.slow or {}
    if its_link ~= link or not state_repeats(run) or slow[run.name] then return end
    cases[#cases + 1] = run
    commands[#commands + 1] = command(arch, run, link, ways[1])
    commands[#commands + 1] = command(arch, run, link, way)
  end)
  assert.is_true(#cases > 20)
  local states, differ = {}, {}
  local results = support.run_all(commands, function(result, i) states[i] = support.read(result.dir .. "/state") end)
  for i, run in ipairs(cases) do
    local wrong = difference(results[2 * i - 1], results[2 * i], not way.script and states[2 * i - 1] or nil, states[2 * i])
    if wrong then differ[#differ + 1] = index.title(run, link) .. ": " .. wrong end
  end
  assert.are.equal("", table.concat(differ, "\n"))
end

local function compare(arch, link)
  for _, way in ipairs(ways) do
    if not way.arch or way.arch == arch then
      it(("%s guests, %s: %s%s"):format(link, arch, way[1], way[arch] and " #" .. way[arch] or ""), function()
        compare_way(arch, link, way)
      end)
    end
  end
end

describe("transparency", function()
  setup(function() support.make("guests") end)
  compare("rv64", "static")
  compare("x64", "static")
end)

describe("transparency of dynamic guests #verify", function()
  setup(function() support.make("guests") end)
  compare("rv64", "dyn")
  compare("x64", "dyn")
end)
