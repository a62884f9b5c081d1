-- Patterns, formats, packing, concatenation, utf8.
local words = {}
for word in ("the quick brown fox jumps over the lazy dog"):gmatch("%a+") do words[#words + 1] = word:upper() end
table.sort(words)
print(table.concat(words, " "))
print(("%5d|%-8s|%08.3f|%q|%x|%c"):format(42, "left", 3.14159, "a\nb\0c", 0xdeadbeef, 65))
print((("x = 1, y = 22"):gsub("(%w+) = (%w+)", "%2 is %1")))
print(("key=value; other=thing"):match("(%w+)=(%w+);%s*(%w+)=(.*)"))
print(#string.pack("<i4 z s2 d", -7, "zero", "counted", 1.5), string.unpack(">I3", "\1\2\3"))
print(utf8.char(72, 228, 8364, 128512), utf8.len("häß€"), utf8.codepoint("€", 1))
local parts = {}
for i = 1, 5000 do parts[i] = tostring(i * i % 97) end
local text = table.concat(parts, ",")
local sum = 0
for number in text:gmatch("%d+") do sum = sum + tonumber(number) end
print(#text, sum, text:find("96,", 1, true), text:reverse():sub(1, 20))
print(pcall(string.rep, "x", -1), select("#", ("a,b,,c"):byte(1, -1)))
print(string.format("%s %s", 1e15, 2^53), 7 // 2, -7 // 2, -7 % 3, 7.5 // 2, 1e308 * 10, -(0/0) ~= -(0/0))
