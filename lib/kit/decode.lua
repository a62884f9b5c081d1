-- Decoding of system calls into strace's text, driven by what the engine's tables say of each call (emu:syscall_info,
-- emu:flags, emu:struct).
--
--   local decode = require "kit.decode".new(emu, {strings = 32, verbose = false})
--   decode:arg(info, i, args, result)   -> text of argument i; result is nil at entry
--   decode:result(info, value)          -> "3", "-1 ENOENT (No such file or directory)", "0x7f..."
local kit = require "kit"
local siginfo = require "kit.siginfo"

local M = {}
M.__index = M
for name, method in pairs(require "kit.sockets") do M[name] = method end

function M.new(emu, options)
  return setmetatable({emu = emu, mem = emu.mem, strings = options.strings or 32, verbose = options.verbose,
    flag_sets = {}, structs = {}}, M)
end

-- ---- strings -----------------------------------------------------------------------------------------------

local escapes = {["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ["\v"] = "\\v", ["\f"] = "\\f", ['"'] = '\\"', ["\\"] = "\\\\"}

-- A character that is not shown as it is, and the octal digit behind it: octal escapes are as short as that allows.
local shown = setmetatable({}, {__index = function(known, pair)
  local c, digit = pair:sub(1, 1), pair:sub(2)
  local text = (escapes[c] or (digit ~= "" and "\\%03o" or "\\%o"):format(c:byte())) .. digit
  known[pair] = text
  return text
end})

function M.quote(s)
  return '"' .. s:gsub("[^ !#-Z%[%]%^_-~][0-7]?", shown) .. '"'
end

M.int32 = function(v)
  v = v & 0xffffffff
  return v < 0x80000000 and v or v - 0x100000000
end

function M.unsigned(v) return ("%u"):format(v) end

-- " /* 2001-09-09T01:46:40.000000005+0000 */"; nothing for a time that is out of the calendar's range.
function M.date(sec, fraction, digits)
  local ok, date = pcall(os.date, "!%Y-%m-%dT%H:%M:%S", sec)
  return ok and (" /* %s%s+0000 */"):format(date, (fraction or 0) ~= 0 and (".%0" .. (digits or 9) .. "d"):format(fraction) or "") or ""
end

-- As printf's %#03o: 0640, 022, 000.
function M.octal(v)
  local digits = v == 0 and "" or ("0%o"):format(v)
  return ("0"):rep(3 - #digits) .. digits
end

local function address(v)
  return v == 0 and "NULL" or ("0x%x"):format(v)
end
M.address = address

function M:buffer(va, n)
  if va == 0 then return "NULL" end
  local show = math.ult(n, self.strings) and n or self.strings -- lengths are unsigned
  local s = self.mem:read(va, show)
  if not s then return address(va) end
  return M.quote(s) .. (n ~= show and "..." or "")
end

function M:cstring(va, max)
  if va == 0 then return "NULL" end
  local s = self.mem:cstring(va, max and max + 1)
  if not s then return address(va) end
  if max and #s > max then return M.quote(s:sub(1, max)) .. "..." end
  return M.quote(s)
end

-- ---- flags and enumerations ----------------------------------------------------------------------------------

function M:set(name)
  local set = self.flag_sets[name]
  if not set then
    local list, is_enum = self.emu:flags(name)
    set = {list = list or {}, is_enum = is_enum}
    self.flag_sets[name] = set
  end
  return set
end

-- What an unknown value is called: SA_??? by the first name of its set.
local function unknown(set, value)
  local first = set.list[1] and set.list[1].name
  return ("%#x"):format(value) .. (first and (" /* %s??? */"):format(first:match("^[^_]*_")) or "")
end

function M:flags(name, value)
  local set, out = self:set(name), {}
  if set.is_enum then
    for _, f in ipairs(set.list) do if f.value == value then return f.name end end
    return unknown(set, value & 0xffffffff)
  end
  local rest = value
  for _, f in ipairs(set.list) do
    if value & f.mask == f.value and (f.value ~= 0 or f.mask ~= 0) and (f.value == 0 or rest & f.value == f.value) then
      out[#out + 1] = f.name
      rest = rest & ~f.mask
    end
  end
  if #out == 0 then return rest == 0 and "0" or unknown(set, rest) end
  if rest ~= 0 then out[#out + 1] = ("%#x"):format(rest) end
  return table.concat(out, "|")
end

local types = {[0x1000] = "S_IFIFO", [0x2000] = "S_IFCHR", [0x4000] = "S_IFDIR", [0x6000] = "S_IFBLK", [0x8000] = "S_IFREG",
  [0xa000] = "S_IFLNK", [0xc000] = "S_IFSOCK"}

function M.mode(value)
  local kind = types[value & 0xf000]
  local bits = {}
  if value & 0x800 ~= 0 then bits[#bits + 1] = "S_ISUID" end
  if value & 0x400 ~= 0 then bits[#bits + 1] = "S_ISGID" end
  if value & 0x200 ~= 0 then bits[#bits + 1] = "S_ISVTX" end
  if kind then table.insert(bits, 1, kind) end
  bits[#bits + 1] = M.octal(value & 0x1ff)
  return table.concat(bits, "|")
end

function M.sigset(bits)
  local names, missing = {}, {}
  for s = 1, 64 do
    local name = kit.signal_name(s):gsub("^SIG", "")
    if bits >> (s - 1) & 1 == 1 then names[#names + 1] = name else missing[#missing + 1] = name end
  end
  if #names > 32 then return "~[" .. table.concat(missing, " ") .. "]" end
  return "[" .. table.concat(names, " ") .. "]"
end

function M.makedev(dev)
  local function hex(v) return v == 0 and "0" or ("%#x"):format(v) end
  return ("makedev(%s, %s)"):format(hex(dev >> 8 & 0xfff), hex(dev & 0xff | dev >> 12 & 0xfff00))
end

-- ---- structs ----------------------------------------------------------------------------------------------------

-- Which fields strace shows without -v, for those it cuts short.
local short = {stat = true, statx = true, rusage = false, utsname = false}

-- How many fields of those cut short without a function of their own are shown.
local short_fields = {rusage = 4, utsname = 2}

local field = {}
function field.int(_, v) return ("%d"):format(v) end
function field.uint(_, v) return M.unsigned(v) end
function field.hex(_, v) return address(v) end
function field.mode(_, v) return M.mode(v) end
function field.dev(_, v) return M.makedev(v) end
function field.time(_, v) return ("%d%s"):format(v, M.date(v)) end
function field.sig(_, v) return v > 0 and v <= 64 and kit.signal_name(v) or ("%d"):format(v) end
function field.sigset(_, v) return M.sigset(v) end
function field.limit(_, v)
  if v == -1 then return "RLIM64_INFINITY" end
  return v ~= 0 and v % 1024 == 0 and ("%d*1024"):format(v // 1024) or ("%d"):format(v)
end
function field.handler(_, v) return v == 0 and "SIG_DFL" or v == 1 and "SIG_IGN" or ("0x%x"):format(v) end
field.restorer = field.handler
function field.flags(self, v, f) return self:flags(f.set, v) end
field.enum = field.flags

function M:struct_of(name)
  local s = self.structs[name]
  if not s then
    local fields, size = self.emu:struct(name)
    s = {fields = fields or {}, size = size or 0}
    self.structs[name] = s
  end
  return s
end

function M.field_value(bytes, f, signed)
  local fmt = (signed and "<i" or "<I") .. f.size
  return (string.unpack(fmt, bytes, f.offset + 1))
end

local function stat_text(self, s, bytes)
  local function get(name)
    for _, f in ipairs(s.fields) do if f.name == name then return M.field_value(bytes, f) end end
  end
  local mode = get("st_mode") or get("stx_mode")
  local text = ("%s=%s"):format(get("st_mode") and "st_mode" or "stx_mode", M.mode(mode))
  local kind = types[mode & 0xf000]
  if get("stx_mode") then
    local mask = self:flags("statx", get("stx_mask"))
    return ("{stx_mask=%s, stx_attributes=0, %s, stx_size=%d, ...}"):format(mask, text, get("stx_size"))
  end
  if kind == "S_IFCHR" or kind == "S_IFBLK" then return ("{%s, st_rdev=%s, ...}"):format(text, M.makedev(get("st_rdev"))) end
  return ("{%s, st_size=%d, ...}"):format(text, get("st_size"))
end

function field.fsid(_, v)
  local function hex(x) return x == 0 and "0" or ("%#x"):format(x) end
  return ("{val=[%s, %s]}"):format(hex(v & 0xffffffff), hex(v >> 32))
end
function field.sigval(_, v) return ("{sival_int=%d, sival_ptr=%s}"):format(M.int32(v), address(v)) end
function field.epolldata(_, v) return ("{u32=%u, u64=%s}"):format(v & 0xffffffff, M.unsigned(v)) end

local signed = {int = true, limit = true, time = true}

-- One field of a struct: its number, several of them, or text.
local function field_text(self, f, bytes)
  if f.kind == "str" then return M.quote(bytes:sub(f.offset + 1, f.offset + f.size):match("^[^\0]*")) end
  local decode, out = field[f.kind] or field.int, {}
  for i = 0, f.count - 1 do
    local one = {size = f.size, offset = f.offset + i * f.size, set = f.set}
    out[#out + 1] = decode(self, M.field_value(bytes, one, signed[f.kind]), f)
  end
  return f.count == 1 and out[1] or "[" .. table.concat(out, ", ") .. "]"
end

-- "it_value.tv_sec" is a field of a struct within: {it_value={tv_sec=1, tv_nsec=0}}.
-- Is the field there at all? sa_restorer is if SA_RESTORER says so, sigev_value if it is not zero.
local function present(s, f, bytes)
  if f.kind == "sigval" then return M.field_value(bytes, f) ~= 0 end
  if f.kind ~= "restorer" then return true end
  for _, other in ipairs(s.fields) do
    if other.name == "sa_flags" then return M.field_value(bytes, other) & 0x4000000 ~= 0 end
  end
end

local function fields_text(self, s, bytes, last)
  local out, inside = {}, nil
  for i = 1, last do
    local f = s.fields[i]
    if not present(s, f, bytes) then goto continue end
    local outer, name = f.name:match("^([^.]*)%.(.*)$")
    local text = (name or f.name) .. "=" .. field_text(self, f, bytes)
    if outer and outer == inside then
      out[#out] = out[#out]:sub(1, -2) .. ", " .. text .. "}"
    else
      out[#out + 1] = outer and ("%s={%s}"):format(outer, text) or text
    end
    inside = outer
    ::continue::
  end
  return table.concat(out, ", ")
end

function M:struct(name, va)
  if va == 0 then return "NULL" end
  local s = self:struct_of(name)
  local bytes = self.mem:read(va, s.size)
  if not bytes then return address(va) end
  if name == "u32" then return ("[%u]"):format((string.unpack("<I4", bytes))) end
  local cut = not self.verbose and short[name]
  if cut then return stat_text(self, s, bytes) end
  if cut == false and not self.verbose then return "{" .. fields_text(self, s, bytes, short_fields[name]) .. ", ...}" end
  return "{" .. fields_text(self, s, bytes, #s.fields) .. "}"
end

function M:siginfo_at(va)
  local bytes = self.mem:read(va, 128)
  return bytes and siginfo.text(bytes) or address(va)
end

-- ---- arrays ------------------------------------------------------------------------------------------------------

function M:iov(va, n, limit)
  if va == 0 then return "NULL" end
  local out, left = {}, limit or math.maxinteger
  for i = 0, math.min(n, 64) - 1 do
    local base, len = self.mem:unpack("<I8I8", va + 16 * i)
    if not base then return address(va) end
    local show = math.min(len, left)
    left = left - show
    out[#out + 1] = ("{iov_base=%s, iov_len=%d}"):format(self:buffer(base, show), len)
  end
  return "[" .. table.concat(out, ", ") .. "]"
end

function M:strings_at(va)
  if va == 0 then return "NULL" end
  local out = {}
  for i = 0, 10000 do
    local p = self.mem.u64[va + 8 * i]
    if not p then return address(va) end
    if p == 0 then break end
    out[#out + 1] = self:cstring(p, self.strings)
  end
  return "[" .. table.concat(out, ", ") .. "]"
end

function M:environment(va)
  if self.verbose then return self:strings_at(va) end
  local n = 0
  while va ~= 0 and (self.mem.u64[va + 8 * n] or 0) ~= 0 do n = n + 1 end
  return va == 0 and "NULL" or ("%s /* %d var%s */"):format(address(va), n, n == 1 and "" or "s")
end

function M:pollfds(va, n, result)
  local out = {}
  for i = 0, math.min(n, 64) - 1 do
    local fd, events, revents = self.mem:unpack("<i4I2I2", va + 8 * i)
    if not fd then return address(va) end
    if not result and fd < 0 then out[#out + 1] = ("{fd=%d}"):format(fd)
    elseif not result then out[#out + 1] = ("{fd=%d, events=%s}"):format(fd, self:flags("poll", events))
    elseif revents ~= 0 then out[#out + 1] = ("{fd=%d, revents=%s}"):format(fd, self:flags("poll", revents)) end
  end
  return "[" .. table.concat(out, ", ") .. "]"
end

function M.wait_status(s)
  if s & 0x7f == 0 then return ("[{WIFEXITED(s) && WEXITSTATUS(s) == %d}]"):format(s >> 8 & 255) end
  if s & 0xff == 0x7f then return ("[{WIFSTOPPED(s) && WSTOPSIG(s) == %s}]"):format(kit.signal_name(s >> 8 & 255)) end
  if s == 0xffff then return "[{WIFCONTINUED(s)}]" end
  return ("[{WIFSIGNALED(s) && WTERMSIG(s) == %s}]"):format(kit.signal_name(s & 0x7f))
end

-- ---- arguments by kind --------------------------------------------------------------------------------------------

local zero_is_null = {addr = true, old = true, new = true, stack = true, uaddr2 = true, head = true, tidptr = true}

local int32 = M.int32

-- kind -> function(self, value, arg, args, result); `out` kinds are decoded at exit (M.late).
local kinds = {}
function kinds.int(_, v) return ("%d"):format(v >= -0x80000000 and v <= 0xffffffff and int32(v) or v) end
function kinds.uint(_, v) return M.unsigned(v) end
function kinds.hex(_, v, arg) return v == 0 and (zero_is_null[arg.name] and "NULL" or "0") or ("%#x"):format(v) end
function kinds.ptr(_, v) return address(v) end
function kinds.mode(_, v) return M.octal(v & 0xffff) end
function kinds.sig(_, v) return v > 0 and v <= 64 and kit.signal_name(v) or ("%d"):format(int32(v)) end
function kinds.fd(self, v) return self.fd_text and self.fd_text(int32(v)) or ("%d"):format(int32(v)) end
function kinds.dirfd(self, v) return int32(v) == -100 and "AT_FDCWD" or kinds.fd(self, v) end
kinds.tid = kinds.int
function kinds.path(self, v) return self:cstring(v) end
kinds.pathnull = kinds.path
function kinds.str(self, v) return self:cstring(v, self.strings) end
function kinds.flags(self, v, arg) return self:flags(arg.set, v & 0xffffffff) end
kinds.enum = function(self, v, arg) return self:flags(arg.set, int32(v)) end
kinds["in"] = function(self, v, arg, args) return self:buffer(v, args[arg.len_arg + 1] or 0) end
function kinds.out(self, v, arg, args, result)
  if result < 0 then return address(v) end
  return self:buffer(v, arg.len_arg == -2 and result or math.min(args[arg.len_arg + 1], 65536))
end
kinds.outp = function(self, v, arg, args, result)
  local n = result >= 0 and self.mem.u32[args[arg.len_arg + 1]]
  if not n or v == 0 then return address(v) end
  return n == 4 and ("[%d]"):format(self.mem.i32[v]) or self:buffer(v, n)
end
function kinds.outstr(self, v, arg, _, result)
  if result < 0 then return address(v) end
  return self:buffer(v, arg.name == "buf" and result or result)
end
function kinds.sin(self, v, arg) return self:struct(arg.set, v) end
function kinds.sout(self, v, arg, _, result) return result < 0 and address(v) or self:struct(arg.set, v) end
function kinds.inout(self, v)
  if v == 0 then return "NULL" end
  local n = self.mem.u32[v]
  return n and ("[%d]"):format(n) or address(v)
end
function kinds.iovi(self, v, arg, args) return self:iov(v, args[arg.len_arg + 1]) end
function kinds.iovo(self, v, arg, args, result) return result < 0 and address(v) or self:iov(v, args[arg.len_arg + 1], result) end
function kinds.msghdri(self, v) return self:msghdr(v) end
function kinds.msghdro(self, v, _, _, result) return result < 0 and address(v) or self:msghdr(v, result) end
function kinds.mmsghdri(self, v, _, _, result) return self:mmsghdr(v, math.max(result, 0)) end
function kinds.mmsghdro(self, v, _, _, result) return result < 0 and address(v) or self:mmsghdr(v, result, true) end
function kinds.sai(self, v, arg, args) return self:sockaddr(v, args[arg.len_arg + 1]) end
function kinds.sao(self, v, arg, args, result)
  local len = args[arg.len_arg + 1]
  if result < 0 or v == 0 then return address(v) end
  return self:sockaddr(v, self.mem.u32[len] or 0)
end
function kinds.pollfds(self, v, arg, args) return self:pollfds(v, args[arg.len_arg + 1]) end
function kinds.epollevents(self, v, _, _, result)
  local out, size = {}, self:struct_of("epoll_event").size -- x86-64's is packed
  for i = 0, math.min(result, 32) - 1 do
    local events = self.mem:unpack("<I4", v + size * i)
    local data = self.mem:unpack("<I8", v + size * i + size - 8)
    out[#out + 1] = ("{events=%s, data=%s}"):format(self:flags("epoll", events), field.epolldata(self, data))
  end
  return result < 0 and address(v) or "[" .. table.concat(out, ", ") .. "]"
end
function M:fdset(va, n)
  if va == 0 then return "NULL" end
  local out = {}
  for fd = 0, math.min(int32(n), 1024) - 1 do
    if (self.mem.u8[va + fd // 8] or 0) >> (fd % 8) & 1 == 1 then out[#out + 1] = fd end
  end
  return "[" .. table.concat(out, " ") .. "]"
end
function kinds.fdset(self, v, _, args) return self:fdset(v, args[1]) end
function kinds.fdpair(self, v, _, _, result)
  local a, b = self.mem:unpack("<i4i4", v)
  return result < 0 and address(v) or a and ("[%d, %d]"):format(a, b) or address(v)
end
function kinds.sigset(self, v)
  local bits = v ~= 0 and self.mem.u64[v]
  return bits and M.sigset(bits) or address(v)
end
function kinds.sigsetout(self, v, _, _, result) return result < 0 and address(v) or kinds.sigset(self, v) end
function kinds.waitstatus(self, v, _, _, result)
  local s = v ~= 0 and result > 0 and self.mem.u32[v]
  return s and M.wait_status(s) or address(v)
end
function kinds.argv(self, v) return self:strings_at(v) end
function kinds.envp(self, v) return self:environment(v) end
function kinds.ptrout(_, v) return address(v) end

-- Kinds that are known only when the call has returned.
M.late = {}
for kind in ("out outp outstr sout iovo msghdro mmsghdri mmsghdro sao epollevents fdpair sigsetout waitstatus"):gmatch("%a+") do
  M.late[kind] = true
end

-- How argument i of a call is decoded: function(self, value, arg, args, result).
function M.decoder_of(info, i) return kinds[info.args[i].kind] or kinds.hex end

function M:arg(info, i, args, result)
  local a = info.args[i]
  return (kinds[a.kind] or kinds.hex)(self, args[i], a, args, result)
end

function M:result(info, v)
  if v < 0 and v > -4096 then
    local name, text = kit.errno_name(-v)
    return ("-1 %s (%s)"):format(name, text)
  end
  if info.ret == "hex" then return ("%#x"):format(v) end
  if info.ret == "mode" then return M.octal(v) end
  if info.ret == "fd" and self.fd_text then return self.fd_text(v) end
  return ("%d"):format(v)
end

return M
