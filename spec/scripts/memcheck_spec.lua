-- memcheck.lua: every kind of misuse, on both architectures, dynamic and static; what it says of each.
local support = require "spec.support"

local programs = {"rv64/badmem-dyn", "x64/badmem-dyn", "rv64/badmem", "x64/badmem"}

local function command(program, args, options)
  return support.guest(program, args, {"memcheck", table.unpack(options or {})})
end

-- The report without process ids, addresses and files: one line a line.
local function plain(text)
  return (text:gsub("==%d+== ?", ""):gsub("0x%x+", "0x"):gsub(" %(in [^)]*%)", ""))
end

-- What is said for each argument, as a pattern over the plain report. FN stands for malloc's frame and its callers'.
local alloc = "\n   at 0x: malloc\n   by 0x: misuse %(badmem.c:%d+%)\n   by 0x: main %(badmem.c:%d+%)\n"
local here = "\n   at 0x: misuse %(badmem.c:%d+%)\n   by 0x: main %(badmem.c:%d+%)\n"
local function fn(name) return "\n   at 0x: " .. name .. "\n   by 0x: misuse %(badmem.c:%d+%)\n   by 0x: main %(badmem.c:%d+%)\n" end
local cases = {
  over = "Invalid write of size 1" .. here .. " Address 0x is 0 bytes after a block of size 40 alloc'd" .. alloc,
  under = "Invalid read of size 1" .. here .. " Address 0x is 1 bytes before a block of size 40 alloc'd" .. alloc,
  word = "Invalid write of size 8" .. fn("store %(badmem.c:%d+%)")
     .. " Address 0x is 36 bytes inside a block of size 40 alloc'd" .. alloc,
  freed = "Invalid read of size 1" .. here .. " Address 0x is 8 bytes inside a block of size 40 free'd" .. fn("free")
    .. " Block was alloc'd at" .. alloc,
  twice = "Invalid free%(%) / delete / delete%[%] / realloc%(%)" .. fn("free")
    .. " Address 0x is 0 bytes inside a block of size 40 free'd" .. fn("free") .. " Block was alloc'd at" .. alloc,
  middle = "Invalid free%(%) / delete / delete%[%] / realloc%(%)" .. fn("free")
    .. " Address 0x is 16 bytes inside a block of size 40 alloc'd" .. alloc,
  copy = "Source and destination overlap in memcpy%(0x, 0x, 40%)" .. fn("memcpy")
    .. "\nInvalid read of size 8" .. fn("memcpy") .. " Address 0x is 0 bytes after a block of size 40 alloc'd" .. alloc,
  overlap = "Source and destination overlap in memcpy%(0x, 0x, 16%)" .. fn("memcpy"),
  string = "Invalid write of size 1" .. fn("strcpy") .. " Address 0x is 0 bytes after a block of size 4 alloc'd" .. alloc,
  unended = "Invalid read of size 1" .. fn("strlen") .. " Address 0x is 0 bytes after a block of size 40 alloc'd" .. alloc,
  syscall = "Syscall param write%(buf%) points to unaddressable byte%(s%)\n   at 0x: [^\n]*write[^\n]*\n"
    .. "   by 0x: misuse %(badmem.c:%d+%)\n   by 0x: main %(badmem.c:%d+%)\n"
    .. " Address 0x is 0 bytes after a block of size 40 alloc'd" .. alloc,
  fishy = "Argument 'size' of function malloc has a fishy %(possibly negative%) value: %-5" .. fn("malloc"),
  realloc = "Invalid read of size 1" .. here .. " Address 0x is 0 bytes after a block of size 20 alloc'd" .. fn("realloc"),
  null = "Invalid read of size 1" .. here .. " Address 0x is not stack'd, malloc'd or %(recently%) free'd\n",
}

