-- Files: writing, reading in every format, seeking, line iteration, temporary files, popen-free errors.
local name = "lua-files-test"
local file = assert(io.open(name, "w+"))
for i = 1, 2000 do file:write(i, " ", i / 4, "\n") end
print(file:seek("cur"), file:seek("set", 10), file:read("n", "n"), file:read("l"), #file:read("a"))
file:close()
local count, sum = 0, 0
for line in io.lines(name) do count, sum = count + 1, sum + #line end
print(count, sum)
for a, b in io.lines(name, "n", "n") do if a == 1000 then print(a, b) end end
file = assert(io.open(name, "a"))
file:setvbuf("full", 64)
file:write(("tail "):rep(100))
file:close()
file = io.open(name, "rb")
print(file:seek("end"), file:read(1), file:read(0), file:close(), io.type(file))
print(os.rename(name, name .. "2"), os.remove(name .. "2"), os.remove(name))
print(io.open("/does/not/exist"))
local temporary = io.tmpfile()
temporary:write("x"):seek("set")
print(temporary:read("a"), os.getenv("LANG"), os.time {year = 2020, month = 1, day = 1, hour = 12})
for line in io.lines() do io.write("<", line, ">\n") end
io.stderr:write("to stderr\n")
os.exit(3, true)
