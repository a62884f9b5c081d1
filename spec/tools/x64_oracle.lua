-- Runs the x86-64 oracle (x64_oracle.h) natively and under kitlua, and narrows differences down to jobs and states.
--   lua5.4 spec/tools/x64_oracle.lua SEED FIRST N STATES [kitlua options ...]
-- As a module:
--   local oracle = require "spec.tools.x64_oracle"
--   local differences, cases = oracle.compare{seed = 1, first = 0, n = 1024, states = 8, options = {"script.lua"}}
-- `differences` is a text, "" if there are none.
local support = require "spec.support"
local lfs = require "lfs"

local M = {}

local TOOLS = support.build .. "/spec/tools/"
local CHUNK = 1024
local MAX_JOBS, MAX_LINES = 6, 40

local function quoted(list)
  local out = {}
  for i, word in ipairs(list) do out[i] = support.quote(word) end
  return table.concat(out, " ")
end

-- What the host executes: the runner's verdicts on a job of each form. Made once.
function M.verdicts()
  local path = support.build .. "/judges/x64_oracle.forms"
  local ours, tool = lfs.attributes(path, "modification"), lfs.attributes(TOOLS .. "x64_oracle_gen", "modification")
  if not ours or ours < tool then
    support.sh(("mkdir -p %s/judges && cd /tmp && %s forms 4 | %s jobs >%s.new && mv %s.new %s"):format(support.quote(support.build),
      TOOLS .. "x64_oracle_gen", TOOLS .. "x64_oracle", path, path, path))
  end
  return path
end

-- The shell command that runs jobs in one mode of the runner; `options`: kitlua's, nil: natively.
local function pipeline(job, mode, options)
  local runner = {TOOLS .. "x64_oracle", table.unpack(mode)}
  if options then runner = {support.kitlua, table.unpack(options)} end
  if options then
    for _, word in ipairs{"--", TOOLS .. "x64_oracle", table.unpack(mode)} do runner[#runner + 1] = word end
  end
  return ("timeout %d %s -x %s jobs %d %d %d %d | timeout %d %s"):format(job.timeout or 600, TOOLS .. "x64_oracle_gen", M.verdicts(),
    job.seed, job.first, job.n, job.states, job.timeout or 600, quoted(runner))
end

-- One run under kitlua, its output's hash lines.
function M.run(job, options)
  return support.run{"sh", "-c", pipeline(job, {"hash"}, options), timeout = 4000}
end

-- Both runs, at the same time: their outputs' lines.
local function both(job, mode, options)
  local results = support.run_all{{"sh", "-c", pipeline(job, mode), timeout = 4000},
    {"sh", "-c", pipeline(job, mode, options), timeout = 4000}}
  return results[1], results[2]
end

local function lines_of(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  return lines
end

local function tail(text)
  return #text > 600 and "..." .. text:sub(-600) or text
end

-- What a line is about: the state's case, and all but its last word.
local function keyed(lines)
  local keys, values, case = {}, {}, 0
  for _, line in ipairs(lines) do
    if line:match("^before rax ") then case = case + 1 end
    local key = case .. " " .. (line:match("^case ") and "case" or line:match("^memory %x+") or line:match("^(.*) ") or line)
    keys[#keys + 1], values[key] = key, line
  end
  return keys, values
end

-- The lines in which two lists differ, native ones with "-".
local function diff(a, b, out, limit)
  local keys, ours = keyed(a)
  local more, theirs = keyed(b)
  local n = 0
  for _, key in ipairs(more) do
    if not ours[key] then keys[#keys + 1] = key end
  end
  for _, key in ipairs(keys) do
    if ours[key] ~= theirs[key] then
      n = n + 1
      if n > limit then out[#out + 1] = "  ..." return end
      out[#out + 1] = ("  case %s\n  - %s\n  + %s"):format(key, ours[key] or "nothing", theirs[key] or "nothing")
    end
  end
end

local function show(job, index)
  return support.sh(("%s -x %s show %d %d 1"):format(TOOLS .. "x64_oracle_gen", M.verdicts(), job.seed, index))
end

local function describe_job(job, index, options, out)
  local one = {seed = job.seed, first = index, n = 1, states = job.states, timeout = 60}
  local native, ours = both(one, {"states"}, options)
  out[#out + 1] = show(job, index):gsub("\n$", "")
  diff(lines_of(native.out), lines_of(ours.out), out, MAX_LINES)
  if #native.out == #ours.out and native.out == ours.out then out[#out + 1] = "  alone it does not differ" end
  if ours.err ~= "" then out[#out + 1] = "  stderr: " .. tail(ours.err) end
end

local function describe_chunk(job, chunk, options, out)
  local first = math.max(chunk * CHUNK, job.first)
  local part = {seed = job.seed, first = first, n = math.min((chunk + 1) * CHUNK, job.first + job.n) - first, states = job.states}
  local native, ours = both(part, {"jobs"}, options)
  local a, b, shown = lines_of(native.out), lines_of(ours.out), 0
  local wrong = {}
  for i = 1, #a do
    if a[i] ~= b[i] then wrong[#wrong + 1] = tonumber(a[i]:match("job (%d+)")) end
    if not b[i] then out[#out + 1] = "chunk ends early: " .. tail(ours.err) break end
  end
  out[#out + 1] = ("chunk %d: %d jobs differ"):format(chunk, #wrong)
  for _, index in ipairs(wrong) do
    shown = shown + 1
    if shown > MAX_JOBS then break end
    describe_job(job, index, options, out)
  end
end

function M.compare(job)
  local options, out, cases = job.options or {}, {}, 0
  local native, ours = both(job, {"hash"}, options)
  local a, b, described = lines_of(native.out), lines_of(ours.out), 0
  assert(#a == (job.first + job.n - 1) // CHUNK - job.first // CHUNK + 1, "the native run failed: " .. support.describe(native))
  for i, line in ipairs(a) do
    cases = cases + tonumber(line:match("cases (%d+)"))
    if line ~= b[i] and described < (job.max_chunks or 2) then
      described = described + 1
      describe_chunk(job, tonumber(line:match("chunk (%d+)")), options, out)
    end
  end
  if described == 0 and #b ~= #a then out[1] = "more output than natively" end
  return table.concat(out, "\n"), cases
end

if arg and arg[0] and arg[0]:match("x64_oracle%.lua$") then
  local n = {}
  for i = 1, 4 do n[i] = assert(math.tointeger(tonumber(arg[i])), "usage: x64_oracle.lua SEED FIRST N STATES [options]") end
  local text, cases = M.compare{seed = n[1], first = n[2], n = n[3], states = n[4], options = {table.unpack(arg, 5)}}
  print(text == "" and cases .. " cases, no difference" or text)
  os.exit(text == "" and 0 or 1)
end

return M
