-- Exact counts: emu.insns against qemu-riscv64 with one instruction per block, and callgrind's costs against emu.insns.
local support = require "spec.support"
local index = require "spec.guests.index"

-- qemu's execution log has one line an instruction (and one more each time a block is entered again after a signal).
local function qemu_count(run, link)
  local command = support.qemu(index.program(run, "rv64", link), run.args)
  table.insert(command, 2, "-singlestep")
  table.insert(command, 3, "-d")
  table.insert(command, 4, "exec,nochain")
  table.insert(command, 5, "-D")
  table.insert(command, 6, "log")
  local count
  support.run_all({support.with(command, {stdin = run.stdin, env = run.env})}, function(result)
    local log = support.sh(("grep -c '^Trace' %s/log || true"):format(result.dir))
    count = math.tointeger(tonumber(log))
  end)
  return count
end

local function kitlua_count(run, link, options)
  local chunk = "emu:count_insns() emu:on('exit', function() local f = io.open('n', 'w') f:write(emu.insns) f:close() end)"
  local command = {support.kitlua, table.unpack(options or {})}
  for _, word in ipairs{"-e", chunk, "--", support.guest_path(index.program(run, "rv64", link))} do command[#command + 1] = word end
  for _, a in ipairs(run.args) do command[#command + 1] = a end
  local count
  support.run_all({support.with(command, {stdin = run.stdin, env = run.env})}, function(result)
    count = math.tointeger(tonumber(support.read(result.dir .. "/n")))
  end)
  return count
end

local function find(name)
  for _, run in ipairs(index.runs) do if run.name == name then return run end end
  error("no guest " .. name)
end

describe("retired instructions", function()
  it("are those that the index knows", function()
    for _, name in ipairs{"asm_hello", "insnmix"} do
      local run = find(name)
      assert.are.equal(run.insns, kitlua_count(run, "static"), name)
      assert.are.equal(run.insns, kitlua_count(run, "static", {"--one-insn"}), name)
    end
  end)

  -- Programs without libc: nothing depends on where things lie or on what the kernel says of the machine.
  for _, name in ipairs{"asm_hello", "insnmix", "bitmanip", "divzero", "lrsc"} do
    it("equal qemu's count: " .. name, function()
      local run = find(name)
      local want = qemu_count(run, "static")
      assert.is_true(want and want > 5)
      assert.are.equal(want, kitlua_count(run, "static"))
    end)
  end
end)

-- Runs callgrind.lua and reads its file: total, and per function self and inclusive.
local function profile(program, args, options)
  local words = {"callgrind", "--top=0", "--out=prof", table.unpack(options or {})}
  local p = {}
  support.run_all({support.guest(program, args, words)}, function(result)
    p.result = result
    p.text = assert(support.read(result.dir .. "/prof"), support.describe(result))
    p.annotated = support.sh(("cd %s && callgrind_annotate --threshold=100 prof 2>&1"):format(result.dir))
    p.inclusive = support.sh(("cd %s && callgrind_annotate --threshold=100 --inclusive=yes prof 2>&1"):format(result.dir))
  end)
  p.summary = tonumber(p.text:match("\nsummary: (%d+)"))
  p.totals = tonumber(p.text:match("\ntotals: (%d+)"))
  return p
end

local function cost_of(text, fn)
  local n = text:match("\n%s*([%d,]+) %([^)]*%)%s+[^\n]*:" .. fn .. "[%s\n]")
  return n and math.tointeger(tonumber((n:gsub(",", ""))))
end

-- The sum of all self cost lines: those that do not follow calls=.
local function self_sum(text)
  local sum, after_call = 0, false
  for line in text:gmatch("[^\n]+") do
    local n = line:match("^%d+ (%d+)$") or line:match("^0x%x+ %d+ (%d+)$")
    if n and not after_call then sum = sum + tonumber(n) end
    after_call = line:match("^calls=") ~= nil
  end
  return sum
end

for _, arch in ipairs{"rv64", "x64"} do describe("callgrind.lua, " .. arch, function()
  for _, name in ipairs{"fib", "longjmp", "tailcall", "throws", "signals", "threads", "demo"} do
    it("sums to the number of instructions: " .. name, function()
      for _, options in ipairs{{}, {"--dump-instr=yes", "--collect-jumps=yes"}} do
        local p = profile(arch .. "/" .. name, {}, options)
        assert.are.equal(0, p.result.status, support.describe(p.result))
        assert.are.equal(p.summary, p.totals)
        assert.are.equal(p.summary, self_sum(p.text))
      end
    end)
  end

  it("gives main its inclusive cost: recursion, longjmp", function()
    for _, name in ipairs{"fib", "longjmp"} do
      local p = profile(arch .. "/" .. name, {})
      local main, program = cost_of(p.inclusive, "main"), cost_of(p.inclusive, "__libc_start_call_main")
      assert.is_true(main and program and main <= program and program <= p.summary, p.inclusive)
      assert.is_true(main > p.summary // 4)
      assert.is_true(program - main < 2000) -- exit, and what starts main
    end
  end)

  it("knows the demo's calls", function()
    local p = profile(arch .. "/demo", {})
    assert.is_truthy(p.annotated:find("%d%d,%d%d%d,%d%d%d %(100.0%%%)  PROGRAM TOTALS"), p.annotated)
    local calls = 0
    for n in p.text:gmatch("cfn=%(%d+%) make_word\ncalls=(%d+)") do calls = calls + tonumber(n) end
    assert.are.equal(60000, calls)
  end)

  it("charges threads to what they run", function()
    local p = profile(arch .. "/threads", {})
    assert.is_true(cost_of(p.annotated, "work") > 1000)
  end)
end) end
