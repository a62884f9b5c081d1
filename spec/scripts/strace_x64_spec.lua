-- strace.lua and strace on Debian's own programs: the same lines once addresses, process ids and times are masked.
local support = require "spec.support"
local text = require "spec.scripts.strace_text"

local programs = {
  {"cat", "/etc/hostname"}, {"ls", "-l", "/etc/hostname"}, {"cp", "/etc/passwd", "copy"}, {"mkdir", "-p", "a/b/c"},
  {"sort", "/etc/passwd"}, {"wc", "/etc/passwd"}, {"head", "-n3", "/etc/passwd"}, {"date", "-u", "-d", "@0"}, {"id"},
  {"stat", "-c%n", "/etc/passwd"}, {"touch", "new"}, {"rm", "nosuch"}, {"ln", "-s", "x", "y"}, {"find", "/etc/apt"},
  {"grep", "root", "/etc/passwd"}, {"sed", "-n", "1p", "/etc/passwd"}, {"gzip", "-c", "/etc/passwd"},
  {"dash", "-c", "echo a | cat; (exit 3); echo $?"}, {"bash", "-c", "for i in 1 2; do (echo $i); done"},
  {"perl", "-e", "$ENV{x} = 6 * 7; print qq($ENV{x}\\n); unlink q(x); kill 0, $$"},
  {"dd", "if=/dev/zero", "of=z", "count=2", "status=none"},
}

-- What is not what the program does: the loader's own memory, of which it needs more where there is a vdso (kitlua hides it);
-- reads of /dev/urandom and of the rest of /proc/self/maps; the moment of a SIGCHLD.
local function masked(path)
  local lines = text.masked(text.parse(support.read(path)))
  return (lines:gsub("mmap%(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, %-1, 0%) = ADDR\n", "")
    :gsub("rt_sigreturn%([^\n]*\n", ""):gsub('read%(3, "[^"]*", 4%) = 4', "read(3, RANDOM, 4)")
    :gsub('(MAPS[^\n]*\n)read%(3, "", %d+%) = 0\n', "%1"))
end

describe("strace.lua and strace agree on Debian's", function()
  for _, words in ipairs(programs) do
    it(table.concat(words, " "):sub(1, 60) .. " #verify", function()
      support.with_tempdir(function(a)
        support.with_tempdir(function(b)
          local function command(dir, first)
            local list = {cwd = dir}
            table.move(first, 1, #first, 1, list)
            return table.move(words, 1, #words, #list + 1, list)
          end
          local runs = support.run_all {command(a, {"strace", "-f", "-o", "trace"}),
            command(b, {support.kitlua, "--trace-children", "strace", "-f", "-o", "trace", "--"})}
          assert.are.equal(runs[1].status, runs[2].status, support.describe(runs[2]))
          assert.are.equal(runs[1].out, runs[2].out)
          support.write(a .. "/lines", masked(a .. "/trace"))
          support.write(b .. "/lines", masked(b .. "/trace"))
          assert.are.equal("", support.sh(("diff %s/lines %s/lines || true"):format(a, b)))
        end)
      end)
    end)
  end
end)
