-- The documentation data against the module: nothing undocumented, nothing documented that is not there; generated files are fresh.
local support = require "spec.support"
local api = dofile("doc/api.lua")
local kit = require "kit"

local documented = {}
for _, c in ipairs(api) do
  if c.class then
    documented[c.class] = {}
    for _, f in ipairs(c.functions or {}) do documented[c.class][f[1]] = "function" end
    for _, f in ipairs(c.fields or {}) do documented[c.class][f[1]] = "field" end
  end
end

local function names(t)
  local list = {}
  for name in pairs(t) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- Methods as the metatable has them: a table, or the upvalue of an __index function.
local function methods(object)
  local index = getmetatable(object).__index
  if type(index) == "function" then
    local _, upvalue = debug.getupvalue(index, 1)
    index = upvalue
  end
  return index
end

describe("documentation", function()
  it("covers the module", function()
    assert.are.same(names(documented.kit), names(kit))
  end)

  it("covers every method of every object", function()
    local emu <close> = assert(kit.open{support.guest_path("rv64/asm_hello")})
    local objects = {["kit.emu"] = emu, ["kit.hook"] = emu:on("exit", function() end), ["kit.counter"] = emu:count("insn"),
      ["kit.graph"] = emu:callgraph(), ["kit.ring"] = emu:trace("block", {fields = {"pc"}}), ["kit.plane"] = emu:plane{bits = 1},
      ["kit.heap"] = emu:heap{plane = emu:plane{bits = 1}}}
    for class, object in pairs(objects) do
      local bound = {}
      for name in pairs(methods(object)) do bound[name] = "function" end
      for name, kind in pairs(documented[class]) do if kind == "field" then bound[name] = "field" end end
      assert.are.same(names(documented[class]), names(bound), class)
    end
    for name, kind in pairs(documented["kit.emu"]) do
      if kind == "field" and name ~= "insns" then assert.is_not_nil(emu[name], name) end
    end
    for name in pairs(documented["kit.mem"]) do assert.is_function(emu.mem[name], name) end
    for name in pairs(documented["kit.regs"]) do assert.is_function(emu.regs[name], name) end
  end)

  it("names every event and is fresh", function()
    local events = support.read("doc/api.md")
    for _, name in ipairs(kit.event_names) do assert.is_truthy(events:find("%f[%w]" .. name .. "%f[%W]"), name) end
    assert.is_true(os.execute("lua5.4 doc/gen.lua --check"))
  end)
end)
