-- Socket addresses and messages as strace shows them: methods that kit.decode takes over.
local M = {}

local families = {[0] = "AF_UNSPEC", "AF_UNIX", "AF_INET", [10] = "AF_INET6", [16] = "AF_NETLINK"}

-- The text of an IPv6 address: its longest run of zero groups is "::".
local function inet6(bytes)
  local groups = {string.unpack(">I2I2I2I2I2I2I2I2", bytes)}
  local best, length, at = nil, 1, 1
  while at <= 8 do
    local stop = at
    while stop <= 8 and groups[stop] == 0 do stop = stop + 1 end
    if stop - at > length then best, length = at, stop - at end
    at = math.max(stop, at + 1)
  end
  local function text(first, last)
    local out = {}
    for i = first, last do out[#out + 1] = ("%x"):format(groups[i]) end
    return table.concat(out, ":")
  end
  return best and text(1, best - 1) .. "::" .. text(best + length, 8) or text(1, 8)
end

local by_family = {}

by_family[1] = function(self, bytes)
  local path = bytes:sub(3)
  if path == "" then return "" end
  if path:sub(1, 1) == "\0" then return (", sun_path=@%s"):format(self.quote(path:sub(2))) end
  return (", sun_path=%s"):format(self.quote(path:match("^[^\0]*")))
end

by_family[2] = function(_, bytes)
  if #bytes < 8 then return "" end
  return (', sin_port=htons(%d), sin_addr=inet_addr("%d.%d.%d.%d")'):format(string.unpack(">I2", bytes, 3), bytes:byte(5, 8))
end

by_family[10] = function(_, bytes)
  if #bytes < 28 then return "" end
  local port, flow = string.unpack(">I2I4", bytes, 3)
  return (', sin6_port=htons(%d), sin6_flowinfo=htonl(%d), inet_pton(AF_INET6, "%s", &sin6_addr), sin6_scope_id=%d'):format(
    port, flow, inet6(bytes:sub(9, 24)), (string.unpack("<I4", bytes, 25)))
end

function M:sockaddr(va, len)
  if va == 0 then return "NULL" end
  local bytes = len >= 2 and self.mem:read(va, math.min(len, 128))
  if not bytes then return self.address(va) end
  local family = string.unpack("<I2", bytes)
  local rest = by_family[family] and by_family[family](self, bytes) or (", sa_data=%s"):format(self.quote(bytes:sub(3)))
  return ("{sa_family=%s%s}"):format(families[family] or tostring(family), rest)
end

-- SOL_SOCKET's control messages: descriptors, credentials.
local function control_data(self, level, kind, va, n)
  if level == 1 and kind == 1 then
    local fds = {}
    for i = 0, n // 4 - 1 do fds[#fds + 1] = ("%d"):format(self.mem.i32[va + 4 * i] or -1) end
    return "SCM_RIGHTS", "[" .. table.concat(fds, ", ") .. "]"
  elseif level == 1 and kind == 2 and n >= 12 and self.mem:read(va, 12) then
    return "SCM_CREDENTIALS", ("{pid=%d, uid=%d, gid=%d}"):format(self.mem:unpack("<i4i4i4", va))
  end
  return ("%#x"):format(kind), self:buffer(va, n)
end

function M:control(va, len)
  local out, at = {}, 0
  while at + 16 <= len and #out < 64 do
    local n, level, kind = self.mem:unpack("<I8i4i4", va + at)
    if not n or n < 16 or n > len - at then break end
    local name, data = control_data(self, level, kind, va + at + 16, n - 16)
    out[#out + 1] = ("{cmsg_len=%d, cmsg_level=%s, cmsg_type=%s%s}"):format(n, self:flags("sol", level), name,
      n > 16 and ", cmsg_data=" .. data or "")
    at = at + (n + 7 & ~7)
  end
  return #out > 0 and "[" .. table.concat(out, ", ") .. "]" or self.address(va)
end

-- limit: how many bytes of the buffers were filled; namelen_before: how long the buffer for the address was.
function M:msghdr(va, limit)
  local name, namelen, _, iov, n, control, controllen, flags = self.mem:unpack("<I8I4I4I8I8I8I8I4", va)
  if not name then return self.address(va) end
  local shown_control = control ~= 0 and controllen > 0 and (" msg_control=%s,"):format(self:control(control, controllen)) or ""
  return ("{msg_name=%s, msg_namelen=%d, msg_iov=%s, msg_iovlen=%d,%s msg_controllen=%d, msg_flags=%s}"):format(
    self:sockaddr(name, namelen), namelen, self:iov(iov, n, limit), n, shown_control, controllen, self:flags("msg", flags))
end

-- n messages, of which the call handled `done`.
function M:mmsghdr(va, n, fill)
  local out = {}
  for i = 0, math.min(n, 64) - 1 do
    local len = self.mem.u32[va + 64 * i + 56]
    if not len then return self.address(va) end
    out[#out + 1] = ("{msg_hdr=%s, msg_len=%d}"):format(self:msghdr(va + 64 * i, fill and len), len)
  end
  return "[" .. table.concat(out, ", ") .. "]"
end

return M
