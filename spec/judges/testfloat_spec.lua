-- Berkeley TestFloat: every result and every flag of the riscv64 guest's floating point, in all rounding
-- modes. TESTFLOAT=full: all of TestFloat's level-1 cases (some 63 million), else about 175,000 of them.
local support = require "spec.support"

local full = os.getenv("TESTFLOAT") == "full"
local quick_cases = support.build .. "/judges/testfloat.quick"
local HEADINGS = 152 -- functions times the rounding modes that matter to each

-- Words of a shell command that pipes the cases of `function_name` (nil: the quick choice of all) into the judge.
local function judge(function_name)
  local source = function_name
    and ("sh %s/spec/judges/testfloat.sh cases full '^%s '"):format(support.root, function_name)
    or "cat " .. support.quote(quick_cases)
  local command = {"sh", "-c", source .. ' | exec "$@"', "judge",
    table.unpack(support.guest("rv64/fp_judge"))}
  return support.with(command, {timeout = 7200, env = {"PATH=" .. os.getenv("PATH"), "BUILD=" .. support.build}})
end

describe("TestFloat", function()
  it("finds every result and flag right", function()
    support.make("guests testfloat")
    local runs
    if full then
      local commands, seen = {}, {}
      for name in support.read(quick_cases):gmatch("= ([%w_]+)") do
        if not seen[name] then commands[#commands + 1] = judge(name) end
        seen[name] = true
      end
      runs = support.run_all(commands)
    else
      runs = {support.run(judge())}
    end
    local headings, cases, wrong = 0, 0, {}
    for _, run in ipairs(runs) do
      for line in run.out:gmatch("[^\n]+") do
        local count, bad = line:match("^[%w_]+ %d: (%d+) cases, (%d+) wrong$")
        assert(count, line)
        headings, cases = headings + 1, cases + count
        if count == "0" or bad ~= "0" then wrong[#wrong + 1] = line end
      end
      if run.status ~= 0 then wrong[#wrong + 1] = support.describe(run) end
    end
    io.stderr:write(("\nTestFloat: %d cases, %d functions and modes\n"):format(cases, headings))
    assert(#wrong == 0, table.concat(wrong, "\n"))
    assert.are.equal(HEADINGS, headings)
  end)
end)
