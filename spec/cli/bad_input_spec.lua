-- Bad input of every kind gives one clear message that names the thing, the documented exit status, and keeps results.
local support = require "spec.support"

local good = support.guest_path("rv64/asm_hello")
local dynamic = support.guest_path("rv64/hello-dyn")

local function run(words, fields)
  return support.run(support.with({support.kitlua, table.unpack(words)}, fields or {}))
end

-- One line on stderr that begins with "kitlua: " (or the script's name) and has `text` in it.
local function refused(r, status, text)
  assert.are.equal(status, r.status, support.describe(r))
  assert.is_truthy(r.err:find(text, 1, true), support.describe(r))
  assert.is_truthy(r.err:match("^kitlua: [^\n]+\n$"), support.describe(r))
  assert.are.equal("", r.out)
end

-- A program made of good's bytes by f(bytes) -> bytes.
local function with_file(f, check, mode)
  support.with_tempdir(function(dir)
    local path = dir .. "/prog"
    support.write(path, f(support.read(good)))
    support.sh(("chmod %s %s"):format(mode or "755", path))
    check(run{"--", path})
  end)
end

local function patch(offset, format, value)
  return function(bytes)
    local new = string.pack(format, value)
    return bytes:sub(1, offset) .. new .. bytes:sub(offset + #new + 1)
  end
end

-- Offset of the n-th program header of `kind`.
local function phdr(bytes, kind)
  local at, size, n = string.unpack("<I8", bytes, 33), string.unpack("<I2", bytes, 55), string.unpack("<I2", bytes, 57)
  for i = 0, n - 1 do
    if string.unpack("<I4", bytes, at + i * size + 1) == kind then return at + i * size end
  end
  error("no program header " .. kind)
end

local function patch_load(field, format, value)
  return function(bytes) return patch(phdr(bytes, 1) + field, format, value)(bytes) end
end

describe("programs that are none", function()
  local cases = {
    {"an empty file", function() return "" end, "not an ELF program"},
    {"a text file", function() return "hello\n" end, "not an ELF program"},
    {"a file of 20 bytes", function(b) return b:sub(1, 20) end, "not an ELF program"},
    {"headers cut off", function(b) return b:sub(1, 70) end, "program headers lie outside"},
    {"a segment cut off", function(b)
      local at = phdr(b, 1)
      return b:sub(1, string.unpack("<I8", b, at + 9) + string.unpack("<I8", b, at + 33) - 1)
    end, "truncated"},
    {"a 32-bit program", patch(4, "B", 1), "32-bit"},
    {"a big-endian program", patch(5, "B", 2), "big-endian"},
    {"another architecture", patch(18, "<I2", 8), "no guest"},
    {"an object file", patch(16, "<I2", 1), "object file"},
    {"a core file", patch(16, "<I2", 4), "no program"},
    {"program headers of a wrong size", patch(54, "<I2", 12), "program header size"},
    {"no program headers", patch(56, "<I2", 0), "number of program headers"},
    {"65535 program headers", patch(56, "<I2", 65535), "number of program headers"},
    {"program headers far outside", patch(32, "<I8", 0x7fffffffffffff00), "program headers lie outside"},
    {"a segment far outside of the file", patch_load(8, "<I8", 0x7ffffffffffff000), "outside of the file"},
    {"more in the file than in memory", patch_load(40, "<I8", 1), "larger in the file"},
    {"a segment of 2^63 bytes", patch_load(40, "<I8", 0x7fffffffffffffff), "out of range"},
    {"a segment in the engine's half", patch_load(16, "<I8", 0x7fff00010000), "out of range"},
    {"a misaligned segment", patch_load(16, "<I8", 0x10001), "alignment"},
    {"no executable segment", patch_load(4, "<I4", 4), "no executable segment"},
    {"nothing to load", patch_load(0, "<I4", 0), "nothing to load"},
  }
  for _, case in ipairs(cases) do
    it(case[1], function()
      with_file(case[2], function(r) refused(r, 126, case[3]) end)
    end)
  end

  it("a file that is not executable", function()
    with_file(function(b) return b end, function(r)
      refused(r, 126, "not executable")
    end, "644")
  end)
  it("a folder", function() refused(run{"--", "/tmp"}, 126, "not a regular file") end)
  it("a missing file", function() refused(run{"--", "/no/such/file"}, 127, "No such file") end)
  it("a name that PATH does not have", function() refused(run{"--", "no-such-program"}, 127, "not found in PATH") end)
  it("an empty name", function() refused(run{"--", ""}, 127, "") end)
  it("a missing loader", function() refused(run{"--sysroot", "/nowhere", "--", dynamic}, 126, "--sysroot") end)
  it("a script without its interpreter", function()
    with_file(function() return "#!/no/such/interpreter\n" end, function(r) refused(r, 127, "/no/such/interpreter") end)
  end)
end)

describe("command lines", function()
  it("without anything show the usage", function()
    local r = run{}
    assert.are.equal(125, r.status)
    assert.is_truthy(r.err:find("usage: kitlua", 1, true))
  end)
  it("an unknown option", function() refused(run{"--no-such", "--", good}, 125, "--no-such") end)
  it("an option without its value", function() refused(run{"--sysroot"}, 125, "needs a value") end)
  it("a missing script", function() refused(run{"no-such-script", "--", good}, 125, "no-such-script") end)
  it("a script's unknown option", function() refused(run{"callgrind", "--frobnicate", "--", good}, 125, "--frobnicate") end)
  it("a script's bad number", function() refused(run{"callgrind", "--top=many", "--", good}, 125, "many") end)
  it("a script's value that is none of those there are", function()
    refused(run{"callgrind", "--sort=upwards", "--", good}, 125, "inclusive|self")
  end)
  it("a system call, class, signal or status that does not exist", function()
    for _, e in ipairs{"no_such", "trace=read,no_such", "trace=%none", "signal=SIGNONE", "status=none"} do
      refused(run{"strace", "-e", e, "--", good}, 125, e:match("[^,=]*$"):gsub("^SIG", ""))
    end
  end)
  it("a program where a script belongs", function() refused(run{good}, 125, "write it after --") end)
  it("a program without -- after -i", function() refused(run{"-i", good}, 125, "after --") end)
  it("an unwritable result, before the program runs", function()
    refused(run{"callgrind", "--out=/no/such/folder/x", "--", good}, 125, "/no/such/folder/x")
  end)
  it("an unwritable dump", function() refused(run{"--dump", "/no/such/folder/x", "--", good}, 125, "/no/such/folder/x") end)
  it("a full disk", function()
    local r = run{"callgrind", "--out=/dev/full", "--", good}
    assert.are.equal(125, r.status)
    assert.is_truthy(r.err:find("/dev/full", 1, true), r.err)
  end)
end)

-- A script that opens the program itself keeps the options that the command was given.
describe("--stats", function()
  local open = "local kit = require 'kit'\nlocal emu <close> = assert(kit.open({" .. ("%q"):format(good) .. "}, {env = {}}))\nemu:run()\n"
  local ways = {["a script"] = {"callgrind", "--out=/dev/null", "--top=0", "--", good}, ["-e"] = {"-e", "", "--", good},
    ["no script"] = {"--", good}, ["a script with options of its own"] = {"OPEN"}}
  for way, words in pairs(ways) do
    it("with " .. way, function()
      support.with_tempdir(function(dir)
        support.write(dir .. "/open.lua", open)
        local r = run{"--stats", table.unpack(words[1] == "OPEN" and {dir .. "/open.lua"} or words)}
        assert.are.equal("hello, world\n", r.out, support.describe(r))
        assert.is_truthy(r.err:match("^regions +%d+\nregion_insns +%d+\nsyscalls +2\n"), r.err)
      end)
    end)
  end
end)

describe("scripts with errors", function()
  it("a syntax error", function()
    local r = run{"-e", "x =", "--", good}
    assert.are.equal(125, r.status)
    assert.is_truthy(r.err:find("-e:1:", 1, true), r.err)
  end)
  it("an error in a hook has one traceback", function()
    local r = run{"-e", "emu:on('exit', function() error('oops') end)", "--", good}
    assert.are.equal(1, select(2, r.err:gsub("stack traceback:", "")), r.err)
  end)
  it("an error before the run", function()
    local r = run{"-e", "error('oops')", "--", good}
    assert.are.equal(125, r.status)
    assert.is_truthy(r.err:find("oops", 1, true), r.err)
  end)
  local triggers = {exec = "asm_hello", insn = "asm_hello", block = "asm_hello", branch = "asm_hello", call = "fib", ret = "fib",
    jump = "fib", cond = "fib", load = "fib", store = "fib", access = "fib", syscall = "fib", sysret = "fib", map = "hello-dyn",
    protect = "hello-dyn", unmap = "hello-dyn", image = "hello-dyn", signal = "signals", fault = "sigfix", thread = "threads",
    fork = "forks", exit = "fib"}
  for event, guest in pairs(triggers) do
    it("an error in a hook: " .. event, function()
      local chunk = ("emu:on('%s', function() error('oops in %s') end)"):format(event, event)
      local r = run{"-e", chunk, "--", support.guest_path("rv64/" .. guest)}
      assert.are.equal(125, r.status, support.describe(r))
      assert.is_truthy(r.err:find("-e:1: oops in " .. event, 1, true), support.describe(r))
    end)
  end
end)

describe("programs that are killed", function()
  it("leave their profile", function()
    for _, how in ipairs{"6", "9", "15", "store", "abort"} do
      if how ~= "9" then -- nobody survives that
        support.run_all({support.guest("rv64/die", {how}, {"callgrind", "--out=prof", "--top=0"})}, function(r)
          assert.is_true(r.status > 128, support.describe(r))
          local text = support.read(r.dir .. "/prof")
          assert.is_truthy(text and text:find("totals: %d"), how)
          assert.is_truthy(text:find("Ended by SIG", 1, true), how)
        end)
      end
    end
  end)

  it("leave it after Ctrl-C and kill too", function()
    for signal, name in pairs{INT = "SIGINT", TERM = "SIGTERM"} do
      support.with_tempdir(function(dir)
        local prof = dir .. "/prof"
        local command = ("timeout --foreground --preserve-status -s %s 1 %s callgrind --top=0 --out=%s -- %s"):format(
          signal, support.kitlua, prof, support.guest_path("rv64/cat"))
        local r = support.run{"sh", "-c", ("mkfifo %s/in; exec 3<>%s/in; %s <%s/in"):format(dir, dir, command, dir)}
        assert.are.equal(128 + (signal == "INT" and 2 or 15), r.status, support.describe(r))
        assert.is_truthy((support.read(prof) or ""):find("Ended by " .. name, 1, true), support.describe(r))
      end)
    end
  end)
end)

describe("odd surroundings", function()
  it("an unlimited stack", function()
    local r = support.run{"sh", "-c", "ulimit -s unlimited && exec " .. support.kitlua .. " -- " .. good}
    assert.are.equal("hello, world\n", r.out, support.describe(r))
    assert.are.equal(7, r.status)
  end)
  it("little address space: a slower plane", function()
    if support.build:find("/asan", 1, true) then return pending("AddressSanitizer needs the address space itself") end
    local chunk = "local p = assert(emu:plane{bits = 1}) p:fill(emu.regs.pc, 4, 1) local n = 0 "
      .. "p:check('access', function() n = n + 1 end) emu:on('exit', function() assert(p:get(emu.images[1].low)) end)"
    local r = support.run{"sh", "-c", "ulimit -v 6000000 && exec " .. support.kitlua .. " -e " .. support.quote(chunk) .. " -- " .. good}
    assert.are.equal("hello, world\n", r.out, support.describe(r))
  end)
end)
