-- Symbols and source lines against binutils: every function's addresses in static programs, and libc's where the loader put it.
local support = require "spec.support"

local NM, ADDR2LINE = "riscv64-linux-gnu-nm", "riscv64-linux-gnu-addr2line"

-- Answers of emu for the addresses of a file (hexadecimal, one a line; + the bias of the image whose path ends in `image`).
local ASK = [[
local addresses, image, answers, ask = ...
local base = 0
if image then
  emu:on("exec", {pc = "main"}, function() return "stop" end)
  assert(emu:run().reason == "hook")
  for _, i in ipairs(emu.images) do if i.path:sub(-#image) == image then base = i.bias end end
  assert(base ~= 0, "no image " .. image)
end
local out = assert(io.open(answers, "w"))
for line in io.lines(addresses) do
  out:write(ask(tonumber(line, 16) + base, base), "\n")
end
out:close()
os.exit(0, true)
]]

local SYMBOL = [[function(pc, base)
  local s = emu:symbol(pc)
  return s and ("%x %d %s"):format(s.address - base, s.size, s.name) or "-"
end]]

local BY_NAME = [[function(pc, base)
  local s = emu:symbol(pc)
  local same = s and emu:symbol(s.name)
  return same and ("%x"):format(same.address - base) or "-"
end]]

-- One line an address: function file:line, the innermost inlined function first.
local LINES = [[function(pc)
  local out = {}
  for _, f in ipairs(emu:lookup(pc) or {}) do
    out[#out + 1] = ("%s %s:%d"):format(f.fn, f.file:match("[^/]*$"), f.line)
  end
  return table.concat(out, " < ")
end]]

local function ask(guest, addresses, question, image)
  return support.with_tempdir(function(dir)
    local list = {}
    for i, a in ipairs(addresses) do list[i] = ("%x"):format(a) end
    support.write(dir .. "/addresses", table.concat(list, "\n") .. "\n")
    support.write(dir .. "/ask.lua", ASK)
    local chunk = ("assert(loadfile(%q))(%q, %s, %q, %s)"):format(dir .. "/ask.lua", dir .. "/addresses",
      image and ("%q"):format(image) or "nil", dir .. "/answers", question)
    local run = support.run(support.guest(guest, {}, {"-e", chunk}))
    assert.are.equal("", run.err, support.describe(run))
    local answers = {}
    for line in io.lines(dir .. "/answers") do answers[#answers + 1] = line end
    assert.are.equal(#addresses, #answers)
    return answers
  end)
end

-- Functions of a file, from nm: {start, size, name}, sorted by address.
local function functions(path, options)
  local list = {}
  for start, size, name in support.sh(("%s -S %s %s 2>/dev/null"):format(NM, options or "", support.quote(path)))
      :gmatch("(%x+) (%x+) [TtWwi] ([^\n]+)\n") do
    list[#list + 1] = {start = tonumber(start, 16), size = tonumber(size, 16), name = name:gsub("@.*", "")}
  end
  table.sort(list, function(a, b) return a.start < b.start end)
  assert.is_true(#list > 100, path)
  return list
end

-- Begins, middles and last instructions of all functions.
local function probes(list)
  local seen, out = {}, {}
  for _, f in ipairs(list) do
    for _, a in ipairs{f.start, f.start + f.size // 4 * 2, f.start + f.size - 2} do
      if f.size >= 2 and not seen[a] then
        seen[a] = true
        out[#out + 1] = a
      end
    end
  end
  table.sort(out)
  return out
end

-- What nm knows of each address: the names of the functions it lies in, by the function that begins last.
local function owners(list, addresses)
  local out = {}
  for i, a in ipairs(addresses) do
    local best = {start = -1, names = {}}
    for _, f in ipairs(list) do
      if f.start > a then break end
      if a < f.start + f.size then
        if f.start > best.start then best = {start = f.start, names = {}} end
        best.names[f.name] = f.size
      end
    end
    out[i] = best
  end
  return out
end

local function check_symbols(guest, path, options, image)
  local list = functions(path, options)
  local addresses = probes(list)
  local answers = ask(guest, addresses, SYMBOL, image)
  for i, want in ipairs(owners(list, addresses)) do
    local start, size, name = answers[i]:match("^(%x+) (%d+) (.+)$")
    name = name and name:gsub("@.*", "")
    assert(start and tonumber(start, 16) == want.start and want.names[name] == tonumber(size),
      ("%x: %s, but nm has %x %s"):format(addresses[i], answers[i], want.start, next(want.names) or "?"))
  end
  return #addresses
end

describe("symbols", function()
  setup(function() support.make("guests") end)

  it("of static programs are those of nm", function()
    for _, guest in ipairs{"throws", "demo", "sockets"} do
      local n = check_symbols("rv64/" .. guest, support.guest_path("rv64/" .. guest))
      assert.is_true(n > 2000, guest .. ": " .. n)
    end
  end)

  it("of libc, where the loader put it, are those of nm -D", function()
    local libc = support.sysroot.rv64 .. "/lib/libc.so.6"
    assert.is_true(check_symbols("rv64/hello-dyn", libc, "-D", "libc.so.6") > 4000)
  end)

  it("are found by name", function()
    local list, once = functions(support.guest_path("rv64/demo")), {}
    for _, f in ipairs(list) do once[f.name] = (once[f.name] or 0) + 1 end
    local addresses = {}
    for _, f in ipairs(list) do if f.size > 0 and once[f.name] == 1 then addresses[#addresses + 1] = f.start end end
    local answers = ask("rv64/demo", addresses, BY_NAME)
    for i, a in ipairs(addresses) do assert.are.equal(("%x"):format(a), answers[i]) end
    assert.is_true(#addresses > 1000)
  end)

  it("do not make up names for what lies outside", function()
    assert.are.same({"-", "-", "-"}, ask("rv64/hello", {8, 0x7fffffff, 0x3fff00000000}, SYMBOL))
  end)
end)

-- ---- lines ---------------------------------------------------------------------------------------------------------

-- The same text from addr2line -i -f -a: address, then pairs of function and file:line.
local function addr2line(path, addresses)
  return support.with_tempdir(function(dir)
    local list = {}
    for i, a in ipairs(addresses) do list[i] = ("0x%x"):format(a) end
    support.write(dir .. "/addresses", table.concat(list, "\n") .. "\n")
    local text = support.sh(("%s -a -i -f -e %s <%s/addresses"):format(ADDR2LINE, support.quote(path), dir))
    local answers, fn = {}, nil
    for line in text:gmatch("[^\n]+") do
      if line:find("^0x%x+$") then answers[#answers + 1] = ""
      elseif not fn then fn = line
      else
        local file, number = line:gsub(" %(discriminator %d+%)$", ""):match("([^/]*):([%d?]+)$")
        local frame = ("%s %s:%d"):format(fn, file, tonumber(number) or 0)
        local before = answers[#answers]
        answers[#answers] = before == "" and frame or before .. " < " .. frame
        fn = nil
      end
    end
    assert.are.equal(#addresses, #answers)
    return answers
  end)
end

-- Every second byte of the functions that lie in files of their own debugging information.
local function code_with_lines(path)
  local out = {}
  local list = functions(path)
  local starts = {}
  for i, f in ipairs(list) do starts[i] = f.start end
  local known = addr2line(path, starts)
  local done = 0
  for i, f in ipairs(list) do
    if not known[i]:find(":0", 1, true) then
      for a = math.max(f.start, done), f.start + f.size - 2, 2 do out[#out + 1] = a end
      done = math.max(done, f.start + f.size)
    end
  end
  return out
end

local function positions(frames)
  local out = {}
  for frame in (frames .. " < "):gmatch("(.-) < ") do out[#out + 1] = frame:match("%S+$") end
  return table.concat(out, " < ")
end

describe("lines", function()
  setup(function() support.make("guests") end)

  for guest, least in pairs{throws = 300, demo = 100, files = 1000, sockets = 400, signals = 800} do
    it("and inlined functions are those of addr2line: " .. guest, function()
      local path = support.guest_path("rv64/" .. guest)
      local addresses = code_with_lines(path)
      assert.is_true(#addresses >= least, #addresses)
      local want, got = addr2line(path, addresses), ask("rv64/" .. guest, addresses, LINES)
      local wrong = {}
      if guest == "throws" then -- C++: addr2line has linkage names; the frames are compared by their lines
        for i in ipairs(addresses) do want[i], got[i] = positions(want[i]), positions(got[i]) end
      end
      for i, a in ipairs(addresses) do
        if want[i] ~= got[i] then wrong[#wrong + 1] = ("%x: %s\n  addr2line: %s"):format(a, got[i], want[i]) end
      end
      assert(#wrong == 0, ("%d of %d:\n%s"):format(#wrong, #addresses, table.concat(wrong, "\n", 1, math.min(#wrong, 10))))
    end)
  end
end)
