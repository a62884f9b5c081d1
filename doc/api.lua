-- The Lua API as data: doc/gen.lua makes the reference (api.md) and the LuaLS annotations (kit.meta.lua) of it, and
-- spec/doc_spec.lua checks it against the module. One row a function:
--   {name, {{argument, type, what}...}, {{type, what}...}, text}
-- A type that ends in ? is optional. `fails` marks functions that give nil, message, code when the environment fails.
return {
  {class = "kit", title = "The module", text = [[
`local kit = require "kit"`: in the kitlua command, and from `kit.so` in stock Lua 5.4. What the environment refuses gives
`nil, message, code`; misuse raises an error; what the guest does is data.]],
    fields = {
      {"version", "string", "of the engine"},
      {"command", "string[]", "the program and its arguments, after `--`; set by the kitlua command"},
      {"options", "table", "defaults of `kit.open`, set by the kitlua command"},
      {"event_names", "string[]", "all events that `emu:on` knows"},
    },
    functions = {
      {"open", {{"command", "string[]", "program (a path, or a name looked up in PATH) and arguments"},
        {"options", "table?", "sysroot, debug_folders (where separate debug files are, besides /usr/lib/debug; colon-separated), interp, one_insn, lockstep, dump, no_optimise, requires_dispatch, check_ir, exact, trace_children, count_insns, max_regions, code_size, no_bmi, no_fma, stats (to stderr when it closes), argv0, cpu (model that an x86-64 guest sees, as --cpu), env (array of NAME=VALUE), reexec; for those not given, kit.options"}},
        {{"kit.emu", "the machine, before its first instruction"}}, "Loads a program. One guest lives per process: a second open gives code BUSY.", fails = true},
      {"top", {{"counts", "kit.counter|table", "a counter, or a table key -> count"}, {"n", "integer?", "how many; 10"}},
        {{"function", "iterator: key, count"}}, "The n largest counts, in descending order: `for name, n in kit.top(counter, 5) do`."},
      {"errno_name", {{"errno", "integer", ""}}, {{"string", "\"ENOENT\""}, {"string", "\"No such file or directory\""}}, "Name and text of an error number."},
      {"demangle", {{"name", "string", "a symbol's"}}, {{"string", "the C++ name it stands for, or the name itself"}}, "Demangles, by the C++ library if that is installed."},
      {"signal_name", {{"signo", "integer", ""}}, {{"string", "\"SIGCHLD\""}}, "Name of a signal."},
      {"clock", {}, {{"number", "seconds since 1970, with fractions"}}, "Wall-clock time."},
    }},
  {class = "kit.emu", title = "The machine", text = [[
Fields are read only. `emu` closes by `<close>`, `emu:close()` or collection; a guest that still lives is killed then (its exit
hooks run).]],
    fields = {
      {"arch", "string", "\"riscv64\""},
      {"insns", "integer", "retired instructions of all threads; raises unless counted from the start (`count_insns`)"},
      {"regs", "kit.regs", "registers of the current thread"},
      {"mem", "kit.mem", "guest memory"},
      {"images", "table[]", "loaded ELF files: {path, host_path, low, high, bias, build_id}"},
      {"threads", "table[]", "live threads: {tid, pc, state, regs}"},
      {"tid", "integer", "the current thread: in a callback the one that runs, after a stop the one that stopped"},
      {"pid", "integer", "the guest's process id"},
      {"is_child", "boolean", "true in a forked child, where only hooks run"},
    },
    functions = {
      {"run", {{"max_insns", "integer?", "stop after so many instructions of the whole guest"}}, {{"kit.stop", "why it stopped"}}, "Runs until something stops the guest. An error in a hook is raised from here.", fails = true},
      {"step", {{"n", "integer?", "instructions; 1"}, {"tid", "integer?", "the thread; the current one"}}, {{"kit.stop", ""}}, "Runs n instructions of one thread.", fails = true},
      {"interrupt", {}, {}, "Makes `run` return soon with reason \"interrupt\"."},
      {"kill", {{"signo", "integer?", "9"}}, {{"kit.stop", ""}}, "Ends the guest as that signal would; exit hooks run.", fails = true},
      {"close", {}, {}, "Closes the machine. Idempotent."},
      {"stop_on_fault", {{"on", "boolean", ""}}, {}, "Faults stop the run (reason \"fault\") before they become signals."},
      {"catch_interrupts", {{"on", "boolean", ""}}, {}, "Ctrl-C (SIGINT) interrupts `run` instead of going to the guest."},
      {"count_insns", {}, {}, "Asks for `emu.insns`, before the first run."},
      {"stats", {}, {{"table", "regions, region_insns, flushes, invalidations, lookups, signals, syscalls"}}, "Engine statistics."},
      {"on", {{"event", "string", "see Events"}, {"filter", "table?", "see Filters; evaluated in the engine"}, {"fn", "function?", "see Events for its arguments; without it a match stops the run"}},
        {{"kit.hook", "the hook; it stays until it is closed, also if it is dropped"}}, "Adds a hook, at any time. fn returns nothing, or \"stop\" (the run stops), \"deny\" (a load or store becomes a fault, a system call is not made), \"replace\" (the event's result is used)."},
      {"wrap", {{"where", "string|integer", "function name or address"}, {"fns", "table", "enter(arg1 ... arg8), leave(result); an integer that leave returns replaces the result"}}, {{"kit.hook", ""}}, "Calls fns at entry and return of a guest function. A name that is not loaded yet is waited for."},
      {"replace", {{"where", "string|integer", ""}, {"fn", "function", "fn(arg1 ... arg8) -> integer result"}}, {{"kit.hook", ""}}, "Runs fn instead of a guest function."},
      {"events", {{"list", "string[]", "events"}}, {{"function", "iterator: event"}}, "Pull style: `for ev in emu:events{\"syscall\"} do`; the guest runs between events, leaving the loop removes the hooks. Events are plain tables."},
      {"count", {{"event", "string", "insn block exec branch call ret jump cond load store access syscall"}, {"options", "table?", "by = \"insn\" \"block\" \"function\" \"line\" \"edge\" \"thread\"; filter"}}, {{"kit.counter", ""}}, "Counts in translated code."},
      {"callgraph", {{"options", "table?", "by_thread, fold (levels of recursion kept apart)"}}, {{"kit.graph", ""}}, "Keeps shadow call stacks and an exact calling-context tree, in retired instructions."},
      {"trace", {{"event", "string", "an event of translated code"}, {"options", "table", "fields (of pc addr size write tid to kind taken value), filter, capacity, flush (function, called when the ring is full)"}}, {{"kit.ring", ""}}, "Appends a record to a ring at every match."},
      {"plane", {{"options", "table", "name, bits = 1, 2 or 8"}}, {{"kit.plane", ""}}, "A shadow plane: a small value for every guest byte.", fails = true},
      {"heap", {{"options", "table", "plane (of 1 bit), redzone (bytes, 16), callers (frames of stacks, 12), freelist (bytes in quarantine), big (blocks of that size leave it first), malloc_fill, free_fill (byte), ignore_mismatch, names (other name -> malloc, free, ...), on_error (function, see Heaps)"}}, {{"kit.heap", ""}}, "Puts an allocator of the engine in the place of the guest's, before the first instruction."},
      {"requests", {{"fn", "function", "fn(code, a1 ... a5) -> integer result, or nothing: the program's default"}}, {{"true", ""}}, "Client requests of programs built with Valgrind's headers.", fails = true},
      {"stack", {{"max", "integer?", "frames; 12"}, {"tid", "integer?", ""}}, {{"integer|nil", "its number: equal stacks have equal numbers"}}, "Takes the call stack, quickly."},
      {"stack_frames", {{"stack", "integer", ""}}, {{"integer[]|nil", "the pc, then return addresses; without inlined frames"}}, "The frames of a stack that `stack` or a heap took."},
      {"symbol", {{"which", "string|integer", "name (\"main\", \"libc.so.6:malloc\") or address"}}, {{"table", "name, address, size, object, is_function"}}, "Looks a symbol up in what is loaded.", fails = true},
      {"symbols", {{"pattern", "string", "* and ? are wildcards"}}, {{"table[]", "symbols"}}, "All symbols of that pattern."},
      {"extent", {{"pc", "string|integer", ""}}, {{"integer|nil", "start; nil if unknown"}, {"integer", "size"}}, "The function around an address by the unwinding tables, which stripped programs have as well."},
      {"source", {{"pc", "string|integer", ""}}, {{"string|nil", "file; nil if unknown"}, {"integer", "line"}, {"integer", "the next address that may be of another line"}}, "The source line of an address, without the functions around it: much faster than lookup."},
      {"lookup", {{"pc", "string|integer", ""}}, {{"table[]|nil", "frames {fn, file, line, inlined, pc, address, object}, the innermost inlined function first"}}, "Source position of an address."},
      {"line", {{"file", "string", "base name or path"}, {"line", "integer", ""}}, {{"integer[]", "addresses where the line begins"}}, "Addresses of a source line.", fails = true},
      {"disasm", {{"pc", "string|integer", ""}, {"n", "integer?", "1"}}, {{"table[]", "{pc, len, text, name, bytes, target}"}}, "Instructions as objdump prints them.", fails = true},
      {"backtrace", {{"tid", "integer?", ""}}, {{"table[]", "frames, innermost first, inlined ones included; cfa is the frame's"}}, "The call stack, by call frame information, else frame pointers."},
      {"locals", {{"frame", "integer?", "1 is the innermost"}, {"tid", "integer?", ""}}, {{"table[]", "{name, type, value, size, address, is_argument}"}}, "Variables in scope.", fails = true},
      {"syscall_info", {{"call", "string|integer", "name or number"}}, {{"table|nil", "name, nr, ret, classes, args = {{name, kind, set, len_arg}...}"}}, "What the system call table says."},
      {"flags", {{"set", "string", "name of a flag set"}}, {{"table[]", "{name, value, mask}"}, {"boolean", "true: an enumeration"}}, "A set of flags, for decoding."},
      {"struct", {{"name", "string", ""}}, {{"table[]", "{name, offset, size, count, kind, set}"}, {"integer", "size in bytes"}}, "Layout of a struct of the guest's ABI."},
      {"host_path", {{"path", "string", "as the guest names it"}}, {{"string", "as the host does, sysroot applied"}}, "Translates a path."},
    }},
  {class = "kit.hook", title = "Hooks", text = "A hook, wrap or replacement.", functions = {
    {"close", {}, {}, "Removes it. Idempotent; also `<close>`."},
    {"hits", {}, {{"integer", ""}}, "How often it matched."},
  }},
  {class = "kit.counter", title = "Counters", text = "Made by `emu:count`.", functions = {
    {"total", {}, {{"integer", ""}}, "The sum."},
    {"read", {}, {{"integer|table", "key -> count; the key is a pc, function name, file:line or thread id, as `by` says; without `by` the total"}}, "The counts as a table."},
    {"rows", {}, {{"table[]", "{pc, count}; by edge also to and kind; by thread {tid, count}; in ascending order"}}, "The counts as rows."},
    {"zero", {}, {}, "Starts again from 0."},
    {"close", {}, {}, "Takes the counting out of the code. Idempotent."},
  }},
  {class = "kit.graph", title = "Call graphs", text = "Made by `emu:callgraph`; one at a time.", functions = {
    {"nodes", {}, {{"table[]", "{id, parent, fn, call_pc, calls, self, inclusive, fn_inclusive, fold, tid, is_signal}, parents first; parent is an id, nil for roots; fold: a recursive call that goes on in that node"}}, "The calling-context tree."},
    {"stack", {{"tid", "integer?", ""}}, {{"table[]", "{fn, call_pc}, innermost first"}}, "The shadow call stack now."},
    {"zero", {}, {}, "Costs start again from 0; stacks stay."},
    {"close", {}, {}, "Ends it. Idempotent."},
  }},
  {class = "kit.ring", title = "Rings", text = "Made by `emu:trace`; `#ring` is the number of records at hand.", functions = {
    {"records", {}, {{"function", "iterator, for a `for` loop: the fields, in the order asked for"}}, "The records at hand, oldest first."},
    {"clear", {}, {}, "Empties it."},
    {"dropped", {}, {{"integer", ""}}, "Records lost because nobody emptied the ring."},
    {"close", {}, {}, "Ends it. Idempotent."},
  }},
  {class = "kit.plane", title = "Planes", text = "Made by `emu:plane`. Unmapped memory has no shadow: it reads as 0, and unmapping clears.", functions = {
    {"fill", {{"addr", "integer|string", ""}, {"len", "integer", "bytes"}, {"value", "integer", ""}}, {{"true", ""}}, "Sets a range.", fails = true},
    {"get", {{"addr", "integer|string", ""}, {"n", "integer?", ""}}, {{"integer|string", "one value, or a string of n"}}, "Reads values.", fails = true},
    {"set", {{"addr", "integer|string", ""}, {"values", "string", "one character a byte"}}, {{"true", ""}}, "Writes values.", fails = true},
    {"find", {{"addr", "integer|string", ""}, {"len", "integer", ""}}, {{"integer|nil", "address of the first value that is not 0"}, {"integer", "the value"}}, "Searches mapped memory."},
    {"check", {{"which", "string", "load, store or access"}, {"fn", "function?", "fn(pc, addr, size, is_write, is_syscall); without it a hit stops the run"}, {"options", "table?", "what need not be looked at: low, high (bytes are marked only there), not_stack (none in stack frames: accesses relative to the stack pointer are not checked), loose_stop (a stop may come some instructions late); unmapped (system call buffers that are not mapped are hits too)"}}, {{"kit.plane", "itself"}}, "Calls fn at accesses that touch a byte whose value is not 0."},
    {"close", {}, {}, "Ends it and its checks. Idempotent."},
  }},
  {class = "kit.heap", title = "Heaps", text = [[
Made by `emu:heap`; one at a time. The engine's allocator stands in for malloc and its kin and for C++'s new and delete in every
object; its plane is 1 in redzones, in freed blocks and in memory not handed out. The str*, mem* and wcs* functions are stood in
for too. `on_error{kind, fn, argument, addr, other, size, is_write, site, block}`: kind is `"bad-free"`, `"mismatched-free"`,
`"access"`, `"overlap"` (source addr, destination other), `"fishy"` (argument), `"bad-alignment"` or `"no-memory"`. A block:
{addr, size, kind, freed, alloc_stack, free_stack, tid}, kind `"malloc"`, `"new"` or `"new[]"`.]], functions = {
    {"usage", {}, {{"table", "{bytes, blocks, allocs, frees, allocated, low, high, limit}: live bytes and blocks, counts so far, where its memory is and may come to be"}}, "How much there is."},
    {"block", {{"addr", "integer", ""}, {"reach", "integer?", "0"}}, {{"table|nil", "a block"}}, "The block whose bytes or redzones hold addr, or that ends at most `reach` bytes below it."},
    {"blocks", {}, {{"table[]", "ascending"}}, "The live blocks."},
    {"leaks", {{"heuristics", "string[]?", "of stdstring, length64, newarray, multipleinheritance"}}, {{"table[]", "live blocks, with state (reachable, possible, indirect, definite), indirect_bytes, indirect_blocks"}}, "Looks for pointers to the live blocks, by Memcheck's rules."},
    {"fn", {{"pc", "integer", ""}}, {{"string|nil", "its name"}}, "The function that is stood in for at this entry."},
  }},
  {class = "kit.regs", title = "Registers", text = [[
`emu.regs.a0`, `emu.regs.pc = x`; `pairs(emu.regs)` lists them. 64-bit registers are integers, floating-point ones too (bit
patterns).]], functions = {
    {"f64", {{"name", "string", ""}}, {{"number", ""}}, "The register as a double."},
    {"f32", {{"name", "string", ""}}, {{"number", ""}}, "Its low half as a single."},
  }},
  {class = "kit.mem", title = "Memory", text = [[
`emu.mem.u32[addr]` reads and writes one value: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64; an unmapped address reads as nil. Addresses
may be symbol names.]], functions = {
    {"read", {{"addr", "integer|string", ""}, {"n", "integer", "bytes"}}, {{"string", ""}}, "Reads a range, whatever its protection.", fails = true},
    {"write", {{"addr", "integer|string", ""}, {"bytes", "string", ""}}, {{"true", ""}}, "Writes a range, whatever its protection.", fails = true},
    {"cstring", {{"addr", "integer|string", ""}, {"max", "integer?", ""}}, {{"string", ""}}, "The string up to its NUL.", fails = true},
    {"unpack", {{"fmt", "string", "as for string.unpack, of fixed size"}, {"addr", "integer|string", ""}}, {{"any", "the values"}}, "Reads values.", fails = true},
    {"pack", {{"fmt", "string", ""}, {"addr", "integer|string", ""}, {"...", "any", "values"}}, {{"true", ""}}, "Writes values.", fails = true},
    {"find", {{"addr", "integer|string", ""}, {"len", "integer", ""}, {"needle", "string", "up to a page"}}, {{"integer", "its address"}}, "Searches for bytes.", fails = true},
    {"maps", {}, {{"table[]", "{start, stop, prot, offset, name}"}}, "The memory map."},
  }},
  {title = "Stops", text = [[
What `run` and `step` give: `reason` is `"exit"` (with `status`), `"signal"` (killed; `signo`, `signal`), `"hook"`, `"breakpoint"`, `"watch"`
(`addr`, `size`, `is_write`), `"step"`, `"interrupt"` or `"fault"`; `pc` and `tid` say where.]]},
  {title = "Events", text = [[
| event | callback's arguments | when |
|---|---|---|
| exec | pc | before an instruction executes |
| insn | pc, mnemonic | an instruction retired |
| block | pc, n_insns | a basic block is entered |
| branch, call, ret, jump, cond | from, to, kind, taken | a branch is about to be taken (or not) |
| load, store, access | pc, addr, size, is_write | before the access; system call buffers included |
| map, unmap, protect | ev: addr len prot flags fd offset path | the memory map changes |
| syscall, sysret | ev: nr name args result (assignable) restarted | before and after a system call |
| signal | ev: signo name code addr sender action siginfo | before a signal is delivered |
| fault | ev: addr is_write is_exec signo what | before a fault becomes a signal |
| thread | ev: created child | a thread begins or ends |
| image | ev: image loaded | an ELF file was mapped or unmapped |
| fork | ev: child vfork | in the parent, after a fork |
| exit | ev: status signo | the process ends, killed or not; forked children too |

An event object (`ev`, with kind, tid and pc besides) is valid during its callback only.]]},
  {title = "Filters", text = [[
| key | matches |
|---|---|
| pc, pc_len | the instruction's address; a function name: its entry for exec, all of it for other events |
| from, to | a branch's source (a name: the whole function) and target (a name: the entry) |
| addr, len | accesses and mappings that overlap [addr, addr+len) |
| size, size_min, size_max | bytes of an access |
| tid | the thread |
| every | every n-th match only |
| name, nr | a system call |
| signal | a signal, by number or name |]]},
}
