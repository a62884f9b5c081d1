-- Single x86-64 instructions and random sequences on random states: the same natively and under kitlua, in every way that
-- changes translated code. What is left out is in spec/tools/x64_oracle_gen.c.
local support = require "spec.support"
local oracle = require "spec.tools.x64_oracle"

local tools = support.root .. "/spec/tools/x64_oracle_"
local ways = {
  {"no tool", {}},
  {"every hook", {"--exact", tools .. "hooks.lua"}, share = 8},
  {"counting", {"--exact", "-e", "emu:count_insns() emu:count('insn', {by = 'block'})"}, share = 2},
  {"call graph, edges, access ring", {"--exact", "-e", [[emu:callgraph() emu:count('branch', {by = 'edge'})
    emu:trace('access', {fields = {'pc', 'addr', 'size', 'write'}, capacity = 1000})]]}, share = 8},
  {"plane check", {"--exact",
    "-e", "local p = emu:plane{name = 'm', bits = 1}; p:fill(0x1000, 16, 1) p:check('access', function() end)"}, share = 8},
  {"one instruction a region", {"--one-insn"}, share = 8},
}

describe("x86-64 oracle", function()
  setup(function() support.make("x64-oracle") end)

  -- 16,384 jobs of 4 states reach every form of instruction once or twice.
  local function check(way, seed, jobs, states)
    local text, cases = oracle.compare{seed = seed, first = 0, n = jobs, states = states, options = way[2], timeout = 3000}
    io.stderr:write(("oracle, %s: %d cases\n"):format(way[1], cases))
    assert.are.equal("", text)
  end
  for i, way in ipairs(ways) do
    local share = way.share or 1
    it("agrees: " .. way[1], function() check(way, i, 28 * 1024 // share, 4) end)
    it("agrees over millions of cases: " .. way[1] .. " #verify", function() check(way, 100 + i, 400 * 1024 // share, 16) end)
  end

  local function check_accesses(seed, jobs)
    support.with_tempdir(function(dir)
      local result = oracle.run({seed = seed, first = 0, n = jobs, states = 4, timeout = 3000}, {tools .. "access.lua", dir .. "/report"})
      assert.are.equal(0, result.status, support.describe(result))
      local text = support.read(dir .. "/report")
      io.stderr:write("oracle, accesses: " .. text:match("[^\n]*\n$"))
      local events, faults, wrong = text:match("(%d+) events, %d+ instructions retired, (%d+) faults, (%d+) wrong")
      assert(tonumber(events) > 2 * jobs and tonumber(faults) > jobs // 20 and wrong == "0", text)
    end)
  end
  it("access events are what the pages' protection shows", function() check_accesses(50, 8 * 1024) end)
  it("access events are what the pages' protection shows, many #verify", function() check_accesses(51, 200 * 1024) end)

  it("reaches what Zydis knows and this machine executes", function()
    local names = support.sh(("%s/spec/tools/x64_oracle_gen names %s"):format(support.build, oracle.verdicts()))
    local forms, executed = names:match("(%d+) forms, %d+ executed; %d+ mnemonics, (%d+) executed")
    assert(tonumber(forms) > 16000 and tonumber(executed) > 900, names)
  end)
end)
