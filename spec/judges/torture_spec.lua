-- gcc's c-torture execute tests: each that passes under qemu-user (x86-64: natively, with all instructions of this machine)
-- passes here. Every third file at -O2, for x86-64 every ninth; with the tag "verify" all of them, for riscv64 at three levels.
local support = require "spec.support"

local base = support.build .. "/judges/torture/"

-- Builds what is missing, runs what the judge passes, and fails with a list of what does not.
local function run_level(arch, stride, opt)
  support.sh(("BUILD=%s sh spec/judges/torture.sh %s %d %s >&2"):format(support.quote(support.build), arch, stride, opt))
  local programs = base .. arch .. "/" .. opt .. "/"
  local names, commands, verdicts, files = {}, {}, {pass = 0, nocompile = 0, fail = 0}, 0
  for source in io.lines(base .. "list-" .. stride) do
    local name = source:sub(#base + 5, -3):gsub("/", "-")
    local verdict = assert(support.read(programs .. name .. ".verdict"), name):match("%w+")
    files = files + 1
    verdicts[verdict] = verdicts[verdict] + 1
    if verdict == "pass" then
      names[#names + 1] = name
      commands[#commands + 1] = support.with(support.guest(programs .. name), {timeout = 120})
    end
  end
  io.stderr:write(("c-torture %s %s: of %d files, %d do not compile, %d fail under the judge, %d have to pass\n"):format(arch, opt,
    files, verdicts.nocompile, verdicts.fail, verdicts.pass))
  assert(verdicts.pass > files * 0.95, "too few programs to judge by")
  local control = support.run(support.guest(arch .. "/exitcode", {"42", "_exit"}))
  assert(control.status == 42, "exit statuses do not come through: " .. support.describe(control))
  local wrong = {}
  for i, run in ipairs(support.run_all(commands)) do
    if run.status ~= 0 then wrong[#wrong + 1] = names[i] .. ": " .. support.describe(run) end
  end
  assert(#wrong == 0, #wrong .. " tests fail:\n" .. table.concat(wrong, "\n"))
end

describe("c-torture", function()
  setup(function() support.make("guests") end)
  it("passes where qemu-user passes: every third file at -O2", function() run_level("rv64", 3, "-O2") end)
  it("passes where the machine passes: every ninth file at -O2", function() run_level("x64", 9, "-O2") end)
  for _, opt in ipairs {"-O2", "-O0", "-O3"} do
    it("passes where qemu-user passes: all at " .. opt .. " #verify", function() run_level("rv64", 1, opt) end)
  end
  it("passes where the machine passes: all at -O2 #verify", function() run_level("x64", 1, "-O2") end)
end)
