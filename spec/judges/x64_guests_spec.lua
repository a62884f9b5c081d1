-- Every run in spec/guests/index.lua that x86-64 has, judged by this machine: the same program, run natively and under kitlua,
-- alone and executed by another program that is traced.
local support = require "spec.support"
local index = require "spec.guests.index"

local ARCH = "x64"

local function prepare(command, run)
  return support.with(command, {stdin = run.stdin, env = run.env, timeout = 60})
end

local function program(case) return index.program(case.run, ARCH, case.link) end
local function arguments(case) return index.args(case.run, support.exec_dir(ARCH)) end

local function native(case)
  return prepare({support.guest_path(program(case)), table.unpack(arguments(case))}, case.run)
end
local function ours(case)
  return prepare(support.guest(program(case), arguments(case), {"--trace-children"}), case.run)
end
local function child(case)
  local words = {"--", support.guest_path(program(case)), table.unpack(arguments(case))}
  return prepare(support.guest("/usr/bin/env", words, {"--trace-children"}), case.run)
end

local function map(list, f)
  local out = {}
  for i, value in ipairs(list) do out[i] = f(value) end
  return out
end

describe("x86-64 guest program", function()
  local cases, expected, got, as_child = {}, nil, nil, nil
  index.each(ARCH, function(run, link) cases[#cases + 1] = {run = run, link = link} end)

  setup(function()
    support.make("GUEST_ARCHES=x64 guests")
    expected, got = support.run_all(map(cases, native)), support.run_all(map(cases, ours))
    as_child = support.run_all(map(cases, child))
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
      check(expected[i], "the native program")
      check(got[i], "kitlua")
      check(as_child[i], "kitlua, executed by a traced program")
    end)
  end
end)
