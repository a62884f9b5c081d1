-- The console, `kitlua -i`: driven through a pipe, and through a terminal made by script(1).
local support = require "spec.support"

local GREETING = "^kitlua [%d.]+, console; `help` lists the commands\n"

-- Types `lines` at the console of a guest; returns what each printed after the greeting and the first stop, and the run.
local function console(guest, args, lines, fields)
  local command = {support.kitlua, "-i"}
  if guest then
    command = support.guest("rv64/" .. guest, args, {"-i"})
  end
  local run = support.run(support.with(command, support.with({stdin = table.concat(lines, "\n") .. "\n"}, fields or {})))
  local text = run.out:gsub(GREETING, "")
  return text, run
end

-- Lines of a text, without the first `skip`.
local function lines_of(text, skip)
  local out = {}
  for line in text:gmatch("[^\n]+") do out[#out + 1] = line end
  return {table.unpack(out, (skip or 0) + 1)}
end

local function answers(guest, args, lines, fields)
  local text, run = console(guest, args, lines, fields)
  assert.are.equal("", run.err)
  return lines_of(text, guest and 1 or 0), run
end

-- Each line of `got` matches the pattern of the same place.
local function like(patterns, got)
  for i, pattern in ipairs(patterns) do
    assert.is_truthy((got[i] or ""):find(pattern), ("line %d: %s\nnot like %s\nin\n%s"):format(i, tostring(got[i]), pattern,
      table.concat(got, "\n")))
  end
  assert.are.equal(#patterns, #got, table.concat(got, "\n"))
end

describe("the console", function()
  setup(function() support.make("guests") end)

  it("shows where the program begins", function()
    local text, run = console("watched", {}, {"quit"})
    assert.is_truthy(run.out:find(GREETING))
    assert.is_truthy(text:find("^0x%x+ <_start>:  %l+\t[^\n]*\n$"), text)
    assert.are.equal(0, run.status)
  end)

  it("stops at breakpoints and goes on", function()
    like({"^breakpoint 1 at 0x%x+ <by_store> at watched%.c:7$", "^breakpoint 1$", "^0x%x+ <by_store> at watched%.c:7:  sd\ta0,",
      "^breakpoint 1$", "^0x%x+ <by_store> at watched%.c:7:  sd\ta0,", "^1 +breakpoint +by_store %(2 hits%)$",
      "^1122334455667788$", "^the program exited with status 0$"},
      answers("watched", {}, {"b by_store", "c", "c", "info breakpoints", "d 1", "c"}))
  end)

  it("takes a file and a line, an address, a register", function()
    local got = answers("watched", {}, {"b watched.c:8", "b *0x105a4", "b main", "b $pc", "b main+2", "info b"})
    like({"^breakpoint 1 at 0x%x+ <by_byte> at watched%.c:8$", "^breakpoint 2 at 0x105a4",
      "^breakpoint 3 at 0x%x+ <main> at watched%.c:%d+$",
      "^breakpoint 4 at 0x%x+ <_start>$", "^breakpoint 5 at 0x%x+ <main%+2>", "^1 ", "^2 ", "^3 ", "^4 ",
        "^5 +breakpoint +main%+2 %(0 hits%)$"}, got)
  end)

  it("has conditions and temporary breakpoints", function()
    like({"^breakpoint 1 at ", "^breakpoint 2 at ", "^breakpoint 2$", "<by_byte>", "^breakpoint 1$", "<by_store>",
      "^a0 +0x0000000000000002$",
      "^1 +breakpoint +by_store %(1 hit%)$"},
      answers("watched", {}, {"b by_store if $a0 == 2", "tb by_byte", "c", "c", "regs a0", "info breakpoints", "quit"}))
  end)

  it("watches memory", function()
    local got = answers("watched", {}, {"watch watched", "c", "c", "x/1dg watched", "d", "rwatch watched 8", "c", "bt", "d",
      "awatch neighbour", "c"})
    like({"^watchpoint 1 on 8 bytes at 0x%x+ %(store%)$", "^watch: store of 8 bytes at 0x%x+$", "<by_store%+4> at watched%.c:7:  ret$",
      "^watch: store of 1 bytes at 0x%x+$", "<by_byte%+4> at watched%.c:8:  ret$", "^0x%x+:\t0$",
        "^watchpoint 2 on 8 bytes at 0x%x+ %(load%)$",
      "^watch: load of 8 bytes at 0x%x+$", "<main%+%d+> at watched.c:19:", "^#0 +0x%x+ main at watched%.c:19$",
        "^#1 +0x%x+ __libc_start_call_main",
      "^#2 +0x%x+ __libc_start_main", "^#3 +0x%x+ _start", "^watchpoint 3 on 8 bytes at 0x%x+ %(access%)$", "^1122334455667788$",
      "^the program exited with status 0$"}, got)
  end)

  it("catches system calls, before they are made, and makes them once", function()
    local got, run = answers("watched", {}, {"catch syscall write", "c", "p $a7", "x/i $pc", "c"})
    like({"^catchpoint 1$", "^catchpoint 1: syscall write$", "<__libc_write%+%d+>:  ecall$", "^64 %(0x40%)$", "^0x%x+:\tecall$",
      "^1122334455667788$",
      "^the program exited with status 0$"}, got)
    assert.are.equal(0, run.status)
  end)

  it("catches signals", function()
    like({"^catchpoint 1$", "^before$", "^catchpoint 1: signal SIGSEGV$", "<.*> at die%.c:%d+:  ", "^the program was killed by SIGSEGV$",
      "^the program has ended$"}, answers("die", {"store"}, {"catch signal SIGSEGV", "c", "c", "c"}))
  end)

  it("shows the call stack", function()
    local got = answers("recurse", {"3"}, {"b descend if $a0 == 0", "c", "bt"})
    like({"^breakpoint 1", "^breakpoint 1$", "<descend>", "^#0 +0x%x+ descend at recurse%.c:%d+$", "^#1 +0x%x+ descend at recurse%.c:%d+$",
      "^#2 +0x%x+ descend at recurse%.c:%d+$", "^#3 +0x%x+ descend at recurse%.c:%d+$", "^#4 +0x%x+ main at recurse%.c:%d+$",
      "^#5 +0x%x+ __libc_start_call_main", "^#6 +0x%x+ __libc_start_main", "^#7 +0x%x+ _start in .*/recurse$"}, got)
  end)

  it("steps by instructions and by lines, and finishes functions", function()
    local got = answers("watched", {}, {"tb main", "c", "si", "si 2", "tb by_store", "c", "finish", "tb by_byte", "c", "finish", "regs pc"})
    like({"^breakpoint 1", "^breakpoint 1$", "<main> at", "^0x%x+ <main%+2> at", "^0x%x+ <main%+6> at", "^breakpoint 2", "^breakpoint 2$",
      "<by_store> at watched%.c:7", "<main%+%d+> at watched%.c:1%d:", "^breakpoint 3", "^breakpoint 3$", "<by_byte>",
        "<main%+%d+> at watched%.c:",
      "^pc "}, got)
  end)

  it("steps over calls with n and ni, into them with s", function()
    local got = answers("recurse", {"3"}, {"tb main", "c", "n", "n", "n", "n", "n", "n"})
    for _, line in ipairs(got) do assert.is_nil(line:find("<descend", 1, true), table.concat(got, "\n")) end
    got = answers("recurse", {"3"}, {"tb main", "c", "s", "s", "s", "s", "s", "s", "s", "s"})
    local inside = 0
    for _, line in ipairs(got) do if line:find("<main", 1, true) == nil then inside = inside + 1 end end
    assert.is_true(inside > 2, table.concat(got, "\n"))
    got = answers("asm_hello", {}, {"ni", "ni", "ni"})
    assert.are.equal(3, #got)
  end)

  it("shows registers", function()
    like({"^a0 +0x%x+  sp +0x%x+$", "^pc +0x%x+$", "^no register 'nosuch' on riscv64$"},
      answers("watched", {}, {"regs a0 sp", "regs $pc", "regs nosuch"}))
    local all = table.concat(answers("watched", {}, {"regs"}), "\n")
    for _, name in ipairs{"zero", "ra", "sp", "gp", "tp", "t6", "s11", "a7", "pc", "fflags"} do
      assert.is_truthy(all:find("%f[%a]" .. name .. " +0x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x"), name)
    end
  end)

  it("shows memory and instructions", function()
    local got = answers("asm_hello", {}, {"x/4i _start", "x/s message", "x/2xb message", "x/3c message", "x/1dw message",
      "x/uh message", "x 8",
      "x/s 8", "disas", "disas _start 2", "x/2i 8"})
    local text = table.concat(got, "\n")
    assert.is_truthy(text:find("^0x%x+:\t%l+[^\n]*\n0x%x+:\t[^\n]*\n0x%x+:\t[^\n]*\n0x%x+:\t"), text)
    assert.is_truthy(text:find("0x8 is not mapped", 1, true), text)
    assert.is_truthy(text:find("\n=> 0x%x+:\t"), text)
  end)

  it("shows variables", function()
    local got = answers("fib", {"5"}, {"tb main", "c", "info locals", "p argc", "p $a0 * 2", "p nosuch", "p watched"})
    like({"^breakpoint", "^breakpoint", "<main>", "^int argc = 2$", "^char %* %* argv = %d+$", "^unsigned int n = <optimized out>$",
      "^int argc = 2$", "^4 %(0x4%)$", "^nil$", "^nil$"}, got)
    like({"^watched at 0x%x+, 8 bytes$", "^no variables here$"}, answers("watched", {}, {"p watched", "info locals"}))
  end)

  it("lists threads and the memory map", function()
    local got = answers("threads", {}, {"catch syscall madvise", "c", "info threads", "info maps"})
    local text = table.concat(got, "\n")
    assert.is_truthy(text:find("\n%* %d+ %a+ 0x%x+ <"), text)
    assert.is_truthy(text:find("\n  %d+ %a+ 0x%x+ <"), text)
    assert.is_truthy(text:find("\n%x+%-%x+ [r-][w-][x-][ps-]? ?%x+ [^\n]*/threads\n"), text)
    assert.is_truthy(text:find("[stack]", 1, true), text)
  end)

  it("runs Lua, with emu, regs, mem and kit at hand", function()
    like({"^2 %(0x2%)$", "^riscv64$", "^true$", '^5 %(0x5%)\ttext$', "^7 %(0x7%)$", "^3$", "^%$a0 is text$", "^0x%x+$"},
      answers("watched", {}, {"1+1", "emu.arch", "regs.pc == $pc", "5, 'text'", "y = 7", "y", "for i = 3, 3 do print(i) end",
        "print('$a0 is text')",
        "('0x%x'):format(mem.u32[$pc])"}))
    like({"^9 %(0x9%)$", "^x: 4$"}, answers("watched", {}, {"x = 9", "return x", "c = 4", "print('x: ' .. c)"})) -- x and c are commands
  end)

  it("lets Lua change the guest", function()
    like({"^breakpoint", "^breakpoint", "<main>", "^watched at", "^watch", "^watch: store", "by_store", "^0x%x+:\t42$", "^breakpoint 3"},
      answers("watched", {}, {"tb main", "c", "p watched", "watch watched", "c", "mem.u64[emu:symbol('watched').address] = 42",
        "x/1dg watched", "b by_byte", "quit"}))
  end)

  it("repeats the last command for an empty line", function()
    local got = answers("asm_hello", {}, {"si", "", "", ""})
    assert.are.equal(4, #got)
    assert.are_not.equal(got[1], got[2])
  end)

  it("says what is wrong, and goes on", function()
    like({"^'nosuch' is no address$", "^no code for nosuch%.c:7$", "^watch what%?", "^no breakpoint 77$",
      "^info locals, breakpoints, threads or maps$",
      "^catch syscall or catch signal$", "^unexpected symbol near", "^attempt to call a nil value %(global 'nosuch'%)$", "^oops$",
        "^no register 'zz' on riscv64$",
      "^guest memory 0x0 .* is not mapped$", "^42 %(0x2a%)$"},
      answers("watched", {}, {"b nosuch", "b nosuch.c:7", "watch", "d 77", "info nosuch", "catch nosuch", "1 +", "nosuch()",
        "error('oops')", "p $zz",
        "x/s 0", "42"}))
  end)

  it("knows that the program has ended", function()
    like({"^hello, world$", "^the program exited with status 7$", "^the program has ended$", "^the program has ended$",
      "^the program has ended$",
      "^3 %(0x3%)$"}, answers("asm_hello", {}, {"c", "c", "regs", "bt", "1+2"}))
  end)

  it("works without a program", function()
    like({"^there is no program", "^there is no program", "^7 %(0x7%)$", "^commands:$", ".*"},
      {table.unpack(answers(nil, nil, {"c", "x/i 0", "3+4", "help"}), 1, 5)})
  end)

  it("ends the program with quit, and at the end of input", function()
    for _, ending in ipairs{{"tb main", "c", "quit"}, {"tb main", "c"}} do
      local got, run = answers("fib", {"5"}, ending)
      like({"^breakpoint", "^breakpoint", "<main>"}, got) -- and not its output
      assert.are.equal(0, run.status)
    end
  end)

  it("has every command in its help", function()
    local help = table.concat(answers(nil, nil, {"help"}), "\n")
    local doc = support.read(support.root .. "/doc/console.md")
    for name in ("b tb watch rwatch awatch catch d c s n si ni finish bt regs info x/NFU disas p help quit"):gmatch("%S+") do
      assert.is_truthy(help:find("\n  " .. name .. "%f[^%w/]"), name)
      assert.is_truthy(doc:find("`" .. name .. "%f[^%w/]") or doc:find("[`,] ?" .. name .. "%f[^%w]"), name .. " is not in doc/console.md")
    end
  end)
end)

-- ---- a terminal -------------------------------------------------------------------------------------------------------

-- Types at a terminal: steps are {text to wait for, how often it must be there by then, what to type}.
local FEED = [[
wait_for() {
  i=0
  while [ "$(grep -aoF -e "$1" typescript 2>/dev/null | wc -l)" -lt "$2" ] && [ $i -lt 400 ]; do sleep 0.02; i=$((i + 1)); done
}
]]

local function terminal(guest, args, steps)
  local feed = {FEED}
  for _, step in ipairs(steps) do
    feed[#feed + 1] = ("wait_for %s %d; printf %s"):format(support.quote(step[1]), step[2], support.quote(step[3]))
  end
  feed[#feed + 1] = "wait_for 'Script done' 1" -- the terminal closes with its input
  local inner = {}
  for i, word in ipairs(support.guest("rv64/" .. guest, args, {"-i"})) do inner[i] = support.quote(word) end
  local text, status, history
  support.run_all({{"sh", "-c", ("export HOME=$PWD TERM=dumb; { %s; } | script -qefc %s typescript >/dev/null"):format(
    table.concat(feed, "\n"), support.quote("exec " .. table.concat(inner, " "))), timeout = 20}}, function(run)
    text, status = support.read(run.dir .. "/typescript"), run.status
    text = text:gsub("\r", ""):gsub("^Script started[^\n]*\n", ""):gsub("\nScript done.*$", "\n")
    history = support.read(run.dir .. "/.kitlua_history")
  end)
  return text, status, history
end

describe("the console at a terminal", function()
  it("is interrupted by Ctrl-C, and the program reads what is typed after it goes on", function()
    local text, status = terminal("cat", {}, {{"(kit) ", 1, "c\\n"}, {"c\r\n", 1, ""}, {"(kit) c", 1, "first\\n"}, {"first", 2, "\\003"},
      {"(kit) ", 2, "p 40+2\\n"}, {"42 (0x2a)", 1, "bt\\n"}, {"(kit) ", 4, "c\\n"}, {"(kit) c", 2, "second\\n"}, {"second", 2, "\\004"},
      {"(kit) ", 5, "quit\\n"}})
    assert.is_truthy(text:find("interrupt\n0x%x+ <__libc_read%+%d+>:  "), text)
    assert.is_truthy(text:find("\n(kit) p 40+2\n42 (0x2a)\n", 1, true), text)
    assert.is_truthy(text:find("#0 +0x%x+ __libc_read [^\n]*\n#1 +0x%x+ main at cat%.c:9\n"), text)
    assert.is_truthy(text:find("first\nfirst\n", 1, true), text)
    assert.is_truthy(text:find("second\nsecond\n13 bytes\nthe program exited with status 0\n", 1, true), text)
    assert.are.equal(0, status, text)
  end)

  it("interrupts a program that computes", function()
    local text, status = terminal("alarm_spin", {}, {{"(kit) ", 1, "catch signal SIGALRM\\n"}, {"(kit) ", 2, "c\\n"},
      {"(kit) ", 3, "bt\\n"},
      {"(kit) ", 4, "quit\\n"}})
    assert.is_truthy(text:find("catchpoint 1: signal SIGALRM\n", 1, true), text)
    assert.are.equal(0, status, text)
  end)

  it("completes names, keeps a history, and ends at Ctrl-D", function()
    local text, status, history = terminal("watched", {}, {{"(kit) ", 1, "p by_st\\t\\n"}, {"(kit) ", 2, "\\020\\n"},
      {"(kit) ", 3, "\\004"}})
    assert.is_truthy(text:find("\nby_store at 0x%x+, %d+ bytes\n.*\nby_store at 0x%x+, %d+ bytes\n"), text)
    assert.are.equal(0, status, text)
    assert.is_truthy(history:find("by_store", 1, true), history)
  end)
end)
