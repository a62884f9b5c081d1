-- Suppression files as Valgrind has them, parsed by lpeg.
--
--   local list = require "kit.suppressions".parse(text, "my.supp")     -- or nil, message
--   local s = require "kit.suppressions".find(list, {kind = "Addr4", frames = {{fn = "main", object = "/bin/x"}, ...}})
--
--   {
--      a name
--      Memcheck:Leak
--      match-leak-kinds: definite,possible
--      fun:mall*
--      ...
--      obj:/usr/lib/*
--      src:file.c:12
--   }
local lpeg = require "lpeg"
local P, S, C, Ct, Cg, Cp = lpeg.P, lpeg.S, lpeg.C, lpeg.Ct, lpeg.Cg, lpeg.Cp

local M = {}

local blank = S" \t\r"^0
local comment = blank * (P"#" * (1 - P"\n")^0)^-1 * P"\n"
local skip = comment^0
local text = C((1 - S"\r\n")^1 / 1) / function(s) return (s:gsub("%s+$", "")) end
local function line(pattern) return skip * blank * pattern * blank * P"\n" end
local stop = skip * blank * P"}"

local word = (1 - S"\r\n:,")^1
local tools = Ct(C(word) * (P"," * C(word))^0)
local heading = line(Ct(Cg(tools, "tools") * P":" * Cg(C((1 - S"\r\n \t")^1), "kind")))
local frame = line(Ct(
  P"..." * Cg(lpeg.Cc(true), "any") +
  Cg(C(P"fun" + P"obj" + P"src"), "what") * P":" * Cg(text, "pattern")))
local extra = line(-(P"fun:" + P"obj:" + P"src:" + P"..." + P"}") * text)
local entry = Ct(line(P"{") * Cg(Cp(), "at") * Cg(line(text), "name") * Cg(heading, "heading") * Cg(Ct(extra^0), "extra")
  * Cg(Ct((frame - stop)^0), "frames") * stop * blank * (P"\n" + -1))
local file = Ct(entry^0) * skip * blank * Cp()

-- A glob of * and ? as a Lua pattern.
local function glob(pattern)
  return "^" .. pattern:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".") .. "$"
end

local function line_of(whole, at)
  local _, n = whole:sub(1, at - 1):gsub("\n", "")
  return n + 1
end

local function is_memcheck(e)
  for _, tool in ipairs(e.heading.tools) do
    if tool == "Memcheck" then return true end
  end
end

-- Those of Memcheck's in the text; nil and a message if it is no suppression file.
function M.parse(whole, path)
  local entries, at = file:match(whole .. "\n")
  if at <= #whole then
    return nil, ("%s:%d: no suppression: '%s'"):format(path, line_of(whole, at), whole:sub(at, at + 30):match("[^\n]*"))
  end
  local list = {}
  for _, e in ipairs(entries) do
    for _, f in ipairs(e.frames) do f.lua = f.pattern and glob(f.pattern) end
    e.kind, e.path, e.line, e.used = e.heading.kind, path, line_of(whole, e.at) - 1, 0
    for _, l in ipairs(e.extra) do
      local kinds = l:match("^match%-leak%-kinds:%s*(.*)")
      if kinds then
        e.leaks = {}
        for kind in kinds:gmatch("%a+") do e.leaks[kind] = true end
      else
        e.param = glob(l)
      end
    end
    if is_memcheck(e) then list[#list + 1] = e end
  end
  return list
end

local function matches_frame(f, pattern)
  if pattern.what == "fun" then
    return f.fn and (f.fn:find(pattern.lua) or f.symbol and f.symbol:find(pattern.lua)) ~= nil
  elseif pattern.what == "obj" then
    return f.object ~= nil and f.object:find(pattern.lua) ~= nil
  end
  return f.file ~= nil and (("%s:%d"):format(f.file:match("[^/]*$"), f.line or 0):find(pattern.lua) or
    f.file:match("[^/]*$"):find(pattern.lua)) ~= nil
end

-- Patterns from i on match frames from k on; a shorter list of patterns is enough.
local function matches_from(patterns, frames, i, k)
  local p = patterns[i]
  if not p then return true end
  if p.any then
    for n = k, #frames + 1 do
      if matches_from(patterns, frames, i + 1, n) then return true end
    end
    return false
  end
  return frames[k] ~= nil and matches_frame(frames[k], p) and matches_from(patterns, frames, i + 1, k + 1)
end

local function matches(s, e)
  if s.kind ~= e.kind or (s.param and not (e.param or ""):find(s.param)) then return false end
  if s.leaks and not s.leaks.all and not s.leaks[e.leak] then return false end
  return matches_from(s.frames, e.frames, 1, 1)
end

-- The first that matches an error {kind, param, leak, frames}; nil.
function M.find(list, e)
  for _, s in ipairs(list) do
    if matches(s, e) then return s end
  end
end

-- The text of one that matches the error exactly.
function M.text(e)
  local lines = {"{", "   <insert_a_suppression_name_here>", "   Memcheck:" .. e.kind}
  if e.param then lines[#lines + 1] = "   " .. e.param end
  if e.leak then lines[#lines + 1] = "   match-leak-kinds: " .. e.leak end
  for _, f in ipairs(e.frames) do
    lines[#lines + 1] = f.fn and "   fun:" .. (f.symbol or f.fn) or "   obj:" .. (f.object or "*")
  end
  lines[#lines + 1] = "}"
  return table.concat(lines, "\n") .. "\n"
end

return M
