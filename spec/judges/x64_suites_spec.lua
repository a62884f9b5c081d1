-- Public test suites of x86-64 (spec/judges/x64_suites.sh): every program of QEMU's tests/tcg and Valgrind's none/tests/amd64
-- prints and ends under kitlua, without a tool and with tools, as natively, be that what the suite expects or not (then this
-- machine lacks something); those of Linux's selftests/x86 that pass natively pass.
local support = require "spec.support"

local ways = {
  {"no tool", {}},
  {"fast paths", {support.root .. "/spec/tools/observe.lua", "fast"}},
  {"callgrind.lua", {"callgrind", "--top=0", "--out=/dev/null"}},
  {"one instruction a region", {"--one-insn"}},
}

-- How many of each verdict a selftest gives: their texts have addresses and counts.
local function verdicts(text)
  local seen = {}
  for verdict in text:gmatch("%f[%[]%[(%u+)%]") do seen[verdict] = (seen[verdict] or 0) + 1 end
  return ("OK %d FAIL %d SKIP %d"):format(seen.OK or 0, seen.FAIL or 0, seen.SKIP or 0)
end
local function whole(text) return text end

-- test-x86_64 prints bytes of an array behind those that an instruction has written; vsyscall the time.
local function without_garbage(text)
  return (text:gsub("bcd=%x+(%x%x%x%x%x%x)", "bcd=...%1"):gsub("^1%d%d%d%d%d%d%d%d%d\n$", "TIME\n"))
end

-- What kitlua does not do, and which programs need it. They are run as well: one that comes to pass has to be taken off.
local needs = {
  ["ptrace (refused)"] = {"fsgsbase", "mov_ss_trap", "ptrace_syscall", "syscall_numbering"},
  ["modify_ldt, segments of its own"] = {"fsgsbase_restore", "ldt_gdt", "sigreturn"},
  ["32-bit code in a 64-bit program"] = {"sysret_ss_attrs"},
  ["the trap flag, which single-steps the program itself"] = {"single_step_syscall", "syscall_nt"},
  ["addresses above the line that guests live under"] = {"sysret_rip"},
  ["a vdso and the vsyscall page, where calls would be neither seen nor counted"] = {"test_vsyscall", "vsyscall"},
}
local missing = {sigtrap_loop = "tools: the trap flag"} -- without a tool it passes
for what, programs in pairs(needs) do
  for _, name in ipairs(programs) do missing[name] = what end
end

-- suite, how many programs have to pass natively for it to be a judge, what of the output is compared; all: not only what passes
local suites = {
  {"qemu", 20, without_garbage, all = true},
  {"valgrind", 45, whole, all = true},
  {"selftests", 12, verdicts},
}

local function programs_of(suite)
  local name, least = suite[1], suite[2]
  local dir, names, count = support.build .. "/judges/x64/" .. name .. "/", {}, {pass = 0, fail = 0, nocompile = 0}
  support.sh(("BUILD=%s sh spec/judges/x64_suites.sh %s >&2"):format(support.quote(support.build), name))
  for program in support.sh("cd " .. support.quote(dir) .. " && ls"):gmatch("(%S+)%.verdict") do
    local verdict = support.read(dir .. program .. ".verdict"):match("%w+")
    count[verdict] = count[verdict] + 1
    if verdict == "pass" or verdict == "fail" and suite.all then names[#names + 1] = program end
  end
  io.stderr:write(("%s: %d programs do not compile, %d pass natively, %d do not\n"):format(name, count.nocompile, count.pass, count.fail))
  assert(count.pass >= least, "too few programs to judge by")
  return dir, names
end

-- The first line in which two texts differ.
local function first_difference(want, got)
  local a, b = want:gmatch("([^\n]*)\n?"), got:gmatch("([^\n]*)\n?")
  for n = 1, math.huge do
    local x, y = a(), b()
    if x ~= y or not x then return ("line %d: natively <%s>, here <%s>"):format(n, tostring(x):sub(1, 300), tostring(y):sub(1, 300)) end
  end
end

local function check(suite, way)
  local dir, names = programs_of(suite)
  local list = {}
  for _, name in ipairs(names) do
    list[#list + 1] = {dir .. name, timeout = 100}
    list[#list + 1] = support.with(support.guest(dir .. name, {}, way), {timeout = missing[name] and 20 or 600})
  end
  local runs, wrong, compared = support.run_all(list), {}, suite[3]
  for i, name in ipairs(names) do
    local native, here = runs[2 * i - 1], runs[2 * i]
    local want, got = compared(native.out), compared(here.out)
    local same = native.status == here.status and want == got
    if missing[name] then
      local always = not missing[name]:find("^tools")
      if same and always then wrong[#wrong + 1] = name .. " passes: take it off the list" end
    elseif not same then
      wrong[#wrong + 1] = ("%s: natively status %d, here %d; %s\n  %s"):format(name, native.status, here.status,
        first_difference(want, got), here.err:sub(-300))
    end
  end
  assert(#wrong == 0, ("%d of %d differ:\n%s"):format(#wrong, #names, table.concat(wrong, "\n")))
end

describe("public test suite", function()
  for _, suite in ipairs(suites) do
    for _, way in ipairs(ways) do
      it(("%s: %s #verify"):format(suite[1], way[1]), function() check(suite, way[2]) end)
    end
  end
end)
