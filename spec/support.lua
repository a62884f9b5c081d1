-- What specs share: where things are, and running programs with exact results.
--
--   local support = require "spec.support"
--   local run = support.run{"build/kitlua", "--", "prog", stdin = "x"}
--   assert.are.equal(0, run.status)            -- exit status; 128 + N if a signal killed it
--   run.out  run.err  run.signal  run.timeout  -- signal: N or nil; timeout: true if it was stopped
--
--   support.run_all(list_of_commands)          -- the same, two at a time, results in order
--   support.guest("rv64/hello", {"arg"})       -- the command that runs a guest under kitlua
--   support.qemu("rv64/hello", {"arg"})        -- ... and under qemu-user
--
-- A command is a list of words with these optional fields: stdin (text, default none), env (list of
-- NAME=VALUE; default LANG=C and PATH only), cwd (default: an empty directory of its own, removed
-- afterwards; `keep = true` hands it over as run.dir), timeout (seconds, default 60), slow_start.
local lfs = require "lfs"

local M = {}

M.root = lfs.currentdir()
M.build = os.getenv("BUILD") or "build"
if M.build:sub(1, 1) ~= "/" then M.build = M.root .. "/" .. M.build end
M.kitlua = os.getenv("KITLUA") or M.build .. "/kitlua"
M.sysroot = {rv64 = "/usr/riscv64-linux-gnu", aa64 = "/usr/aarch64-linux-gnu", x64 = "/"}
M.qemu_path = {rv64 = "/usr/bin/qemu-riscv64", aa64 = "/usr/bin/qemu-aarch64", x64 = "/usr/bin/qemu-x86_64"}
M.jobs = tonumber(os.getenv("JOBS")) or 2

