-- For the x86-64 oracle (x64_oracle.h): what access events say, against the pages' protection. An instruction of the jobs' code
-- that retires has accessed nothing that was forbidden; one that faults has, at the address of the fault and in its direction.
--   kitlua x64_oracle_access.lua FILE -- x64_oracle hash      FILE: counts and what is wrong
local kit = require "kit"
local path = ...
local CODE = {pc = 0x10000000, pc_len = 0x40000}
local PAGE <const>, OURS <const>, CANONICAL <const> = 4096, 1 << 46, 1 << 47

-- Faults without an access of the program's: hints, masked-off bytes, and the display that `enter` copies (not reported).
local EXEMPT = {clflush = true, clflushopt = true, clwb = true, cldemote = true,
  maskmovdqu = true, vmaskmovdqu = true, maskmovq = true, enter = true}

local emu <close> = assert(kit.open(kit.command))
local out = assert(io.open(path, "w"))
local n = {events = 0, retired = 0, faults = 0, wrong = 0}
local seen, n_seen = {}, 0 -- accesses of the instruction that is being executed: address, size, is it a store
local maps -- as they are now, nil: to be fetched

local function prot(page)
  maps = maps or emu.mem:maps()
  for _, m in ipairs(maps) do
    if page >= m.start and page < m.stop then return m.prot end
  end
  return "---"
end

local function is_forbidden(addr, size, is_write)
  for page = addr & -PAGE, addr + size - 1, PAGE do
    if math.ult(page, OURS) then
      if not prot(page):find(is_write and "w" or "r") then return true end
    elseif not math.ult(page, CANONICAL) then
      return true
    end
  end
  return false
end

local function wrong(what, pc, mnemonic)
  n.wrong = n.wrong + 1
  if n.wrong > 20 then return end
  out:write(("%s: %x %s\n"):format(what, pc, mnemonic or ""))
  for i = 1, n_seen, 3 do out:write(("  %s of %d bytes at %x\n"):format(seen[i + 2] and "store" or "load", seen[i + 1], seen[i])) end
end

local function forget() maps, n_seen = nil, 0 end
for _, event in ipairs{"map", "unmap", "protect"} do emu:on(event, forget) end

emu:on("access", CODE, function(_, addr, size, is_write)
  seen[n_seen + 1], seen[n_seen + 2], seen[n_seen + 3] = addr, size, is_write
  n_seen = n_seen + 3
  n.events = n.events + 1
end)
emu:on("insn", CODE, function(pc, mnemonic)
  n.retired = n.retired + 1
  for i = 1, n_seen, 3 do
    if is_forbidden(seen[i], seen[i + 1], seen[i + 2]) then wrong("no fault", pc, mnemonic) break end
  end
  n_seen = 0
end)
emu:on("fault", function(ev)
  if ev.signo == 11 and ev.addr ~= 0 and not ev.is_exec and ev.pc >= CODE.pc and ev.pc < CODE.pc + CODE.pc_len then
    n.faults = n.faults + 1
    local found
    for i = 1, n_seen, 3 do
      found = found or (math.ult(ev.addr - seen[i], seen[i + 1]) and (seen[i + 2] or not ev.is_write))
    end
    local insn = found or emu:disasm(ev.pc)[1]
    if not found and not EXEMPT[insn.name] then
      wrong(("%s fault at %x"):format(ev.is_write and "store" or "load", ev.addr), ev.pc, insn.text)
    end
  end
  n_seen = 0
end)
emu:run()
out:write(("%d events, %d instructions retired, %d faults, %d wrong\n"):format(n.events, n.retired, n.faults, n.wrong))
out:close()
