-- Signals, threads' ends and processes as tools and the command's caller see them. What guests see of
-- them is in the sig_* and proc_* guests (spec/guests/index.lua).
local support = require "spec.support"

local function kitlua(chunk, ...)
  return support.run(support.with(support.guest("rv64/sig_events", {...}, {"-e", chunk}), {timeout = 20}))
end

local EVENTS = [[
local function show(...) io.stdout:write(table.concat({...}, " "), "\n") io.stdout:flush() end
emu:on("signal", function(ev) show("signal", ev.name, ev.action) %s end)
emu:on("fork", function(ev) show("fork", tostring(ev.vfork)) end)
emu:on("exit", function(ev) show("exit", ev.status, ev.signo) end)
]]

-- kit.so of a sanitizer build needs the runtime that the Makefile preloads for busted.
local function preload()
  local env = {"LANG=C", "PATH=" .. os.getenv("PATH")}
  for _, name in ipairs {"LD_PRELOAD", "ASAN_OPTIONS"} do
    if os.getenv(name) then env[#env + 1] = name .. "=" .. os.getenv(name) end
  end
  return env
end

describe("signals", function()
  setup(function() support.make("all guests") end)

  it("are seen with what they do; a death runs the exit hooks, in children too", function()
    local run = kitlua(EVENTS:format(""), "tour")
    local lines = {}
    for line in run.out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.are.equal("signal SIGUSR1 handler", lines[1])
    assert.are.equal("hits 1", lines[2])
    table.sort(lines)
    assert.are.same({"child 143", "exit 0 15", "exit 0 15", "fork false", "fork true", "hits 1",
      "signal SIGCHLD ignore", "signal SIGCHLD ignore", "signal SIGTERM kill", "signal SIGTERM kill",
      "signal SIGUSR1 handler", "vfork child 6"}, lines)
    assert.are.equal(143, run.status)
  end)

  it("can be kept from the guest", function()
    local run = kitlua(EVENTS:format("return 'replace'"), "tour")
    assert.are.equal(3, run.status)
    assert.truthy(run.out:find("hits 0\n", 1, true))
    assert.truthy(run.out:find("child 0\n", 1, true))
    assert.truthy(run.out:find("survived\n", 1, true))
  end)

  it("can stop the guest before they are delivered; a forked child does not stop", function()
    local run = kitlua([[
      emu:on("signal", function(ev) if ev.name ~= "SIGCHLD" then return "stop" end end)
      local at = emu:symbol("hit").address
      for i = 1, 3 do
        local s = emu:run()
        io.stderr:write(s.reason, " ", tostring(s.pc == at), "\n")
        if s.reason == "signal" then os.exit(9) end
      end]], "tour")
    assert.are.equal("hook false\nhook false\nsignal false\n", run.err)
    assert.truthy(run.out:find("child 143\n", 1, true))
    assert.are.equal(9, run.status)
  end)

  it("of Ctrl-C stop a console's guest, be it running or waiting", function()
    for _, mode in ipairs {"spin", "sleep"} do
      local run = kitlua([[
        emu:catch_interrupts(true)
        local pid = io.open("/proc/self/stat"):read("n")
        local again = io.popen("for i in 1 2; do sleep 0.3; kill -INT " .. pid .. "; done", "r")
        for i = 1, 2 do io.stderr:write(emu:run().reason, "\n") end
        again:close()
        emu:kill(9)]], mode)
      assert.are.equal("interrupt\ninterrupt\n", run.err, support.describe(run))
      assert.are.equal(137, run.status)
    end
  end)

  it("of Ctrl-C are the guest's otherwise, and its death keeps results", function()
    local run = kitlua([[
      local pid = io.open("/proc/self/stat"):read("n")
      emu:on("exit", function(ev) io.stderr:write("exit ", ev.signo, "\n") end)
      os.execute("(sleep 0.3; kill -INT " .. pid .. ") >/dev/null 2>&1 &")]], "spin")
    assert.are.equal("exit 2\n", run.err)
    assert.are.equal(130, run.status)
  end)

  it("that the guest's timers send end with it", function()
    for _ = 1, 20 do
      local run = kitlua("", "timer")
      assert.are.equal(0, run.status, support.describe(run))
    end
  end)

  it("kill an exec'ed program for its parent as they would natively", function()
    for mode, status in pairs {store = 139, abort = 134} do
      local run = support.run(support.guest("rv64/sig_events", {"exec", support.guest_path("rv64/die"), mode}))
      assert.are.equal(("status %d\n"):format(status), run.out:match("status %d+\n"), support.describe(run))
    end
  end)

  it("are the host program's own again when the guest is gone", function()
    local run = support.run(support.with({"lua5.4", "-e", ([[
      package.cpath = %q .. "/?.so;" .. package.cpath
      local kit = require "kit"
      local function state()
        local out = {}
        for line in io.lines("/proc/self/status") do if line:match("^Sig[BIC]") then out[#out + 1] = line end end
        return table.concat(out, " ")
      end
      local before = state()
      for _ = 1, 2 do
        local emu = assert(kit.open {%q, "timer"})
        local inside = state()
        assert(inside ~= before)
        assert(emu:run().reason == "exit")
        emu:close()
        assert(state() == before, state())
      end
      io.stderr:write "restored"]]):format(support.build, support.guest_path("rv64/sig_events"))}, {timeout = 20, env = preload()}))
    assert.are.equal("restored", run.err, support.describe(run))
  end)
end)
