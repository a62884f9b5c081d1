-- Every run in spec/guests/index.lua gives what the index says, and what its judge gives: qemu-user, or,
-- where qemu-user is known to differ from the kernel, the same program built for and run on this machine.
local support = require "spec.support"
local index = require "spec.guests.index"

local ARCH, NATIVE = "rv64", "x64"

local function prepare(command, run)
  return support.with(command, {stdin = run.stdin, env = run.env, timeout = 60})
end

local function ours(case)
  if case.run.qemu and support.stand_in then return {"true"} end -- qemu cannot stand in for what it gets wrong
  local args = index.args(case.run, support.exec_dir(ARCH))
  return prepare(support.guest(index.program(case.run, ARCH, case.link), args), case.run)
end

local function judge(case)
  if case.run.qemu then
    local program = support.guest_path(index.program(case.run, NATIVE, case.link))
    return prepare({program, table.unpack(index.args(case.run, support.guest_path(NATIVE)))}, case.run)
  end
  local args = index.args(case.run, support.qemu_exec_dir(ARCH))
  return prepare(support.qemu(index.program(case.run, ARCH, case.link), args), case.run)
end

local function make_guests(cases)
  local native = {}
  for _, case in ipairs(cases) do
    if case.run.qemu then native[index.program(case.run, NATIVE, case.link)] = true end
  end
  for _, name in ipairs {"args", "exitcode"} do native[NATIVE .. "/" .. name] = true end
  local targets = {}
  for program in pairs(native) do targets[#targets + 1] = support.guest_path(program) end
  support.make("guests")
  support.make("GUEST_ARCHES=" .. NATIVE .. " " .. table.concat(targets, " "))
end

local function map(list, f)
  local out = {}
  for i, value in ipairs(list) do out[i] = f(value) end
  return out
end

describe("guest program", function()
  local cases, got, expected = {}, nil, nil

  index.each(ARCH, function(run, link) cases[#cases + 1] = {run = run, link = link} end)

  setup(function()
    make_guests(cases)
    got, expected = support.run_all(map(cases, ours)), support.run_all(map(cases, judge))
  end)

  for i, case in ipairs(cases) do
    it(index.title(case.run, case.link), function()
      local run = case.run
      local function check(result, who)
        local function equal(want, value, what)
          assert(want == value, ("%s of %s: expected <%s>\n%s"):format(what, who, want, support.describe(result)))
        end
        assert(not result.timeout, who .. " ran out of time\n" .. support.describe(result))
        equal(run.status, result.status, "status")
        equal(run.out or expected[i].out, result.out, "stdout")
        if run.err then equal(run.err, result.err, "stderr") end
      end
      check(expected[i], run.qemu and "the native program" or "qemu-user")
      if run.qemu and support.stand_in then return pending(run.qemu) end
      check(got[i], "kitlua")
    end)
  end
end)
