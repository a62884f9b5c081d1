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
      local program = index.program(case.run, ARCH, case.link)
      local pinned = case.run.qemu and {"true"}
      commands[i] = pinned and support.stand_in and pinned
        or prepare(support.guest(program, index.args(case.run, support.exec_dir(ARCH))), case.run)
      judges[i] = pinned or prepare(support.qemu(program, index.args(case.run, support.qemu_exec_dir(ARCH))), case.run)
    end
    ours = support.run_all(commands)
    theirs = support.run_all(judges)
  end)

  for i, case in ipairs(cases) do
    it(index.title(case.run, case.link), function()
      local run, got = case.run, ours[i]
      if run.qemu and support.stand_in then return pending(run.qemu) end
      local function equal(expected, value, what)
        assert(expected == value, ("%s: expected <%s>\n%s"):format(what, expected, support.describe(got)))
      end
      assert(not got.timeout, "ran out of time\n" .. support.describe(got))
      equal(run.status, got.status, "status")
      if run.out then equal(run.out, got.out, "stdout") end
      if run.err then equal(run.err, got.err, "stderr") end
      if not run.qemu then
        equal(theirs[i].status, got.status, "status under qemu")
        equal(theirs[i].out, got.out, "stdout under qemu")
      end
    end)
  end
end)
