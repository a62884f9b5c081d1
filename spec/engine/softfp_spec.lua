-- Runs the test of software floating point: some 20 million cases; with the tag "verify" 1.2 billion.
local support = require "spec.support"

describe("softfp", function()
  setup(function() support.make("c-tests") end)

  local function passes(least, ...)
    local run = support.run{support.build .. "/spec/softfp_test", timeout = 1800, ...}
    local count = tonumber(run.out:match("(%d+) passed\n$"))
    assert(run.status == 0 and count, support.describe(run))
    assert.is_true(count >= least)
    io.stderr:write(("softfp: %s"):format(run.out))
  end

  it("agrees with the host's FPU and with exact arithmetic", function() passes(20000000) end)

  it("agrees with them at length #verify", function() passes(1100000000, "4000000", "211") end)
end)
