-- Descriptors that the program leaves open: where each was opened. System calls whose result is a descriptor are known from the
-- engine's table.
local M = {}
M.__index = M

function M.new(emu, callers)
  local self = setmetatable({emu = emu, open = {}, callers = callers}, M)
  emu:on("sysret", function(ev) self:returned(ev) end)
  return self
end

local function path_of(self, info, args)
  for i, arg in ipairs(info.args) do
    if arg.kind == "path" then return self.emu.mem:cstring(args[i]) end
  end
end

function M:returned(ev)
  local info = self.emu:syscall_info(ev.nr)
  if not info then return end
  if info.ret == "fd" and ev.result >= 0 then
    self.open[ev.result] = {fd = ev.result, path = path_of(self, info, ev.args), stack = self.emu:stack(self.callers)}
  elseif info.name == "close" and ev.result == 0 then
    self.open[ev.args[1]] = nil
  elseif info.name == "close_range" and ev.result == 0 then
    for fd in pairs(self.open) do
      if fd >= ev.args[1] and math.ult(fd, ev.args[2] + 1) then self.open[fd] = nil end
    end
  end
end

function M:report(text)
  local list = {}
  for _, d in pairs(self.open) do list[#list + 1] = d end
  table.sort(list, function(a, b) return a.fd > b.fd end)
  text:line("FILE DESCRIPTORS: %d open (3 std) at exit.", #list + 3)
  for _, d in ipairs(list) do
    text:line("Open file descriptor %d:%s", d.fd, d.path and " " .. d.path or "")
    text:stack(d.stack)
    text:line()
  end
end

return M
