-- The Lua API through kit.so: what each call gives, refuses and raises.
local support = require "spec.support"
local kit = require "kit"

local function open(guest, ...) return assert(kit.open({support.guest_path("rv64/" .. guest), ...}, {env = {"LANG=C"}})) end

-- Runs f(emu) on a guest whose stdout goes nowhere.
local function with(guest, f, ...)
  local emu <close> = open(guest, ...)
  emu:on("syscall", {name = "write"}, function(ev) ev.result = ev.args[3] end)
  return f(emu)
end

describe("kit.open", function()
  it("gives nil, message, code when the environment fails", function()
    local emu, message, code = kit.open{"/no/such/program"}
    assert.is_nil(emu)
    assert.is_truthy(message:find("/no/such/program", 1, true))
    assert.are.equal("NOT_FOUND", code)
    assert.are.equal("ACCESS", (select(3, kit.open{support.root .. "/README.md"})))
  end)
  it("raises on misuse", function()
    assert.has_error(function() kit.open() end)
    assert.has_error(function() kit.open{1, {}} end)
  end)
  it("allows one guest at a time", function()
    local emu <close> = open("asm_hello")
    local other, message, code = kit.open{support.guest_path("rv64/asm_hello")}
    assert.is_nil(other)
    assert.are.equal("BUSY", code)
    assert.is_truthy(message:find("close it first", 1, true))
    assert.is_truthy(tostring(emu):match("^emu %(riscv64, pid %d+%)$"))
  end)
  it("closes idempotently, and a closed emu says so", function()
    local emu = open("asm_hello")
    emu:close()
    emu:close()
    assert.are.equal("emu (closed)", tostring(emu))
    assert.has_error(function() return emu.regs end, "this emu is closed")
    assert.has_error(function() emu:run() end, "this emu is closed")
  end)
end)

describe("running", function()
  it("tells how the guest ended", function()
    with("exitcode", function(emu)
      local stop = emu:run()
      assert.are.same({"exit", 42}, {stop.reason, stop.status})
      local again, _, code = emu:run()
      assert.is_nil(again)
      assert.are.equal("DEAD", code)
    end, "42")
    with("die", function(emu)
      local stop = emu:run()
      assert.are.same({"signal", 11, "SIGSEGV"}, {stop.reason, stop.signo, stop.signal})
    end, "store")
  end)
  it("steps by exact counts", function()
    with("insnmix", function(emu)
      emu:count_insns()
      for n = 1, 200 do
        assert.are.equal("step", emu:step(1).reason)
        assert.are.equal(n, emu.insns)
      end
      assert.are.equal("step", emu:run(1000).reason)
      assert.are.equal(1200, emu.insns)
      emu:run()
      assert.are.equal(39343, emu.insns)
    end)
  end)
  it("stops on faults when asked", function()
    with("die", function(emu)
      emu:stop_on_fault(true)
      local stop = emu:run()
      assert.are.equal("fault", stop.reason)
      assert.are.equal("SIGSEGV", stop.signal)
    end, "store")
  end)
  it("counts only when asked before the start", function()
    with("asm_hello", function(emu)
      assert.has_error(function() return emu.insns end)
      emu:run()
      assert.has_error(function() emu:count_insns() end)
    end)
  end)
end)

describe("registers and memory", function()
  it("read, write and refuse", function()
    with("fib", function(emu)
      assert.is_true(emu.regs.sp > 0)
      emu.regs.a0 = -1
      assert.are.equal(-1, emu.regs.x10)
      assert.has_error(function() return emu.regs.rax end, "no register 'rax' on riscv64")
      local n = 0
      for name, value in pairs(emu.regs) do
        assert.is_string(name)
        assert.are.equal("integer", math.type(value))
        n = n + 1
      end
      assert.is_true(n >= 65)
      emu.regs.fa0 = string.unpack("<i8", string.pack("<d", 1.5))
      assert.are.equal(1.5, emu.regs:f64("fa0"))
      local sp = emu.regs.sp - 64
      emu.mem.u32[sp] = 0xdeadbeef
      assert.are.equal(0xdeadbeef, emu.mem.u32[sp])
      assert.are.equal(-559038737, emu.mem.i32[sp])
      assert.is_true(emu.mem:write(sp, "hello\0"))
      assert.are.equal("hello", emu.mem:cstring(sp))
      assert.are.equal(sp + 1, emu.mem:find(sp, 16, "ello"))
      assert.is_true(emu.mem:pack("<I2d", sp, 7, 0.25))
      local a, b = emu.mem:unpack("<I2d", sp)
      assert.are.same({7, 0.25}, {a, b})
      local none, message, code = emu.mem:read(8, 4)
      assert.is_nil(none)
      assert.is_truthy(message:find("0x8", 1, true))
      assert.are.equal("UNMAPPED", code)
      assert.is_nil(emu.mem.u8[8])
      assert.has_error(function() emu.mem.u8[8] = 1 end)
      assert.has_error(function() return emu.mem.u24 end, "no field 'u24' in emu.mem")
    end)
  end)
  it("poke code: translations follow", function()
    with("fib", function(emu)
      local exit = emu:symbol("_exit").address
      emu:on("exec", {pc = "main"})
      assert.are.equal("breakpoint", emu:run().reason)
      -- main: li a0,9; jal to _exit through a register
      emu.regs.t0 = exit
      emu.mem:write(emu.regs.pc, string.pack("<I4I4", 0x00900513, 0x00028067))
      assert.are.equal(9, emu:run().status)
    end)
  end)
end)

