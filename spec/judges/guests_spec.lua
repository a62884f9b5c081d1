-- Every run in spec/guests/index.lua gives what the index says, and what its judge gives: for riscv64 qemu-user, or,
-- where qemu-user is known to differ from the kernel, the same program built for and run on this machine; for x86-64
-- the program itself, run natively.
local support = require "spec.support"
local index = require "spec.guests.index"

local NATIVE = "x64"

local function native_judges(arch, run) return arch == NATIVE or run.qemu ~= nil end

local function prepare(command, run)
  return support.with(command, {stdin = run.stdin, env = run.env, timeout = 60})
end

-- qemu cannot stand in for what it gets wrong.
local function stands_aside(case) return support.stand_in and native_judges(case.arch, case.run) end

local function ours(case)
  if stands_aside(case) then return {"true"} end
  local args = index.args(case.run, support.exec_dir(case.arch))
  return prepare(support.guest(index.program(case.run, case.arch, case.link), args), case.run)
end

local function judge(case)
  if native_judges(case.arch, case.run) then
    local program = support.guest_path(index.program(case.run, NATIVE, case.link))
    return prepare({program, table.unpack(index.args(case.run, support.guest_path(NATIVE)))}, case.run)
  end
  local args = index.args(case.run, support.qemu_exec_dir(case.arch))
  return prepare(support.qemu(index.program(case.run, case.arch, case.link), args), case.run)
end

local function map(list, f)
  local out = {}
  for i, value in ipairs(list) do out[i] = f(value) end
  return out
end

local function check_guests(arch, links)
  local cases, got, expected = {}, nil, nil

  index.each(arch, function(run, link)
    if links:find(link, 1, true) then cases[#cases + 1] = {arch = arch, run = run, link = link} end
  end)

  setup(function()
    support.make("guests")
    got, expected = support.run_all(map(cases, ours)), support.run_all(map(cases, judge))
  end)

  for i, case in ipairs(cases) do
    it(arch .. " " .. index.title(case.run, case.link), function()
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
      check(expected[i], native_judges(arch, run) and "the native program" or "qemu-user")
      if stands_aside(case) then return pending(run.qemu or "qemu-user is not this architecture's judge") end
      check(got[i], "kitlua")
    end)
  end
end

describe("rv64 guest program", function() check_guests("rv64", "static dyn pie") end)
describe("x64 guest program", function() check_guests("x64", "static") end)
describe("x64 guest program #verify", function() check_guests("x64", "dyn pie") end)
