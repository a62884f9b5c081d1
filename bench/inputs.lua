-- Makes the input of the compressors: text of common and rare words, with some binary records. The same on every run.
--   lua5.4 bench/inputs.lua BYTES >FILE
local bytes = assert(math.tointeger(tonumber(...)))
local x = 42
local function random(n)
  x = x * 6364136223846793005 + 1442695040888963407
  return (x >> 33) % n
end

local words = {}
for i = 1, 4000 do
  local letters = {}
  for k = 1, 2 + random(9) do letters[k] = string.char(97 + random(26)) end
  words[i] = table.concat(letters)
end

local written = 0
while written < bytes do
  local line = {}
  for k = 1, 12 do line[k] = words[1 + random(1 + random(1 + random(#words)))] end
  local text = table.concat(line, " ") .. "\n"
  if random(16) == 0 then text = text .. string.pack("<I4I8", random(1 << 16), x) end
  io.write(text)
  written = written + #text
end
