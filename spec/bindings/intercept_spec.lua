-- emu:replace and emu:wrap: in the program, in static binaries, in libraries that are opened later, indirect functions included.
local support = require "spec.support"
local kit = require "kit"

local programs = {"rv64/intercept", "rv64/intercept-dyn", "x64/intercept", "x64/intercept-dyn"}

-- The loader has one of its own.
local function length_of(program) return program:match("dyn") and "libc.so.6:strlen" or "strlen" end

-- Runs f(emu) before the program; what the program printed, and how it ended.
local function run(program, f, options)
  local emu <close> = assert(kit.open({support.guest_path(program)}, options or {}))
  local text = ""
  emu:on("syscall", {name = "write"}, function(ev)
    text = text .. emu.mem:read(ev.args[2], ev.args[3])
    ev.result = ev.args[3]
  end)
  f(emu)
  local stop = emu:run()
  assert.are.same({"exit", 0}, {stop.reason, stop.status})
  return text
end

describe("emu:replace", function()
  for _, program in ipairs(programs) do
    it("stands in for functions of " .. program, function()
      local lengths = 0
      local text = run(program, function(emu)
        emu:replace("twice", function(a, b) return 1000 + a + b end)
        emu:replace(length_of(program), function(p)
          lengths = lengths + 1
          return #emu.mem:cstring(p)
        end)
        emu:replace("ilogb", function() return -7 end)
      end)
      assert.are.equal("4 1011 1022 1031\n-7\n", text)
      assert.is_true(lengths > 0)
    end)
    it("leaves calls and returns of " .. program .. " to other observers, and goes when it is closed", function()
      local calls, returns, hook = 0, 0, nil
      local text = run(program, function(emu)
        hook = emu:replace("twice", function(a)
          if a == 20 then hook:close() end
          return a
        end)
        emu:on("call", {to = "twice"}, function() calls = calls + 1 end)
        emu:on("ret", function(from) if from == emu:symbol("twice").address then returns = returns + 1 end end)
      end)
      assert.are.equal("4 10 20 61\n10\n", text)
      assert.are.same({2, 2, 2}, {calls, returns, hook:hits()})
    end)
    it("works in the interpreter and in regions of one instruction: " .. program, function()
      for _, options in ipairs{{one_insn = true}, program:match("rv64") and {interp = true} or {requires_dispatch = true}} do
        local text = run(program, function(emu) emu:replace("twice", function(a, b) return a - b end) end, options)
        assert.are.equal("4 9 18 29\n10\n", text)
      end
    end)
  end
end)

describe("emu:wrap", function()
  for _, program in ipairs(programs) do
    it("sees arguments and results in " .. program, function()
      local log = {}
      local text = run(program, function(emu)
        emu:wrap("twice", {enter = function(a, b) log[#log + 1] = {a, b} end,
          leave = function(result)
            log[#log + 1] = result
            return result + 1
          end})
        emu:wrap(length_of(program), {leave = function(n) if n == 4 and #log == 0 then return 44 end end})
        emu:wrap("ilogb", {leave = function(n) return n * 2 end})
      end)
      assert.are.same({{10, 1}, 21, {20, 2}, 42, {30, 1}, 61}, log)
      assert.are.equal("44 22 43 62\n20\n", text)
    end)
  end
end)

describe("interception of what is opened later", function()
  it("waits for the symbol", function()
    local emu <close> = assert(kit.open{"lua5.4", "-e", 'require "lpeg" os.exit(3)'})
    local opened = {}
    emu:wrap("luaopen_lpeg", {enter = function(state) opened[#opened + 1] = state end, leave = function(n) opened[#opened + 1] = n end})
    assert.are.equal(3, emu:run().status)
    assert.are.equal(2, #opened)
    assert.are.equal(1, opened[2] & 0xffffffff)
  end)
end)