describe("hooks", function()
  it("run with exact registers and arguments", function()
    with("fib", function(emu)
      local entries, returns = 0, 0
      emu:on("call", {to = "fib"}, function(from, to, kind)
        entries = entries + 1
        assert.are.equal("call", kind)
        assert.are.equal(emu:symbol("fib").address, to)
        assert.are.equal(from, emu.regs.pc)
      end)
      emu:wrap("fib", {leave = function() returns = returns + 1 end})
      emu:run()
      assert.is_true(entries > 1000)
      assert.are.equal(entries, returns)
    end)
  end)
  it("are filtered in the engine", function()
    with("watched", function(emu)
      local v = emu:symbol("watched")
      local all, bytes, every, reads = 0, 0, 0, 0
      local h = emu:on("store", {addr = v.address, len = 8}, function(_, addr, size, is_write)
        assert.is_true(is_write and addr >= v.address and addr + size <= v.address + 8)
        all = all + 1
      end)
      emu:on("store", {addr = v.address, len = 8, size = 1}, function() bytes = bytes + 1 end)
      emu:on("store", {addr = v.address, len = 8, every = 3}, function() every = every + 1 end)
      emu:on("load", {addr = v.address, len = 8}, function() reads = reads + 1 end)
      emu:run()
      assert.are.same({7, 3, 2}, {all, bytes, every})
      assert.are.equal(7, h:hits())
      assert.is_true(reads >= 1)
    end)
  end)
  it("come and go while the guest runs", function()
    with("fib", function(emu)
      local n, second = 0, nil
      local first
      first = emu:on("exec", {pc = "fib"}, function()
        n = n + 1
        if n == 10 then
          first:close()
          second = emu:on("exec", {pc = "fib"}, function()
            n = n + 1
            if n == 25 then second:close() end
          end)
        end
      end)
      emu:run()
      assert.are.equal(25, n)
      first:close()
      assert.are.equal("exec hook (closed)", tostring(first))
    end)
  end)
  it("deny stores, which then are faults", function()
    with("watched", function(emu)
      emu:on("store", {addr = "watched", len = 8}, function() return "deny" end)
      local stop = emu:run()
      assert.are.same({"signal", "SIGSEGV"}, {stop.reason, stop.signal})
      assert.are.equal(0, emu.mem.i64[emu:symbol("watched").address] or 0)
    end)
  end)
  it("stop and go on: watchpoints", function()
    with("watched", function(emu)
      emu:on("store", {addr = "watched", len = 8})
      local stops = 0
      local stop = emu:run()
      while stop.reason == "watch" do
        stops = stops + 1
        assert.are.equal(emu:symbol("watched").address, stop.addr & ~7)
        stop = emu:run()
      end
      assert.are.same({7, "exit"}, {stops, stop.reason})
    end)
  end)
  it("replace functions and system calls' results", function()
    with("fib", function(emu)
      local text = ""
      emu:replace("fib", function(n) return n * 2 end)
      emu:on("syscall", {name = "write"}, function(ev) text = text .. emu.mem:read(ev.args[2], ev.args[3]) end)
      emu:run()
      assert.are.equal("fib(20) = 40\n", text)
    end)
  end)
  it("raise their errors from run, with the script's traceback, and stop exactly", function()
    with("fib", function(emu)
      emu:on("exec", {pc = "fib"}, function() error("deliberate") end)
      local ok, message = pcall(emu.run, emu)
      assert.is_false(ok)
      assert.is_truthy(message:find("api_spec.lua:%d+: deliberate"))
      assert.is_truthy(message:find("stack traceback", 1, true))
      assert.are.equal(emu:symbol("fib").address, emu.regs.pc)
    end)
  end)
  it("cannot run or close the machine, and events expire", function()
    with("hello", function(emu)
      local kept
      emu:on("syscall", function(ev)
        kept = ev
        assert.has_error(function() emu:run() end, "the guest is running: it cannot be run from a hook")
        assert.has_error(function() emu:close() end, "the emu cannot be closed from a hook")
      end)
      emu:run()
      assert.has_error(function() return kept.nr end, "this event is over: copy what you need during its callback")
    end)
  end)
  it("refuse what they do not know", function()
    with("hello", function(emu)
      assert.has_error(function() emu:on("nothing", print) end, "no event 'nothing'")
      assert.has_error(function() emu:on("store", {adr = 1}, print) end, "unknown filter field 'adr'")
      assert.has_error(function() emu:on("syscall", {name = "frobnicate"}, print) end, "no system call 'frobnicate' on riscv64")
      assert.has_error(function() emu:on("store", {}, 42) end)
    end)
  end)
  it("are pulled by emu:events, and gone after break", function()
    with("hello", function(emu)
      local names = {}
      for ev in emu:events{"syscall"} do
        names[#names + 1] = ev.name
        if #names == 3 then break end
      end
      assert.are.equal(3, #names)
      assert.are.equal("exit", emu:run().reason)
    end)
  end)
end)

describe("fast paths", function()
  it("count by instruction, block, function, edge and thread", function()
    with("fib", function(emu)
      emu:count_insns()
      local insns, functions = emu:count("insn", {by = "insn"}), emu:count("insn", {by = "function"})
      local calls, edges = emu:count("call"), emu:count("branch", {by = "edge"})
      local branches, threads = emu:count("branch"), emu:count("insn", {by = "thread"})
      emu:run()
      assert.are.equal(emu.insns, insns:total())
      local sum = 0
      for _, n in pairs(functions:read()) do sum = sum + n end
      assert.are.equal(emu.insns, sum)
      assert.is_true(calls:total() > 1000)
      sum = 0
      for _, row in ipairs(edges:rows()) do sum = sum + row.count end
      assert.are.equal(branches:total(), sum)
      local by_thread = threads:read()
      assert.are.equal(emu.insns, by_thread[next(by_thread)])
      insns:zero()
      assert.are.equal(0, insns:total())
      insns:close()
      assert.has_error(function() insns:total() end, "this counter is closed")
    end)
  end)
  it("trace into rings", function()
    with("watched", function(emu)
      local v = emu:symbol("watched")
      local ring = emu:trace("store", {fields = {"pc", "addr", "size", "write", "value"}, filter = {addr = v.address, len = 8}})
      emu:run()
      local n = 0
      for pc, addr, size, write in ring:records() do
        n = n + 1
        assert.is_true(pc > 0 and addr & ~7 == v.address and (size == 1 or size == 8) and write == 1)
      end
      assert.are.same({7, 7, 0}, {n, #ring, ring:dropped()})
      ring:clear()
      assert.are.equal(0, #ring)
    end)
    with("fib", function(emu)
      local seen, ring = 0, nil
      ring = emu:trace("block", {fields = {"pc"}, capacity = 64, flush = function()
        seen = seen + #ring
        ring:clear()
      end})
      local blocks = emu:count("block")
      emu:run()
      assert.are.equal(blocks:total(), seen + #ring)
    end)
  end)
  it("check shadow planes", function()
    for _, bits in ipairs{1, 2, 8} do
      with("watched", function(emu)
        local v, hits = emu:symbol("watched"), 0
        local plane <close> = assert(emu:plane{name = "marks", bits = bits})
        assert.are.equal(0, plane:get(v.address))
        plane:fill(v.address + 1, 1, 1)
        assert.are.equal("\0\1\0\0", plane:get(v.address, 4))
        assert.are.same({v.address + 1, 1}, {plane:find(v.address - 100, 200)})
        plane:check("store", function(_, addr, size)
          assert.is_true(addr <= v.address + 1 and addr + size > v.address + 1)
          hits = hits + 1
        end)
        emu:run()
        assert.are.equal(7, hits)
      end)
    end
  end)
  it("keep call graphs", function()
    with("fib", function(emu)
      local graph = emu:callgraph()
      local deepest = 0
      emu:on("exec", {pc = "fib"}, function() deepest = math.max(deepest, #graph:stack()) end)
      assert.has_error(function() emu:callgraph() end)
      emu:run()
      local fib, calls, self = emu:symbol("fib").address, 0, 0
      for _, n in ipairs(graph:nodes()) do
        self = self + n.self
        if n.fn == fib then calls = calls + n.calls end
      end
      assert.are.equal(emu.insns, self)
      assert.is_true(calls > 1000 and deepest >= 20)
    end)
  end)
end)

describe("code", function()
  it("has symbols, lines, instructions, stacks and variables", function()
    with("fib", function(emu)
      local fib = assert(emu:symbol("fib"))
      assert.is_true(fib.is_function and fib.size > 0)
      assert.are.equal("fib", emu:symbol(fib.address + 2).name)
      assert.are.equal("fib", emu:lookup("fib")[1].fn)
      assert.is_truthy(emu:lookup("fib")[1].file:match("fib%.c$"))
      local none, _, code = emu:symbol("no_such_symbol")
      assert.are.same({nil, "NOT_FOUND"}, {none, code})
      local insn = assert(emu:disasm("fib"))[1]
      assert.are.equal(fib.address, insn.pc)
      assert.is_truthy(insn.text:match("%S"))
      assert.is_true(#emu:symbols("fi?") >= 1)
      emu:on("exec", {pc = "fib", every = 5})
      emu:run()
      local names = {}
      for _, f in ipairs(emu:backtrace()) do names[#names + 1] = f.fn end
      local text = table.concat(names, " ")
      assert.is_truthy(text:match("^fib fib .*main "), text)
      local found
      for _, v in ipairs(emu:locals() or {}) do if v.is_argument then found = v end end
      assert.is_truthy(found)
      assert.are.equal("integer", math.type(found.value))
    end)
  end)
end)
