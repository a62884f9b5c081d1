-- Makes doc/api.md and doc/kit.meta.lua of doc/api.lua. With --check it writes nothing and fails if they are stale.
--   lua5.4 doc/gen.lua [--check]
local api = dofile("doc/api.lua")

local function signature(f, class)
  local names = {}
  for _, a in ipairs(f[2]) do names[#names + 1] = a[2]:match("%?$") and "[" .. a[1] .. "]" or a[1] end
  local call = (class == "kit" and "kit." or class:match("%.(%w+)$") .. ":") .. f[1]
  return ("%s(%s)"):format(call, table.concat(names, ", "))
end

local function results(f)
  local out = {}
  for _, r in ipairs(f[3]) do out[#out + 1] = ("`%s`%s"):format(r[1], r[2] ~= "" and " " .. r[2] or "") end
  local text = table.concat(out, ", ")
  if f.fails then text = text .. (text ~= "" and "; " or "") .. "or `nil, message, code`" end
  return text
end

local function reference()
  local out = {"# The Lua API", "", "Made by doc/gen.lua from doc/api.lua; do not edit.", ""}
  local function put(...) out[#out + 1] = string.format(...) end
  for _, c in ipairs(api) do
    put("## %s%s", c.title, c.class and (" (`%s`)"):format(c.class) or "")
    put("")
    out[#out + 1] = c.text
    put("")
    if c.fields then
      put("| field | type | |\n|---|---|---|")
      for _, f in ipairs(c.fields) do put("| `%s` | %s | %s |", f[1], (f[2]:gsub("|", "\\|")), f[3]) end
      put("")
    end
    for _, f in ipairs(c.functions or {}) do
      put("### %s", signature(f, c.class))
      put("")
      put("%s", f[4])
      put("")
      for _, a in ipairs(f[2]) do put("- `%s` (%s)%s", a[1], (a[2]:gsub("%?$", ", optional")), a[3] ~= "" and ": " .. a[3] or "") end
      local r = results(f)
      if r ~= "" then put("- gives %s", r) end
      put("")
    end
  end
  return table.concat(out, "\n")
end

local function annotations()
  local out = {"---@meta kit", "-- LuaLS annotations; made by doc/gen.lua from doc/api.lua, do not edit.", ""}
  local function put(...) out[#out + 1] = string.format(...) end
  for _, c in ipairs(api) do
    if c.class then
      local var = c.class:gsub("%.", "_")
      put("---@class %s", c.class)
      for _, f in ipairs(c.fields or {}) do put("---@field %s %s %s", f[1], f[2], f[3]) end
      put("local %s = {}", var)
      put("")
      for _, f in ipairs(c.functions or {}) do
        put("---%s", (f[4]:gsub("\n", " ")))
        local names = {}
        for _, a in ipairs(f[2]) do
          put("---@param %s %s %s", a[1]:gsub("%.%.%.", "..."), (a[2]:gsub("%?$", "|nil")), a[3])
          names[#names + 1] = a[1]
        end
        for _, r in ipairs(f[3]) do put("---@return %s %s", r[1], r[2]) end
        put("function %s%s%s(%s) end", var, c.class == "kit" and "." or ":", f[1], table.concat(names, ", "))
        put("")
      end
    end
  end
  put("return kit")
  return table.concat(out, "\n") .. "\n"
end

local function read(path)
  local file = io.open(path)
  local text = file and file:read("a") or ""
  if file then file:close() end
  return text
end

local stale = false
for path, text in pairs{["doc/api.md"] = reference(), ["doc/kit.meta.lua"] = annotations()} do
  if read(path) ~= text then
    stale = true
    if arg[1] == "--check" then
      io.stderr:write(path, " is stale: run `make doc`\n")
    else
      local file = assert(io.open(path, "w"))
      assert(file:write(text))
      file:close()
    end
  end
end
os.exit(not (stale and arg[1] == "--check"))
