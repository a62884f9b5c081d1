-- Memcheck's reports as text, in Valgrind's words: ==PID== lines, stacks, what an address is.
--
--   local text = require "kit.memcheck_text".new(emu, {write = function(s) ... end, num_callers = 12})
--   text:line("Invalid read of size 4")
--   text:stack(id, "at")
--   text:address(addr, block)
local kit = require "kit"

local M = {}
M.__index = M

function M.new(emu, options)
  return setmetatable({emu = emu, heap = options.heap, write = options.write, max = options.num_callers, full_paths = options.full_paths,
    below_main = options.below_main, frames_of = {}, texts = {}, images = 0}, M)
end

-- 4173 -> "4,173"
function M.commas(n)
  local s = ("%d"):format(n)
  repeat
    local more
    s, more = s:gsub("^(-?%d+)(%d%d%d)", "%1,%2")
  until more == 0
  return s
end

function M:line(format, ...)
  self.write(("==%d== "):format(self.emu.pid) .. (select("#", ...) > 0 and format:format(...) or format or "") .. "\n")
end

-- ---- stacks ----

local function base_name(path) return path:match("[^/]*$") end

-- strdup rather than __strdup, where it is both.
local function plain_name(emu, s)
  local short = s.name:match("^__+(.+)")
  local other = short and emu:symbol(base_name(s.object) .. ":" .. short)
  return other and other.address == s.address and short or s.name
end

-- The frames of one address, inlined ones first: {pc, fn, file, line, object}.
local function frames_at(self, pc, at)
  local list = {}
  local stood_in = self.heap and self.heap:fn(pc)
  if stood_in then
    local s = self.emu:symbol(pc)
    return {{pc = pc, fn = kit.demangle(stood_in), symbol = stood_in, object = s and s.object}}
  end
  local symbol = self.emu:symbol(at)
  for _, f in ipairs(self.emu:lookup(at) or {}) do
    local fn = f.fn ~= "" and f.fn or nil
    if symbol and symbol.is_function and not f.inlined then fn = plain_name(self.emu, symbol) end
    list[#list + 1] = {pc = pc, fn = fn and kit.demangle(fn), symbol = fn, file = f.file ~= "" and f.file or nil, line = f.line,
      object = f.object}
  end
  if #list == 0 then list[1] = {pc = pc} end
  return list
end

-- Frames below main say nothing of the program.
local below_main = {__libc_start_main = true, __libc_start_call_main = true, _start = true, generic_start_main = true}

-- The frames of a stack, up to main. The first address is an instruction's, the others are return addresses.
function M:frames(id)
  local known = self.frames_of[id]
  if known then return known end
  local list = {}
  for i, pc in ipairs(self.emu:stack_frames(id) or {}) do
    local at = i == 1 and pc or pc - 1
    local key = i == 1 and -pc or pc
    self.texts[key] = self.texts[key] or frames_at(self, at, at)
    for _, f in ipairs(self.texts[key]) do
      if #list < self.max then list[#list + 1] = f end
    end
    local last = list[#list]
    if last and (last.fn == "main" or below_main[last.fn or ""]) and not self.below_main then
      if last.fn ~= "main" then last.fn, last.file = "(below main)", last.file end
      break
    end
  end
  self.frames_of[id] = list
  return list
end

function M:frame_text(f)
  local where = ""
  if f.file and f.line and f.line > 0 then where = (" (%s:%d)"):format(self.full_paths and f.file or base_name(f.file), f.line)
  elseif f.object and f.object ~= "" then where = (" (in %s)"):format(f.object) end
  return ("0x%X: %s%s"):format(f.pc, f.fn or "???", where)
end

function M:stack(id, prefix)
  for i, f in ipairs(self:frames(id)) do
    self:line("%s   %s %s", prefix or "", i == 1 and "at" or "by", self:frame_text(f))
  end
end

-- ---- what an address is ----

local function relation(block, addr)
  if addr < block.addr then return block.addr - addr, "before" end
  if addr < block.addr + block.size then return addr - block.addr, "inside" end
  return addr - block.addr - block.size, "after"
end

local function describe_block(self, addr, block)
  local distance, how = relation(block, addr)
  self:line(" Address 0x%x is %s bytes %s a block of size %s %s", addr, M.commas(distance), how, M.commas(block.size),
    block.freed and "free'd" or "alloc'd")
  if block.freed then
    self:stack(block.free_stack)
    self:line(" Block was alloc'd at")
  end
  self:stack(block.alloc_stack)
end

local function describe_symbol(self, addr)
  local s = self.emu:symbol(addr)
  if not s or s.is_function then return false end
  self:line(" Address 0x%x is %d bytes inside data symbol \"%s\"", addr, addr - s.address, s.name)
  return true
end

local function map_of(self, addr)
  for _, m in ipairs(self.emu.mem:maps()) do
    if addr >= m.start and addr < m.stop then return m end
  end
end

-- On whose stack it is: the frame that holds it, if the backtrace knows.
local function describe_stack(self, addr)
  for i, t in ipairs(self.emu.threads) do
    local sp = t.regs.sp
    local m = map_of(self, sp)
    if m and addr >= m.start and addr < m.stop then
      self:line(" Address 0x%x is on thread %d's stack", addr, i)
      if addr < sp then
        self:line(" %s bytes below stack pointer", M.commas(sp - addr))
        return true
      end
      for n, f in ipairs(self.emu:backtrace(t.tid)) do
        if f.cfa and f.cfa > addr then
          local start = (self.emu:lookup(f.address) or {})[1] or f
          local created = start.file ~= "" and (" (%s:%d)"):format(base_name(start.file), start.line) or ""
          self:line(" in frame #%d, created by %s%s", n - 1, f.fn ~= "" and f.fn or "???", created)
          break
        end
      end
      return true
    end
  end
  return false
end

local function describe_mapping(self, addr)
  local m = map_of(self, addr)
  if not m then return false end
  if m.name and m.name:sub(1, 1) == "/" then self:line(" Address 0x%x is in a %s mapped file %s segment", addr, m.prot, m.name)
  else self:line(" Address 0x%x is in a %s anonymous segment", addr, m.prot) end
  return true
end

-- block: the heap's, if the address is near one.
function M:address(addr, block, in_arena)
  if block then return describe_block(self, addr, block) end
  if in_arena then return self:line(" Address 0x%x is in the heap, behind no recent block", addr) end
  if describe_symbol(self, addr) or describe_stack(self, addr) or describe_mapping(self, addr) then return end
  self:line(" Address 0x%x is not stack'd, malloc'd or (recently) free'd", addr)
end

return M
