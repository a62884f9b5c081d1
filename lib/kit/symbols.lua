-- Symbolisation with a cache: what function, object, file and line an address belongs to.
--
--   local symbols = require "kit.symbols".new(emu)
--   local f = symbols:fn(pc)        -- {name, address, size, object, id}: one table per function, so it can be a key
--   local file, line = symbols:line(pc)
--   symbols:describe(pc)            -- "main (hello.c:7)"
--
-- A pc without a symbol belongs to a function named after its address, or to the object's range between symbols.
local M = {}
M.__index = M

function M.new(emu)
  return setmetatable({emu = emu, by_pc = {}, by_start = {}, frames_of = {}, objects = {}, count = 0}, M)
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

local function unknown(self, pc)
  local object = self:object(pc)
  return {name = ("0x%x"):format(object and pc - object.bias or pc), address = pc, size = 1, object = object and object.path or "", unknown = true}
end

function M:fn(pc)
  local f = self.by_pc[pc]
  if f then return f end
  local s = self.emu:symbol(pc)
  local start = s and s.address or pc
  f = self.by_start[start]
  if not f then
    f = s or unknown(self, pc)
    f.object_record = self:object(pc)
    self.count = self.count + 1
    f.id = self.count
    self.by_start[start] = f
  end
  self.by_pc[pc] = f
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

function M:line(pc)
  local frame = self:frames(pc)[1]
  if frame and frame.line > 0 then return frame.file, frame.line end
end

function M:describe(pc)
  local f = self:fn(pc)
  local file, line = self:line(pc)
  if file then return ("%s (%s:%d)"):format(f.name, file:match("[^/]*$"), line) end
  local object = f.object:match("[^/]*$")
  return object ~= "" and ("%s (in %s)"):format(f.name, object) or f.name
end

return M
