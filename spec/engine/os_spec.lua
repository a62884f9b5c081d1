-- os/: its tables against the kernel's headers, and what the loader says of programs that cannot run.
local support = require "spec.support"

local COMPILER = {rv64 = "riscv64-linux-gnu-gcc", x64 = "gcc"}

-- Names and numbers of system calls as the headers of an architecture have them.
local function kernel_numbers(compiler)
  local names, source = {}, {"#include <asm/unistd.h>"}
  local macros = support.sh("echo '#include <asm/unistd.h>' | " .. compiler .. " -E -dM -")
  for name in macros:gmatch("#define __NR_([%w_]+)") do
    if name ~= "syscalls" and name ~= "arch_specific_syscall" then names[#names + 1] = name end
  end
  for _, name in ipairs(names) do source[#source + 1] = ("number_of %s __NR_%s"):format(name, name) end
  return support.with_tempdir(function(dir)
    support.write(dir .. "/numbers.c", table.concat(source, "\n") .. "\n")
    local numbers = {}
    local values = support.sh(("%s -E -P %s/numbers.c"):format(compiler, dir))
    for name, value in values:gmatch("number_of ([%w_]+) ([^\n]+)") do
      numbers[name] = assert(load("return " .. value))()
    end
    return numbers
  end)
end

local function rows()
  local list = {}
  local pattern = 'SYSCALL%(([%w_]+), *(-?%d+), *(-?%d+), *([%w_]+), *"([^"]*)", "([^"]*)", "([^"]*)"%)'
  for name, generic, x64, how, _, ret, args in support.read("engine/os/syscall.def"):gmatch(pattern) do
    list[#list + 1] = {name = name, rv64 = tonumber(generic), x64 = tonumber(x64), how = how, ret = ret, args = args}
  end
  return list
end

describe("table of system calls", function()
  local list = rows()

  for arch, compiler in pairs(COMPILER) do
    it("has the numbers of the kernel's headers for " .. arch, function()
      local numbers, seen, wrong = kernel_numbers(compiler), {}, {}
      for _, row in ipairs(list) do -- a call whose arguments differ has a row for each architecture
        seen[row.name] = math.max(row[arch], seen[row.name] or -1)
      end
      for name, number in pairs(numbers) do
        if not seen[name] then wrong[#wrong + 1] = ("%s (%d) is missing"):format(name, number)
        elseif number ~= seen[name] then wrong[#wrong + 1] = ("%s: %d, not %d"):format(name, number, seen[name]) end
      end
      assert.are.equal("", table.concat(wrong, "\n"))
      assert.is_true(#list > 350)
    end)
  end

  it("uses kinds, sets and structs that exist", function()
    local known, wrong = {}, {}
    for _, file in ipairs {"flags", "structs"} do
      for name in support.read("engine/os/" .. file .. ".def"):gmatch("\n%u+%(([%w_]+)") do known[name] = true end
    end
    local kinds = support.read("engine/os/tables.c"):match("kind_names%[.-%] = {(.-)};")
    for _, row in ipairs(list) do
      for argument in row.args:gmatch("[^,]+") do
        local kind, set, length = argument:match("^[%w_]+:([%w]+)=?([%w_]*)/?(%w?)$")
        local ok = kind and kinds:find('"' .. kind .. '"', 1, true) and (set == "" or tonumber(set) or known[set])
        -- its size must come from somewhere
        if kind and kind:match("^s?in$") and set == "" and length == "" then ok = false end
        if not ok then wrong[#wrong + 1] = row.name .. ": " .. argument end
      end
    end
    assert.are.equal("", table.concat(wrong, "\n"))
  end)

  it("has no row twice", function()
    for _, arch in ipairs {"rv64", "x64"} do
      local by_number = {}
      for _, row in ipairs(list) do
        if row[arch] >= 0 then
          assert.is_nil(by_number[row[arch]], row.name)
          by_number[row[arch]] = row.name
        end
      end
    end
  end)
end)

describe("flags and structs", function()
  local program = {host = "os_tables", guest = "os_tables-rv64"}
  local tool = function(name) return support.build .. "/spec/tools/" .. name end

  setup(function() support.make("os-tools") end)

  it("have the guest's values", function()
    local host, guest = support.run{tool(program.host)}, support.run(support.guest(tool(program.guest)))
    assert.are.equal(0, guest.status, support.describe(guest))
    assert.are.equal(host.out, guest.out)
    assert.is_true(#host.out > 5000)
  end)

  it("have the guest's layouts", function()
    local run = support.run(support.guest(tool(program.guest), {"structs"}))
    assert.are.equal("", run.out)
    assert.are.equal(0, run.status, support.describe(run))
    run = support.run{tool(program.host), "structs"} -- those of the x86-64 guest
    assert.are.equal("", run.out)
    assert.are.equal(0, run.status, support.describe(run))
  end)
end)

-- ---- loader -----------------------------------------------------------------------------------------------------

local function patch(bytes, offset, format, value)
  local new = string.pack("<" .. format, value)
  return bytes:sub(1, offset) .. new .. bytes:sub(offset + #new + 1)
end

describe("loader", function()
  local hello, first -- a small static program; the file offset of its first PT_LOAD header

  setup(function()
    support.make("guests fuzz")
    hello = support.read(support.guest_path("rv64/asm_hello"))
    local at, count = string.unpack("<I8", hello, 33), string.unpack("<I2", hello, 57)
    for i = count - 1, 0, -1 do
      if string.unpack("<I4", hello, at + 56 * i + 1) == 1 then first = at + 56 * i end
    end
  end)

  -- What kitlua says of a program with these bytes.
  local function load(bytes, mode)
    return support.with_tempdir(function(dir)
      local path = dir .. "/program"
      support.write(path, bytes)
      support.sh("chmod " .. (mode or "755") .. " " .. path)
      return support.run{support.kitlua, "--", path}
    end)
  end

  -- One field of the ELF header or of the first segment's header is changed, or the bytes are given.
  local cases = {
    {"an empty file", "not an ELF program", bytes = function() return "" end},
    {"text", "not an ELF program", bytes = function() return "hello\n" end},
    {"a header that is cut off", "not an ELF program", bytes = function() return hello:sub(1, 63) end},
    {"a file cut off in its first segment", "outside of the file", bytes = function()
      local offset, size = string.unpack("<I8", hello, first + 9), string.unpack("<I8", hello, first + 33)
      return hello:sub(1, offset + size - 1)
    end},
    {"a script of nobody", "interpreter /does/not/exist is not there",
      bytes = function() return "#!/does/not/exist\n" end},
    {"a 32-bit program", "32-bit", header = {4, "B", 1}},
    {"a big-endian program", "big-endian", header = {5, "B", 2}},
    {"another architecture", "s390x, for which kitlua has no guest", header = {18, "I2", 22}},
    {"an object file", "an object file: link it", header = {16, "I2", 1}},
    {"a core dump", "no program", header = {16, "I2", 4}},
    {"program headers of another size", "damaged ELF file: program header size", header = {54, "I2", 55}},
    {"no program headers", "number of program headers", header = {56, "I2", 0}},
    {"65535 program headers", "number of program headers", header = {56, "I2", 65535}},
    {"program headers beyond the file", "program headers lie outside", header = {32, "I8", 1 << 40}},
    {"program headers at the end of the world", "program headers lie outside", header = {32, "i8", -1}},
    {"a segment beyond the file", "segment outside of the file", segment = {8, "I8", 1 << 20}},
    {"a segment whose end overflows", "segment outside of the file", segment = {8, "i8", -4096}},
    {"a segment larger in the file", "larger in the file than in memory", segment = {40, "I8", 1}},
    {"a segment that is too large", "segment address out of range", segment = {40, "I8", 1 << 46}},
    {"an address above the line", "segment address out of range", segment = {16, "I8", 1 << 46}},
    {"an address that is too low", "too low", segment = {16, "I8", 0}},
    {"a segment off its page", "segment alignment", segment = {16, "I8", 0x10001}},
  }

  local function bytes_of(case)
    if case.bytes then return case.bytes() end
    local at, field = case.segment and first or 0, case.segment or case.header
    return patch(hello, at + field[1], field[2], field[3])
  end

  for _, case in ipairs(cases) do
    it("refuses " .. case[1], function()
      local run = load(bytes_of(case))
      assert(run.status > 0 and run.status < 128 and run.out == "", support.describe(run))
      assert(run.err:find(case[2], 1, true), support.describe(run))
      assert(run.err:find("/program", 1, true), support.describe(run)) -- it names the file
    end)
  end

  it("says what to do about a program that may not be executed", function()
    local run = load(hello, "644")
    assert(run.err:find("chmod +x", 1, true), support.describe(run))
  end)

  it("says what to do about a loader that is not there", function()
    local run = support.run{support.kitlua, "--sysroot", "/does/not/exist", "--", support.guest_path("rv64/hello-dyn")}
    assert(run.status > 0 and run.err:find("--sysroot", 1, true), support.describe(run))
  end)

  local function fuzz(program, rounds, seed)
    local file = support.guest_path("rv64/" .. program)
    local run = support.run{support.build .. "/spec/fuzz/loader_fuzz", file, rounds, seed, timeout = 600,
      env = {"LANG=C", "ASAN_OPTIONS=allow_user_segv_handler=1"}}
    assert(run.status == 0 and run.out:find("BAD_ELF %d"), support.describe(run))
  end

  it("stands headers changed at random", function()
    for _, program in ipairs {"asm_hello", "hello-dyn", "asm_hello-pie"} do fuzz(program, "400", "1") end
  end)

  it("stands headers changed at random, at length #verify", function()
    for seed = 2, 6 do fuzz("hello-dyn", "10000", tostring(seed)) end
  end)
end)

describe("random system calls with hostile arguments", function()
  setup(function() support.make("os-tools") end)

  local function noise(seed, rounds, options)
    local program = support.build .. "/spec/tools/os_noise-rv64"
    local command = support.guest(program, {tostring(seed), tostring(rounds)}, options)
    local run = support.run(support.with(command, {timeout = 600}))
    assert(run.status == 0 and not run.err:find("internal error", 1, true), support.describe(run))
  end

  it("do not harm the engine", function()
    for seed = 1, 3 do noise(seed, 20000) end
  end)

  it("do not harm a tool that decodes them", function() noise(4, 5000, {"strace", "-o", "/dev/null"}) end)

  it("do not harm the engine, at length #verify", function()
    for seed = 5, 12 do noise(seed, 300000) end
  end)
end)
