-- memcheck: reads and writes of memory that is not the program's to touch, bad frees and leaks, in Valgrind's words.
--   kitlua memcheck -- ./prog args
--   kitlua memcheck --leak-check=full --show-leak-kinds=all --error-exitcode=9 -- ./prog
-- Undefined values are not checked.
local kit = require "kit"
local options = require "kit.options"
local memcheck = require "kit.memcheck"
local leaks = require "kit.memcheck_leaks"
local suppressions = require "kit.suppressions"

local opt = options.parse({...}, {
  usage = "memcheck [options] -- PROGRAM [args]",
  about = "Finds invalid reads and writes, bad frees and leaks of PROGRAM and its forked children. Undefined values are not checked.",
  {"leak-check", "no|summary|yes|full", "search for leaks at the end", default = "summary"},
  {"show-leak-kinds", "KINDS", "of definite,indirect,possible,reachable, or all, none", default = "definite,possible"},
  {"errors-for-leak-kinds", "KINDS", "which leaks count as errors", default = "definite,possible"},
  {"show-reachable", "yes|no", "the same as --show-leak-kinds=all", default = "no"},
  {"leak-check-heuristics", "NAMES", "of stdstring,length64,newarray,multipleinheritance, or all, none", default = "all"},
  {"error-exitcode", "N", "exit status if there were errors; 0: the program's", default = 0, number = true},
  {"num-callers", "N", "frames of a stack", default = 12, number = true},
  {"log-file", "FILE", "where reports go; %p is the process id"},
  {"quiet", nil, "only errors", alias = "q"},
  {"redzone-size", "BYTES", "at each end of a block", default = 16, number = true},
  {"freelist-vol", "BYTES", "freed memory that is kept from use", default = 20000000, number = true},
  {"freelist-big-blocks", "BYTES", "freed blocks of that size are used again first", default = 1000000, number = true},
  {"malloc-fill", "HEX", "byte that new blocks are filled with"},
  {"free-fill", "HEX", "byte that freed blocks are filled with"},
  {"partial-loads-ok", "yes|no", "aligned loads may reach beyond a block", default = "yes"},
  {"show-mismatched-frees", "yes|no", "malloc's blocks freed by delete and the like", default = "yes"},
  {"soname-synonyms", "LIST", "somalloc=PATTERN: taken, all objects' functions are replaced anyway"},
  {"run-libc-freeres", "yes|no", "the C library frees its own blocks at the end", default = "yes"},
  {"fullpath-after", "TEXT", "whole paths of source files"},
  {"show-below-main", "yes|no", "frames below main", default = "no"},
  {"suppressions", "FILE", "errors that are not to be reported; may be given again", many = true},
  {"gen-suppressions", "no|yes|all", "print the suppression of each error", default = "no"},
  {"s", nil, "list errors with their counts, and used suppressions, at the end"},
  {"track-fds", "yes|no|all", "descriptors left open at the end", default = "no"},
  {"undef-value-errors", "yes|no", "taken for Valgrind's sake; there are none", default = "no"},
})

local function set(list, all, name)
  local out = {}
  if list == "none" then return out end
  local known = {}
  for _, word in ipairs(all) do known[word] = true end
  for word in (list == "all" and table.concat(all, ",") or list):gmatch("[^,]+") do
    if not known[word] then options.fail("memcheck: --%s: there is no '%s' (%s)", name, word, table.concat(all, ", ")) end
    out[word] = true
  end
  return out
end

local function keys(of)
  local list = {}
  for word in pairs(of) do list[#list + 1] = word end
  table.sort(list)
  return list
end

local function byte(name)
  local text = opt[name]
  if not text then return nil end
  local n = tonumber((text:gsub("^0[xX]", "")), 16)
  if not n or n > 255 then options.fail("memcheck: --%s needs a byte in hexadecimal, not '%s'", name, text) end
  return n
end

local function read_suppressions()
  local all = {}
  for _, path in ipairs(opt.suppressions or {}) do
    local file, message = io.open(path, "r")
    if not file then options.fail("memcheck: cannot read %s", message) end
    local list, wrong = suppressions.parse(file:read("a"), path)
    file:close()
    if not list then options.fail("memcheck: %s", wrong) end
    table.move(list, 1, #list, #all + 1, all)
  end
  return #all > 0 and all or nil
end

local heuristics = {"stdstring", "length64", "newarray", "multipleinheritance"}
local show = options.yes(opt["show-reachable"]) and "all" or opt["show-leak-kinds"]
local checked = {
  quiet = opt.quiet, num_callers = opt["num-callers"], redzone = opt["redzone-size"], freelist = opt["freelist-vol"],
  freelist_big = opt["freelist-big-blocks"], malloc_fill = byte("malloc-fill"), free_fill = byte("free-fill"),
  partial_loads_ok = options.yes(opt["partial-loads-ok"]), mismatches = options.yes(opt["show-mismatched-frees"]),
  leak_check = opt["leak-check"] == "yes" and "full" or opt["leak-check"],
  show = set(show, leaks.states, "show-leak-kinds"), leak_errors = set(opt["errors-for-leak-kinds"], leaks.states, "errors-for-leak-kinds"),
  heuristics = keys(set(opt["leak-check-heuristics"], heuristics, "leak-check-heuristics")),
  freeres = options.yes(opt["run-libc-freeres"]), full_paths = opt["fullpath-after"] ~= nil,
  below_main = options.yes(opt["show-below-main"]), suppressions = read_suppressions(), statistics = opt.s,
  gen_suppressions = opt["gen-suppressions"] ~= "no",
  track_fds = opt["track-fds"] ~= "no" and opt["track-fds"],
}

local emu <close> = assert(kit.open(kit.command))
local log = io.stderr
if opt["log-file"] then
  local file, message = io.open(options.output_path(opt["log-file"], emu.pid), "w")
  log = file or options.fail("memcheck: cannot write %s", message)
end

function checked.write(s)
  log:write(s)
end

local run = memcheck.new(emu, checked)
if not opt.quiet then
  local text = run.text
  text:line("Memcheck, a memory error detector (kitlua %s)", kit.version)
  text:line("Undefined values are not checked.")
  text:line("Command: %s", table.concat(kit.command, " "))
  text:line()
end

local status
emu:on("exit", function(ev)
  if ev.signo > 0 then run:killed(ev.signo) end
  local errors = run:finish()
  log:flush()
  if errors > 0 and ev.signo == 0 and opt["error-exitcode"] ~= 0 then status = opt["error-exitcode"] end
end)

emu:run()
if status then os.exit(status, true) end
