-- The profile core: exact instruction counts and call costs of a run, and what is made of them.
--
--   local profile = require "kit.profile".new(emu)      -- before the first run
--   emu:on("exit", function() local p = profile:collect() ... end)
--   p.total, p.functions (by inclusive cost, largest first), p.edges, p.lines
--
-- A function record: {name, file, line, object, self, inclusive, calls, fn}. Inclusive cost counts recursion once: the
-- engine measures it from the outermost activation of a function to its return.
local symbols = require "kit.symbols"

local M = {}
M.__index = M

function M.new(emu, options)
  options = options or {}
  emu:count_insns()
  return setmetatable({
    emu = emu,
    counter = emu:count("insn", {by = "insn"}),
    jumps = options.jumps and emu:count("branch", {by = "edge"}) or nil,
    graph = emu:callgraph{by_thread = options.by_thread},
    symbols = symbols.new(emu),
  }, M)
end

-- The record of the function that holds address.
local function function_of(self, p, address)
  local fn = self.symbols:fn(address)
  local f = p.by_fn[fn]
  if not f then
    f = {fn = fn, name = fn.name, object = fn.object, self = 0, inclusive = 0, calls = 0, insns = {}}
    p.by_fn[fn] = f
    p.functions[#p.functions + 1] = f
  end
  return f
end

-- Self costs: rows {pc, count} become per-function records with their costs per instruction.
local function self_costs(self, p)
  for _, row in ipairs(self.counter:rows()) do
    local f = function_of(self, p, row.pc)
    f.self = f.self + row.count
    f.insns[#f.insns + 1] = row
    p.total = p.total + row.count
  end
end

-- One edge record per (calling instruction, callee).
local function edge_of(p, caller, node, callee)
  local key = ("%x:%d"):format(node.call_pc, callee.fn.id)
  local e = p.edge_by_key[key]
  if not e then
    e = {caller = caller, call_pc = node.call_pc, callee = callee, calls = 0, inclusive = 0}
    p.edge_by_key[key] = e
    p.edges[#p.edges + 1] = e
  end
  return e
end

-- Walks the tree with a table of the edges on the path, so that recursion is counted once. Iterative: paths may be long.
local function tree_costs(self, p)
  local nodes, children, roots = p.nodes, {}, {}
  for _, n in ipairs(nodes) do
    if n.parent then
      children[n.parent] = children[n.parent] or {}
      table.insert(children[n.parent], n)
    else
      roots[#roots + 1] = n
    end
  end
  local measured, active_edge = {}, {}
  local function enter(n, parent_fn)
    local f = function_of(self, p, n.fn)
    n.record = f
    f.calls = f.calls + n.calls
    if not measured[n.fn] then -- a function may have several entries
      measured[n.fn] = true
      f.inclusive = f.inclusive + n.fn_inclusive
    end
    if parent_fn then
      local pair = parent_fn.fn.id << 32 | f.fn.id
      local e = edge_of(p, self.symbols:fn(n.call_pc) == parent_fn.fn and parent_fn or function_of(self, p, n.call_pc), n, f)
      e.calls = e.calls + n.calls
      if parent_fn ~= f and (active_edge[pair] or 0) == 0 then e.inclusive = e.inclusive + n.inclusive end
      active_edge[pair] = (active_edge[pair] or 0) + 1
      n.pair = pair
    end
  end
  local stack = {}
  for _, root in ipairs(roots) do
    stack[1] = {node = root, next = 1}
    enter(root)
    while #stack > 0 do
      local top = stack[#stack]
      local kids = children[top.node.id]
      local child = kids and kids[top.next]
      if child then
        top.next = top.next + 1
        enter(child, top.node.record)
        stack[#stack + 1] = {node = child, next = 1}
      else
        if top.node.pair then active_edge[top.node.pair] = active_edge[top.node.pair] - 1 end
        stack[#stack] = nil
      end
    end
  end
  p.roots, p.children = roots, children
end

-- Everything collected so far.
function M:collect()
  local p = {total = 0, functions = {}, by_fn = {}, edges = {}, edge_by_key = {}, symbols = self.symbols}
  p.nodes = self.graph:nodes()
  local entries = {}
  for _, n in ipairs(p.nodes) do entries[#entries + 1] = n.fn end
  self.symbols:set_entries(entries)
  self_costs(self, p)
  tree_costs(self, p)
  for _, f in ipairs(p.functions) do
    if f.inclusive < f.self then f.inclusive = f.self end -- reached by no call: code before the first one
    f.file, f.line = self.symbols:line(f.fn.address)
  end
  table.sort(p.functions, function(a, b)
    if a.inclusive ~= b.inclusive then return a.inclusive > b.inclusive end
    if a.self ~= b.self then return a.self > b.self end
    return a.fn.address < b.fn.address
  end)
  if self.jumps then p.jumps = self.jumps:rows() end
  return p
end

function M:zero()
  self.counter:zero()
  self.graph:zero()
  if self.jumps then self.jumps:zero() end
end

local function commas(n)
  local s = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (s:gsub("^,", ""))
end
M.commas = commas

-- The flat table as text: the `top` functions by `sort` ("inclusive" or "self").
function M.table(p, top, sort)
  local list = table.move(p.functions, 1, #p.functions, 1, {})
  if sort == "self" then
    table.sort(list, function(a, b)
      if a.self ~= b.self then return a.self > b.self end
      return a.fn.address < b.fn.address
    end)
  end
  local out = {("%15s %7s %15s %7s %12s  %s"):format("self", "", "inclusive", "", "calls", "function")}
  local function percent(n)
    return ("%.2f%%"):format(p.total > 0 and 100 * n / p.total or 0)
  end
  for i = 1, math.min(top, #list) do
    local f = list[i]
    local where = f.file and ("  %s:%d"):format(f.file:match("[^/]*$"), f.line) or ""
    local object = f.object ~= "" and ("  [%s]"):format(f.object:match("[^/]*$")) or ""
    out[#out + 1] = ("%15s %7s %15s %7s %12s  %s%s%s"):format(commas(f.self), percent(f.self), commas(f.inclusive),
      percent(f.inclusive), commas(f.calls), f.name, where, object)
  end
  return table.concat(out, "\n") .. "\n"
end

return M
