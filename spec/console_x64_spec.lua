-- The console on x86-64: static and dynamic programs, C++ with exceptions, stripped ones, code written at run time.
local support = require "spec.support"

-- What the console prints for these lines, behind the greeting and the first stop.
local function console(program, args, lines)
  local run = support.run(support.with(support.guest(program, args, {"-i"}), {stdin = table.concat(lines, "\n") .. "\n"}))
  assert.are.equal("", run.err, support.describe(run))
  return (run.out:gsub("^[^\n]*\n[^\n]*\n", "")), run
end

local function has(text, ...)
  local at = 1
  for _, pattern in ipairs{...} do
    local _, last = text:find(pattern, at)
    assert(last, ("no %s behind character %d of\n%s"):format(pattern, at, text))
    at = last + 1
  end
end

describe("the console on x86-64", function()
  setup(function() support.make("guests") end)

  for _, program in ipairs{"x64/watched", "x64/watched-dyn"} do
    it("stops, steps, shows and watches: " .. program, function()
      local text, run = console(program, {}, {"tb main", "c", "b by_store if $rdi == 2", "c", "bt", "p $rdi", "p $rip == $pc", "finish",
        "watch watched", "c", "d 3", "d 2", "c"})
      if program:find("dyn") then
        has(text, "breakpoint 1", "<main> at watched%.c:")
      else
        has(text, "<main> at watched%.c:", "<by_store> at watched%.c:7", "#0 +0x%x+ by_store at watched%.c:7",
          "#1 +0x%x+ main at watched%.c:15", "2 %(0x2%)", "true", "main%+%d+> at watched%.c:16", "watch: store of 1 bytes")
      end
      has(text, "1122334455667788", "the program exited with status 0")
      assert.are.equal(0, run.status)
    end)
  end

  it("shows instructions and registers", function()
    local text = console("x64/watched", {}, {"b by_byte", "c", "x/2i $pc", "si", "regs rax rsp rip", "x/2gx $rsp", "q"})
    has(text, "breakpoint 1 at 0x%x+ <by_byte>", "mov", "ret", "rax +0x%x+", "rsp +0x%x+", "0x%x+:%s+0x%x+")
  end)

  it("walks through what C++ throws", function()
    has(console("x64/throws", {}, {"b __cxa_throw", "c", "bt", "d 1", "c"}),
      "breakpoint 1", "__cxa_throw", "#0 +0x%x+ __cxa_throw", "#%d+ +0x%x+ main at throws%.cc:%d+", "the program exited with status 0")
  end)

  it("runs stripped programs of the machine", function()
    local text = console("/bin/ls", {"/"}, {"catch syscall write", "c", "bt", "p $rax", "d 1", "c"})
    has(text, "catchpoint 1: syscall write", "#0 +0x%x+ ", "1 %(0x1%)", "etc") -- and it closes stdout
  end)

  it("runs programs that write code as they run", function()
    support.with_tempdir(function(dir)
      support.write(dir .. "/writes.c", [[
        #include <stdio.h>
        #include <string.h>
        #include <sys/mman.h>
        int main(void) {
          unsigned char *p = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          int sum = 0;
          for (int i = 0; i < 1000; i++) { /* mov eax, i; ret */
            memcpy(p, "\xb8\0\0\0\0\xc3", 6);
            memcpy(p + 1, &i, 4);
            sum += ((int (*)(void))p)();
          }
          printf("%d\n", sum);
          return 0;
        }]])
      support.sh(("gcc -O1 -g %s/writes.c -o %s/writes"):format(dir, dir))
      has(console(dir .. "/writes", {}, {"b main", "c", "bt", "d 1", "c"}), "#0 +0x%x+ main at writes%.c:", "499500", "status 0")
      local run = support.run(support.guest(dir .. "/writes", {}, {"callgrind", "--top=200", "--out=" .. dir .. "/out"}))
      assert.are.equal("499500\n", run.out)
      local jit = run.err:match("\n +2,000 [^\n]*") -- two instructions, a thousand times
      assert(jit and jit:find(" 1,000  0x%x+"), run.err)
    end)
  end)
end)
