-- The memory checker's core: the engine's heap in the guest's place, a plane of what may not be touched, and the errors that come
-- of it, each counted once with its stack.
--
--   local memcheck = require "kit.memcheck".new(emu, {write = function(s) io.stderr:write(s) end, num_callers = 12, ...})
--   emu:on("exit", function() memcheck:finish() end)
--
-- An error: {kind, key, count, stack, tid, ...}. Two are the same when kind, size and the four innermost frames are.
local kit = require "kit"
local fds = require "kit.memcheck_fds"
local leaks = require "kit.memcheck_leaks"
local requests = require "kit.memcheck_requests"
local suppressions = require "kit.suppressions"
local texts = require "kit.memcheck_text"

local M = {}
M.__index = M

local function same_place(self, id)
  local frames = self.emu:stack_frames(id) or {}
  return table.concat(frames, " ", 1, math.min(4, #frames))
end

-- An error as suppressions see it.
local supp_kinds = {["bad-free"] = "Free", ["mismatched-free"] = "Free", overlap = "Overlap", jump = "Jump", client = "User",
  syscall = "Param", fishy = "FishyValue", leak = "Leak"}

local function described(self, e)
  local kind = supp_kinds[e.kind] or "Addr" .. e.size
  local param = e.param or e.kind == "fishy" and ("%s(%s)"):format(e.fn, e.argument) or nil
  return {kind = kind, param = param, leak = e.leak, frames = self.text:frames(e.stack)}
end

-- The suppression that matches, which counts it.
local function suppressed(self, e)
  local s = self.options.suppressions and suppressions.find(self.options.suppressions, described(self, e))
  if s and s.used == 0 then self.suppressed_contexts = self.suppressed_contexts + 1 end
  return s
end

-- Valgrind prints one after each error; so that it can be copied.
local function generate(self, e)
  if self.options.gen_suppressions then self.options.write(suppressions.text(described(self, e))) end
end

-- Notes an error: reported the first time. `details` is what the report needs.
local function note(self, kind, size, details)
  if (self.disabled[self.emu.tid] or 0) > 0 then return end
  local id = details.stack or self.emu:stack(self.options.num_callers)
  local key = ("%s %s %s %s"):format(kind, size, details.site or 0, same_place(self, id))
  local e = self.errors[key]
  if not e then
    e = details
    e.kind, e.size, e.stack, e.count, e.tid = kind, size, id, 0, self.emu.tid
    self.errors[key] = e
    e.suppression = suppressed(self, e)
    if not e.suppression then
      self.list[#self.list + 1] = e
      self:report(e)
    end
  end
  e.count = e.count + 1
  if e.suppression then
    e.suppression.used = e.suppression.used + 1
    self.suppressed = self.suppressed + 1
  else
    self.count = self.count + 1
  end
end

-- ---- titles ----

local fishy = "Argument '%s' of function %s has a fishy (possibly negative) value: %d"

local titles = {
  read = function(e) return ("Invalid read of size %d"):format(e.size) end,
  write = function(e) return ("Invalid write of size %d"):format(e.size) end,
  ["bad-free"] = function() return "Invalid free() / delete / delete[] / realloc()" end,
  ["mismatched-free"] = function() return "Mismatched free() / delete / delete []" end,
  overlap = function(e)
    if e.size == 0 then return ("Source and destination overlap in %s(0x%x, 0x%x)"):format(e.fn, e.other, e.addr) end
    return ("Source and destination overlap in %s(0x%x, 0x%x, %s)"):format(e.fn, e.other, e.addr, texts.commas(e.size))
  end,
  fishy = function(e) return fishy:format(e.argument, kit.demangle(e.fn), e.size) end,
  ["no-memory"] = function() return "new/new[] failed and should throw an exception, but Valgrind" end,
  syscall = function(e) return ("Syscall param %s points to unaddressable byte(s)"):format(e.param) end,
  client = function() return "Unaddressable byte(s) found during client check request" end,
  jump = function() return "Jump to the invalid address stated on the next line" end,
}

-- Says on which thread it is, when that changed.
local function thread_line(self, e)
  if e.tid == (self.last_tid or self.emu.pid) then return end
  self.last_tid = e.tid
  for i, t in ipairs(self.emu.threads) do
    if t.tid == e.tid then return self.text:line("Thread %d:", i) end
  end
end

function M:show(e)
  local text = self.text
  thread_line(self, e)
  text:line(titles[e.kind](e))
  text:stack(e.stack)
  if e.addr and e.kind ~= "overlap" then text:address(e.addr, e.block, e.in_arena) end
  text:line()
end

function M:report(e)
  self:show(e)
  generate(self, e)
end

-- ---- where errors come from ----

local near = 64 -- bytes behind a block that are still described by it

local function block_at(self, addr)
  return self.heap:block(addr, near)
end

-- Part of an aligned word or vector at a block's end may lie beyond it: such loads are how strings are searched.
local function is_partial_load(self, addr, size)
  if not self.options.partial_loads_ok or size < 8 or addr % size ~= 0 then return false end
  return self.plane:get(addr, size):find("\0", 1, true) ~= nil
end

local function is_ignored(self, addr)
  for _, range in ipairs(self.ignored) do
    if addr >= range[1] and addr < range[2] then return range[3] end
  end
end

local function access(self, _, addr, size, is_write, is_syscall)
  if is_ignored(self, addr) then return end
  if is_syscall then return self:syscall_buffer(addr, size, is_write) end
  if not is_write and is_partial_load(self, addr, size) then return end
  note(self, is_write and "write" or "read", size, {addr = addr, block = block_at(self, addr), in_arena = true})
end

function M:access(...) return access(self, ...) end

-- A client request says that addr should be addressable.
function M:client_error(addr)
  note(self, "client", 0, {addr = addr, block = block_at(self, addr)})
end

-- The system call's parameter whose buffer this is: "write(buf)".
local function parameter(self, addr)
  local call = self.syscall
  local info = call and self.emu:syscall_info(call.nr)
  if not info then return "?" end
  for i, arg in ipairs(info.args) do
    if call.args[i] == addr then return ("%s(%s)"):format(info.name, arg.name) end
  end
  return info.name
end

function M:syscall_buffer(addr, size, is_write)
  local where = self.plane:find(addr, size)
  local bad = where or addr
  local e = {param = parameter(self, addr), addr = bad, block = block_at(self, bad), is_write = is_write, in_arena = where ~= nil}
  note(self, "syscall", e.param, e)
end

local function heap_error(self, e)
  if e.kind == "access" then
    local kind, block = e.is_write and "write" or "read", block_at(self, e.addr)
    return note(self, kind, e.size, {addr = e.addr, block = block, in_arena = true, site = e.site})
  end
  if e.kind == "bad-free" then e.block = e.block or block_at(self, e.addr) end
  if e.kind == "overlap" or e.kind == "fishy" or e.kind == "no-memory" then e.block = nil end
  if e.kind == "fishy" then e.addr = nil end
  note(self, e.kind, e.size, e)
end

-- A fault that nobody marked: an address that is not mapped, or not so.
local SIGSEGV, SIGBUS = 11, 7

local function fault(self, ev)
  if ev.signo ~= SIGSEGV and ev.signo ~= SIGBUS then return end
  self.fault = {addr = ev.addr, mapped = self.emu.mem:read(ev.addr, 1) ~= nil}
  if ev.is_exec or ev.addr == ev.pc then return note(self, "jump", 0, {addr = ev.addr}) end
  local kind = ev.is_write and "write" or "read"
  note(self, kind, self:access_size(ev.pc), {addr = ev.addr})
end

-- Bytes that the instruction at pc accesses, by its text.
local by_mnemonic = {movss = 4, movsd = 8, movaps = 16, movups = 16, movdqa = 16, movdqu = 16, movapd = 16, movupd = 16}
local by_suffix = {b = 1, w = 2, l = 4, q = 8}
local rv64_size = {b = 1, h = 2, w = 4, d = 8}

local function x64_size(text)
  local name = text:match("^(%S+)")
  if name == "rep" or name == "repz" or name == "repnz" or name == "lock" then name = text:match("^%S+%s+(%S+)") end
  if not name then return 8 end
  local vector = by_mnemonic[name:gsub("^v", "")]
  if text:find("%%zmm") then return 64 elseif text:find("%%ymm") then return 32 end
  if vector then return vector end
  local extend = name:match("^mov[zs]([bwl])")
  if extend then return by_suffix[extend] end
  local reg = text:gsub("%([^)]*%)", ""):match("%%(%w+)")
  if not reg then return by_suffix[name:sub(-1)] or 8 end
  if reg:match("^xmm") then return 16 end
  if reg:match("^r%d+d$") or reg:match("^e") then return 4 end
  if reg:match("^r%d+b$") or reg:match("^%a[lh]$") or reg:match("^%a%al$") then return 1 end
  if reg:match("^r%d+w$") or #reg == 2 then return 2 end
  return 8
end

function M:access_size(pc)
  if self.heap:fn(pc) then return 1 end
  local insn = self.emu:disasm(pc, 1)
  local text = insn and insn[1] and insn[1].text or ""
  if self.emu.arch ~= "riscv64" then return x64_size(text) end
  local letter = text:match("^c?%.?f?[ls]([bhwd])") or text:match("^%a+%.([wd])")
  return rv64_size[letter] or 8
end

-- ---- a run ----

function M.new(emu, options)
  local self = setmetatable({emu = emu, options = options, errors = {}, list = {}, count = 0, disabled = {}, ignored = {},
    suppressed = 0, suppressed_contexts = 0}, M)
  self.plane = assert(emu:plane{name = "unaddressable", bits = 1})
  self.heap = emu:heap{plane = self.plane, redzone = options.redzone, callers = options.num_callers, freelist = options.freelist,
    big = options.freelist_big, malloc_fill = options.malloc_fill, free_fill = options.free_fill, names = options.names,
    ignore_mismatch = not options.mismatches, on_error = function(e) return heap_error(self, e) end}
  self.text = texts.new(emu, {heap = self.heap, write = options.write, num_callers = options.num_callers,
    full_paths = options.full_paths, below_main = options.below_main})
  local usage = self.heap:usage()
  self.plane:check("access", function(...) return access(self, ...) end,
    {low = usage.low, high = usage.limit, not_stack = true, loose_stop = true, unmapped = true})
  emu:on("syscall", function(ev) self.syscall = {nr = ev.nr, args = ev.args} end)
  emu:on("fault", function(ev) return fault(self, ev) end)
  emu:on("fork", function() self.forked = true end)
  requests.attach(self)
  self.fds = options.track_fds and fds.new(emu, options.num_callers)
  if options.freeres then self:free_resources() end
  return self
end

local overflow = {
  " If you believe this happened as a result of a stack", " overflow in your program's main thread (unlikely but",
  " possible), you can try to increase the size of the", " main thread stack (ulimit -s).",
}

-- The signal that the program dies of.
function M:killed(signo)
  local text, name = self.text, kit.signal_name(signo)
  text:line()
  text:line("Process terminating with default action of signal %d (%s)", signo, name)
  if self.fault and (signo == SIGSEGV or signo == SIGBUS) then
    text:line(self.fault.mapped and " Bad permissions for mapped region at address 0x%X" or
      " Access not within mapped region at address 0x%X", self.fault.addr)
  end
  text:stack(self.emu:stack(self.options.num_callers))
  if signo == SIGSEGV and self.fault and not self.fault.mapped then
    for _, l in ipairs(overflow) do text:line(l) end
  end
end

-- ---- the C library's own blocks ----

local releases = {"__libc_freeres", "_ZN9__gnu_cxx9__freeresEv"}

-- Makes the guest call `address` from its system call instruction, and come back to it with its registers as they were.
local function call_from_syscall(emu, address, pc)
  local saved, regs = {}, emu.regs
  for name, value in pairs(regs) do
    if math.type(value) == "integer" then saved[name] = value end
  end
  local hook
  hook = emu:on("exec", {pc = pc}, function()
    hook:close()
    for name, value in pairs(saved) do
      if name ~= "pc" then regs[name] = value end
    end
  end)
  if emu.arch == "x86-64" or emu.arch == "x86_64" then
    local sp = ((regs.sp - 256) & ~15) - 8
    emu.mem.u64[sp] = pc
    regs.sp = sp
  else
    regs.sp = (regs.sp - 256) & ~15
    regs.ra = pc
  end
  regs.pc = address
end

-- Before the program ends, the C library gives back what it holds (if it has a function for that).
function M:free_resources()
  local emu, n = self.emu, #releases
  emu:on("syscall", {name = "exit_group"}, function(ev)
    while n > 0 do
      local s = emu:symbol(releases[n])
      n = n - 1
      if s then
        call_from_syscall(emu, s.address, ev.pc)
        return "replace"
      end
    end
  end)
end

-- ---- the end ----

local function heap_summary(self)
  local u, text = self.heap:usage(), self.text
  text:line()
  text:line("HEAP SUMMARY:")
  text:line("    in use at exit: %s bytes in %s blocks", text.commas(u.bytes), text.commas(u.blocks))
  text:line("  total heap usage: %s allocs, %s frees, %s bytes allocated", text.commas(u.allocs), text.commas(u.frees),
    text.commas(u.allocated))
  text:line()
  return u
end

-- options: full (records are shown), show (kinds), errors (kinds that count), summary.
function M:leak_check(options)
  local text = self.text
  local found = leaks.search(self.heap, self.options.heuristics)
  self.leaks = found
  for _, r in ipairs(found.records) do
    r.kind, r.leak = "leak", r.state
    local s = suppressed(self, r)
    leaks.count(found, r, s)
    if s then
      s.used = s.used + 1
      self.suppressed = self.suppressed + (options.errors[r.state] and 1 or 0)
    elseif options.full and options.show[r.state] then
      text:line(leaks.title(text, r))
      text:stack(r.stack)
      text:line()
      generate(self, r)
    end
    if options.full and options.errors[r.state] and not s then
      self.count = self.count + 1
      self.leak_contexts = (self.leak_contexts or 0) + 1
    end
  end
  if options.summary then leaks.summary(found, text, options) end
  return found
end

-- What -s adds: each context with its count, fewest first, and the suppressions used.
function M:statistics()
  local text = self.text
  table.sort(self.list, function(a, b) return a.count < b.count end)
  for i, e in ipairs(self.list) do
    text:line()
    text:line("%d errors in context %d of %d:", e.count, i, #self.list)
    self:show(e)
  end
  for _, s in ipairs(self.options.suppressions or {}) do
    if s.used > 0 then text:line("used_suppression: %6d %s %s:%d", s.used, s.name, s.path, s.line) end
  end
end

-- The summaries. Returns the number of errors.
function M:finish()
  local o, text = self.options, self.text
  if self.fds then self.fds:report(text) end
  local check = {full = o.leak_check == "full", show = o.show, errors = o.leak_errors, summary = not o.quiet}
  if o.quiet then
    if check.full then self:leak_check(check) end
    return self.count
  end
  local u = heap_summary(self)
  if u.blocks == 0 then
    text:line("All heap blocks were freed -- no leaks are possible")
  elseif o.leak_check ~= "no" then
    self:leak_check(check)
  else
    text:line("For a detailed leak analysis, rerun with: --leak-check=full")
  end
  text:line()
  local contexts = #self.list + (self.leak_contexts or 0)
  if not o.statistics then text:line("For lists of detected and suppressed errors, rerun with: -s") end
  text:line("ERROR SUMMARY: %s errors from %s contexts (suppressed: %s from %s)", text.commas(self.count), text.commas(contexts),
    text.commas(self.suppressed), text.commas(self.suppressed_contexts))
  if o.statistics then self:statistics() end
  return self.count
end

return M
