-- Names and lines of stripped programs: separate debug files (by build id, by debug link, in folders that are named), PLT entries
-- against objdump, libraries that dlopen brings in, and objects about which nothing is known.
local support = require "spec.support"

local PROGRAM = [[
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static int quiet(int n) { /* line 5 */
  return n * 3 + (int)strlen(getenv("HOME") ? "abc" : "de");
}
int main(int argc, char **argv) {
  void *h = dlopen(argv[1], RTLD_NOW);
  int (*f)(int) = h ? (int (*)(int))dlsym(h, "plug_enter") : 0;
  printf("%d %d\n", quiet(argc), f ? f(argc) : -1);
  return 0;
}
]]

local PLUG = [[
__attribute__((noinline)) static int hidden(int n) {
  int sum = 0;
  for (int i = 0; i < 1000; i++) sum += i * n; /* line 3 */
  return sum;
}
int plug_enter(int n) { return hidden(n) + 1; }
]]

-- Built, split into stripped objects and debug files that are in dir/<where>; f gets dir.
local function with_programs(f)
  support.with_tempdir(function(dir)
    support.write(dir .. "/quiet.c", PROGRAM)
    support.write(dir .. "/plug.c", PLUG)
    support.sh(([[cd %s && gcc -g -O2 -fno-ipa-cp -fno-ipa-sra -Wl,--build-id quiet.c -o quiet && gcc -g -O2 -fno-ipa-cp -fno-ipa-sra \
      -shared -fPIC -Wl,--build-id plug.c -o plug.so && cp quiet quiet.full && \
      for f in quiet plug.so; do objcopy --only-keep-debug $f $f.debug && strip $f; done]]):format(dir))
    f(dir)
  end)
end

local function build_id(path)
  return support.sh("readelf -n " .. path):match("Build ID: (%x+)")
end

-- The functions of the program and its plugin that callgrind counts: name -> file:line or "".
local function profile(dir, options)
  local words = {"callgrind", "--out=" .. dir .. "/out", "--top=500"}
  for i, word in ipairs(options or {}) do table.insert(words, i, word) end
  local run = support.run(support.guest(dir .. "/quiet", {dir .. "/plug.so"}, words))
  assert.are.equal(0, run.status, support.describe(run))
  assert.is_nil(run.err:find("\n%s+0%s[^\n]*@plt"), run.err)
  local seen = {}
  for name, where, object in run.err:gmatch("%d%s+(%S+)(%s+%S*)%s+%[([^%]]+)%]\n") do
    if object == "quiet" or object == "plug.so" then seen[name] = where:match("%S+") or "" end
  end
  return seen
end

describe("names of stripped programs", function()
  it("come from debug files by build id, in folders that are named", function()
    with_programs(function(dir)
      assert.is_nil(profile(dir).quiet)
      for _, object in ipairs{"quiet", "plug.so"} do
        local id = build_id(dir .. "/" .. object)
        local folder = dir .. "/debug/.build-id/" .. id:sub(1, 2)
        support.sh(("mkdir -p %s && mv %s/%s.debug %s/%s.debug"):format(folder, dir, object, folder, id:sub(3)))
      end
      local seen = profile(dir, {"--debug-file-directory", "/nowhere:" .. dir .. "/debug"})
      assert.are.equal("quiet.c:5", seen.quiet)
      assert.is_truthy((seen.hidden or ""):find("^plug.c:[13]$"))
      assert.are.equal("plug.c:6", seen.plug_enter)
    end)
  end)

  it("come from debug files that the objects name, beside them, in .debug or below a folder", function()
    for _, place in ipairs{".", ".debug", "there"} do
      with_programs(function(dir)
        local folder = place == "there" and dir .. "/there" .. dir or dir .. "/" .. place
        support.sh(([[cd %s && mkdir -p %s && for f in quiet plug.so; do
          objcopy --remove-section=.note.gnu.build-id --add-gnu-debuglink=$f.debug $f
          [ %s = . ] || mv $f.debug %s
        done]]):format(dir, folder, place, folder))
        local seen = profile(dir, {"--debug-file-directory=" .. dir .. "/there"})
        assert.are.equal("quiet.c:5", seen.quiet, place)
        assert.is_truthy((seen.hidden or ""):find("^plug.c:[13]$"), place)
        support.sh(("echo x >>%s/quiet.debug"):format(folder)) -- no longer the file that was named
        assert.is_nil(profile(dir, {"--debug-file-directory=" .. dir .. "/there"}).quiet, place)
      end)
    end
  end)

  it("without any are those of .dynsym, and addresses in the file", function()
    with_programs(function(dir)
      local seen = profile(dir)
      local full = support.sh("nm " .. dir .. "/quiet.full")
      for _, name in ipairs{"main", "quiet"} do
        local address = tonumber(full:match("(%x+) [Tt] " .. name .. "\n"), 16)
        assert.is_truthy(seen[("0x%016x"):format(address)], name)
      end
      assert.is_truthy(seen.plug_enter)
    end)
  end)

  it("of PLT entries are those of objdump", function()
    for _, flags in ipairs{"", "-fcf-protection=full -Wl,-z,ibtplt", "-static", "-Wl,-z,now"} do
      support.with_tempdir(function(dir)
        support.write(dir .. "/plts.c", PROGRAM:gsub("dlopen%b()", "0"):gsub("dlsym%b()", "0"))
        support.sh(("cd %s && gcc -g -O2 %s plts.c -o plts"):format(dir, flags))
        local want = {}
        for address, name in support.sh(("objdump -d -j .plt -j .plt.got -j .plt.sec %s/plts 2>/dev/null || true"):format(dir))
            :gmatch("\n(%x+) <([^>]+@plt)>:") do
          if not name:find("*ABS*", 1, true) then want[#want + 1] = {tonumber(address, 16), name} end
        end
        assert.is_true(flags == "-static" or #want > 2, flags)
        local chunk = {"local base = emu.images[1].bias\nlocal function at(a) local s = emu:symbol(base + a) return s and s.name end\n"}
        for _, w in ipairs(want) do
          chunk[#chunk + 1] = ("assert(at(%d) == %q, at(%d))\n"):format(w[1], w[2], w[1])
        end
        local run = support.run(support.guest(dir .. "/plts", {}, {"-e", table.concat(chunk)}))
        assert.are.equal("", run.err, support.describe(run))
      end)
    end
  end)
end)
