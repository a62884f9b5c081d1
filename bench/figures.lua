-- Ratios, means and bars, and their table as text.
--
--   local figures = require "bench.figures"
--   local set = figures.new(programs, columns)         -- rows of bench/programs.def and columns.def
--   set:add("fib", "none", seconds)                    -- the least counts
--   set:figure("none", "native")                       -- geometric mean of the categories' geometric means
local M = {}
M.__index = M

function M.new(programs, columns)
  return setmetatable({programs = programs, columns = columns, times = {}}, M)
end

function M:add(program, column, seconds)
  local row = self.times[program] or {}
  self.times[program] = row
  row[column] = math.min(row[column] or math.huge, seconds)
end

-- nil if one of them was not measured.
function M:ratio(program, column, to)
  local row = self.times[program]
  return row and row[column] and row[to] and row[column] / row[to]
end

local function mean(values)
  local sum = 0
  for _, value in ipairs(values) do sum = sum + math.log(value) end
  return #values > 0 and math.exp(sum / #values) or nil
end
M.mean = mean

function M:category(category, column, to)
  local ratios = {}
  for _, p in ipairs(self.programs) do
    if p.category == category then ratios[#ratios + 1] = self:ratio(p.name, column, to) end
  end
  return mean(ratios)
end

function M:categories()
  local list = {}
  for _, p in ipairs(self.programs) do
    if list[#list] ~= p.category then list[#list + 1] = p.category end
  end
  return list
end

function M:figure(column, to)
  local means = {}
  for _, category in ipairs(self:categories()) do means[#means + 1] = self:category(category, column, to) end
  return mean(means)
end

local function cell(ratio)
  return ratio and ("%12.2fx"):format(ratio) or ("%13s"):format("-")
end

local function line(name, native, columns, ratio)
  local cells = {("%-22s%8s"):format(name, native)}
  for _, c in ipairs(columns) do
    if c.name ~= "native" then cells[#cells + 1] = cell(ratio(c.name)) end
  end
  return table.concat(cells)
end

-- The table: times natively in seconds, the others over native.
function M:text(title)
  local heads = {("%-22s%8s"):format(title, "native")}
  for _, c in ipairs(self.columns) do
    if c.name ~= "native" then heads[#heads + 1] = (" %12s"):format(c.name) end
  end
  local lines = {table.concat(heads)}
  for _, category in ipairs(self:categories()) do
    for _, p in ipairs(self.programs) do
      local native = self.times[p.name] and self.times[p.name].native
      if p.category == category then
        lines[#lines + 1] = line("  " .. p.name, native and ("%.2f s"):format(native) or "-", self.columns,
          function(column) return self:ratio(p.name, column, "native") end)
      end
    end
    lines[#lines + 1] = line(category, "", self.columns, function(column) return self:category(category, column, "native") end)
  end
  lines[#lines + 1] = line("figure", "", self.columns, function(column) return self:figure(column, "native") end)
  return table.concat(lines, "\n")
end

-- The bars for an architecture: the figure, whether it is met, and programs above twice the bar.
function M:bars(arch, bars)
  local lines = {}
  for _, bar in ipairs(bars) do
    local figure = bar[1] == arch and self:figure(bar[2], bar.to)
    if figure then
      local above = {}
      for _, p in ipairs(self.programs) do
        local ratio = self:ratio(p.name, bar[2], bar.to)
        if ratio and ratio > 2 * bar.most then above[#above + 1] = ("%s %.2f"):format(p.name, ratio) end
      end
      lines[#lines + 1] = ("%-28s %6.2f, bar %5.2f: %s%s"):format(bar[2] .. " / " .. bar.to, figure, bar.most,
        figure <= bar.most and "met" or "MISSED", #above > 0 and "; ABOVE TWICE THE BAR: " .. table.concat(above, ", ") or "")
    end
  end
  return table.concat(lines, "\n")
end

return M
