-- Every example, run over a real program; and none is longer than 40 lines.
local lfs = require "lfs"
local support = require "spec.support"

local function run(example, args, program, more)
  local options = {support.root .. "/examples/" .. example .. ".lua", table.unpack(args)}
  return support.run(support.guest(program, more, options))
end

describe("examples", function()
  setup(function() support.make("guests") end)

  it("are 40 lines or fewer, and each is run below", function()
    local known = {["hot_functions.lua"] = true, ["opensnoop.lua"] = true, ["who_wrote.lua"] = true, ["deny_store.lua"] = true,
      ["heat_map.lua"] = true, ["tripwire.lua"] = true, ["use_after_free.lua"] = true}
    for name in lfs.dir("examples") do
      if name:match("%.lua$") then
        assert.is_true(known[name], name .. " has no spec")
        local _, lines = support.read("examples/" .. name):gsub("\n", "")
        assert.is_true(lines <= 40, name)
      end
    end
  end)

  local libc = {rv64 = "/lib/libc.so.6", x64 = "/lib/x86_64-linux-gnu/libc.so.6"}
  local top = {
    rv64 = "^%s*%d+ +20%.%d+%%  strlen\n%s*%d+ +17%.%d+%%  memcpy\n%s*%d+ +1[12]%.%d+%%  next_random\n$",
    x64 = "%s*%d+ +2%d%.%d+%%  next_random\n", -- the string functions are those of the processor
  }

  for _, arch in ipairs{"rv64", "x64"} do
    for _, kind in ipairs{"", "-dyn"} do
      local function guest(name) return ("%s/%s%s"):format(arch, name, kind) end
      local function it_runs(name, f) it(("%s, %s%s"):format(name, arch, kind), f) end

      it_runs("hot_functions", function()
        local r = run("hot_functions", {"3"}, guest("demo"))
        assert.are.equal(0, r.status, support.describe(r))
        if kind == "" then assert.is_truthy(r.err:match(top[arch]), r.err) end
        assert.is_truthy(r.err:find("  next_random\n", 1, true), r.err)
      end)

      it_runs("opensnoop", function()
        local r = run("opensnoop", {}, guest("hello"))
        assert.are.equal("hello, world\n", r.out)
        if kind == "" then return end
        assert.is_truthy(r.err:find("fd 3     " .. libc[arch] .. "\n", 1, true), r.err)
        if arch == "rv64" then assert.is_truthy(r.err:find("ENOENT   /", 1, true), r.err) end
      end)

      it_runs("who_wrote", function()
        local r = run("who_wrote", {"watched"}, guest("watched"))
        assert.are.equal("1122334455667788\n", r.out)
        assert.are.equal(table.concat({
          "watched = 0  by by_store (watched.c:7)", "watched = 0  by by_byte (watched.c:8)",
          "watched = 1  by by_store (watched.c:7)", "watched = 257  by by_byte (watched.c:8)",
          "watched = 2  by by_store (watched.c:7)", "watched = 514  by by_byte (watched.c:8)",
          "watched = 1234605616436508552  by by_copy (watched.c:9)", ""}, "\n"), r.err)
      end)

      it_runs("deny_store", function()
        local r = run("deny_store", {"watched"}, guest("watched"))
        assert.are.equal(128 + 11, r.status)
        assert.are.equal("", r.out)
        assert.are.equal("store to watched denied at\n  #0 by_store watched.c:7\n  #1 main watched.c:15\nthe program ended by SIGSEGV\n",
          r.err:gsub("  #[2-9][^\n]*\n", ""))
      end)

      it_runs("heat_map", function()
        local r = run("heat_map", {"watched"}, guest("watched"))
        assert.is_truthy(r.err:find("^watched, 8 bytes: %[+%-?[^%]]+%]\n"), r.err)
      end)

      it_runs("tripwire", function()
        local r = run("tripwire", {"watched", "1", "1"}, guest("watched"))
        assert.is_truthy(r.out:find("^8 bytes written at watched%+0\n  by_store %(watched.c:7%)\n  main %(watched.c:15%)\n$"), r.out)
      end)

      it_runs("use_after_free", function()
        local r = run("use_after_free", {}, guest("badmem"), {"freed"})
        assert.is_truthy(r.out:find("^read of 1 bytes in misuse:%d+, in a freed block\n$"), r.out)
      end)
    end
  end
end)
