---@meta kit
-- LuaLS annotations; made by doc/gen.lua from doc/api.lua, do not edit.

---@class kit
---@field version string of the engine
---@field command string[] the program and its arguments, after `--`; set by the kitlua command
---@field options table defaults of `kit.open`, set by the kitlua command
---@field event_names string[] all events that `emu:on` knows
local kit = {}

---Loads a program. One guest lives per process: a second open gives code BUSY.
---@param command string[] program (a path, or a name looked up in PATH) and arguments
---@param options table|nil sysroot, debug_folders (where separate debug files are, besides /usr/lib/debug; colon-separated), interp, one_insn, lockstep, dump, no_optimise, requires_dispatch, check_ir, exact, trace_children, count_insns, max_regions, code_size, no_bmi, no_fma, stats (to stderr when it closes), argv0, cpu (model that an x86-64 guest sees, as --cpu), env (array of NAME=VALUE), reexec; for those not given, kit.options
---@return kit.emu the machine, before its first instruction
function kit.open(command, options) end

---The n largest counts, in descending order: `for name, n in kit.top(counter, 5) do`.
---@param counts kit.counter|table a counter, or a table key -> count
---@param n integer|nil how many; 10
---@return function iterator: key, count
function kit.top(counts, n) end

---Name and text of an error number.
---@param errno integer 
---@return string "ENOENT"
---@return string "No such file or directory"
function kit.errno_name(errno) end

---Demangles, by the C++ library if that is installed.
---@param name string a symbol's
---@return string the C++ name it stands for, or the name itself
function kit.demangle(name) end

---Name of a signal.
---@param signo integer 
---@return string "SIGCHLD"
function kit.signal_name(signo) end

---Wall-clock time.
---@return number seconds since 1970, with fractions
function kit.clock() end

---@class kit.emu
---@field arch string "riscv64"
---@field insns integer retired instructions of all threads; raises unless counted from the start (`count_insns`)
---@field regs kit.regs registers of the current thread
---@field mem kit.mem guest memory
---@field images table[] loaded ELF files: {path, host_path, low, high, bias, build_id}
---@field threads table[] live threads: {tid, pc, state, regs}
---@field tid integer the current thread: in a callback the one that runs, after a stop the one that stopped
---@field pid integer the guest's process id
---@field is_child boolean true in a forked child, where only hooks run
local kit_emu = {}

---Runs until something stops the guest. An error in a hook is raised from here.
---@param max_insns integer|nil stop after so many instructions of the whole guest
---@return kit.stop why it stopped
function kit_emu:run(max_insns) end

---Runs n instructions of one thread.
---@param n integer|nil instructions; 1
---@param tid integer|nil the thread; the current one
---@return kit.stop 
function kit_emu:step(n, tid) end

---Makes `run` return soon with reason "interrupt".
function kit_emu:interrupt() end

---Ends the guest as that signal would; exit hooks run.
---@param signo integer|nil 9
---@return kit.stop 
function kit_emu:kill(signo) end

---Closes the machine. Idempotent.
function kit_emu:close() end

---Faults stop the run (reason "fault") before they become signals.
---@param on boolean 
function kit_emu:stop_on_fault(on) end

---Ctrl-C (SIGINT) interrupts `run` instead of going to the guest.
---@param on boolean 
function kit_emu:catch_interrupts(on) end

---Asks for `emu.insns`, before the first run.
function kit_emu:count_insns() end

---Engine statistics.
---@return table regions, region_insns, flushes, invalidations, lookups, signals, syscalls
function kit_emu:stats() end