describe("memcheck", function()
  for _, program in ipairs(programs) do
    it("finds each misuse in " .. program .. ", and nothing else", function()
      local names, commands = {}, {}
      for name in pairs(cases) do
        names[#names + 1] = name
        commands[#commands + 1] = command(program, {name}, {"--error-exitcode=99", "--leak-check=no"})
      end
      for i, run in ipairs(support.run_all(commands)) do
        local name, text = names[i], plain(run.err)
        assert.is_truthy(text:find(cases[name]), name .. ": " .. support.describe(run) .. text)
        local distinct = name == "copy" and 2 or 1
        assert.is_truthy(text:find(("from %d contexts"):format(distinct), 1, true), name .. ": " .. text)
        assert.are.equal(name == "null" and 128 + 11 or 99, run.status, name)
      end
    end)
    it("finds nothing in " .. program .. " when it behaves, and its blocks freed", function()
      local run = support.run(command(program, {}, {"--error-exitcode=99", "--leak-check=full"}))
      assert.are.same({"hello 5\n", 0}, {run.out, run.status}, support.describe(run))
      assert.is_truthy(run.err:find("ERROR SUMMARY: 0 errors from 0 contexts", 1, true), run.err)
      if program:find("dyn") then
        assert.is_truthy(run.err:find("All heap blocks were freed -- no leaks are possible", 1, true), run.err)
      end
    end)
    it("sorts the leaks of " .. program, function()
      local run = support.run(command(program, {"leaks"}, {"--leak-check=full", "--show-leak-kinds=all"}))
      local text = plain(run.err)
      for _, line in ipairs{
        "64 (16 direct, 48 indirect) bytes in 1 blocks are definitely lost in loss record", "48 bytes in 3 blocks are indirectly lost",
        "100 bytes in 1 blocks are possibly lost", "48 bytes in 3 blocks are still reachable", "   definitely lost: 56 bytes in 3 blocks",
        "   indirectly lost: 48 bytes in 3 blocks", "     possibly lost: 100 bytes in 1 blocks"} do
        assert.is_truthy(text:find(line, 1, true), line .. "\n" .. text)
      end
    end)
  end
end)

describe("memcheck's options", function()
  local function memcheck(what, options)
    return support.run(command("x64/badmem-dyn", {what}, options))
  end

  it("suppress errors and leaks, and write suppressions that do", function()
    local run = memcheck("over", {"--gen-suppressions=all", "--leak-check=full", "--error-exitcode=9"})
    local texts = {}
    for text in run.err:gmatch("{\n.-\n}\n") do texts[#texts + 1] = text end
    assert.are.equal(2, #texts, run.err)
    assert.is_truthy(texts[1]:find("Memcheck:Addr1\n   fun:misuse\n   fun:main\n", 1, true), texts[1])
    assert.is_truthy(texts[2]:find("Memcheck:Leak\n   match-leak-kinds: definite\n   fun:malloc\n", 1, true), texts[2])
    support.with_tempdir(function(dir)
      support.write(dir .. "/all.supp", "# of badmem\n" .. table.concat(texts, "\n"))
      run = memcheck("over", {"-s", "--suppressions=" .. dir .. "/all.supp", "--leak-check=full", "--error-exitcode=9"})
      assert.are.equal(0, run.status, run.err)
      assert.is_truthy(run.err:find("0 errors from 0 contexts (suppressed: 2 from 2)", 1, true), run.err)
      assert.is_truthy(run.err:find("suppressed: 40 bytes in 1 blocks", 1, true), run.err)
      assert.is_truthy(run.err:find("used_suppression:      1 <insert_a_suppression_name_here> " .. dir .. "/all.supp:2", 1, true), run.err)
      support.write(dir .. "/bad.supp", "{\n  no end\n  Memcheck:Leak\n")
      run = memcheck("over", {"--suppressions=" .. dir .. "/bad.supp"})
      assert.is_truthy(run.err:find("bad.supp:1: no suppression", 1, true), run.err)
    end)
  end)

  it("write to a file, be quiet, and track descriptors", function()
    local run = memcheck("over", {"-q", "--log-file=out.%p"})
    assert.are.same({0, ""}, {run.status, run.err})
    run = memcheck("nothing", {"-q", "--leak-check=no"})
    assert.are.same({0, ""}, {run.status, run.err})
    run = support.run(support.guest("/bin/sh", {"-c", "exec 7</dev/null; :"}, {"memcheck", "--track-fds=yes"}))
    assert.is_truthy(run.err:find("FILE DESCRIPTORS: ", 1, true), run.err)
  end)

  it("answer --help, and refuse what they do not know", function()
    assert.is_truthy(support.run{support.kitlua, "memcheck", "--help"}.out:find("--leak-check=no|summary|yes|full", 1, true))
    local run = memcheck("over", {"--show-leak-kinds=some"})
    assert.is_truthy(run.err:find("there is no 'some'", 1, true), run.err)
  end)
end)
