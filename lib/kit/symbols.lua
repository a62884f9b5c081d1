-- Symbolisation with a cache: what function, object, file and line an address belongs to.
--
--   local symbols = require "kit.symbols".new(emu)
--   local f = symbols:fn(pc)        -- {name, address, size, object, id}: one table per function, so it can be a key
--   local file, line = symbols:line(pc)
--   symbols:describe(pc)            -- "main (hello.c:7)"
--
local kit = require "kit"

local M = {}
M.__index = M

-- Code that a program makes: how far a function may reach from where it was called.
local MADE_CODE = 64 * 1024

function M.new(emu)
  return setmetatable({emu = emu, by_pc = {}, by_start = {}, frames_of = {}, objects = {}, entries = {},
    count = 0, line_low = 0, line_end = 0}, M)
end

-- The object (image) that holds pc: {path, bias, low, high} or nil.
function M:object(pc)
  local objects = self.objects
  for i = 1, #objects do
    local o = objects[i]
    if pc >= o.low and pc < o.high then return o end
  end
  local images = self.emu.images
  if #images ~= #objects then
    self.objects = images
    if #images > #objects then return self:object(pc) end
  end
end

-- Code without symbols or unwinding tables is cut at the addresses that were called: the greatest entry that is not above pc, in
-- the same object.
function M:set_entries(entries)
  table.sort(entries)
  self.entries = entries
end

local function entry_before(entries, pc)
  local low, high = 1, #entries
  while low <= high do
    local mid = (low + high) // 2
    if entries[mid] > pc then high = mid - 1 else low = mid + 1 end
  end
  return entries[high]
end

local function unknown(self, pc)
  local object = self:object(pc)
  local from, size = self.emu:extent(pc)
  if from then return {name = ("0x%016x"):format(from - object.bias), address = from, size = size, object = object.path} end
  local start = entry_before(self.entries, pc)
  local lowest = object and object.low or pc - MADE_CODE
  if not start or start < lowest or not object and self:object(start) then start = object and object.low or pc end
  local name = object and start == object.low and "???" or ("0x%016x"):format(object and start - object.bias or start)
  return {name = name, address = start, size = 1, object = object and object.path or "", unknown = true}
end

-- The function of pc: one table for each function, so it can be a key.
function M:fn(pc)
  local f = self.last
  if f and pc >= f.address and pc < f.address + f.size then return f end -- neighbours come one after another
  f = self.by_pc[pc]
  if f then return f end
  local s = self.emu:symbol(pc) or unknown(self, pc)
  f = self.by_start[s.address]
  if not f then
    f = s
    f.name = f.name:gsub("^_Z[^@]*", kit.demangle) -- name@plt
    self.count = self.count + 1
    f.id = self.count
    self.by_start[s.address] = f
  end
  self.by_pc[pc] = f
  if not f.unknown then self.last = f end
  return f
end

-- Frames at pc, innermost inlined function first: arrays of {fn, file, line}; empty if there is no debug information.
function M:frames(pc)
  local frames = self.frames_of[pc]
  if not frames then
    frames = self.emu:lookup(pc) or {}
    self.frames_of[pc] = frames
  end
  return frames
end

-- File and line of pc; nil if unknown.
function M:line(pc)
  if pc < self.line_low or pc >= self.line_end then
    self.file_there, self.line_there, self.line_end = self.emu:source(pc)
    self.line_low, self.line_end = pc, self.line_end or pc + 1
  end
  return self.file_there, self.line_there
end

function M:describe(pc)
  local f = self:fn(pc)
  local file, line = self:line(pc)
  if file then return ("%s (%s:%d)"):format(f.name, file:match("[^/]*$"), line) end
  local object = f.object:match("[^/]*$")
  return object ~= "" and ("%s (in %s)"):format(f.name, object) or f.name
end

return M