function M.quote(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

local function words(list)
  local quoted = {}
  for i, word in ipairs(list) do quoted[i] = M.quote(word) end
  return table.concat(quoted, " ")
end

function M.read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text = file:read("a")
  file:close()
  return text
end

function M.write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end

function M.exists(path)
  return lfs.attributes(path, "mode") ~= nil
end

-- Runs a shell command that has to succeed; returns what it printed.
function M.sh(command)
  local pipe = assert(io.popen(command, "r"))
  local text = pipe:read("a")
  local ok, how, code = pipe:close()
  if not ok then error(("%s %s: %s"):format(how, code, command), 2) end
  return text
end

function M.tempdir()
  return (M.sh("mktemp -d /tmp/kitlua-spec.XXXXXX"):gsub("\n$", ""))
end

function M.remove(dir)
  assert(dir:match("^/tmp/kitlua%-spec%.%w+$"), dir)
  M.sh("rm -rf " .. dir)
end

-- Calls f(dir) with a directory that is gone afterwards, whatever happens.
function M.with_tempdir(f)
  local dir = M.tempdir()
  local result = table.pack(xpcall(f, debug.traceback, dir))
  M.remove(dir)
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

-- The child of xargs: runs case N of a directory and notes how it ended. os.execute, unlike a shell's
-- $?, tells an exit status of 139 from a death by SIGSEGV.
local RUN_ONE = [[
local base = ...
local _, how, code = os.execute("exec sh " .. base .. ".sh")
local file = assert(io.open(base .. ".end", "w"))
file:write(how, " ", code)
file:close()]]

local function write_case(base, command)
  if command.stdin then M.write(base .. ".in", command.stdin) end
  if not command.cwd then assert(lfs.mkdir(base .. ".dir")) end
  M.write(base .. ".sh", table.concat({
    "ulimit -c 0", "cd " .. M.quote(command.cwd or base .. ".dir") .. " || exit 125",
    ("exec timeout -v -k 5 %g env -i %s %s <%s >%s.out 2>%s.err"):format(
      command.timeout or 60, words(command.env or {"LANG=C", "PATH=" .. os.getenv("PATH")}), words(command),
      command.stdin and base .. ".in" or "/dev/null", base, base),
  }, "\n"))
end

local function read_case(base, command)
  local how, code = assert(M.read(base .. ".end"), "no result for " .. words(command)):match("(%a+) (%d+)")
  code = math.tointeger(code)
  local run = {out = M.read(base .. ".out") or "", err = M.read(base .. ".err") or "", status = code,
    dir = not command.cwd and base .. ".dir" or nil}
  if how == "signal" then run.signal, run.status = code, 128 + code end
  -- timeout -v says so on the command's stderr when it stopped it; a guest may leave with 124 by itself.
  local text, stopped = run.err:gsub("timeout: sending signal %u+ to command [^\n]*\n", "")
  run.err, run.timeout = text, stopped > 0
  return run
end

-- Runs every command, `jobs` at a time; returns their results in order.
-- `each(run, i)`, when given, sees every result while its directory still exists.
function M.run_all(commands, each, jobs)
  if #commands == 0 then return {} end
  return M.with_tempdir(function(dir)
    local bases = {}
    for i, command in ipairs(commands) do
      bases[i] = ("%s/%d"):format(dir, i)
      write_case(bases[i], command)
    end
    M.write(dir .. "/list", table.concat(bases, "\n") .. "\n")
    M.write(dir .. "/one.lua", RUN_ONE)
    M.sh(("xargs -P%d -n1 lua5.4 %s/one.lua <%s/list"):format(jobs or M.jobs, dir, dir))
    local results = {}
    for i, command in ipairs(commands) do
      results[i] = read_case(bases[i], command)
      if each then each(results[i], i) end
      results[i].dir = nil
    end
    return results
  end)
end

function M.run(command, each)
  return M.run_all({command}, each)[1]
end

local function extend(list, more)
  table.move(more or {}, 1, #(more or {}), #list + 1, list)
  return list
end

-- A path of a guest: absolute, or below build/guests.
function M.guest_path(program)
  return program:sub(1, 1) == "/" and program or M.build .. "/guests/" .. program
end

-- The command that runs `program` under kitlua. `options` go before the `--` (script and its options).
function M.guest(program, args, options)
  return extend(extend(extend({M.kitlua}, options), {"--", M.guest_path(program)}), args)
end

function M.qemu(program, args, arch)
  arch = arch or program:match("^(%w+)/") or "rv64"
  return extend({M.qemu_path[arch], "-L", M.sysroot[arch], M.guest_path(program)}, args)
end

-- Where a guest finds programs to execute. qemu-user hands an exec to the host, which cannot run a foreign
-- file: under it, guests execute wrapper scripts of the same names (see guests.mk).
function M.exec_dir(arch) return M.build .. "/guests/" .. arch end
function M.qemu_exec_dir(arch) return M.build .. "/guests/" .. arch .. "/qemu" end

-- kitlua itself, or qemu-user standing in for it (KITLUA=qemu-riscv64).
if M.kitlua:find("^qemu%-") then
  function M.guest(program, args) return M.qemu(program, args) end
  M.exec_dir, M.stand_in = M.qemu_exec_dir, true
end

-- A command with fields set: with(support.guest(...), {stdin = "x"}).
function M.with(command, fields)
  for name, value in pairs(fields) do command[name] = value end
  return command
end

-- A short text of how a run ended and what it said, for messages.
function M.describe(run)
  local function short(text) return #text > 600 and text:sub(1, 300) .. " ... " .. text:sub(-300) or text end
  return ("status %d%s%s\nstdout: %s\nstderr: %s"):format(run.status, run.signal and " by signal" or "",
    run.timeout and " (timed out)" or "", short(run.out), short(run.err))
end

-- Makes targets below build/ (busted may be started without make).
function M.make(target)
  M.sh(("MAKEFLAGS= make -s -j%d -C %s BUILD=%s %s >&2"):format(M.jobs, M.quote(M.root), M.quote(M.build), target))
end

return M
