-- --trace-children: every run in spec/guests/index.lua that x86-64 has, executed by a program that is traced, gives what the
-- index says. (guests_spec.lua runs them alone, and natively.)
local support = require "spec.support"
local index = require "spec.guests.index"

local function command(case)
  local program = support.guest_path(index.program(case.run, "x64", case.link))
  local words = {"--", program, table.unpack(index.args(case.run, support.exec_dir("x64")))}
  local guest = support.guest("/usr/bin/env", words, {"--trace-children"})
  return support.with(guest, {stdin = case.run.stdin, env = case.run.env, timeout = 60})
end

describe("x86-64 guest program, executed by another one that is traced", function()
  local cases, commands, got = {}, {}, nil
  index.each("x64", function(run, link) cases[#cases + 1] = {run = run, link = link} end)

  setup(function()
    support.make("GUEST_ARCHES=x64 guests")
    for i, case in ipairs(cases) do commands[i] = command(case) end
    got = support.run_all(commands)
  end)

  for i, case in ipairs(cases) do
    it(index.title(case.run, case.link), function()
      local run, result = case.run, got[i]
      local text = support.describe(result)
      assert(not result.timeout, text)
      assert.are.equal(run.status, result.status, text)
      if run.out then assert.are.equal(run.out, result.out) end
      if run.err then assert.are.equal(run.err, result.err) end
    end)
  end
end)
