-- Writes a profile in callgrind's format, which callgrind_annotate and KCachegrind read
-- (Valgrind manual, "Callgrind Format Specification").
--
--   require "kit.callgrind_out".write(file, profile, {dump_instr = bool, jumps = bool, pid =, command =, part =, desc = {...}})
--
-- Addresses are those of the ELF files: the load bias is taken off. Inlined code belongs to the function it was inlined into, with
-- fi=/fe= naming the files its lines come from, as callgrind has it. An edge's inclusive cost leaves out direct recursion and
-- whatever runs inside the same edge, so that a function's inclusive cost is not counted twice.
local M = {}

-- "(1) name" the first time, "(1)" later.
local function compressor()
  local ids, n = {}, 0
  return function(name)
    local id = ids[name]
    if id then return ("(%d)"):format(id) end
    n = n + 1
    ids[name] = n
    return ("(%d) %s"):format(n, name)
  end
end

local Writer = {}
Writer.__index = Writer

function Writer:put(...)
  self.n = self.n + 1
  self.lines[self.n] = string.format(...)
end

-- "0xaddr line" or "line".
function Writer:position(pc, line)
  if not self.opt.dump_instr then return tostring(line) end
  local object = self.symbols:object(pc)
  return ("0x%x %d"):format(object and pc - object.bias or pc, line)
end

function Writer:file_of(pc)
  local file, line = self.symbols:line(pc)
  return file or "???", line or 0
end

-- Says which file the next lines belong to: fl= at a function's start, fi= inside inlined code, fe= back home.
function Writer:enter_file(file, home)
  if file == self.file then return end
  self:put("%s=%s", file == home and "fe" or "fi", self.files(file))
  self.file = file
end

-- Cost lines of a function; without --dump-instr, instructions of one line in a row of equal file and line are one.
function Writer:costs(f, home)
  local by_line, order = {}, {}
  for _, row in ipairs(f.insns) do
    local file, line = self:file_of(row.pc)
    local key = self.opt.dump_instr and row.pc or file .. "\0" .. line
    local cost = by_line[key]
    if not cost then
      cost = {file = file, line = line, pc = row.pc, count = 0}
      by_line[key] = cost
      order[#order + 1] = cost
    end
    cost.count = cost.count + row.count
  end
  for _, cost in ipairs(order) do
    self:enter_file(cost.file, home)
    self:put("%s %d", self:position(cost.pc, cost.line), cost.count)
  end
end

function Writer:calls(f, home)
  for _, e in ipairs(self.edges_of[f] or {}) do
    local callee = e.callee
    local file, line = self:file_of(e.call_pc)
    local callee_file, callee_line = self:file_of(callee.fn.address)
    self:enter_file(file, home)
    if callee.object ~= f.object then self:put("cob=%s", self.objects(callee.object)) end
    if callee_file ~= self.file then self:put("cfi=%s", self.files(callee_file)) end
    self:put("cfn=%s", self.names(self:fn_name(callee)))
    self:put("calls=%d %s", e.calls, self:position(callee.fn.address, callee_line))
    self:put("%s %d", self:position(e.call_pc, line), e.inclusive)
  end
end

function Writer:jumps(f, home)
  for _, j in ipairs(self.jumps_of[f] or {}) do
    local file, line = self:file_of(j.pc)
    local _, to_line = self:file_of(j.to)
    self:enter_file(file, home)
    local target = self:position(j.to, to_line)
    if j.kind == "cond" then self:put("jcnd=%d/%d %s", j.count, j.total, target)
    else self:put("jump=%d %s", j.count, target) end
    self:put("%s", self:position(j.pc, line))
  end
end

-- Functions of one name in one object (statics of different files) stay apart by their address.
function Writer:fn_name(f)
  return self.name_of[f]
end

local function name_functions(p)
  local seen, name_of = {}, {}
  for _, f in ipairs(p.functions) do
    local key = f.object .. "\0" .. f.name
    seen[key] = (seen[key] or 0) + 1
  end
  for _, f in ipairs(p.functions) do
    local twice = seen[f.object .. "\0" .. f.name] > 1
    name_of[f] = twice and ("%s'0x%x"):format(f.name, f.fn.address) or f.name
  end
  return name_of
end

local function group(list, key)
  local groups = {}
  for _, item in ipairs(list) do
    local k = key(item)
    if k then
      groups[k] = groups[k] or {}
      table.insert(groups[k], item)
    end
  end
  return groups
end

-- Taken conditional jumps with how often the instruction ran; calls and returns are not jumps here.
local function taken_jumps(p)
  local total, list = {}, {}
  for _, j in ipairs(p.jumps or {}) do total[j.pc] = (total[j.pc] or 0) + j.count end
  for _, j in ipairs(p.jumps or {}) do
    local insn = p.symbols.emu:disasm(j.pc)
    local falls = insn and j.to == j.pc + insn[1].len
    j.total = total[j.pc]
    if (j.kind == "cond" and not falls) or j.kind == "jump" then list[#list + 1] = j end
  end
  return list
end

local function header(w, p, opt)
  w:put("# callgrind format")
  w:put("version: 1")
  w:put("creator: kitlua")
  w:put("pid: %d", opt.pid)
  w:put("cmd: %s", opt.command)
  w:put("part: %d", opt.part or 1)
  w:put("")
  for _, d in ipairs(opt.desc or {}) do w:put("desc: %s", d) end
  w:put("")
  w:put("positions: %s", opt.dump_instr and "instr line" or "line")
  w:put("events: Ir")
  w:put("summary: %d", p.total)
  w:put("")
end

function M.write(file, p, opt)
  local w = setmetatable({lines = {}, n = 0, opt = opt, symbols = p.symbols, files = compressor(), names = compressor(),
    objects = compressor(), name_of = name_functions(p)}, Writer)
  w.edges_of = group(p.edges, function(e) return e.caller end)
  w.jumps_of = group(opt.jumps and taken_jumps(p) or {}, function(j) return p.by_fn[p.symbols:fn(j.pc)] end)
  header(w, p, opt)
  for _, f in ipairs(p.functions) do
    local home = w:file_of(f.fn.address)
    w:put("")
    w:put("ob=%s", w.objects(f.object ~= "" and f.object or "???"))
    w:put("fl=%s", w.files(home))
    w:put("fn=%s", w.names(w:fn_name(f)))
    w.file = home
    w:costs(f, home)
    w:calls(f, home)
    w:jumps(f, home)
  end
  w:put("")
  w:put("totals: %d", p.total)
  return file:write(table.concat(w.lines, "\n"), "\n")
end

return M
