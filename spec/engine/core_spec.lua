-- Runs the test of the memory map: random calls against a plain model; with the tag "verify" a million, from several seeds.
local support = require "spec.support"

describe("the memory map", function()
  setup(function() support.make("c-tests") end)

  local function passes(...)
    local run = support.run{support.build .. "/spec/core_map_test", timeout = 1800, ...}
    assert(run.status == 0 and run.out:match("^%d+ passed\n$"), support.describe(run))
  end

  it("agrees with a model of its pages, bytes and shadow planes", function() passes() end)

  it("agrees with it at length #verify", function()
    for seed = 1, 9, 2 do passes("200000", tostring(seed * 7919)) end
  end)
end)
