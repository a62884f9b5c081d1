-- Every run in spec/guests/index.lua gives what the index says, and what qemu-user gives.
local support = require "spec.support"
local index = require "spec.guests.index"

local ARCH = "rv64"

local function prepare(command, run)
  return support.with(command, {stdin = run.stdin, env = run.env, timeout = 60})
end

describe("guest program", function()
  local cases, ours, theirs = {}, nil, nil

  index.each(ARCH, function(run, link) cases[#cases + 1] = {run = run, link = link} end)

  setup(function()
    support.make("guests")
    local commands, judges = {}, {}
    for i, case in ipairs(cases) do
      local program, args = index.program(case.run, ARCH, case.link), index.args(case.run, support.build)
      commands[i] = prepare(support.guest(program, args), case.run)
      judges[i] = case.run.qemu and {"true"} or prepare(support.qemu(program, args), case.run)
    end
    ours = support.run_all(commands)
    theirs = support.run_all(judges)
  end)

  for i, case in ipairs(cases) do
    it(index.title(case.run, case.link), function()
      local run, got = case.run, ours[i]
      local function equal(expected, value, what)
        assert(expected == value, ("%s: expected <%s>\n%s"):format(what, expected, support.describe(got)))
      end
      equal(run.status, got.status, "status")
      if run.out then equal(run.out, got.out, "stdout") end
      if run.err then equal(run.err, got.err, "stderr") end
      if not run.qemu then
        equal(theirs[i].status, got.status, "status under qemu")
        equal(run.out == false or theirs[i].out, run.out == false or got.out, "stdout under qemu")
      end
    end)
  end
end)
