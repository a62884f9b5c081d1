-- Counts, errors and time by system call: strace's summary.
--
--   local shared = tally.file()             made before any fork: where forked children leave their counts
--   local t = tally.new()                   one for each process
--   t:add("read", seconds, failed)
--   t:leave(shared)                         a child, at its end
--   t:take(shared); t:merge(other)          the process that prints
--   t:print(out)
local M = {}
M.__index = M

function M.new() return setmetatable({}, M) end

M.file = io.tmpfile

local function row(self, name)
  local s = self[name] or {name = name, calls = 0, errors = 0, seconds = 0}
  self[name] = s
  return s
end

function M:add(name, seconds, failed)
  local s = row(self, name)
  s.calls, s.errors, s.seconds = s.calls + 1, s.errors + (failed and 1 or 0), s.seconds + seconds
end

local function add_up(s, calls, errors, seconds)
  s.calls, s.errors, s.seconds = s.calls + calls, s.errors + errors, s.seconds + seconds
end

function M:merge(other)
  for name, s in pairs(other) do add_up(row(self, name), s.calls, s.errors, s.seconds) end
end

-- One write, so that processes that end together do not mix.
function M:leave(file)
  local text = {}
  for name, s in pairs(self) do text[#text + 1] = ("%s %d %d %.6f\n"):format(name, s.calls, s.errors, s.seconds) end
  file:setvbuf("full", 65536)
  file:seek("end")
  file:write(table.concat(text))
  file:flush()
end

function M:take(file)
  file:seek("set")
  for text in file:lines() do
    local name, calls, errors, seconds = text:match("^(%S+) (%d+) (%d+) (%S+)$")
    add_up(row(self, name), math.tointeger(calls), math.tointeger(errors), tonumber(seconds))
  end
end

local RULE = "------ ----------- ----------- --------- --------- ----------------\n"

function M:print(out)
  local list, total = {}, {name = "total", calls = 0, errors = 0, seconds = 0}
  for _, s in pairs(self) do
    list[#list + 1] = s
    add_up(total, s.calls, s.errors, s.seconds)
  end
  table.sort(list, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return a.name < b.name
  end)
  local function put(s)
    local each = s.calls > 0 and s.seconds * 1000000 // s.calls | 0 or 0
    local share = s == total and 100 or total.seconds > 0 and 100 * s.seconds / total.seconds or 0
    out:write(("%6.2f %11.6f %11d %9d %9s %s\n"):format(share, s.seconds, each, s.calls, s.errors > 0 and s.errors or "", s.name))
  end
  out:write("% time     seconds  usecs/call     calls    errors syscall\n", RULE)
  for _, s in ipairs(list) do put(s) end
  out:write(RULE)
  put(total)
end

return M
