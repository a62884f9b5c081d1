-- The include graph: who may include whom (doc/design.md). Every engine source is read.
local lfs = require "lfs"

-- Folder -> folders it may include besides itself, lowest layer first.
local below = {
  base = {},
  ir = {"base"},
  guest = {"base", "ir"},
  jit = {"base", "ir"},
  core = {"base", "ir", "guest", "jit", "kit"},
  os = {"base", "ir", "guest", "core", "kit"},
  fast = {"base", "ir", "guest", "core", "kit"},
  debug = {"base", "ir", "guest", "core", "kit"},
  api = {"base", "ir", "guest", "core", "os", "fast", "debug", "kit"},
}

local function sources(dir, out)
  for name in lfs.dir(dir) do
    local path = dir .. "/" .. name
    if name:sub(1, 1) ~= "." then
      if lfs.attributes(path, "mode") == "directory" then sources(path, out)
      elseif name:match("%.[chS]$") or name:match("%.def$") then out[#out + 1] = path end
    end
  end
  return out
end

local function includes(path)
  local list = {}
  for line in io.lines(path) do
    local name = line:match('^%s*#%s*include%s*"([^"]+)"')
    if name then list[#list + 1] = name end
  end
  return list
end

local function allowed(folder, path, name)
  local to, rest = name:match("^([^/]+)/(.*)$")
  if not to then return false end
  if to == folder then
    if folder ~= "guest" then return true end
    local guest, other = path:match("^engine/guest/([^/]+)/"), rest:match("^([^/]+)/")
    return not other or guest == nil or guest == other -- a guest never includes another guest
  end
  for _, ok in ipairs(below[folder]) do if ok == to then return true end end
  return false
end

describe("layering", function()
  it("keeps every include of the engine within its layer", function()
    local wrong, seen = {}, 0
    for _, path in ipairs(sources("engine", {})) do
      local folder = path:match("^engine/([^/]+)/")
      if folder ~= "include" then
        assert(below[folder], "unknown folder engine/" .. folder)
        for _, name in ipairs(includes(path)) do
          seen = seen + 1
          if not allowed(folder, path, name) then wrong[#wrong + 1] = path .. " includes " .. name end
        end
      end
    end
    assert.is_true(seen > 50)
    assert.are.same({}, wrong)
  end)

  it("keeps Lua out of the engine and engine internals out of the bindings", function()
    local wrong = {}
    for _, path in ipairs(sources("engine", {})) do
      for line in io.lines(path) do
        if line:match('#%s*include%s*[<"]l[ua][ua]') then wrong[#wrong + 1] = path end
      end
    end
    for _, path in ipairs(sources("bindings", {})) do
      for _, name in ipairs(includes(path)) do
        if name ~= "kit/emu.h" and name ~= "bind.h" then wrong[#wrong + 1] = path .. " includes " .. name end
      end
    end
    assert.are.same({}, wrong)
  end)
end)
