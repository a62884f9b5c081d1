-- callgrind.lua against Valgrind's callgrind: the self cost of every function that a program's own source file defines (what
-- the compiler put into its object file, those of templates included) is the same. Not compared are libraries, which
-- choose functions by what cpuid says.
--
-- Where the two differ, and why:
-- * A repeated string instruction (rep stos): Valgrind counts one more for the look that finds the counter zero; here and under
--   single-stepping each repetition is one instruction. A row's `reps` says how often each function executes one.
-- * Valgrind gives a landing pad in NAME.cold, and what runs after it jumped back, to one of the two functions by how it got
--   there; here each instruction is its own function's. NAME and NAME.cold are added up.
-- * Recursion: Valgrind calls a function within itself NAME'2. The suffix is taken off.
-- * Guests that look at what Valgrind does not have (fpprint: flags of floating-point exceptions; args: it adds to the
--   environment) do something else there, so they are not among these.
local support = require "spec.support"

local cases = {
  {"hello"}, {"fib", "15"}, {"callptr"}, {"tailcall"}, {"longjmp"}, {"divide"}, {"demo"}, {"throws", source = "throws.cc"}, {"recurse"},
  {"bigstack"}, {"cat"}, {"atomics"}, {"heap", reps = {churn = 2 * 4}}, {"memory"}, {"loop"}, {"auxv"}, {"watched"},
  {"sigfix", reps = {main = 13}}, {"fib-dyn", "18"}, {"demo-dyn"}, {"callptr-dyn"}, {"longjmp-dyn"}, {"throws-dyn", source = "throws.cc"},
}

-- Names in the text section of the program's object file.
local function own_functions(case)
  local source = case.source or case[1]:gsub("%-dyn$", "") .. ".c"
  local compiler = source:find("%.cc$") and "g++" or "gcc -std=gnu11 -D_GNU_SOURCE -Ispec/guests"
  return support.with_tempdir(function(dir)
    local own = {}
    local names = support.sh(("%s -O2 -g -pthread -c spec/guests/%s -o %s/o && nm %s/o"):format(compiler, source, dir, dir))
    for name in names:gmatch("%x+ [tTwW] (%S+)") do own[name] = true end
    return own
  end)
end

-- Self costs by function of the program itself, from a callgrind.out file. Names are given once: "(7) name", then "(7)".
local function self_costs(path, program)
  local names, costs, object, fn, of_call = {}, {}, nil, nil, false
  local function name(table_name, text)
    local id, rest = text:match("^(%(%d+%)) ?(.*)$")
    if not id then return text end
    if rest ~= "" then names[table_name .. id] = rest end
    return names[table_name .. id]
  end
  for line in io.lines(path) do
    local key, value = line:match("^(c?%l%l)=(.*)$")
    if key == "ob" or key == "cob" then
      local value_name = name("ob", value)
      if key == "ob" then object = value_name end
    elseif key == "fn" or key == "cfn" then
      local value_name = name("fn", value)
      if key == "fn" then fn = value_name:gsub("'%d+$", ""):gsub("%.cold$", "") end
    elseif line:find("^calls=") then
      of_call = true -- what follows is the cost of the callee
    elseif line:find("^[%d+*-]") then
      if not of_call and object == program then costs[fn] = (costs[fn] or 0) + tonumber(line:match("%d+$")) end
      of_call = false
    end
  end
  return costs
end

local function costs_of(command, program)
  local costs
  local run = support.run(support.with(command, {timeout = 200}), function(run) costs = self_costs(run.dir .. "/out", program) end)
  return costs, run
end

local function compare(case)
  local program = support.guest_path("x64/" .. case[1])
  local args = {table.unpack(case, 2)}
  local theirs, their_run = costs_of({"valgrind", "-q", "--tool=callgrind", "--skip-plt=no", "--demangle=no", "--callgrind-out-file=out",
    program, table.unpack(args)}, program)
  local ours, our_run = costs_of(support.guest(program, args, {"callgrind", "--top=0", "--out=out"}), program)
  assert.are.equal(their_run.out, our_run.out)
  assert.are.equal(their_run.status, our_run.status)
  local n, wrong = 0, {}
  for name in pairs(own_functions(case)) do
    local want, got = theirs[name], ours[name]
    if want then
      n = n + 1
      want = want - (case.reps and case.reps[name] or 0)
    end
    if want ~= got then wrong[#wrong + 1] = ("%s: Valgrind %s, here %s"):format(name, want, got) end
  end
  assert(#wrong == 0, table.concat(wrong, "\n"))
  assert(n > 0, "no function of the program was seen")
  return n
end

describe("callgrind.lua and Valgrind's callgrind agree on #verify", function()
  setup(function() support.make("GUEST_ARCHES=x64 guests") end)
  for _, case in ipairs(cases) do
    it(table.concat(case, " "), function() compare(case) end)
  end
end)
