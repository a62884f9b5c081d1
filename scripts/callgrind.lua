-- callgrind: exact instruction counts and call costs, as a callgrind.out file and a table on the terminal.
--   kitlua callgrind -- ./prog args
--   kitlua callgrind --dump-instr=yes --out=prof.%p --top=20 -- ./prog
local kit = require "kit"
local options = require "kit.options"
local profiles = require "kit.profile"
local callgrind_out = require "kit.callgrind_out"

local opt = options.parse({...}, {
  usage = "callgrind [options] -- PROGRAM [args]",
  about = "Counts every instruction and call of PROGRAM (and of its forked children, each with a file of its own).",
  {"out", "FILE", "where the profile goes; %p is the process id", default = "callgrind.out.%p", alias = "callgrind-out-file"},
  {"dump-instr", "yes|no", "costs by instruction, not just by line", default = "no"},
  {"collect-jumps", "yes|no", "jumps too", default = "no"},
  {"top", "N", "functions in the table; 0: no table", default = 15, number = true, alias = "n"},
  {"sort", "inclusive|self", "order of the table", default = "inclusive"},
})

local emu <close> = assert(kit.open(kit.command))
options.check_writable(options.output_path(opt.out, emu.pid))
local jumps = options.yes(opt["collect-jumps"])
local profile = profiles.new(emu, {jumps = jumps})

local function save(p, status)
  local path = options.output_path(opt.out, emu.pid)
  local file, message = io.open(path, "w")
  if not file then options.fail("callgrind: cannot write the profile: %s", message) end
  local ok, failure = callgrind_out.write(file, p, {
    dump_instr = options.yes(opt["dump-instr"]), jumps = jumps, pid = emu.pid,
    command = table.concat(kit.command, " "), desc = {"Trigger: Program termination", status},
  })
  if ok then ok, failure = file:close() end
  if not ok then options.fail("callgrind: cannot write the profile: %s: %s", path, failure) end
  return path
end

emu:on("exit", function(ev)
  local p = profile:collect()
  local status = ev.signo > 0 and "Ended by " .. kit.signal_name(ev.signo) or "Exit status " .. ev.status
  local path = save(p, status)
  if opt.top > 0 then
    io.stderr:write(("\n%s instructions, profile in %s\n\n"):format(profiles.commas(p.total), path), profiles.table(p, opt.top, opt.sort))
  end
end)

emu:run()
