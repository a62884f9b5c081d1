-- Loaded by busted before the specs: where modules are, and no leaked handles between specs.
local build = os.getenv("BUILD") or "build"
package.cpath = build .. "/?.so;" .. package.cpath
package.path = "lib/?.lua;?.lua;" .. package.path
