-- A siginfo as strace shows it.
--
--   siginfo.text(bytes)   -> "{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=7, ...}" from the 128 bytes of a siginfo_t
local kit = require "kit"

local M = {}

local codes = {
  SIGCHLD = {"CLD_EXITED", "CLD_KILLED", "CLD_DUMPED", "CLD_TRAPPED", "CLD_STOPPED", "CLD_CONTINUED"},
  SIGSEGV = {"SEGV_MAPERR", "SEGV_ACCERR", "SEGV_BNDERR", "SEGV_PKUERR"},
  SIGBUS = {"BUS_ADRALN", "BUS_ADRERR", "BUS_OBJERR"},
  SIGILL = {"ILL_ILLOPC", "ILL_ILLOPN", "ILL_ILLADR", "ILL_ILLTRP", "ILL_PRVOPC", "ILL_PRVREG", "ILL_COPROC", "ILL_BADSTK"},
  SIGTRAP = {"TRAP_BRKPT", "TRAP_TRACE", "TRAP_BRANCH", "TRAP_HWBKPT"},
  SIGFPE = {"FPE_INTDIV", "FPE_INTOVF", "FPE_FLTDIV", "FPE_FLTOVF", "FPE_FLTUND", "FPE_FLTRES", "FPE_FLTINV", "FPE_FLTSUB"},
}
local sent = {[0] = "SI_USER", [-1] = "SI_QUEUE", [-2] = "SI_TIMER", [-3] = "SI_MESGQ", [-4] = "SI_ASYNCIO", [-5] = "SI_SIGIO",
  [-6] = "SI_TKILL", [128] = "SI_KERNEL"}
local faults = {SIGSEGV = true, SIGBUS = true, SIGILL = true, SIGTRAP = true, SIGFPE = true}

local function sender(pid, uid) return ("si_pid=%d, si_uid=%d"):format(pid, uid) end
local function value(int, ptr) return ("si_int=%d, si_ptr=%s"):format(int, ptr == 0 and "NULL" or ("%#x"):format(ptr)) end

-- The fields from offset 16 on, by kind of signal.
local function child(bytes, code)
  local pid, uid, status, utime, stime = string.unpack("<i4I4i4xxxxi8i8", bytes, 17)
  local shown = code == 1 and tostring(status) or kit.signal_name(status)
  return ("%s, si_status=%s, si_utime=%d, si_stime=%d"):format(sender(pid, uid), shown, utime, stime)
end

local function timer(bytes)
  local id, overrun, int = string.unpack("<i4i4i4", bytes, 17)
  return ("si_timerid=%d, si_overrun=%d, %s"):format(id, overrun, value(int, (string.unpack("<i8", bytes, 25))))
end

function M.text(bytes)
  local signo, _, code = string.unpack("<i4i4i4", bytes)
  local name = kit.signal_name(signo)
  local out = {"si_signo=" .. name, "si_code=" .. (sent[code] or codes[name] and codes[name][code] or tostring(code))}
  local pid, uid = string.unpack("<i4I4", bytes, 17)
  if code > 0 and code ~= 128 and name == "SIGCHLD" then out[3] = child(bytes, code)
  elseif code > 0 and code ~= 128 and faults[name] then
    local addr = string.unpack("<i8", bytes, 17)
    out[3] = "si_addr=" .. (addr == 0 and "NULL" or ("%#x"):format(addr))
  elseif code == -2 then out[3] = timer(bytes)
  elseif code == 0 or code == -6 then out[3] = sender(pid, uid)
  elseif code < 0 then
    out[3] = ("%s, %s"):format(sender(pid, uid), value((string.unpack("<i4", bytes, 25)), (string.unpack("<i8", bytes, 25))))
  end
  return "{" .. table.concat(out, ", ") .. "}"
end

return M
