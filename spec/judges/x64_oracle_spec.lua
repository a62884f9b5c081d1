-- Single x86-64 instructions and random sequences on random states: the same natively and under kitlua, without a
-- tool, with every hook, counting. What is left out is in spec/tools/x64_oracle_gen.c.
local support = require "spec.support"
local oracle = require "spec.tools.x64_oracle"

local ways = {
  {"no tool", {}},
  {"every hook", {support.root .. "/spec/tools/observe.lua", "hooks", "state"}, share = 10},
  {"counting", {"-e", "emu:count_insns() emu:count('insn', {by = 'block'})"}, share = 2},
  {"one instruction a region", {"--one-insn"}, share = 10},
}

describe("x86-64 oracle #x64", function()
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

  it("reaches what Zydis knows and this machine executes", function()
    local names = support.sh(("%s/spec/tools/x64_oracle_gen names %s"):format(support.build, oracle.verdicts()))
    local forms, executed = names:match("(%d+) forms, %d+ executed; %d+ mnemonics, (%d+) executed")
    assert(tonumber(forms) > 16000 and tonumber(executed) > 900, names)
  end)
end)
