-- strace.lua: its lines, and the same programs under strace itself, built for the host.
local support = require "spec.support"
local text = require "spec.scripts.strace_text"

local function traced(guest, args, options, fields)
  return support.with(support.guest(guest:find("/") and guest or "rv64/" .. guest, args, {"strace", table.unpack(options or {})}),
    fields or {})
end

-- Lines of a trace, those of the C library's start-up left out. Several spaces before the result become one.
local function lines_of(trace)
  local out, begun = {}, not trace:find("mprotect(", 1, true)
  for line in trace:gmatch("[^\n]+") do
    if begun then out[#out + 1] = line:gsub(" += ", " = ") end
    begun = begun or line:find("mprotect(", 1, true) ~= nil
  end
  return out
end

local function lines(guest, args, options, fields)
  local run = support.run(traced(guest, args, options, fields))
  return lines_of(run.err), run
end

-- ---- against strace ------------------------------------------------------------------------------------------------

describe("strace.lua and strace agree on", function()
  local dir, works

  setup(function()
    support.make("guests")
    dir = support.build .. "/spec/strace"
    support.sh("mkdir -p " .. support.quote(dir))
    works = os.execute("strace -o /dev/null true 2>/dev/null")
  end)

  -- Builds a program for the host, and for riscv64 if it is none of the guests.
  local function build(name)
    local own = support.root .. "/spec/scripts/" .. name .. ".c"
    local source = support.exists(own) and own or support.root .. "/spec/guests/" .. name .. ".c"
    local flags = "-std=gnu11 -O2 -w -D_GNU_SOURCE -pthread -static -Ispec/guests"
    local native, guest = dir .. "/" .. name, support.guest_path("rv64/" .. name)
    support.sh(("gcc %s %s -o %s -lm"):format(flags, source, support.quote(native)))
    if source == own then
      guest = dir .. "/" .. name .. "-rv64"
      support.sh(("riscv64-linux-gnu-gcc %s %s -o %s"):format(flags, source, support.quote(guest)))
    end
    return native, guest
  end

  local function agree(name, ...)
    if not works then return pending("strace cannot trace here") end
    local native, guest = build(name)
    local args = {...}
    support.with_tempdir(function(a)
      support.with_tempdir(function(b)
        local runs = support.run_all{{"strace", "-f", "-o", a .. "/trace", native, cwd = a, table.unpack(args)},
          traced(guest, args, {"-f", "-o", b .. "/trace"}, {cwd = b})}
        assert.are.equal(runs[1].status, runs[2].status, support.describe(runs[2]))
        local want, got = support.read(a .. "/trace"), support.read(b .. "/trace")
        support.write(a .. "/lines", text.masked(text.parse(want)))
        support.write(b .. "/lines", text.masked(text.parse(got)))
        assert.are.equal("", support.sh(("diff %s/lines %s/lines || true"):format(a, b)))
      end)
    end)
  end

  it("calls of every kind", function() agree("strace_calls") end)
  for _, name in ipairs{"files", "memory", "polling", "timers", "kernelmisc"} do
    it("the guest " .. name, function() agree(name) end)
  end
  for _, how in ipairs{"11", "15", "39", "store", "load", "abort", "stack"} do
    it("how a program dies: " .. how, function() agree("die", how) end)
  end
end)

-- ---- lines, exactly -------------------------------------------------------------------------------------------------

describe("strace.lua", function()
  it("shows the exec that starts a program, and its end", function()
    local run = support.run(traced("asm_hello"))
    assert.are.equal("hello, world\n", run.out)
    assert.are.equal(7, run.status)
    local got = lines_of(run.err)
    assert.is_truthy(got[1]:match('^execve%(".*/asm_hello", %[".*"%.%.%.%], 0x%x+ /%* 2 vars %*/%) = 0$'), got[1])
    assert.are.same({'write(1, "hello, world\\n", 13) = 13', "exit(7) = ?", "+++ exited with 7 +++"}, {table.unpack(got, 2)})
  end)

  it("puts results in column 40", function()
    local run = support.run(traced("asm_hello"))
    assert.is_truthy(run.err:find('\nwrite(1, "hello, world\\n", 13)          = 13\n', 1, true), run.err)
    assert.is_truthy(run.err:find("\nexit(7)                                 = ?\n", 1, true), run.err)
    run = support.run(traced("asm_hello", {}, {"-f", "-o", "/dev/stderr"})) -- the process id counts
    assert.is_truthy(run.err:find('\n%d+ +write%(1, "hello, world\\n", 13%) += 13\n'), run.err)
    assert.are.equal(40, run.err:match("\n([^\n]*write[^\n]*) = 13\n"):len() + 1)
  end)

  it("shows pipes and forked children", function()
    support.with_tempdir(function(dir)
      local run = support.run(traced("forks", {"2"}, {"-f", "-o", dir .. "/trace"}))
      assert.are.equal("2 children\nok\n", run.out, support.describe(run))
      assert.are.equal("", run.err)
      local trace = text.parse(support.read(dir .. "/trace"))
      assert.are.equal(3, #trace)
      for i = 2, 3 do
        local status = trace[i][#trace[i]]:match("^%+%+%+ exited with (%d) %+%+%+$")
        assert.is_truthy(status == "0" or status == "1", trace[i][#trace[i]])
        assert.are.equal("exit_group(" .. status .. ")", trace[i][#trace[i] - 1]:match("^(.-) +="))
      end
      local forks = 0
      for _, line in ipairs(trace[1]) do
        if line:find("^clone%(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x%x+%) = %d+$") then
          forks = forks + 1
        end
      end
      assert.are.equal(2, forks)
    end)
  end)

  it("begins the lines of several processes with their ids", function()
    local _, run = lines("forks", {"2"}, {"-f"})
    local children = {}
    for pid in run.err:gmatch("strace: Process (%d+) attached\n") do children[pid] = true end
    for pid in pairs(children) do
      assert.is_truthy(run.err:find(("[pid %5s] +++ exited with "):format(pid), 1, true), run.err)
    end
    assert.is_truthy(next(children))
  end)

  it("leaves forked children alone without -f", function()
    local got = lines("forks", {"2"}, {"-e", "trace=exit_group,write"})
    local calls = {}
    for _, line in ipairs(got) do if not line:find("^%-%-%-") and not line:find("^execve") then calls[#calls + 1] = line end end
    assert.are.same({'write(1, "2 children\\nok\\n", 14) = 14', "exit_group(0) = ?", "+++ exited with 0 +++"}, calls)
  end)

  it("cuts the line of a call that lasts while another thread makes one", function()
    support.with_tempdir(function(dir)
      local run = support.run(traced("threads", {}, {"-f", "-o", dir .. "/trace"}))
      assert.are.equal("ok\n", run.out)
      local trace = support.read(dir .. "/trace")
      local cut, resumed = 0, 0
      for line in trace:gmatch("[^\n]+") do
        if line:find("^%d+ +futex%(0x.* <unfinished %.%.%.>$") then cut = cut + 1 end
        if line:find("^%d+ +<%.%.%. futex resumed>%) += ") then resumed = resumed + 1 end
        assert.is_truthy(line:find("^%d+ +[%w_]+%(") or line:find("^%d+ +<%.%.%. ") or line:find("^%d+ +[-+]"), line)
      end
      assert.is_true(cut > 0)
      assert.are.equal(cut, resumed)
      for _, lines_of_thread in ipairs(text.parse(trace)) do
        assert.are.equal("+++ exited with 0 +++", lines_of_thread[#lines_of_thread])
      end
    end)
  end)

  it("shows signals", function()
    local got = lines("die", {"15"}, {"-e", "trace=none"})
    assert.is_truthy(got[1]:match("^%-%-%- SIGTERM {si_signo=SIGTERM, si_code=SI_USER, si_pid=%d+, si_uid=%d+} %-%-%-$"), got[1])
    assert.are.equal("+++ killed by SIGTERM +++", got[2])
    got = lines("die", {"store"}, {"-e", "trace=none"})
    assert.are.same({"--- SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10} ---", "+++ killed by SIGSEGV +++"}, got)
    got = lines("die", {"15"}, {"-e", "trace=none", "-e", "signal=!TERM"})
    assert.are.same({"+++ killed by SIGTERM +++"}, got)
  end)

  it("goes on after an exec", function()
    support.with_tempdir(function(dir)
      local exitcode = support.guest_path("rv64/exitcode")
      local run = support.run(traced("execs", {exitcode, "9", "_exit"}, {"-e", "trace=execve,exit_group", "-o", dir .. "/trace"}))
      assert.are.equal(9, run.status)
      local got = lines_of(support.read(dir .. "/trace"))
      assert.are.equal(4, #got, support.read(dir .. "/trace"))
      assert.is_truthy(got[2]:find(('^execve%%("%s", %%["'):format(exitcode:gsub("%p", "%%%0"))), got[2])
      assert.is_truthy(got[2]:find(', "9", "_exit"], 0x%x+ /%* 1 var %*/%) = 0$'), got[2])
      assert.are.same({"exit_group(9) = ?", "+++ exited with 9 +++"}, {got[3], got[4]})
    end)
  end)

  it("shows an exec that fails", function()
    local got, run = lines("execs", {"/does/not/exist"}, {"-e", "execve"})
    assert.are.equal(1, run.status)
    assert.are.equal(4, #got, run.err) -- one is the program's own
    assert.is_truthy(got[2]:find('^execve%("/does/not/exist", %["/does/not/exist"%], 0x%x+ /%* 1 var %*/%) = %-1 ENOENT'), got[2])
  end)
end)

describe("strace.lua's options", function()
  local function calls(guest, args, options)
    local out = {}
    for _, line in ipairs((lines(guest, args, options))) do out[line:match("^[%w_]+") or "-"] = true end
    return out
  end

  it("-e trace=", function()
    assert.are.same({'openat(AT_FDCWD, "missing", O_RDONLY) = -1 ENOENT (No such file or directory)'},
      {(table.concat(lines("files", {}, {"-e", "trace=openat"}), "\n"):match('openat[^\n]*"missing"[^\n]*'))})
    assert.are.same({openat = true, lseek = true, ["-"] = true}, calls("files", {}, {"-e", "trace=openat,lseek"}))
    assert.are.same({openat = true, ["-"] = true}, calls("files", {}, {"-e", "openat"}))
    assert.are.same({execve = true, write = true, exit = true, ["-"] = true}, calls("asm_hello", {}, {"-e", "trace=!read"}))
    assert.are.same({execve = true, exit = true, ["-"] = true}, calls("asm_hello", {}, {"-e", "trace=!write"}))
    assert.are.same({write = true, writev = true, pwrite64 = true, ["-"] = true}, calls("files", {}, {"-e", "trace=/write"}))
  end)

  it("-e trace=%class", function()
    local got = calls("files", {}, {"-e", "trace=%file"})
    for _, name in ipairs{"openat", "newfstatat", "unlinkat", "renameat2", "getcwd"} do assert.is_true(got[name], name) end
    for _, name in ipairs{"read", "write", "close", "brk", "lseek"} do assert.is_nil(got[name], name) end
    got = calls("sockets", {}, {"-e", "trace=%network"})
    for _, name in ipairs{"socket", "bind", "listen", "getsockname"} do assert.is_true(got[name], name) end
    assert.is_nil(got.read)
    got = support.run(traced("exitcode", {"0", "_exit"}, {"-e", "trace=%memory"})).err
    for line in got:gmatch("[^\n]+") do
      assert.is_truthy(line:find("^brk%(") or line:find("^mprotect%(") or line:find("^mmap%(") or line:find("^%+%+%+"), line)
    end
  end)

  it("-e status=, -z, -Z", function()
    for _, line in ipairs((lines("files", {}, {"-Z"}))) do
      assert.is_truthy(line:find(" = -1 E", 1, true) or line:find("^%+%+%+"), line)
    end
    for _, options in ipairs{{"-z"}, {"-e", "status=successful"}} do
      for _, line in ipairs((lines("files", {}, options))) do assert.is_nil(line:find(" = -1 E", 1, true), line) end
    end
  end)

  it("-P", function()
    for _, line in ipairs((lines("files", {}, {"-P", "missing"}))) do
      assert.is_truthy(line:find('"missing"', 1, true) or line:find("^%+%+%+"), line)
    end
  end)

  it("-s", function()
    local got = lines("asm_hello", {}, {"-s", "5"})
    assert.are.equal('write(1, "hello"..., 13) = 13', got[2])
  end)

  it("-v", function()
    local got = table.concat(lines("files", {}, {"-v", "-e", "newfstatat"}), "\n")
    assert.is_truthy(got:find("{st_dev=makedev%([%x, x]+%), st_ino=%d+, st_mode=S_IFREG|0640, st_nlink=1, st_uid=%d+, st_gid=%d+, "),
      got:sub(1, 800))
  end)

  it("-y", function()
    local run = support.run(traced("files", {}, {"-y"}))
    assert.is_truthy(run.err:find("\nlseek(3<file>, -3, SEEK_END) ", 1, true), run.err:sub(1, 3000))
  end)

  it("-t, -tt, -ttt, -r, -T", function()
    for option, pattern in pairs{["-t"] = "^%d%d:%d%d:%d%d write%(", ["-tt"] = "^%d%d:%d%d:%d%d%.%d%d%d%d%d%d write%(",
      ["-ttt"] = "^%d+%.%d%d%d%d%d%d write%(", ["-r"] = "^ +%d%.%d%d%d%d%d%d write%(", ["-T"] = "^write%(.*%) = 13 <%d%.%d%d%d%d%d%d>$"} do
      local got = lines("asm_hello", {}, {option})
      assert.is_truthy(got[2]:find(pattern), option .. ": " .. got[2])
    end
  end)

  it("-o", function()
    support.with_tempdir(function(dir)
      local run = support.run(traced("asm_hello", {}, {"-o", dir .. "/trace"}))
      assert.are.same({"hello, world\n", "", 7}, {run.out, run.err, run.status})
      local got = lines_of(support.read(dir .. "/trace"))
      assert.are.equal('write(1, "hello, world\\n", 13) = 13', got[2])
      run = support.run(traced("asm_hello", {}, {"-o", dir .. "/no/such/trace"}))
      assert.are.equal(125, run.status)
      assert.is_truthy(run.err:find("cannot write the trace", 1, true) and run.err:find("No such file", 1, true), run.err)
    end)
  end)

  -- calls and errors by name
  local function summary(text_of_summary)
    local out = {}
    for _, seconds, each, n, errors, name in text_of_summary:gmatch("\n *([%d.]+) +([%d.]+) +(%d+) +(%d+) +(%d*) +([%w_]+)%f[\n]") do
      out[name] = {math.tointeger(n), math.tointeger(errors) or 0}
      assert.is_truthy(tonumber(seconds) and tonumber(each))
    end
    return out
  end

  it("-c", function()
    local run = support.run(traced("asm_hello", {}, {"-c"}))
    assert.are.equal("hello, world\n", run.out)
    local got = summary(run.err)
    assert.are.same({1, 0}, got.write)
    assert.are.same({1, 0}, got.execve)
    assert.are.same({2, 0}, got.total)
    -- Children's calls are in it with -f: 2 exits do not return, 2 forks.
    got = summary(support.run(traced("forks", {"2"}, {"-c", "-f", "-e", "trace=clone,set_robust_list"})).err)
    assert.are.same({clone = {2, 0}, set_robust_list = {3, 0}, total = {5, 0}}, got)
    got = summary(support.run(traced("forks", {"2"}, {"-c", "-e", "trace=clone,set_robust_list"})).err)
    assert.are.same({clone = {2, 0}, set_robust_list = {1, 0}, total = {3, 0}}, got)
  end)

  it("-C", function()
    local run = support.run(traced("asm_hello", {}, {"-C"}))
    assert.is_truthy(run.err:find("+++ exited with 7 +++\n% time", 1, true), run.err)
    assert.are.same({1, 0}, summary(run.err).write)
  end)

  it("-v -y stand whatever arguments calls have", function()
    support.make("os-tools")
    local program = support.build .. "/spec/tools/os_noise-rv64"
    local noise = support.guest(program, {"7", "4000"}, {"strace", "-v", "-y", "-f", "-o", "/dev/null"})
    local run = support.run(noise)
    assert(run.status == 0, support.describe(run))
  end)

  it("that are wrong", function()
    for _, options in ipairs{{"-e", "inject=all"}, {"--no-such"}, {"-s", "many"}} do
      local run = support.run(traced("asm_hello", {}, options))
      assert.are.equal(125, run.status, support.describe(run))
      assert.are.equal("", run.out)
    end
  end)
end)
