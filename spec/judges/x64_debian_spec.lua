-- Debian's own binaries, unmodified (spec/judges/x64_commands.lua): same output, exit status and files left behind as natively,
-- without a tool, under a null tool, callgrind.lua and strace.lua. `make test`: what every Debian has, without a tool, and a
-- choice of it under the others; with the tag "verify" all of it.
local support = require "spec.support"
local commands = require "spec.judges.x64_commands"

local OBSERVE = support.root .. "/spec/tools/observe.lua"

-- name, what comes before the `--`; test: how many of the minimal rows `make test` runs (every n-th)
local ways = {
  {"no tool", function() return {} end, test = 2},
  {"null tool", function(row) return {OBSERVE, row.heavy and "fast" or "hooks"} end, test = 20},
  {"callgrind.lua", function() return {"callgrind", "--top=0", "--out=/dev/null"} end, test = 12},
  {"strace.lua", function() return {"strace", "-f", "-o", "/dev/null"} end, test = 12},
}

-- Copies the folder, runs the command in it, and lists what it leaves.
local RUN = [[cp -a "$0/." . && mkdir "$PWD.tmp" && export TMPDIR="$PWD.tmp"; [ -z "$IN" ] || exec <"$IN"; unset IN OLDPWD; exec "$@"]]
local LIST = [[cd %s && find . -printf '%%p %%M %%l\n' | sort && find . -type f -print0 | sort -z | xargs -0r md5sum]]

local function prepare(words, row, folder)
  local command = {"sh", "-c", RUN, folder}
  for _, word in ipairs(words) do command[#command + 1] = (word:gsub("^ROOT/", support.root .. "/")) end
  local env = {"LANG=C", "TZ=UTC", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "IN=" .. (row.stdin or "")}
  table.move(row.env or {}, 1, #(row.env or {}), #env + 1, env)
  return support.with(command, {env = env, timeout = row.timeout or 120})
end

local function ours(row, way, folder)
  local words = {support.kitlua}
  if row.children then words[2] = "--trace-children" end
  for _, list in ipairs {way[2](row), {"--"}, row.words} do table.move(list, 1, #list, #words + 1, words) end
  return prepare(words, row, folder)
end

-- What counts of a run: its folder's name and what the row's filter matches are masked.
local function text_of(row, text, dir)
  text = text:gsub(dir:gsub("%p", "%%%0"), "DIR")
  for _, pattern in ipairs(row.filter or {}) do text = text:gsub(pattern, "~") end
  return text
end

local function outcome(row, run)
  local err = row.keep and (run.err:match(row.keep) or run.err) or row.err and run.err or ""
  return table.concat({"status " .. run.status, row.keep and "" or text_of(row, run.out, run.dir), text_of(row, err, run.dir),
    row.leaves ~= false and support.sh(LIST:format(run.dir)) or ""}, "\n----\n")
end

local function outcomes(list)
  local results = {}
  local runs = support.run_all(list, function(run, i) results[i] = outcome(list[i].row, run) end)
  return results, runs
end

-- The first line in which two texts differ.
local function first_difference(want, got)
  local a, b = want:gmatch("([^\n]*)\n?"), got:gmatch("([^\n]*)\n?")
  for n = 1, math.huge do
    local x, y = a(), b()
    if x ~= y or not x then return ("line %d: natively <%s>, here <%s>"):format(n, tostring(x):sub(1, 300), tostring(y):sub(1, 300)) end
  end
end

local function check(rows, way)
  support.with_tempdir(function(folder)
    support.sh(("cd %s && { %s\n}"):format(folder, commands.folder))
    local list = {}
    for _, row in ipairs(rows) do
      list[#list + 1] = support.with(prepare(row.words, row, folder), {row = row})
      list[#list + 1] = support.with(ours(row, way, folder), {row = row})
    end
    local results, runs = outcomes(list)
    local wrong = {}
    for i, row in ipairs(rows) do
      local native, here = runs[2 * i - 1], runs[2 * i]
      local judged = native.status ~= 127 and native.status ~= 126 and not native.timeout
      assert(judged, row.title .. " fails natively\n" .. support.describe(native))
      if results[2 * i - 1] ~= results[2 * i] then
        local where = first_difference(results[2 * i - 1], results[2 * i])
        wrong[#wrong + 1] = ("%s\n  %s\n  stderr: %s"):format(row.title, where, here.err:sub(-400))
      end
    end
    assert(#wrong == 0, ("%d of %d differ:\n%s"):format(#wrong, #rows, table.concat(wrong, "\n")))
  end)
end

local groups = {}
for _, row in ipairs(commands.rows) do
  if not groups[row.group] then
    groups[row.group] = {}
    groups[#groups + 1] = row.group
  end
  table.insert(groups[row.group], row)
end

describe("Debian's", function()
  for _, way in ipairs(ways) do
    it(("commands in every Debian: %s"):format(way[1]), function()
      local rows, n = {}, 0
      for _, row in ipairs(commands.rows) do
        if row.minimal then
          n = n + 1
          if n % way.test == 0 then rows[#rows + 1] = row end
        end
      end
      check(rows, way)
    end)
    for _, group in ipairs(groups) do
      it(("%s: %s #verify"):format(group, way[1]), function() check(groups[group], way) end)
    end
  end
end)
