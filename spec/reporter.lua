-- busted's output: a line for each spec file, failures in full, and at the end "N passed, N failed, N skipped".
return function(options)
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()
  local passed, failed, skipped = 0, 0, 0

  handler.testEnd = function(_, _, status)
    if status == "success" then passed = passed + 1
    elseif status == "pending" then skipped = skipped + 1
    else failed = failed + 1 end
    return nil, true
  end

  local function report(what, list)
    for _, t in ipairs(list) do
      local trace = t.trace or {}
      local message = type(t.message) == "string" and t.message or require "pl.pretty".write(t.message)
      io.write(("\n%s: %s\n  %s:%s\n%s\n"):format(what, t.name, trace.short_src or "?", trace.currentline or "?", message))
    end
  end

  handler.fileEnd = function(file)
    io.write(("%6.1fs  %s\n"):format(file.duration or 0, file.name))
    io.flush()
    return nil, true
  end

  handler.suiteEnd = function()
    report("failed", handler.failures)
    report("error", handler.errors)
    for _, t in ipairs(handler.pendings) do io.write(("pending: %s\n"):format(t.name)) end
    failed = math.max(failed, handler.failuresCount + handler.errorsCount)
    io.write(("\n%d passed, %d failed, %d skipped\n"):format(passed, failed, skipped))
    io.flush()
    return nil, true
  end

  busted.subscribe({"test", "end"}, handler.testEnd, {predicate = handler.cancelOnPending})
  busted.subscribe({"file", "end"}, handler.fileEnd)
  busted.subscribe({"suite", "end"}, handler.suiteEnd)
  return handler, options
end
