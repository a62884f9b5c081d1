-- The interactive console of `kitlua -i`: gdb's short commands, and any Lua.
--
-- A line is a command if its first word is one (see `help`), else Lua: an expression is printed, a statement executed, with `kit`,
-- `emu`, `regs` and `mem` at hand. Commands are functions in M.commands: session, arguments -> text to print or nil. Each needs
-- "nothing", a "program", or one that is "alive".
local kit = require "kit"

local M = {commands = {}, help = {}}
local commands = M.commands

local function check_needs(s, needs)
  if needs ~= "nothing" and not s.emu then error("there is no program: kitlua -i -- PROGRAM [args]", 0) end
  if needs == "alive" and s.ended then error("the program has ended", 0) end
end

local function define(names, needs, usage, what, fn)
  local function checked(s, args)
    check_needs(s, needs)
    return fn(s, args)
  end
  for name in names:gmatch("%S+") do commands[name] = checked end
  M.help[#M.help + 1] = ("  %-22s %s"):format(usage, what)
end

-- ---- sessions ------------------------------------------------------------------------------------------------

local Session = {}
Session.__index = Session

function M.session(emu)
  local s = setmetatable({emu = emu, breaks = {}, next_id = 1, ended = false}, Session)
  s.env = setmetatable({kit = kit, emu = emu, regs = emu and emu.regs, mem = emu and emu.mem}, {__index = _G})
  return s
end

-- An address: a number, $register, symbol, symbol+offset, file:line, or a Lua expression.
function Session:address(text)
  local emu = self.emu
  local file, line = text:match("^([^:%s]+):(%d+)$")
  if file then
    local at = emu:line(file, tonumber(line))
    if not at or not at[1] then error(("no code for %s:%s"):format(file, line), 0) end
    return at[1]
  end
  local name, offset = text:match("^%*?([%a_][%w_.@:]*)([+-]?%w*)$")
  if name then
    local s = emu:symbol(name)
    if s then return s.address + (math.tointeger(tonumber(offset)) or 0) end
  end
  local value = self:evaluate((text:gsub("^%*", "")))
  return math.tointeger(value) or error(("'%s' is no address"):format(text), 0)
end

-- Lua in which $name is a register: not in strings, where a $ does not keep it from being compiled.
function Session:compile(text)
  local chunk, message = load(text, "=console", "t", self.env)
  if chunk or not text:find("$", 1, true) then return chunk, message end
  return load((text:gsub("%$([%a_][%w_]*)", "regs.%1")), "=console", "t", self.env)
end

function Session:evaluate(text)
  local chunk, message = self:compile("return " .. text)
  if not chunk then error((message:gsub("^console:1: ", "")), 0) end
  return chunk()
end

function Session:where(pc)
  local s = self.emu:symbol(pc)
  local frame = (self.emu:lookup(pc) or {})[1]
  local name = s and s.name .. (pc > s.address and ("+%d"):format(pc - s.address) or "") or "?"
  local line = frame and frame.line > 0 and (" at %s:%d"):format(frame.file:match("[^/]*$"), frame.line) or ""
  return ("0x%x <%s>%s"):format(pc, name, line)
end

function Session:here()
  local pc = self.emu.regs.pc
  local insn = self.emu:disasm(pc)
  return ("%s:  %s"):format(self:where(pc), insn and insn[1].text or "(not mapped)")
end

-- Says why the guest stopped and where.
function Session:stopped(stop, message)
  if not stop then return message end
  if stop.reason == "exit" or stop.reason == "signal" then
    self.ended = true
    if stop.reason == "exit" then return ("the program exited with status %d"):format(stop.status) end
    return ("the program was killed by %s"):format(stop.signal)
  end
  local what = stop.reason
  if stop.reason == "watch" then
    what = ("watch: %s of %d bytes at 0x%x"):format(stop.is_write and "store" or "load", stop.size, stop.addr)
  end
  local hit = stop.reason == "hook" and self.hit
  self.hit = nil
  if stop.reason == "step" or stop.reason == "hook" and not hit then return self:here() end
  return ("%s\n%s"):format(hit or what, self:here())
end

function Session:add(kind, text, hook)
  local id = self.next_id
  self.next_id = id + 1
  self.breaks[id] = {kind = kind, text = text, hook = hook, hits = 0}
  return id
end

-- What a hook of a breakpoint or catchpoint returns to stop there.
function Session:stop_at(id, what)
  self.breaks[id].hits = self.breaks[id].hits + 1
  self.hit = ("%s %d%s"):format(self.breaks[id].kind, id, what or "")
  return "stop"
end

-- ---- commands ---------------------------------------------------------------------------------------------------

define("help h", "nothing", "help", "this text", function()
  return "commands:\n" .. table.concat(M.help, "\n") .. "\nanything else is Lua (kit, emu, regs, mem; $a0 is a register in expressions)"
end)

local function break_at(temporary)
  return function(s, args)
    local where, condition = args:match("^(.-)%s+if%s+(.+)$")
    where = where or args
    local pc = where == "" and s.emu.regs.pc or s:address(where)
    local id, hook
    local function hit()
      if condition and not s:evaluate(condition) then return end
      local verdict = s:stop_at(id)
      if temporary then
        s.breaks[id] = nil
        hook:close()
      end
      return verdict
    end
    hook = s.emu:on("exec", {pc = pc}, hit)
    id = s:add("breakpoint", where, hook)
    return ("breakpoint %d at %s"):format(id, s:where(pc))
  end
end
define("b break", "program", "b WHERE [if EXPR]", "breakpoint: symbol, file:line, 0xADDRESS", break_at(false))
define("tb tbreak", "program", "tb WHERE", "breakpoint that goes with its first hit", break_at(true))

local function watch(event)
  return function(s, args)
    local where, len = args:match("^(%S+)%s*(%d*)$")
    if not where then error("watch what? an address or symbol, and a length", 0) end
    local symbol = s.emu:symbol(where)
    local addr = s:address(where)
    len = tonumber(len) or symbol and symbol.size > 0 and symbol.size or 8
    local id = s:add(event .. " watchpoint", args, s.emu:on(event, {addr = addr, len = len}))
    return ("watchpoint %d on %d bytes at 0x%x (%s)"):format(id, len, addr, event)
  end
end
define("watch", "alive", "watch WHERE [LEN]", "stop after a store there", watch("store"))
define("rwatch", "alive", "rwatch WHERE [LEN]", "stop after a load", watch("load"))
define("awatch", "alive", "awatch WHERE [LEN]", "stop after either", watch("access"))

local function emu_call(s, ev)
  local info = s.emu:syscall_info(ev.nr)
  return info and info.name or tostring(ev.nr)
end

define("catch", "alive", "catch syscall [NAME]", "stop at a system call; `catch signal [NAME]`", function(s, args)
  local what, name = args:match("^(%S+)%s*(%S*)$")
  local filter = {}
  if what == "syscall" and name ~= "" then filter.name = name
  elseif what == "signal" and name ~= "" then filter.signal = name
  elseif what ~= "syscall" and what ~= "signal" then error("catch syscall or catch signal", 0) end
  local id
  id = s:add("catchpoint", args, s.emu:on(what, filter, function(ev)
    return s:stop_at(id, ": " .. what .. " " .. (what == "syscall" and emu_call(s, ev) or ev.name))
  end))
  return ("catchpoint %d"):format(id)
end)

define("delete d", "program", "d [N]", "delete a breakpoint, watchpoint or catchpoint; all without N", function(s, args)
  local ids = args ~= "" and {tonumber(args)} or {}
  if args == "" then for id in pairs(s.breaks) do ids[#ids + 1] = id end end
  for _, id in ipairs(ids) do
    local b = s.breaks[id] or error(("no breakpoint %s"):format(args), 0)
    b.hook:close()
    s.breaks[id] = nil
  end
end)

define("c continue r run", "alive", "c", "go on until something stops the program", function(s)
  return s:stopped(s.emu:run())
end)

define("si stepi", "alive", "si [N]", "N instructions", function(s, args)
  return s:stopped(s.emu:step(tonumber(args) or 1))
end)

define("ni nexti", "alive", "ni", "one instruction, calls as a whole", function(s)
  local emu = s.emu
  local insn = emu:disasm(emu.regs.pc)[1]
  if not insn.text:match("^jal") then return s:stopped(emu:step(1)) end
  local sp = emu.regs.sp
  local hook = emu:on("exec", {pc = insn.pc + insn.len}, function() if not math.ult(emu.regs.sp, sp) then return "stop" end end)
  local stop, message = emu:run()
  hook:close()
  return s:stopped(stop, message)
end)

-- One source line; `over`: calls as a whole.
local function step_line(over)
  return function(s)
    local emu = s.emu
    local function line()
      local f = (emu:lookup(emu.regs.pc) or {})[1]
      return f and f.line > 0 and f.file .. ":" .. f.line or nil
    end
    local start, sp, stop, message = line(), emu.regs.sp, nil, nil
    for _ = 1, 1000000 do
      stop, message = emu:step(1)
      if not stop or stop.reason ~= "step" then break end
      local now = line()
      if now and now ~= start and not (over and math.ult(emu.regs.sp, sp)) then break end
    end
    return s:stopped(stop, message)
  end
end
define("s step", "alive", "s", "to another source line", step_line(false))
define("n next", "alive", "n", "the same, calls as a whole", step_line(true))

define("finish fin", "alive", "finish", "run until this function returns", function(s)
  local frames = s.emu:backtrace()
  local caller
  for i = 2, #frames do if not frames[i].inlined and frames[i].pc ~= frames[1].pc then caller = frames[i] break end end
  if not caller then error("there is no caller", 0) end
  local emu, sp = s.emu, s.emu.regs.sp
  local hook = emu:on("exec", {pc = caller.pc}, function() if not math.ult(emu.regs.sp, sp) then return "stop" end end)
  local stop, message = emu:run()
  hook:close()
  return s:stopped(stop, message)
end)

define("regs", "alive", "regs [NAME...]", "registers", function(s, args)
  local out, column = {}, 0
  local function show(name, value)
    column = column + 1
    out[#out + 1] = ("%-6s 0x%016x%s"):format(name, value, column % 4 == 0 and "\n" or "  ")
  end
  if args ~= "" then
    for name in args:gsub("%$", ""):gmatch("%S+") do
      local value = s.emu.regs[name]
      if math.type(value) == "integer" then show(name, value)
      else out[#out + 1] = ("%-6s %s\n"):format(name, tostring(value)) end
    end
  else
    for name, value in pairs(s.emu.regs) do
      if math.type(value) == "integer" and not name:match("^f[tsa]%d") then show(name, value) end
    end
  end
  return (table.concat(out):gsub("%s+$", ""))
end)

local formats = {x = "0x%x", d = "%d", u = "%u", c = "%q", a = "0x%x"}
local units = {b = 1, h = 2, w = 4, g = 8}

define("x", "program", "x/NFU WHERE", "memory: N units, format x d u c s i, size b h w g", function(s, args)
  local spec, where = args:match("^/(%S+)%s+(.+)$")
  where = where or args
  local n = tonumber((spec or ""):match("^%d+")) or 1
  local f, u = (spec or ""):match("[xduasic]") or "x", units[(spec or ""):match("[bhwg]") or "g"]
  local at, out = s:address(where), {}
  for _ = 1, n do
    local label = ("0x%x:\t"):format(at)
    if f == "i" then
      local insn = s.emu:disasm(at)
      if not insn then break end
      out[#out + 1] = label .. insn[1].text
      at = at + insn[1].len
    elseif f == "s" then
      local text, message = s.emu.mem:cstring(at, 4096)
      if not text then return message end
      out[#out + 1] = label .. ("%q"):format(text)
      at = at + #text + 1
    else
      local value = s.emu.mem[(f == "d" and "i" or "u") .. u * 8][at]
      if not value then return ("0x%x is not mapped"):format(at) end
      out[#out + 1] = label .. (f == "c" and ("%q"):format(string.char(value & 255)) or formats[f == "u" and "d" or f]:format(value))
      at = at + u
    end
  end
  return table.concat(out, "\n")
end)

local function variable_text(v)
  return ("%s %s = %s"):format(v.type, v.name, v.value == nil and "<optimized out>" or tostring(v.value))
end

define("p print", "nothing", "p EXPR", "a Lua expression; $reg is a register, a C variable by its name", function(s, args)
  for _, v in ipairs(s.emu and not s.ended and s.emu:locals() or {}) do
    if v.name == args then return variable_text(v) end
  end
  local symbol = s.emu and args:match("^[%a_][%w_]*$") and s.env[args] == nil and s.emu:symbol(args)
  if symbol then return ("%s at 0x%x, %d bytes"):format(symbol.name, symbol.address, symbol.size) end
  local v = s:evaluate(args)
  return math.type(v) == "integer" and ("%d (0x%x)"):format(v, v) or tostring(v)
end)

define("bt where", "alive", "bt", "call stack", function(s)
  local out = {}
  for i, f in ipairs(s.emu:backtrace()) do
    local line = f.line > 0 and (" at %s:%d"):format(f.file:match("[^/]*$"), f.line) or f.object ~= "" and (" in %s"):format(f.object) or ""
    out[#out + 1] = ("#%-3d 0x%x %s%s%s"):format(i - 1, f.pc, f.fn ~= "" and f.fn or "??", f.inlined and " (inlined)" or "", line)
  end
  return table.concat(out, "\n")
end)

define("disas", "program", "disas [WHERE [N]]", "instructions", function(s, args)
  local where, n = args:match("^(%S*)%s*(%d*)$")
  local at, out = where ~= "" and s:address(where) or s.emu.regs.pc, {}
  local pc = s.emu.regs.pc
  for _, insn in ipairs(s.emu:disasm(at, tonumber(n) or 10) or {}) do
    out[#out + 1] = ("%s 0x%x:\t%s"):format(insn.pc == pc and "=>" or "  ", insn.pc, insn.text)
  end
  return table.concat(out, "\n")
end)

local infos = {}
function infos.locals(s)
  check_needs(s, "alive")
  local out = {}
  for _, v in ipairs(s.emu:locals() or {}) do out[#out + 1] = variable_text(v) end
  return #out > 0 and table.concat(out, "\n") or "no variables here"
end
function infos.breakpoints(s)
  local out = {}
  for id, b in pairs(s.breaks) do
    local hits = b.kind:find("watch") and b.hook:hits() or b.hits
    out[#out + 1] = ("%-3d %-18s %s (%d hit%s)"):format(id, b.kind, b.text, hits, hits == 1 and "" or "s")
  end
  table.sort(out)
  return table.concat(out, "\n")
end
function infos.threads(s)
  local out = {}
  for _, t in ipairs(s.emu.threads) do
    out[#out + 1] = ("%s %d %s %s"):format(t.tid == s.emu.tid and "*" or " ", t.tid, t.state, s:where(t.pc))
  end
  return table.concat(out, "\n")
end
function infos.maps(s)
  local out = {}
  for _, m in ipairs(s.emu.mem:maps()) do out[#out + 1] = ("%x-%x %s %08x %s"):format(m.start, m.stop, m.prot, m.offset, m.name) end
  return table.concat(out, "\n")
end
infos.b, infos["break"] = infos.breakpoints, infos.breakpoints

define("info i", "program", "info WHAT", "locals, breakpoints, threads, maps", function(s, args)
  local info = infos[args] or error("info locals, breakpoints, threads or maps", 0)
  return info(s)
end)

define("quit q exit", "nothing", "quit", "end", function(s)
  s.quit = true
end)

-- ---- lines ------------------------------------------------------------------------------------------------------------

local function run_lua(s, text)
  local chunk = s:compile("return " .. text)
  if not chunk then
    local message
    chunk, message = s:compile(text)
    if not chunk then error((message:gsub("^console:1: ", "")), 0) end
  end
  local results = table.pack(chunk())
  local out = {}
  for i = 1, results.n do
    local v = results[i]
    out[i] = math.type(v) == "integer" and ("%d (0x%x)"):format(v, v) or tostring(v)
  end
  return results.n > 0 and table.concat(out, "\t") or nil
end

-- Executes one line; returns what to print, or nil. Errors come back as text.
function Session:execute(text)
  local word, rest = text:match("^%s*([%a_]+)(.*)$")
  local command = word and commands[word]
  -- `x = 1`, `s.y`, `c(…)` are Lua, though x, s and c are commands
  if command and rest:match("^%s*[=.(%[]") and not rest:match("^%s*==") then command = nil end
  if command and rest ~= "" and not rest:match("^[%s/]") then command = nil end
  local ok, result
  if command then ok, result = pcall(command, self, rest:match("^%s*(.-)%s*$"))
  elseif text:match("%S") then ok, result = pcall(run_lua, self, text)
  else return end
  result = result and tostring(result) or nil
  if not ok and result then result = result:gsub("^[^\n:]*console%.lua:%d+: ", ""):gsub("^console:1: ", "") end
  if not ok and not command and result:find("^syntax error") then
    result = ("no command '%s' (`help` lists them), and no Lua: %s"):format(word or text, result)
  end
  return result, ok
end

local function completer(s)
  return function(before, word)
    local out = {}
    if not before:match("%S") then
      for name in pairs(commands) do if name:sub(1, #word) == word then out[#out + 1] = name end end
    elseif #word > 0 and s.emu then
      for _, symbol in ipairs(s.emu:symbols(word .. "*")) do out[#out + 1] = symbol.name end
    end
    table.sort(out)
    return out
  end
end

function M.main()
  local line = require "kit.line"
  local emu, message
  if kit.command[1] then
    emu, message = kit.open(kit.command)
    if not emu then error(message, 0) end
    emu:catch_interrupts(true)
  end
  local s = M.session(emu)
  local history = os.getenv("HOME") and os.getenv("HOME") .. "/.kitlua_history"
  if history then line.load(history) end
  line.complete(completer(s))
  print("kitlua " .. kit.version .. ", console; `help` lists the commands")
  if emu then print(s:here()) end
  local last = ""
  while not s.quit do
    local text = line.read("(kit) ")
    if not text then break end
    if text:match("%S") then
      line.add(text)
      last = text
    end
    local result = s:execute(text:match("%S") and text or last) -- an empty line repeats the last one
    if result and result ~= "" then print(result) end
  end
  if history then line.save(history) end
  if emu then emu:close() end
end

return M
