-- The riscv64 guest against its judges: objdump for the disassembly, qemu-user for what instructions do.
local support = require "spec.support"
local disasm = require "spec.tools.rv64_disasm_sweep"

local TOOLS = support.build .. "/spec/tools/"
local LIBRARIES = support.sysroot.rv64 .. "/lib/"

local QEMU = support.qemu_path.rv64
local KITLUA = support.stand_in and QEMU or support.kitlua .. " --"

local function note(format, ...) io.stderr:write(format:format(...), "\n") end

local function check_disassembly(what, result)
  local pinned = 0
  for _, n in pairs(result.pinned) do pinned = pinned + n end
  note("disassembly, %s: %d lines, %d pinned, %d wrong", what, result.lines, pinned, #result.wrong)
  assert(#result.wrong == 0, table.concat(result.wrong, "\n", 1, math.min(20, #result.wrong)))
  assert(result.lines > 10000)
end

-- Executes n encodings of each row on k states in the guest program under `runner` (qemu-user, or kitlua itself) and
-- by decoder, lifter and interpreter alone; returns the number of cases.
local function sweep(runner, seed, n, k)
  local arguments = ("%d %d %d"):format(seed, n, k)
  local pipe = "%srv64_exec_host jobs %s | %s %srv64_exec_guest | %srv64_exec_host check %s"
  local run = support.run {"sh", "-c", pipe:format(TOOLS, arguments, runner, TOOLS, TOOLS, arguments), timeout = 3600}
  assert(run.status == 0, support.describe(run))
  local cases = run.out:match("(%d+) cases, 0 wrong\n$")
  assert(cases, support.describe(run))
  note("instructions, seed %d: %d cases as under %s", seed, cases, runner:match("[^/]+$"))
  return tonumber(cases)
end

describe("riscv64", function()
  local seed = tonumber(os.getenv("SEED"))

  setup(function() support.make("all c-tests rv64-tools") end)

  it("has a consistent instruction table", function()
    local run = support.run {support.build .. "/spec/rv64_table_test", timeout = 120}
    assert(run.status == 0 and run.out:match("^%d+ passed\n$"), support.describe(run))
  end)

  for name, tag in pairs {["libc.so.6"] = "", ["libm.so.6"] = "#verify", ["libstdc++.so.6"] = "#verify"} do
    it(("disassembles %s as objdump does %s"):format(name, tag), function()
      support.with_tempdir(function(dir)
        check_disassembly(name, disasm.elf(LIBRARIES .. name, TOOLS .. "rv64_disasm", dir))
      end)
    end)
  end

  it("disassembles the encoding space as objdump does", function()
    support.with_tempdir(function(dir)
      check_disassembly("encodings", disasm.encodings(seed or 1, 40, TOOLS .. "rv64_disasm", dir))
    end)
  end)

  it("disassembles the encoding space as objdump does, at length #verify", function()
    for i = 1, 4 do
      support.with_tempdir(function(dir)
        check_disassembly("encodings", disasm.encodings((seed or 100) + i, 2000, TOOLS .. "rv64_disasm", dir))
      end)
    end
  end)

  it("has its divergences from objdump explained by examples", function()
    for _, divergence in ipairs(require "spec.tools.rv64_divergences") do
      local encoding, theirs, ours = table.unpack(divergence.example)
      local found = divergence.matches(tonumber(encoding, 16), #encoding // 2, theirs, ours)
      assert(found, divergence.reason)
    end
  end)

  it("executes every instruction as qemu-user does", function()
    assert(sweep(QEMU, seed or 1, 30, 30) > 200000)
  end)

  it("executes every instruction as qemu-user does, at length #verify", function()
    local cases = 0
    for i = 1, 10 do cases = cases + sweep(QEMU, (seed or 1000) + i, 200, 100) end
    note("instructions: %d cases in all", cases)
    assert(cases > 10000000)
  end)

  it("executes every instruction under kitlua, traps as signals included", function()
    assert(sweep(KITLUA, seed or 2, 10, 20) > 40000)
  end)

  it("executes every instruction under kitlua, at length #verify", function()
    assert(sweep(KITLUA, seed or 3, 200, 115) > 5000000)
    assert(sweep(support.kitlua .. " --one-insn --", seed or 4, 20, 20) > 90000)
  end)

  it("lets user mode have the control and status registers that qemu-user does", function()
    local ours = support.run {support.kitlua, "--", TOOLS .. "rv64_csr"}
    local theirs = support.run {QEMU, TOOLS .. "rv64_csr"}
    assert.are.equal(0, ours.status)
    assert.are.equal(theirs.out, ours.out)
    assert(ours.out:find("instret: runs", 1, true), ours.out)
  end)

  it("lays signal frames out as Linux does", function()
    local run = support.run {support.kitlua, "--", TOOLS .. "rv64_signal_frame"}
    assert.are.equal([[
signal 5, code 1, at pc: 1
frame of 1088 bytes, ucontext at 128, registers at 304, floating point at 560
flags 0, link (nil), stack at 0, flags 0, size 65536, mask 0
a3 4d, fa0 4053400000000000, fa1 4053400000000000, fcsr 25
a3 1234, fa0 3, fa1 77, fcsr 61
]], run.out)
    assert.are.equal(0, run.status)
  end)

  it("gets out of a region that is full of operations", function()
    local run = support.run {support.kitlua, "--", TOOLS .. "rv64_full_region", timeout = 20}
    assert(run.status == 7, support.describe(run))
  end)
end)
