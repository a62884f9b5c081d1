-- The JIT: what it makes of small guest sequences, promptness of signals, its options. That it computes what the interpreter
-- does is in ir_spec (random regions), rv64_spec (every instruction) and transparency_spec (every guest).
local support = require "spec.support"

local TOOLS = support.build .. "/spec/tools/"

-- Guest sequence -> host instructions, exits and cold cases not counted; on a host without BMI and FMA, so that the figures
-- are the same everywhere. Whoever makes a figure smaller pins the new one; none may grow unseen.
local sequences = {
  {"add a0,a1,a2", 2},
  {"addi a0,a0,1", 2},
  {"addi a0,a1,8", 2},
  {"mv a0,a1", 2},
  {"li a0,5", 2},
  {"addw a0,a1,a2", 3},
  {"addiw a0,a0,1", 3},
  {"sub a0,a1,a0", 4},
  {"slli a0,a1,3", 3},
  {"slliw a5,a5,2", 3},
  {"sll a0,a1,a2", 5},
  {"sltu a0,a1,a2", 4},
  {"ld a0,16(a1)", 2},
  {"lbu a0,0(a1)", 2},
  {"sd a0,-8(sp)", 2},
  {"slli a5,a5,3\nadd a5,a0,a5\nld a4,0(a5)", 3},
  {"lui a5,0x12345\naddi a5,a5,0x678", 2},
  {"mul a0,a1,a2", 3},
  {"divw a0,a1,a2", 10},
  {"fld fa5,0(a0)\nfadd.d fa4,fa4,fa5\nfsd fa4,8(a0)", 8},
  {"fmul.d fa0,fa1,fa2", 7},
  {"1: addi a0,a0,-1\nbnez a0,1b", 4},
  {"beq a0,a1,1f\n1:", 3},
  {"ret", 6},
  {"add t3,t4,t5", 4},
}

local function assemble(dir, text)
  support.write(dir .. "/a.s", text .. "\n")
  support.run {"sh", "-c", ("cd %s && riscv64-linux-gnu-as -march=rv64gc -mno-relax a.s -o a.o && " ..
    "riscv64-linux-gnu-objcopy -O binary -j .text a.o a.bin"):format(dir)}
  local hex = support.read(dir .. "/a.bin"):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  local words, at = {}, 1
  while at <= #hex do -- little-endian halves and words
    local first = tonumber(hex:sub(at, at + 1), 16)
    local n = first & 3 == 3 and 8 or 4
    words[#words + 1] = hex:sub(at, at + n - 1):gsub("(..)(..)(..)(..)", "%4%3%2%1"):gsub("^(..)(..)$", "%2%1")
    at = at + n
  end
  return table.concat(words, " ")
end

local function count_host_instructions(dir, hex)
  support.write(dir .. "/code", (hex:gsub("..", function(c) return string.char(tonumber(c, 16)) end)))
  local run = support.run {"objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "--insn-width=16", dir .. "/code"}
  local n, text = 0, {}
  for line in run.out:gmatch("[^\n]+") do
    local insn = line:match("^%s+%x+:\t[%x ]+\t(.*)")
    if insn then
      n = n + 1
      text[n] = insn
    end
  end
  return n, table.concat(text, "\n")
end

describe("JIT", function()
  setup(function() support.make("all guests rv64-tools") end)

  it("makes no more host instructions of a sequence than it used to", function()
    support.with_tempdir(function(dir)
      local command, differ = {TOOLS .. "jit_code"}, {}
      for _, s in ipairs(sequences) do command[#command + 1] = assemble(dir, s[1]) end
      local run = support.run(command)
      assert(run.status == 0, support.describe(run))
      local i = 0
      for hex in run.out:gmatch("[^\n]+") do
        i = i + 1
        local n, text = count_host_instructions(dir, hex)
        if n ~= sequences[i][2] then
          differ[#differ + 1] = ("%s: %d, pinned %d\n%s\n"):format(sequences[i][1], n, sequences[i][2], text)
        end
      end
      assert.are.equal(#sequences, i)
      assert.are.equal("", table.concat(differ, "\n"))
    end)
  end)

  it("makes the same code without a tool as with instrumentation compiled out", function()
    support.with_tempdir(function(dir)
      local function code(kitlua, guest) -- of every region, without addresses of the host
        local run = support.run {"setarch", "-R", support.build .. "/" .. kitlua, "--dump", dir .. "/dump", "--",
          support.build .. "/guests/rv64/" .. guest}
        assert(run.status == 0, support.describe(run))
        local regions = {}
        for where, hex in support.read(dir .. "/dump"):gmatch("host code: ([^\n]*)\n(%x+)\n") do
          regions[#regions + 1] = where .. " " .. hex:gsub("(4[89]b[89a-f]%x%x%x%x%x%x%x%x%x%x[57]%x0000)", "address")
        end
        return regions
      end
      -- guests of one thread: with a second one comes the scheduler's budget
      for _, guest in ipairs {"demo", "fpprint", "longjmp", "files-dyn"} do
        local usual, bare = code("kitlua", guest), code("kitlua-bare", guest)
        assert(#usual > 100)
        for i = 1, math.max(#usual, #bare) do assert.are.equal(bare[i], usual[i]) end
      end
      local counted = support.run {support.kitlua, "--dump", dir .. "/counted", "-e", "emu:count_insns()", "--",
        support.build .. "/guests/rv64/demo"}
      assert(counted.status == 0 and support.read(dir .. "/counted"):find("count ", 1, true)) -- else this would prove nothing
    end)
  end)

  -- Marked bytes that neighbours of what an access touches share shadow bytes with must not count.
  it("finds accesses of every size that touch a marked byte, and no others", function()
    support.make("guests")
    local chunk = [[
      local at = emu:symbol("marked").address
      local want, got = {}, {}
      local plane = assert(emu:plane{name = "m", bits = BITS})
      plane:fill(at + 80, 3, 1)
      plane:check("load", function(_, addr, size)
        if addr >= at and addr < at + 128 then got[#got + 1] = size .. "@" .. addr - at end
      end)
      emu:on("exit", function()
        local last = WIDEST
        for _, size in ipairs{1, 2, 4, 8, 16, 32, 64} do
          for i = 0, 127 do
            if size <= last and i + size > 80 and i < 83 then want[#want + 1] = size .. "@" .. i end
          end
        end
        assert(table.concat(want, " ") == table.concat(got, " "), table.concat(got, " "))
      end)]]
    local widest = support.run(support.guest("x64/planes")).out:match("%d+")
    for _, bits in ipairs{1, 2} do
      for _, options in ipairs{{}, {"--no-bmi"}} do
        local words = {table.unpack(options)}
        words[#words + 1], words[#words + 2] = "-e", (chunk:gsub("BITS", bits):gsub("WIDEST", widest))
        local run = support.run(support.guest("x64/planes", {}, words))
        assert.are.equal(widest .. "\n", run.out, support.describe(run))
        assert.are.equal("", run.err, support.describe(run))
      end
    end
  end)

  it("takes signals promptly in loops, and loses none", function()
    for _, options in ipairs {{}, {"callgrind", "--out=/dev/null"}} do
      local command = {support.kitlua}
      for _, o in ipairs(options) do command[#command + 1] = o end
      command[#command + 1] = "--"
      command[#command + 1] = support.build .. "/guests/rv64/promptly"
      local run = support.run(command)
      assert(run.status == 0 and run.out == "ok\n", support.describe(run))
    end
  end)
end)
