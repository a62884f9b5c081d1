-- Our disassembly of riscv64 against objdump's, line by line.
--
--   local sweep = require "spec.tools.rv64_disasm_sweep"
--   local result = sweep.elf("/usr/riscv64-linux-gnu/lib/libm.so.6", tool, dir)
--   local result = sweep.encodings(seed, n, tool, dir)      -- over the encoding space
--   result.lines, result.pinned, result.wrong               -- wrong: list of texts
--
-- `tool` is the program made from rv64_disasm.c, `dir` a scratch directory. Differences that
-- rv64_divergences.lua explains are counted as pinned, by reason.
local divergences = require "spec.tools.rv64_divergences"

local M = {}

local OBJDUMP = "riscv64-linux-gnu-objdump"
local BRANCHES = {}
for name in ("beq bne blt bge bltu bgeu beqz bnez blez bgez bltz bgtz j jal"):gmatch("%w+") do BRANCHES[name] = true end

local function sh(format, ...)
  local command = format:format(...)
  assert(os.execute(command), command)
end

-- Symbols and comments are taken off; so is the padding of columns, and the 0x of a branch target (which is
-- there only where the file has no symbols).
local function plain(text)
  text = text:gsub("%s*#.*", ""):gsub("%s*<[^>]*>", ""):gsub("%s+$", "")
  if BRANCHES[text:match("^%w+")] then text = text:gsub("0x(%x+)$", "%1") end
  return text
end

-- Calls f(address, encoding, text) for each instruction of an objdump listing.
local function each_instruction(path, f)
  for line in io.lines(path) do
    local address, encoding, text = line:match("^%s*(%x+):\t(%x+)%s+\t(.*)$")
    if not address then address, encoding, text = line:match("^%s*(%x+):\t(%x+)%s+(%.%dbyte.*)$") end
    if address then f(address, encoding, plain(text)) end
  end
end

local function pinned(encoding, theirs, ours)
  for _, divergence in ipairs(divergences) do
    if divergence.matches(tonumber(encoding, 16), #encoding // 2, theirs, ours) then return divergence.reason end
  end
end

local function compare(listing, tool, dir)
  local expected, input = {}, assert(io.open(dir .. "/input", "w"))
  each_instruction(listing, function(address, encoding, text)
    expected[#expected + 1] = text
    input:write(address, " ", encoding, "\n")
  end)
  input:close()
  sh("%s list <%s/input >%s/ours", tool, dir, dir)
  local result, i = {lines = #expected, pinned = {}, wrong = {}}, 0
  for line in io.lines(dir .. "/ours") do
    i = i + 1
    local encoding, ours = line:match("^%x+ (%x+) (.*)$")
    local theirs = expected[i]
    if ours ~= theirs then
      local reason = pinned(encoding, theirs, ours)
      if reason then
        result.pinned[reason] = (result.pinned[reason] or 0) + 1
      else
        result.wrong[#result.wrong + 1] = ("%s: objdump <%s>, ours <%s>"):format(encoding, theirs, ours)
      end
    end
  end
  assert(i == #expected, "the tool wrote another number of lines")
  return result
end

function M.elf(path, tool, dir)
  sh("%s -d %s >%s/listing", OBJDUMP, path, dir)
  return compare(dir .. "/listing", tool, dir)
end

-- The encodings become the text of an ELF file whose attributes name our extensions: objdump goes by them.
function M.encodings(seed, n, tool, dir)
  sh("%s encodings %d %d >%s/code.bin", tool, seed, n, dir)
  sh([[printf '.text\n.incbin "%s/code.bin"\n' >%s/code.s]], dir, dir)
  sh("riscv64-linux-gnu-as -march=rv64gc_zba_zbb_zbs %s/code.s -o %s/code.o", dir, dir)
  sh("riscv64-linux-gnu-strip -s %s/code.o", dir) -- no mapping symbol may call it data
  return M.elf(dir .. "/code.o", tool, dir)
end

return M
