-- gcc's c-torture execute tests: each that passes under qemu-user passes here.
-- TORTURE=full runs all of them; TORTURE_OPT names another optimisation level than -O2.
local support = require "spec.support"

local full = os.getenv("TORTURE") == "full"
local opt = os.getenv("TORTURE_OPT") or "-O2"
local stride = full and 1 or 3
local base = support.build .. "/judges/torture/"

describe("c-torture " .. opt, function()
  it("passes where qemu-user passes", function()
    support.sh(("BUILD=%s sh spec/judges/torture.sh %d %s >&2"):format(support.quote(support.build), stride, opt))
    local names, commands, skipped, files = {}, {}, {}, 0
    for source in io.lines(base .. "list-" .. stride) do
      local name = source:sub(#base + 5, -3):gsub("/", "-")
      local verdict = assert(support.read(base .. opt .. "/" .. name .. ".verdict"), name):match("%w+")
      files = files + 1
      skipped[verdict] = (skipped[verdict] or 0) + 1
      if verdict == "pass" then
        names[#names + 1] = name
        commands[#commands + 1] = support.with(support.guest(base .. opt .. "/" .. name), {timeout = 120})
      end
    end
    io.stderr:write(("\nc-torture %s: %d files: %d to pass, %d do not compile, %d fail under qemu\n"):format(opt, files,
      #names, skipped.nocompile or 0, skipped.fail or 0))
    assert(#names > files * 0.95, "too few programs to judge by")
    local wrong = {}
    for i, run in ipairs(support.run_all(commands)) do
      if run.status ~= 0 then wrong[#wrong + 1] = names[i] .. ": " .. support.describe(run) end
    end
    assert(#wrong == 0, #wrong .. " tests fail:\n" .. table.concat(wrong, "\n"))
  end)
end)
