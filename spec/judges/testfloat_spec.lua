-- Berkeley TestFloat: every result and every flag of the riscv64 guest's floating point, in all rounding
-- modes. About 175,000 of its level-1 cases; with the tag "verify" all of them, some 63 million.
local support = require "spec.support"

local quick_cases = support.build .. "/judges/testfloat.quick"
local HEADINGS = 152 -- functions times the rounding modes that matter to each

-- The command that pipes the cases that `source` (a shell command) prints into the judge.
local function judge(source)
  local command = {"sh", "-c", source .. ' | exec "$@"', "judge", table.unpack(support.guest("rv64/fp_judge"))}
  return support.with(command, {timeout = 7200, env = {"PATH=" .. os.getenv("PATH"), "BUILD=" .. support.build}})
end

local function check(runs)
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
  io.stderr:write(("TestFloat: %d cases, %d functions and modes\n"):format(cases, headings))
  assert(#wrong == 0, table.concat(wrong, "\n"))
  assert.are.equal(HEADINGS, headings)
end

describe("TestFloat", function()
  setup(function() support.make("guests testfloat") end)

  it("finds results and flags right: a choice of cases", function()
    check {support.run(judge("cat " .. support.quote(quick_cases)))}
  end)

  it("finds results and flags right: all cases #verify", function()
    local commands, seen = {}, {}
    for name in support.read(quick_cases):gmatch("= ([%w_]+)") do
      if not seen[name] then
        commands[#commands + 1] = judge(("sh %s/spec/judges/testfloat.sh cases full '^%s '"):format(support.root, name))
      end
      seen[name] = true
    end
    check(support.run_all(commands))
  end)
end)
