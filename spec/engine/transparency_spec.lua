-- DESIGN.md section 3, rule 6: tools change speed and observability, never what the guest computes. Every guest whose run
-- repeats, under no tool, an observe-everything tool, the fast paths, one-instruction regions, without optimiser, without
-- chaining, by the interpreter, with the code cache flushed all the time, on a host without BMI and FMA:
local support = require "spec.support"
local index = require "spec.guests.index"

local ways = {
  {"no tool", {}},
  {"every hook", {}, "hooks"},
  {"fast paths", {}, "fast"},
  {"one instruction a region", {"--one-insn"}},
  {"no optimiser", {"--no-optimise"}},
  {"no chaining", {"--dispatch"}},
  {"checked IR", {"--check-ir"}},
  {"interpreter", {"--interp"}},
  {"interpreter, one instruction a region", {"--interp", "--one-insn"}},
  {"interpreter, every hook", {"--interp"}, "hooks"},
  {"small code cache", {"--code-size", "262144"}},
  {"flush at every chance", {"--max-regions", "1"}, slow = {demo = true}},
  {"JIT and interpreter in lockstep", {"--lockstep"}},
  {"an old host", {"--no-bmi", "--no-fma"}},
  {"an old host, fast paths", {"--no-bmi"}, "fast"},
}

-- Guests that take long with a Lua call at every instruction.
local slow_under_hooks = {loop = true, demo = true, fpprint = true, manythreads = true, heap = true, throws = true, sig_storm = true,
  recurse = true, hugemap = true, insnmix = true, selfmod = true}

-- Whose final state depends on the outside: ids, times, addresses of the environment.
local function state_repeats(run)
  return run.stable ~= false and not (run.tags.fork or run.tags.exec or run.tags.time or run.tags.random)
end

local function command(run, link, way)
  local options = {table.unpack(way[2])}
  options[#options + 1] = support.root .. "/spec/tools/observe.lua"
  options[#options + 1] = way[3] or "none"
  options[#options + 1] = "state"
  return support.with(support.guest(index.program(run, "rv64", link), index.args(run, support.exec_dir("rv64")), options),
    {stdin = run.stdin, env = run.env, timeout = 120})
end

local function compare(link)
  for _, way in ipairs(ways) do
    it(("%s guests: %s"):format(link, way[1]), function()
      local cases, commands = {}, {}
      index.each("rv64", function(run, its_link)
        local slow = way[3] == "hooks" and slow_under_hooks or way.slow or {}
        if its_link ~= link or not state_repeats(run) or slow[run.name] then return end
        cases[#cases + 1] = run
        commands[#commands + 1] = command(run, link, ways[1])
        commands[#commands + 1] = command(run, link, way)
      end)
      assert.is_true(#cases > 20)
      local states, differ = {}, {}
      local results = support.run_all(commands, function(result, i) states[i] = support.read(result.dir .. "/state") end)
      for i, run in ipairs(cases) do
        local a, b = results[2 * i - 1], results[2 * i]
        local title = index.title(run, link)
        if a.out ~= b.out or a.status ~= b.status then
          differ[#differ + 1] = ("%s: %s\n-- and --\n%s"):format(title, support.describe(a), support.describe(b))
        elseif states[2 * i - 1] ~= states[2 * i] then
          differ[#differ + 1] = ("%s: final state\n%s\n-- and --\n%s"):format(title, states[2 * i - 1], states[2 * i])
        end
      end
      assert.are.equal("", table.concat(differ, "\n"))
    end)
  end
end

describe("transparency", function()
  compare("static")
end)

describe("transparency of dynamic guests #verify", function()
  compare("dyn")
end)
