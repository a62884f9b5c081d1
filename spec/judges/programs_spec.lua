-- Real programs, dynamically linked: same standard output and exit status as under qemu-user.
local support = require "spec.support"

local J = support.build .. "/judges/rv64/"
local LUA = support.root .. "/spec/judges/lua/"

-- One pass of speedtest1 prints timings, which differ; the rest, and its hash over all results, must not.
local function without_times(text)
  return (text:gsub("%d+%.%d+s", "TIME"))
end

-- Incompressible, repetitive and textual input, the same on every run.
local function sample()
  local parts, x = {}, 42
  for i = 1, 20000 do
    x = (x * 1103515245 + 12345) & 0x7fffffff
    parts[i] = i % 3 == 0 and string.pack("<I4", x) or i % 3 == 1 and ("ab"):rep(x % 8) or "some words of text\n"
  end
  return table.concat(parts)
end

local cases = {}
local function case(name, program, args, fields)
  local c = fields or {}
  c.name, c.program, c.args = name, program, args
  cases[#cases + 1] = c
end

for _, script in ipairs {"strings", "gc", "coroutines", "floats", "objects"} do
  case("lua " .. script, "lua", {LUA .. script .. ".lua"})
end
case("lua files", "lua", {LUA .. "files.lua"}, {status = 3, stdin = "one\ntwo\nno newline at the end"})
case("lua -e", "lua", {"-e", "print(_VERSION, ...)", "-v"})
case("lua with an error", "lua", {"-e", "print(1); local t = nil; print(t.x)"}, {status = 1})
case("bzip2", "bzip2", {"-c"}, {stdin = sample()})
case("bzip2 -1", "bzip2", {"-1c"}, {stdin = sample()})
case("bzip2 of nothing", "bzip2", {"-c"})
case("minigzip", "minigzip", {}, {stdin = sample()})
case("minigzip -9", "minigzip", {"-9"}, {stdin = sample()})
case("zlib example", "zlib-example", {})
case("speedtest1", "speedtest1", {"--size", "1", "--verify", ":memory:"}, {filter = without_times})
case("speedtest1 on a file", "speedtest1", {"--size", "1", "--verify", "--testset", "cte", "test.db"},
  {filter = without_times})
case("workers", "workers", {})

-- $BIN on dash's PATH has the applets of busybox; qemu-user needs wrapper scripts there.
local pipelines = {
  {"arithmetic and loops", 'i=0; while [ $i -lt 50 ]; do i=$((i + 1)); done; echo $i; exit 7', 7},
  {"pipeline", 'seq 1 500 | sort -r | head -n 5 | tr "\\n" " "; seq 1 100 | awk "{s += \\$1} END {print s}"'},
  {"subshells and substitution", 'x=$(seq 1 20 | grep 1 | wc -l); (exit 3); echo $? $x $(echo a; echo b)'},
  {"here document, sed, cut", "cat <<E | sed 's/o/0/g' | cut -d' ' -f2\nfoo boo\nzoo moo\nE"},
  {"files and redirections", 'mkdir d; seq 1 300 >d/a; cp d/a d/b; cat d/a d/b | sort -n | uniq | md5sum; rm -r d; ls'},
  {"background and wait", 'for i in 1 2 3 4; do (sleep 0.0$i; exit $i) & done; wait; (exit 5) & wait $!; echo $?'},
  {"signals and traps",
    'trap "echo got USR1" USR1; kill -USR1 $$; sh_pid=$$; (kill -USR1 $sh_pid); echo done; kill -TERM $$', 143},
  {"missing command", 'no-such-command; echo $?; exec /does/not/exist', 127},
  {"xargs and env", 'seq 1 30 | xargs -n 7 echo; A=1 env | grep "^A="; printf "%05d|%s\\n" 42 x'},
  {"broken pipe", 'seq 1 100000 | head -n 1; echo ok'},
}
for _, pipeline in ipairs(pipelines) do
  case("dash: " .. pipeline[1], "dash", {"-c", pipeline[2]}, {shell = true, status = pipeline[3]})
end

local function prepare(command, c, bin)
  local env = {"LANG=C", "PATH=" .. (c.shell and bin or "/nowhere")}
  return support.with(command, {stdin = c.stdin, env = env, timeout = 120})
end

local function compare(c, ours, theirs)
  local filter = c.filter or function(text) return text end
  local what = ("ours: %s\nunder qemu: %s"):format(support.describe(ours), support.describe(theirs))
  assert(theirs.status == (c.status or 0) and #theirs.out > 0
    and not theirs.err:find("qemu[^\n]*not found"), "the judge failed\n" .. what)
  assert(ours.status == theirs.status, "status\n" .. what)
  assert(filter(ours.out) == filter(theirs.out), "stdout\n" .. what)
end

describe("real program", function()
  local ours, theirs

  setup(function()
    support.make("programs")
    local commands, judges = {}, {}
    for i, c in ipairs(cases) do
      commands[i] = prepare(support.guest(J .. c.program, c.args), c, J .. (support.stand_in and "bin-qemu" or "bin"))
      judges[i] = prepare(support.qemu(J .. c.program, c.args), c, J .. "bin-qemu")
    end
    ours, theirs = support.run_all(commands), support.run_all(judges)
  end)

  for i, c in ipairs(cases) do
    it(c.name, function() compare(c, ours[i], theirs[i]) end)
  end

  -- What one side packed, this machine's own tools unpack; and our unpacking gives the input back.
  local function round_trip(name, native, program, flags)
    it(name .. " round trip", function()
      local input, packed
      for i, c in ipairs(cases) do
        if c.name == name then input, packed = c.stdin, ours[i].out end
      end
      assert(#packed > 1000 and #packed < #input, "packed to " .. #packed)
      assert(support.run(support.with(native, {stdin = packed})).out == input, "the native tool gives other data")
      assert(support.run(support.with(support.guest(J .. program, flags), {stdin = packed})).out == input,
        "our unpacking gives other data")
    end)
  end
  round_trip("bzip2", {"bzip2", "-dc"}, "bzip2", {"-dc"})
  round_trip("bzip2 -1", {"bzip2", "-dc"}, "bzip2", {"-dc"})
  round_trip("minigzip", {"gzip", "-dc"}, "minigzip", {"-d"})

  it("bzip2 refuses damaged input", function()
    local result = support.run(support.with(support.guest(J .. "bzip2", {"-dc"}), {stdin = "BZh9nonsense"}))
    assert.are.equal(2, result.status)
  end)
end)