---Adds a hook, at any time. fn returns nothing, or "stop" (the run stops), "deny" (a load or store becomes a fault, a system call is not made), "replace" (the event's result is used).
---@param event string see Events
---@param filter table|nil see Filters; evaluated in the engine
---@param fn function|nil see Events for its arguments; without it a match stops the run
---@return kit.hook the hook; it stays until it is closed, also if it is dropped
function kit_emu:on(event, filter, fn) end

---Calls fns at entry and return of a guest function. A name that is not loaded yet is waited for.
---@param where string|integer function name or address
---@param fns table enter(arg1 ... arg8), leave(result); an integer that leave returns replaces the result
---@return kit.hook 
function kit_emu:wrap(where, fns) end

---Runs fn instead of a guest function.
---@param where string|integer 
---@param fn function fn(arg1 ... arg8) -> integer result
---@return kit.hook 
function kit_emu:replace(where, fn) end

---Pull style: `for ev in emu:events{"syscall"} do`; the guest runs between events, leaving the loop removes the hooks. Events are plain tables.
---@param list string[] events
---@return function iterator: event
function kit_emu:events(list) end

---Counts in translated code.
---@param event string insn block exec branch call ret jump cond load store access syscall
---@param options table|nil by = "insn" "block" "function" "line" "edge" "thread"; filter
---@return kit.counter 
function kit_emu:count(event, options) end

---Keeps shadow call stacks and an exact calling-context tree, in retired instructions.
---@param options table|nil by_thread, fold (levels of recursion kept apart)
---@return kit.graph 
function kit_emu:callgraph(options) end

---Appends a record to a ring at every match.
---@param event string an event of translated code
---@param options table fields (of pc addr size write tid to kind taken value), filter, capacity, flush (function, called when the ring is full)
---@return kit.ring 
function kit_emu:trace(event, options) end

---A shadow plane: a small value for every guest byte.
---@param options table name, bits = 1, 2 or 8
---@return kit.plane 
function kit_emu:plane(options) end

---Puts an allocator of the engine in the place of the guest's, before the first instruction.
---@param options table plane (of 1 bit), redzone (bytes, 16), callers (frames of stacks, 12), freelist (bytes in quarantine), big (blocks of that size leave it first), malloc_fill, free_fill (byte), ignore_mismatch, names (other name -> malloc, free, ...), on_error (function, see Heaps)
---@return kit.heap 
function kit_emu:heap(options) end

---Client requests of programs built with Valgrind's headers.
---@param fn function fn(code, a1 ... a5) -> integer result, or nothing: the program's default
---@return true 
function kit_emu:requests(fn) end

---Takes the call stack, quickly.
---@param max integer|nil frames; 12
---@param tid integer|nil 
---@return integer|nil its number: equal stacks have equal numbers
function kit_emu:stack(max, tid) end

---The frames of a stack that `stack` or a heap took.
---@param stack integer 
---@return integer[]|nil the pc, then return addresses; without inlined frames
function kit_emu:stack_frames(stack) end

---Looks a symbol up in what is loaded.
---@param which string|integer name ("main", "libc.so.6:malloc") or address
---@return table name, address, size, object, is_function
function kit_emu:symbol(which) end

---All symbols of that pattern.
---@param pattern string * and ? are wildcards
---@return table[] symbols
function kit_emu:symbols(pattern) end

---The function around an address by the unwinding tables, which stripped programs have as well.
---@param pc string|integer 
---@return integer|nil start; nil if unknown
---@return integer size
function kit_emu:extent(pc) end

---The source line of an address, without the functions around it: much faster than lookup.
---@param pc string|integer 
---@return string|nil file; nil if unknown
---@return integer line
---@return integer the next address that may be of another line
function kit_emu:source(pc) end

---Source position of an address.
---@param pc string|integer 
---@return table[]|nil frames {fn, file, line, inlined, pc, address, object}, the innermost inlined function first
function kit_emu:lookup(pc) end

---Addresses of a source line.
---@param file string base name or path
---@param line integer 
---@return integer[] addresses where the line begins
function kit_emu:line(file, line) end

---Instructions as objdump prints them.
---@param pc string|integer 
---@param n integer|nil 1
---@return table[] {pc, len, text, name, bytes, target}
function kit_emu:disasm(pc, n) end

---The call stack, by call frame information, else frame pointers.
---@param tid integer|nil 
---@return table[] frames, innermost first, inlined ones included; cfa is the frame's
function kit_emu:backtrace(tid) end

---Variables in scope.
---@param frame integer|nil 1 is the innermost
---@param tid integer|nil 
---@return table[] {name, type, value, size, address, is_argument}
function kit_emu:locals(frame, tid) end

---What the system call table says.
---@param call string|integer name or number
---@return table|nil name, nr, ret, classes, args = {{name, kind, set, len_arg}...}
function kit_emu:syscall_info(call) end

---A set of flags, for decoding.
---@param set string name of a flag set
---@return table[] {name, value, mask}
---@return boolean true: an enumeration
function kit_emu:flags(set) end

---Layout of a struct of the guest's ABI.
---@param name string 
---@return table[] {name, offset, size, count, kind, set}
---@return integer size in bytes
function kit_emu:struct(name) end

---Translates a path.
---@param path string as the guest names it
---@return string as the host does, sysroot applied
function kit_emu:host_path(path) end

---@class kit.hook
local kit_hook = {}

---Removes it. Idempotent; also `<close>`.
function kit_hook:close() end

---How often it matched.
---@return integer 
function kit_hook:hits() end

---@class kit.counter
local kit_counter = {}

---The sum.
---@return integer 
function kit_counter:total() end

---The counts as a table.
---@return integer|table key -> count; the key is a pc, function name, file:line or thread id, as `by` says; without `by` the total
function kit_counter:read() end

---The counts as rows.
---@return table[] {pc, count}; by edge also to and kind; by thread {tid, count}; in ascending order
function kit_counter:rows() end

---Starts again from 0.
function kit_counter:zero() end

---Takes the counting out of the code. Idempotent.
function kit_counter:close() end

---@class kit.graph
local kit_graph = {}

---The calling-context tree.
---@return table[] {id, parent, fn, call_pc, calls, self, inclusive, fn_inclusive, fold, tid, is_signal}, parents first; parent is an id, nil for roots; fold: a recursive call that goes on in that node
function kit_graph:nodes() end

---The shadow call stack now.
---@param tid integer|nil 
---@return table[] {fn, call_pc}, innermost first
function kit_graph:stack(tid) end

---Costs start again from 0; stacks stay.
function kit_graph:zero() end

---Ends it. Idempotent.
function kit_graph:close() end

---@class kit.ring
local kit_ring = {}

---The records at hand, oldest first.
---@return function iterator, for a `for` loop: the fields, in the order asked for
function kit_ring:records() end

---Empties it.
function kit_ring:clear() end

---Records lost because nobody emptied the ring.
---@return integer 
function kit_ring:dropped() end

---Ends it. Idempotent.
function kit_ring:close() end

---@class kit.plane
local kit_plane = {}

---Sets a range.
---@param addr integer|string 
---@param len integer bytes
---@param value integer 
---@return true 
function kit_plane:fill(addr, len, value) end

---Reads values.
---@param addr integer|string 
---@param n integer|nil 
---@return integer|string one value, or a string of n
function kit_plane:get(addr, n) end

---Writes values.
---@param addr integer|string 
---@param values string one character a byte
---@return true 
function kit_plane:set(addr, values) end

---Searches mapped memory.
---@param addr integer|string 
---@param len integer 
---@return integer|nil address of the first value that is not 0
---@return integer the value
function kit_plane:find(addr, len) end

---Calls fn at accesses that touch a byte whose value is not 0.
---@param which string load, store or access
---@param fn function|nil fn(pc, addr, size, is_write, is_syscall); without it a hit stops the run
---@param options table|nil what need not be looked at: low, high (bytes are marked only there), not_stack (none in stack frames: accesses relative to the stack pointer are not checked), loose_stop (a stop may come some instructions late); unmapped (system call buffers that are not mapped are hits too)
---@return kit.plane itself
function kit_plane:check(which, fn, options) end

---Ends it and its checks. Idempotent.
function kit_plane:close() end

---@class kit.heap
local kit_heap = {}

---How much there is.
---@return table {bytes, blocks, allocs, frees, allocated, low, high, limit}: live bytes and blocks, counts so far, where its memory is and may come to be
function kit_heap:usage() end

---The block whose bytes or redzones hold addr, or that ends at most `reach` bytes below it.
---@param addr integer 
---@param reach integer|nil 0
---@return table|nil a block
function kit_heap:block(addr, reach) end

---The live blocks.
---@return table[] ascending
function kit_heap:blocks() end

---Looks for pointers to the live blocks, by Memcheck's rules.
---@param heuristics string[]|nil of stdstring, length64, newarray, multipleinheritance
---@return table[] live blocks, with state (reachable, possible, indirect, definite), indirect_bytes, indirect_blocks
function kit_heap:leaks(heuristics) end

---The function that is stood in for at this entry.
---@param pc integer 
---@return string|nil its name
function kit_heap:fn(pc) end

---@class kit.regs
local kit_regs = {}

---The register as a double.
---@param name string 
---@return number 
function kit_regs:f64(name) end

---Its low half as a single.
---@param name string 
---@return number 
function kit_regs:f32(name) end

---@class kit.mem
local kit_mem = {}

---Reads a range, whatever its protection.
---@param addr integer|string 
---@param n integer bytes
---@return string 
function kit_mem:read(addr, n) end

---Writes a range, whatever its protection.
---@param addr integer|string 
---@param bytes string 
---@return true 
function kit_mem:write(addr, bytes) end

---The string up to its NUL.
---@param addr integer|string 
---@param max integer|nil 
---@return string 
function kit_mem:cstring(addr, max) end

---Reads values.
---@param fmt string as for string.unpack, of fixed size
---@param addr integer|string 
---@return any the values
function kit_mem:unpack(fmt, addr) end

---Writes values.
---@param fmt string 
---@param addr integer|string 
---@param ... any values
---@return true 
function kit_mem:pack(fmt, addr, ...) end

---Searches for bytes.
---@param addr integer|string 
---@param len integer 
---@param needle string up to a page
---@return integer its address
function kit_mem:find(addr, len, needle) end

---The memory map.
---@return table[] {start, stop, prot, offset, name}
function kit_mem:maps() end

return kit
