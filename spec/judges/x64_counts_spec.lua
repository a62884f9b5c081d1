-- Exact counts of x86-64 programs: emu.insns equals what single-stepping the program natively counts.
local support = require "spec.support"

local TOOLS = support.build .. "/spec/tools/"
local GUESTS = support.build .. "/guests/x64/"
local CHUNK = "emu:count_insns() emu:on('exit', function() local f = io.open('n', 'w') f:write(emu.insns) f:close() end)"

local function kitlua_count(program, args)
  local command, count = support.guest(program, args, {"-e", CHUNK}), nil
  local result = support.run(command, function(run) count = tonumber(support.read(run.dir .. "/n")) end)
  return count, result
end

-- `machine`: the file that says what programs see under kitlua; nil for those that ask nothing.
local function native_count(program, args, machine)
  local command, count = {TOOLS .. "x64_singlestep", "n", program, table.unpack(args)}, nil
  if machine then table.insert(command, 2, "-a") table.insert(command, 3, machine) end
  command.timeout = 600
  local result = support.run(command, function(run) count = tonumber(support.read(run.dir .. "/n")) end)
  return count, result
end

local function compare(program, args, machine)
  local ours, our_run = kitlua_count(program, args)
  local theirs, their_run = native_count(program, args, machine)
  assert.are.equal(their_run.out, our_run.out)
  assert.are.equal(their_run.status, our_run.status, support.describe(our_run))
  assert.are.equal(theirs, ours)
end

describe("retired x86-64 instructions", function()
  local machine_dir, machine

  setup(function()
    support.make("x64-counting")
    machine_dir = support.tempdir()
    machine = machine_dir .. "/machine"
    support.write(machine, support.run(support.guest(TOOLS .. "x64_machine")).out)
  end)
  teardown(function() support.remove(machine_dir) end)

  it("are those counted by hand", function()
    assert.are.equal(1217, (native_count(TOOLS .. "x64_counts", {})))
    assert.are.equal(1217, (kitlua_count(TOOLS .. "x64_counts", {})))
  end)

  it("repeat with sixteen threads and a million operations", function()
    support.make("GUEST_ARCHES=x64 " .. GUESTS .. "stress")
    local first, run = kitlua_count(GUESTS .. "stress", {})
    assert.are.equal("ok\n", run.out)
    assert.is_true(first > 10000000)
    for _ = 1, 3 do assert.are.equal(first, (kitlua_count(GUESTS .. "stress", {}))) end
  end)

  it("do not depend on the machine when the program is shown a model: --cpu", function()
    local function seen(options) return support.run(support.guest(TOOLS .. "x64_machine", {}, options)).out end
    local function features(model)
      local run = support.run(support.guest("/bin/cat", {"/proc/cpuinfo"}, {"--cpu", model}))
      return run.out:match("\nflags[^\n]*") .. " "
    end
    assert.are_not.equal(seen{"--cpu", "x86-64"}, seen{"--cpu=x86-64-v2"})
    assert.are.equal(seen{}, seen{"--cpu", "host"})
    assert.is_truthy(features("x86-64-v2"):find(" sse4_2 "))
    assert.is_nil(features("x86-64-v2"):find(" avx"))
    assert.is_nil(features("x86-64"):find(" sse4_2 "))
    local refused = support.run(support.guest("/bin/true", {}, {"--cpu", "i386"}))
    assert.are.equal(125, refused.status)
    assert.is_truthy(refused.err:find("no processor model 'i386'", 1, true))
  end)

  -- Static programs: start of libc, output, calls, signals that fix and resume, longjmp, floating point.
  for _, case in ipairs{
    {"hello"}, {"args", "one", "two"}, {"exitcode", "42"}, {"sigfix"}, {"longjmp"}, {"fib", "12"}, {"cat"},
    {"divide"}, {"callptr", verify = true}, {"fpprint", verify = true}, {"fib", "20", verify = true},
  } do
    local name = table.concat(case, " ") .. (case.verify and " #verify" or "")
    it("equal single-stepping's: " .. name, function()
      support.make("GUEST_ARCHES=x64 " .. GUESTS .. case[1])
      compare(GUESTS .. case[1], {table.unpack(case, 2)}, machine)
    end)
  end
end)
