-- Option parsing for scripts.
--
--   local options = require "kit.options"
--   local opt = options.parse({...}, {
--     usage = "callgrind [options] -- PROGRAM [args]",
--     about = "Counts instructions and calls.",
--     {"out", "FILE", "where the profile goes; %p is the pid", default = "callgrind.out.%p"},
--     {"dump-instr", "yes|no", "positions by instruction", default = "no"},
--     {"f", nil, "follow children"},                       -- a flag: true or nil
--     {"n", "N", "how many", number = true, alias = "top"},
--     {"P", "PATH", "may be given again", many = true},    -- a list
--     {"tt", nil, "a long name with one dash", dash = "-"},
--   })
--   opt.out, opt["dump-instr"], opt.f, opt.n, opt.P; the rest in opt[1], opt[2] ...
--
-- Names of one letter are `-x VALUE` or `-xVALUE`, longer ones `--name=VALUE` or `--name VALUE`. Where the second field has bars, as
-- in "yes|no", it lists the values that are taken. `--help` prints and ends the script. Anything wrong raises one message without a
-- position, which the command prints as it is.
local M = {}

-- Errors for the user: what is wrong is said by the message alone, so they carry no position and get no traceback.
local Failure = {__tostring = function(self) return self.message end}

-- Ends the script with a message for the user.
function M.fail(format, ...)
  error(setmetatable({message = format:format(...)}, Failure), 0)
end

local function fail(spec, message)
  local script = spec.usage:match("^%S+")
  M.fail("%s: %s (%s --help lists the options)", script, message, script)
end

local function dashed(o, name)
  name = name or o[1]
  return (#name == 1 and "-" or o.dash or "--") .. name
end

-- The help text, one option a line, wrapped by hand where the texts are long.
function M.help(spec)
  local lines = {"usage: kitlua " .. spec.usage, ""}
  if spec.about then
    lines[#lines + 1] = spec.about
    lines[#lines + 1] = ""
  end
  for _, o in ipairs(spec) do
    local names = dashed(o) .. (o.alias and ", " .. dashed(o, o.alias) or "")
    local left = "  " .. names .. (o[2] and (#o[1] == 1 and not o.alias and " " or "=") .. o[2] or "")
    local default = o.default and o.default ~= "" and (" [%s]"):format(o.default) or ""
    lines[#lines + 1] = ("%-28s %s%s"):format(left, o[3], default)
  end
  lines[#lines + 1] = ("%-28s %s"):format("  --help", "this text")
  return table.concat(lines, "\n") .. "\n"
end

local function index(spec)
  local by_name = {}
  for _, o in ipairs(spec) do
    by_name[o[1]] = o
    if o.alias then by_name[o.alias] = o end
  end
  return by_name
end

local function store(spec, opt, o, value)
  if o.number then
    local n = math.tointeger(tonumber(value))
    if not n then fail(spec, ("%s needs a number, not '%s'"):format(dashed(o), value)) end
    value = n
  end
  if o[2] and o[2]:find("|", 1, true) and not ("|" .. o[2] .. "|"):find("|" .. value .. "|", 1, true) then
    fail(spec, ("%s is one of %s, not '%s'"):format(dashed(o), o[2], value))
  end
  if o.many then
    opt[o[1]] = opt[o[1]] or {}
    table.insert(opt[o[1]], value)
  else
    opt[o[1]] = value
  end
end

-- Splits "--name=value", "-xvalue"; returns name, value or nil.
local function split(word, by_name)
  local name, value = word:match("^%-%-([^=]+)=(.*)$")
  if name then return name, value end
  name = word:match("^%-%-(.+)$")
  if name then return name end
  name = word:sub(2)
  if by_name[name] then return name end
  return name:sub(1, 1), name:sub(2)
end

-- Clustered flags, as in -ff or -tt, are options of their own where the spec names them; else -fy is -f -y.
local function clustered(by_name, name, value)
  local o = by_name[name]
  return o and not o[2] and value and value ~= "" and #name == 1
end

function M.parse(args, spec)
  local by_name, opt = index(spec), {}
  local words, i = table.move(args, 1, #args, 1, {}), 1
  while i <= #words do
    local word = words[i]
    if word == "--help" or word == "-h" and not by_name.h then
      io.stdout:write(M.help(spec))
      os.exit(0, true)
    elseif word:match("^%-.") then
      local name, value = split(word, by_name)
      local o = by_name[name] or fail(spec, "unknown option " .. word)
      if clustered(by_name, name, value) then
        table.insert(words, i + 1, "-" .. value)
        value = nil
      end
      if not o[2] and value then fail(spec, dashed(o) .. " takes no value") end
      if o[2] and not value then
        i = i + 1
        value = words[i] or fail(spec, dashed(o) .. " needs a value")
      end
      store(spec, opt, o, o[2] and value or true)
    else
      opt[#opt + 1] = word
    end
    i = i + 1
  end
  for _, o in ipairs(spec) do
    if opt[o[1]] == nil and o.default ~= nil then opt[o[1]] = o.default end
  end
  return opt
end

-- "yes" or "no" as valgrind's options have it, or a flag's true.
function M.yes(value)
  return value == true or value == "yes"
end

-- An output file by its option: %p is the pid, %% a percent sign. Errors name the file.
function M.output_path(pattern, pid)
  return (pattern:gsub("%%([p%%])", {p = tostring(pid), ["%"] = "%"}))
end

-- Ends the script now, rather than after the program's run, if there will be no writing to that file.
function M.check_writable(path)
  local file, message, code = io.open(path, "r+")
  local is_new = code == 2 -- ENOENT
  if is_new then file, message = io.open(path, "w") end
  if not file then M.fail("cannot write %s", message) end
  file:close()
  if is_new then os.remove(path) end
end

return M
