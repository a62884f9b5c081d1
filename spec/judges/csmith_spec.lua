-- csmith's random programs print the same checksum as natively.
local support = require "spec.support"

local base = support.build .. "/judges/csmith/"

local function run_seeds(count)
  support.sh(("BUILD=%s sh spec/judges/csmith.sh %d >&2"):format(support.quote(support.build), count))
  local seeds, commands = {}, {}
  for seed in io.lines(base .. "seeds") do
    seeds[#seeds + 1] = seed
    commands[#commands + 1] = support.with(support.guest(base .. seed), {timeout = 300})
  end
  assert.are.equal(count, #seeds)
  local wrong = {}
  for i, run in ipairs(support.run_all(commands)) do
    local expected = support.read(base .. seeds[i] .. ".out")
    assert(expected:match("^checksum = %x+\n$"), "seed " .. seeds[i] .. " has no native checksum")
    if run.status ~= 0 or run.out ~= expected then
      wrong[#wrong + 1] = ("seed %s: natively %s%s"):format(seeds[i], expected, support.describe(run))
    end
  end
  assert(#wrong == 0, table.concat(wrong, "\n"))
end

describe("csmith", function()
  it("agrees with the native checksums of 20 seeds", function() run_seeds(20) end)
  it("agrees with the native checksums of 200 seeds #verify", function() run_seeds(200) end)
end)
