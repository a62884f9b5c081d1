-- The leak check of memcheck: the heap's lost blocks become loss records, as Valgrind sorts and words them.
--
--   local leaks = require "kit.memcheck_leaks"
--   local found = leaks.search(heap, heuristics)    -- {records = {...}, totals = {definite = {bytes, blocks}, ...}}
--   leaks.report(found, text, {full = true, show = {definite = true}})
local M = {}

local order = {reachable = 0, possible = 1, indirect = 2, definite = 3}
local words = {reachable = "still reachable", possible = "possibly lost", indirect = "indirectly lost", definite = "definitely lost"}
M.states = {"definite", "indirect", "possible", "reachable"}

local function smaller(a, b)
  local x, y = a.bytes + a.indirect, b.bytes + b.indirect
  if x ~= y then return x < y end
  if a.state ~= b.state then return order[a.state] < order[b.state] end
  if a.blocks ~= b.blocks then return a.blocks < b.blocks end
  return a.first < b.first
end

-- Blocks of one state from one place are one record. A definite record's indirect bytes are those lost along with it.
function M.search(heap, heuristics)
  local by_key, records, totals = {}, {}, {}
  for _, state in ipairs(M.states) do totals[state] = {bytes = 0, blocks = 0, suppressed = 0} end
  for i, leak in ipairs(heap:leaks(heuristics)) do
    local key = leak.state .. leak.alloc_stack
    local r = by_key[key]
    if not r then
      r = {state = leak.state, stack = leak.alloc_stack, bytes = 0, indirect = 0, blocks = 0, first = i}
      by_key[key] = r
      records[#records + 1] = r
    end
    r.bytes = r.bytes + leak.size
    r.indirect = r.indirect + leak.indirect_bytes
    r.blocks = r.blocks + 1
  end
  table.sort(records, smaller)
  for n, r in ipairs(records) do r.number, r.of = n, #records end
  return {records = records, totals = totals}
end

function M.title(text, r)
  local commas = text.commas
  local size = commas(r.bytes)
  if r.state == "definite" and r.indirect > 0 then
    size = ("%s (%s direct, %s indirect)"):format(commas(r.bytes + r.indirect), size, commas(r.indirect))
  end
  return ("%s bytes in %s blocks are %s in loss record %s of %s"):format(size, commas(r.blocks), words[r.state], commas(r.number),
    commas(r.of))
end

-- Counts a record into the totals, as suppressed or not.
function M.count(found, r, is_suppressed)
  local t = is_suppressed and "suppressed" or r.state
  found.totals[t] = found.totals[t] or {bytes = 0, blocks = 0}
  found.totals[t].bytes = found.totals[t].bytes + r.bytes
  found.totals[t].blocks = found.totals[t].blocks + r.blocks
end

function M.summary(found, text, options)
  text:line("LEAK SUMMARY:")
  local function row(label, state)
    local t = found.totals[state] or {bytes = 0, blocks = 0}
    text:line("   %s: %s bytes in %s blocks", label, text.commas(t.bytes), text.commas(t.blocks))
  end
  row("definitely lost", "definite")
  row("indirectly lost", "indirect")
  row("  possibly lost", "possible")
  row("still reachable", "reachable")
  row("     suppressed", "suppressed")
  if not options.full then
    if #found.records > 0 then text:line("Rerun with --leak-check=full to see details of leaked memory") end
  elseif found.totals.reachable.blocks > 0 and not options.show.reachable then
    text:line("Reachable blocks (those to which a pointer was found) are not shown.")
    text:line("To see them, rerun with: --leak-check=full --show-leak-kinds=all")
  end
end

return M
