-- Runs the C test programs of the IR: each prints "N passed" and exits with 0.
local support = require "spec.support"
local lfs = require "lfs"

describe("ir", function()
  local names = {}
  for file in lfs.dir(support.root .. "/spec/engine") do
    names[#names + 1] = file:match("^(ir_.*_test)%.c$")
  end
  table.sort(names)

  setup(function() support.make("c-tests") end)

  it("has its test programs", function() assert.is_true(#names >= 4) end)

  for _, name in ipairs(names) do
    it(name, function()
      -- The random regions fault on purpose, in a handler of their own.
      local run = support.run{support.build .. "/spec/" .. name, timeout = 120,
        env = {"LANG=C", "ASAN_OPTIONS=allow_user_segv_handler=1"}}
      assert(run.status == 0 and run.out:match("^%d+ passed\n$"), support.describe(run))
    end)
  end
end)
