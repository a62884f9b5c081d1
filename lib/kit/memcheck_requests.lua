-- Client requests of programs built with Valgrind's headers (valgrind.h, memcheck.h), as far as addresses go: what is asked of
-- undefined values gets the answer of a tool that does not look for them.
local M = {}

local MEMCHECK = 0x4d430000 -- VG_USERREQ_TOOL_BASE('M', 'C')

local codes = {
  [0x1001] = "running", [0x1201] = "count_errors", [0x1401] = "print", [0x1402] = "print_backtrace", [0x1403] = "print",
  [0x1404] = "print_backtrace", [0x1801] = "change_error_disablement", [MEMCHECK] = "make_noaccess",
  [MEMCHECK + 1] = "make_addressable", [MEMCHECK + 2] = "make_addressable", [MEMCHECK + 4] = "check_addressable",
  [MEMCHECK + 5] = "check_addressable", [MEMCHECK + 6] = "leak_check", [MEMCHECK + 7] = "count_leaks",
  [MEMCHECK + 12] = "count_leak_blocks", [MEMCHECK + 13] = "enable_range", [MEMCHECK + 14] = "disable_range",
}

local handlers = {}

function handlers.running() return 1 end

function handlers.count_errors(self) return self.count end

-- printf's text is the program's to format; the part without arguments is what a tool outside it can show.
function handlers.print(self, format)
  local text = self.emu.mem:cstring(format) or ""
  self.text.write(("**%d** %s"):format(self.emu.pid, text))
  return #text
end

function handlers.print_backtrace(self, format)
  local n = handlers.print(self, format)
  self.text:stack(self.emu:stack(self.options.num_callers))
  return n
end

function handlers.change_error_disablement(self, delta)
  local tid = self.emu.tid
  self.disabled[tid] = math.max(0, (self.disabled[tid] or 0) + (delta << 32 >> 32 == 1 and 1 or -1))
  return 0
end

-- Marks outside the heap need a plane of their own, which is looked at everywhere; it is made for the first.
local function plane_for(self, addr)
  local usage = self.heap:usage()
  if addr >= usage.low and addr < usage.limit then return self.plane end
  if not self.outside then
    self.outside = assert(self.emu:plane{name = "no access", bits = 1})
    self.outside:check("access", function(...) return self:access(...) end, {loose_stop = true})
  end
  return self.outside
end

function handlers.make_noaccess(self, addr, len)
  if len > 0 then plane_for(self, addr):fill(addr, len, 1) end
  return -1
end

function handlers.make_addressable(self, addr, len)
  local usage = self.heap:usage()
  if len > 0 and (self.outside or addr >= usage.low and addr < usage.limit) then plane_for(self, addr):fill(addr, len, 0) end
  return -1
end

-- Ranges in which errors are not reported; the newest says.
function handlers.disable_range(self, addr, len)
  table.insert(self.ignored, 1, {addr, addr + len, true})
  return 0
end

function handlers.enable_range(self, addr, len)
  table.insert(self.ignored, 1, {addr, addr + len, false})
  return 0
end

-- The first address that is not addressable, or 0; reported as an error.
function handlers.check_addressable(self, addr, len)
  local usage = self.heap:usage()
  local in_heap = addr >= usage.low and addr < usage.limit
  local where = in_heap and self.plane:find(addr, len) or self.outside and self.outside:find(addr, len)
  if not where then return 0 end
  self:client_error(where)
  return where
end

-- a1: 0 full, 1 a summary; a2: 1, 2: only what is new or has changed.
function handlers.leak_check(self, summary)
  local o = self.options
  self:leak_check{full = summary == 0, show = o.show, errors = {}, summary = not o.quiet}
  if not o.quiet then self.text:line() end
  return 0
end

local function counts(self, unit, a)
  local totals = (self.leaks or {totals = {}}).totals
  local function of(state) return totals[state] and totals[state][unit] or 0 end
  local mem = self.emu.mem
  for i, state in ipairs{"definite", "possible", "reachable", "suppressed"} do
    mem.u64[a[i]] = state == "definite" and of("definite") + of("indirect") or of(state)
  end
  return 0
end

function handlers.count_leaks(self, ...) return counts(self, "bytes", {...}) end
function handlers.count_leak_blocks(self, ...) return counts(self, "blocks", {...}) end

function M.attach(self)
  return self.emu:requests(function(code, ...)
    local name = codes[code]
    if name then return handlers[name](self, ...) end
  end)
end

return M
