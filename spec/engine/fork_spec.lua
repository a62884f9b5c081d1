-- Forked guests under a tool: a result for each process, and one caller of Lua.
local lfs = require "lfs"
local support = require "spec.support"

local function profiles(dir)
  local n = 0
  for name in lfs.dir(dir) do
    if name:match("^prof%.%d+$") then
      n = n + 1
      local text = support.read(dir .. "/" .. name)
      assert.are.equal(text:match("\nsummary: (%d+)"), text:match("\ntotals: (%d+)"))
    end
  end
  return n
end

describe("a guest that forks ten children", function()
  it("leaves eleven profiles under callgrind.lua", function()
    support.run_all({support.guest("rv64/forks", {}, {"callgrind", "--top=0", "--out=prof.%p"})}, function(r)
      assert.are.equal("10 children\nok\n", r.out, support.describe(r))
      assert.are.equal(11, profiles(r.dir))
    end)
  end)

  it("leaves one caller of Lua, in stock lua5.4", function()
    local script = ([[
      package.cpath = "%s/?.so;" .. package.cpath
      local kit = require "kit"
      local emu <close> = assert(kit.open{"%s"})
      emu:on("exit", function() local f = io.open("prof." .. emu.pid, "w") f:write("\nsummary: 1\ntotals: 1\n") f:close() end)
      local stop = emu:run()
      print("back", stop.reason, stop.status)
    ]]):format(support.build, support.guest_path("rv64/forks"))
    local command = {"lua5.4", "-e", script}
    if os.getenv("LD_PRELOAD") then command = {"env", "LD_PRELOAD=" .. os.getenv("LD_PRELOAD"), table.unpack(command)} end
    support.run_all({command}, function(r)
      assert.are.equal("10 children\nok\nback\texit\t0\n", r.out, support.describe(r))
      assert.are.equal(11, profiles(r.dir))
    end)
  end)

  it("leaves one caller of Lua in this very process", function()
    local kit = require "kit"
    local parent = 0
    do
      local emu <close> = assert(kit.open{support.guest_path("rv64/forks")})
      emu:on("syscall", {name = "write"}, function(ev) ev.result = ev.args[3] end)
      local stop = emu:run()
      assert.are.equal(0, stop.status)
      parent = parent + 1
    end
    assert.are.equal(1, parent)
  end)
end)
