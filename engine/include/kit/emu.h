/* kit/emu.h: the public interface of the kitlua engine, and the only one.
 *
 * The engine runs one unmodified Linux program (the guest) inside this process and lets the caller
 * observe it.
 *
 *   KitError err;
 *   KitEmu *emu;
 *   KitOptions opt = {.argv = (const char *const[]){"./prog", "arg", NULL}};
 *   if (kit_open(&opt, &emu, &err)) die(err.message);
 *   KitHook *h;
 *   KitHookSpec spec = {.event = KIT_EV_STORE, .filter = {.addr = p, .addr_len = 8},
 *                       .fn = on_store};
 *   kit_hook_add(emu, &spec, &h);
 *   KitStop stop;
 *   kit_run(emu, UINT64_MAX, &stop);   // stop.reason == KIT_STOP_EXIT, stop.status: the guest's
 *   kit_close(emu);
 *
 * Conventions. Functions that can fail because of the environment or the guest give a KitStatus (0
 * = KIT_OK); the message is in kit_error(emu) (or the KitError given). Handles (hooks, counters,
 * graphs, rings, planes) belong to their emu: closing is idempotent through the `_close(&h)` form,
 * and kit_close closes what is left. Guest addresses are uint64_t. One guest may live per process.
 * All calls come from one host thread at a time: the one that called kit_run, or, inside a
 * callback, the thread that runs the callback. Callbacks must return; they never longjmp through
 * the engine.
 */
#ifndef KIT_EMU_H
#define KIT_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KIT_VERSION "0.1.0"
#define KIT_API     __attribute__((visibility("default")))

typedef struct KitEmu KitEmu;
typedef struct KitHook KitHook;
typedef struct KitCounter KitCounter;
typedef struct KitGraph KitGraph;
typedef struct KitRing KitRing;
typedef struct KitPlane KitPlane;
typedef struct KitHeap KitHeap;

/* ---- status ---------------------------------------------------------------------------------- */

typedef enum KitStatus {
  KIT_OK = 0,
  KIT_E_NOT_FOUND,   /* no such file, symbol, image */
  KIT_E_ACCESS,      /* exists but may not be read or executed */
  KIT_E_NOT_ELF,     /* not an ELF program (nor a script whose interpreter is one) */
  KIT_E_BAD_ELF,     /* truncated or inconsistent */
  KIT_E_ARCH,        /* an architecture without a guest */
  KIT_E_NO_LOADER,   /* the program's interpreter (dynamic loader) is not there */
  KIT_E_MEMORY,      /* no memory or address space */
  KIT_E_UNMAPPED,    /* guest address not mapped or not permitted */
  KIT_E_BUSY,        /* a guest lives already in this process; or not possible while running */
  KIT_E_DEAD,        /* the guest has ended */
  KIT_E_UNSUPPORTED, /* not available for this guest or build */
  KIT_E_ARGUMENT,    /* misuse: the caller's argument makes no sense */
  KIT_E_IO,          /* the host refused: errno text in the message */
  KIT_E_STATUSES
} KitStatus;

typedef struct KitError {
  KitStatus code;
  char message[512];
} KitError;

KIT_API const char *kit_status_name(KitStatus s); /* "NOT_FOUND", ...: the code that Lua shows */
KIT_API const KitError *kit_error(const KitEmu *emu); /* of the last call that failed */

/* ---- opening and running --------------------------------------------------------------------- */

enum { KIT_WITHOUT_BMI = 1, KIT_WITHOUT_FMA = 2 };

typedef struct KitOptions {
  const char *const
      *argv; /* NULL-terminated; argv[0] is the program: a path, or a name looked up in PATH */
  const char *const *envp; /* NULL: this process's environment */
  const char *argv0;       /* what the guest sees as argv[0]; NULL: argv[0] */
  const char
      *sysroot;    /* where a foreign guest finds loader and libraries; NULL: the guest's default */
  const char *cpu; /* what an x86-64 guest sees of the processor: "host" (NULL: that), "x86-64",
                      "x86-64-v2", "x86-64-v3", "x86-64-v4" */
  const char *debug_folders; /* where separate debug files are, besides /usr/lib/debug;
                                colon-separated */
  bool interp;               /* interpreter only */
  const char *dump;          /* file that gets every region after each pass, and its host code */
  bool lockstep; /* each instruction by the JIT and the interpreter, compared (finds faults of the
                    engine) */
  size_t code_size;          /* bytes of translated code before it is flushed; 0: the default */
  uint32_t without;          /* host features not to use: KIT_WITHOUT_* (for tests) */
  bool one_insn;             /* regions of one instruction */
  bool no_optimise;          /* skip the optimiser */
  bool exact;                /* flags and scratch exact everywhere */
  bool requires_dispatch;    /* no chaining between regions */
  bool check_ir;             /* run the IR checker on every region */
  bool trace_children;       /* exec'ed programs run under the same script */
  bool count_insns;          /* count retired instructions (kit_insns) */
  uint32_t max_regions;      /* translation cache limit; 0: default */
  const char *const *reexec; /* command that re-enters kitlua for an exec'ed guest, up to and
                                including "--"; NULL: installed kitlua */
} KitOptions;

typedef enum KitStopReason {
  KIT_STOP_EXIT,       /* status: the exit status */
  KIT_STOP_SIGNAL,     /* killed by signal `signo` */
  KIT_STOP_HOOK,       /* a callback returned KIT_STOP; hook says which */
  KIT_STOP_BREAKPOINT, /* an exec hook without function, or the guest's own breakpoint instruction
                          with no handler */
  KIT_STOP_WATCH,      /* an access hook without function */
  KIT_STOP_STEP,       /* kit_step or the instruction limit is done */
  KIT_STOP_INTERRUPT,  /* kit_interrupt (Ctrl-C) */
  KIT_STOP_FAULT,      /* kit_stop_on_fault: a fault before it becomes a signal */
} KitStopReason;

typedef struct KitStop {
  KitStopReason reason;
  int status, signo;
  int tid;          /* guest thread id */
  uint64_t pc;      /* next instruction */
  uint64_t address; /* data address of a watch or fault */
  uint32_t size;
  bool is_write;
  KitHook *hook;
} KitStop;

KIT_API KitStatus kit_open(const KitOptions *opt, KitEmu **out, KitError *err);
KIT_API void kit_close(KitEmu *emu); /* kills a guest that still lives */
/* Runs until something of KitStopReason happens, at most max_insns instructions of the whole guest
 * (UINT64_MAX: no limit). KIT_E_DEAD after the end. */
KIT_API KitStatus kit_run(KitEmu *emu, uint64_t max_insns, KitStop *stop);
/* Runs n instructions of one thread only (the current one if tid is 0). */
KIT_API KitStatus kit_step(KitEmu *emu, int tid, uint64_t n, KitStop *stop);
KIT_API void kit_interrupt(KitEmu *emu); /* async-signal-safe: makes kit_run return soon */
/* For consoles: SIGINT from outside stops kit_run (KIT_STOP_INTERRUPT) instead of being the
 * guest's, and does nothing between runs. */
KIT_API void kit_catch_interrupts(KitEmu *emu, bool on);
KIT_API void kit_stop_on_fault(KitEmu *emu, bool on);
KIT_API KitStatus kit_kill(KitEmu *emu,
                           int signo); /* ends the guest as that signal would; on_exit hooks run */

KIT_API const char *kit_arch(const KitEmu *emu); /* "riscv64" */
KIT_API int kit_pid(const KitEmu *emu);
KIT_API bool kit_is_child(const KitEmu *emu); /* a forked child's copy of the engine */
/* Retired instructions, all threads; false if counting was not asked before the start. */
KIT_API bool kit_insns(const KitEmu *emu, uint64_t *out);
KIT_API KitStatus
kit_count_insns(KitEmu *emu); /* asks for it; KIT_E_BUSY once the guest has started */

typedef struct KitStats {
  uint64_t regions, region_insns, flushes, invalidations, lookups, signals, syscalls;
} KitStats;
KIT_API void kit_stats(const KitEmu *emu, KitStats *out);

/* ---- threads, registers, memory -------------------------------------------------------------- */

typedef struct KitThreadInfo {
  int tid;
  uint64_t pc;
  const char *state; /* "running" "ready" "blocked" "exited" */
  uint64_t insns;
} KitThreadInfo;
KIT_API size_t kit_threads(KitEmu *emu, KitThreadInfo *out, size_t max); /* how many there are */
KIT_API int kit_current_thread(
    KitEmu *emu); /* in a callback: the one that runs; after a stop: the one that stopped */

typedef struct KitRegInfo {
  const char *name, *alias;
  const char *cls; /* "int" "fp" "vec" "ctrl" */
  uint8_t size;    /* bytes */
  int dwarf;
} KitRegInfo;
KIT_API size_t kit_reg_count(const KitEmu *emu);
KIT_API const KitRegInfo *kit_reg_info(const KitEmu *emu,
                                       size_t i); /* includes "pc", the last one; NULL beyond it */
KIT_API int kit_reg_find(const KitEmu *emu, const char *name); /* -1 */
KIT_API KitStatus kit_reg_read(KitEmu *emu, int tid, int reg, void *buf);
KIT_API KitStatus kit_reg_write(KitEmu *emu, int tid, int reg, const void *buf);
/* Roles of registers: "sp" "ra" "fp" "tp" "ret" "arg0".."arg7" "syscall_nr" -> register index or
 * -1. */
KIT_API int kit_reg_role(const KitEmu *emu, const char *role);

/* Debugger accesses: ignore page permissions, never fault, keep translations right. KIT_E_UNMAPPED
 * leaves buf undefined. */
KIT_API KitStatus kit_mem_read(KitEmu *emu, uint64_t va, void *buf, size_t n);
KIT_API KitStatus kit_mem_write(KitEmu *emu, uint64_t va, const void *buf, size_t n);
/* Length of the string at va without its NUL, at most max; KIT_E_UNMAPPED if it runs into unmapped
 * memory first. */
KIT_API KitStatus kit_mem_strlen(KitEmu *emu, uint64_t va, size_t max, size_t *len);
KIT_API KitStatus kit_mem_find(KitEmu *emu, uint64_t va, size_t len, const void *needle, size_t n,
                               uint64_t *out);

typedef struct KitMapping {
  uint64_t start, end;
  int prot; /* PROT_* */
  bool shared;
  uint64_t offset;
  const char *name; /* path, "[stack]", "[heap]" or "" */
} KitMapping;
KIT_API bool kit_mapping_next(KitEmu *emu, uint64_t from,
                              KitMapping *out); /* first mapping that ends after `from` */

/* ---- code and symbols ------------------------------------------------------------------------ */

typedef enum KitBranchKind {
  KIT_BR_NONE,
  KIT_BR_JUMP,
  KIT_BR_COND,
  KIT_BR_CALL,
  KIT_BR_RET,
  KIT_BR_SYSCALL,
  KIT_BR_TRAP
} KitBranchKind;

typedef struct KitInsn {
  uint64_t pc, target;
  uint8_t len;
  uint8_t branch; /* KitBranchKind */
  uint8_t bytes[16];
  const char *name; /* mnemonic of the table row */
  char text[120];   /* as objdump prints it, branch targets with <symbol+off> */
} KitInsn;
KIT_API KitStatus kit_disasm(KitEmu *emu, uint64_t pc, KitInsn *out);

typedef struct KitImage {
  uint32_t id;
  const char *path; /* as the guest opened it */
  const char *host_path;
  uint64_t low, high;   /* loaded range */
  uint64_t bias;        /* runtime address - address in the file */
  const char *build_id; /* hex or "" */
} KitImage;
KIT_API size_t kit_image_count(KitEmu *emu);
KIT_API const KitImage *kit_image(KitEmu *emu,
                                  size_t i); /* NULL beyond; unloaded ones stay listed */
KIT_API const KitImage *kit_image_at(KitEmu *emu, uint64_t pc);

typedef struct KitSymbol {
  const char *name;
  uint64_t address, size;
  const KitImage *image;
  bool is_function;
  bool is_indirect; /* the address is that of a resolver, which returns the function's (IFUNC) */
} KitSymbol;
/* By name: "main", or "libc.so.6:malloc" (object's base name); the main program first, then in load
 * order. */
KIT_API KitStatus kit_symbol(KitEmu *emu, const char *name, KitSymbol *out);
/* In one image; false: it has none of that name. */
KIT_API bool kit_image_symbol(KitEmu *emu, const KitImage *image, const char *name, KitSymbol *out);
KIT_API KitStatus kit_symbol_at(KitEmu *emu, uint64_t pc, KitSymbol *out);
/* The function around pc as unwinding tables have it: also of stripped code. */
KIT_API bool kit_extent(KitEmu *emu, uint64_t pc, uint64_t *start, uint64_t *size);
/* The C++ name: to be freed; NULL: it is none, or there is no C++ library to ask. */
KIT_API char *kit_demangle(const char *name);
KIT_API void kit_symbols(KitEmu *emu, const char *pattern,
                         void (*fn)(void *ctx, const KitSymbol *s), void *ctx); /* * and ? */

typedef struct KitFrame {
  uint64_t pc, cfa;
  const char *function; /* "" unknown; demangled */
  const char *file;     /* "" unknown */
  int line;             /* 0 unknown */
  bool inlined;         /* this frame was inlined into the next one */
  uint64_t function_address;
  const KitImage *image;
} KitFrame;
/* Source position of pc, innermost inlined function first; how many frames (>= 1 if the image is
 * known, else 0). */
KIT_API size_t kit_lookup(KitEmu *emu, uint64_t pc, KitFrame *out, size_t max);
/* The line of pc, without the functions around it (which take far longer to find), and where it
 * ends: the next address that may be of another line. */
typedef struct KitLine {
  const char *file;
  int line;
  uint64_t end;
} KitLine;
KIT_API KitStatus kit_line(KitEmu *emu, uint64_t pc, KitLine *out);
KIT_API KitStatus kit_line_addresses(KitEmu *emu, const char *file, int line, uint64_t *out,
                                     size_t max, size_t *n);
KIT_API size_t kit_backtrace(KitEmu *emu, int tid, KitFrame *out,
                             size_t max); /* inlined frames expanded */

/* Call stacks by number: taken quickly, each different one kept once. Frames are return addresses
 * (the first: the pc), without inlined ones; kit_lookup(pc - 1) names them. */
KIT_API uint32_t kit_stack(KitEmu *emu, int tid, uint32_t max); /* 0: no such thread */
KIT_API const uint64_t *kit_stack_frames(KitEmu *emu, uint32_t stack, size_t *n); /* NULL: none */

typedef struct KitVariable {
  const char *name, *type;
  bool is_argument;
  uint64_t size;     /* bytes of the value */
  uint64_t address;  /* 0: not in memory */
  uint8_t encoding;  /* DW_ATE_*, 0 if not a base type; pointers: DW_ATE_address */
  uint8_t value[16]; /* the value's first bytes, if it could be read */
  bool available;
} KitVariable;
KIT_API KitStatus kit_locals(KitEmu *emu, int tid, size_t frame,
                             void (*fn)(void *ctx, const KitVariable *v), void *ctx);

/* ---- hooks ----------------------------------------------------------------------------------- */

typedef enum KitEventKind {
  KIT_EV_EXEC,   /* before the instruction at pc executes (breakpoints) */
  KIT_EV_INSN,   /* an instruction retired */
  KIT_EV_BLOCK,  /* a basic block is entered: pc, n_insns */
  KIT_EV_BRANCH, /* every branch, below kinds included */
  KIT_EV_CALL,
  KIT_EV_RET,
  KIT_EV_JUMP, /* unconditional, not call or return */
  KIT_EV_COND,
  KIT_EV_LOAD,
  KIT_EV_STORE,
  KIT_EV_ACCESS, /* loads and stores */
  KIT_EV_MAP,
  KIT_EV_UNMAP,
  KIT_EV_PROTECT,
  KIT_EV_SYSCALL, /* entry */
  KIT_EV_SYSRET,  /* exit */
  KIT_EV_SIGNAL,  /* about to be delivered (or to kill) */
  KIT_EV_FAULT,   /* before it becomes a signal */
  KIT_EV_THREAD,  /* created or ended */
  KIT_EV_IMAGE,   /* an ELF file was loaded or unloaded */
  KIT_EV_EXIT,    /* the process ends (also in forked children, also when killed) */
  KIT_EV_FORK,    /* in the parent after fork or vfork */
  KIT_EV_EVENTS
} KitEventKind;
KIT_API const char *kit_event_name(KitEventKind e); /* "exec", "insn", ... */
KIT_API int kit_event_find(const char *name);       /* -1 */

typedef struct KitEvent {
  KitEventKind kind;
  int tid;
  uint64_t pc; /* of the instruction concerned */
  union {
    struct {
      uint32_t n_insns;
    } block;
    struct {
      const KitInsn *insn;
    } insn; /* text not filled; use kit_disasm */
    struct {
      uint64_t from, to;
      KitBranchKind kind;
      bool taken;
    } branch;
    struct {
      uint64_t addr;
      uint32_t size;
      bool is_write;
      void *host; /* NULL if it will fault */
      bool is_syscall;
    } access;
    struct {
      uint64_t addr, len;
      int prot, flags, fd;
      uint64_t offset;
      const char *path;
    } map;
    struct {
      int nr;
      const char *name; /* "" unknown */
      uint64_t args[6];
      int64_t result;
      bool replaced;
      bool restarted;
    } syscall;
    struct {
      int signo, code;
      uint64_t addr;
      int sender;
      const char *action;  /* "handler" "ignore" "default" "kill" */
      const void *siginfo; /* 128 bytes */
    } signal;
    struct {
      uint64_t addr;
      bool is_write, is_exec;
      int signo;
      const char *what;
    } fault;
    struct {
      bool created;
      int child;
    } thread;
    struct {
      const KitImage *image;
      bool loaded;
    } image;
    struct {
      int status, signo;
    } exit; /* signo != 0: killed by it */
    struct {
      int child;
      bool vfork;
    } fork;
  };
} KitEvent;

typedef enum KitVerdict {
  KIT_CONTINUE = 0,
  KIT_STOP = 1, /* kit_run returns after the instruction (before it, for KIT_EV_EXEC, KIT_EV_FAULT,
                   KIT_EV_SIGNAL and KIT_EV_BLOCK) */
  KIT_DENY = 2, /* LOAD STORE ACCESS: the access becomes a guest fault (SIGSEGV); SYSCALL: not made,
                   ev->syscall.result is the result */
  KIT_REPLACE = 4, /* SYSCALL: like DENY; SYSRET: ev->syscall.result replaces the result; SIGNAL:
                      not delivered */
} KitVerdict;

/* Evaluated in translated code where the event is; a zero-initialised filter matches everything. */
typedef struct KitFilter {
  uint64_t pc, pc_len;         /* instruction address in [pc, pc+pc_len); pc_len 0: any */
  uint64_t addr, addr_len;     /* access overlaps [addr, addr+addr_len); map events too; 0: any */
  uint64_t from, from_len;     /* branches: source range (same as pc) */
  uint64_t to, to_len;         /* branches: target in [to, to+to_len); calls: the callee */
  uint32_t size_min, size_max; /* access size in bytes; 0: any */
  int tid;                     /* 0: any */
  uint64_t every;              /* every n-th match only; 0 and 1: all */
  int syscall_nr;              /* SYSCALL, SYSRET: -1 and has_syscall=false: any */
  bool has_syscall;
  int signo; /* SIGNAL: 0 any */
} KitFilter;

/* fn may change ev->syscall.result (see KIT_REPLACE) and registers and memory through the
 * accessors. */
typedef KitVerdict (*KitHookFn)(void *user, KitEmu *emu, KitEvent *ev);

typedef struct KitHookSpec {
  KitEventKind event;
  KitFilter filter;
  KitHookFn fn; /* NULL: a match stops the run (breakpoint, watchpoint) */
  void *user;
  bool temporary; /* removed by its first match */
} KitHookSpec;
KIT_API KitStatus kit_hook_add(KitEmu *emu, const KitHookSpec *spec, KitHook **out);
KIT_API void kit_hook_close(KitHook **hook);
KIT_API uint64_t kit_hook_hits(const KitHook *hook);

/* The same vocabulary as one table: a NULL member is not observed. Tools in C use this; it is hooks
 * without filters. */
typedef struct KitEmuToolHooks {
  const char *name;
  bool requires_dispatch; /* turns chaining off while attached */
  KitHookFn on_exec, on_block_entry, on_insn_retire, on_branch, on_mem_access, on_map, on_unmap,
      on_protect;
  KitHookFn on_syscall_entry, on_syscall_exit, on_signal, on_fault, on_thread, on_image, on_exit,
      on_fork;
} KitEmuToolHooks;
typedef struct KitTool KitTool;
KIT_API KitStatus kit_tool_add(KitEmu *emu, const KitEmuToolHooks *hooks, void *user,
                               KitTool **out);
KIT_API void kit_tool_close(KitTool **tool);

/* Function interception by address. enter runs before the function's first instruction; leave when
 * it returns to its caller (also through tail calls), with the return value in the ABI's register.
 */
typedef struct KitWrapSpec {
  uint64_t address;
  KitHookFn enter; /* ev: KIT_EV_EXEC at the entry */
  KitHookFn leave; /* ev: KIT_EV_EXEC at the return address */
  bool replace;    /* enter stands in for the function: after it returns, the guest returns to the
                      caller at once */
  bool indirect; /* address is the function's resolver (KitSymbol.is_indirect): calls are seen once
                      the guest has called it, as its loader does */
  void *user;
} KitWrapSpec;
KIT_API KitStatus kit_wrap(KitEmu *emu, const KitWrapSpec *spec, KitHook **out);

/* ---- fast paths: declared before, read after ------------------------------------------------- */

typedef enum KitCountBy {
  KIT_BY_NONE,
  KIT_BY_INSN,
  KIT_BY_BLOCK,
  KIT_BY_EDGE,
  KIT_BY_THREAD
} KitCountBy;
typedef struct KitCountSpec {
  KitEventKind event; /* INSN BLOCK BRANCH CALL RET JUMP COND LOAD STORE ACCESS SYSCALL */
  KitCountBy by;
  KitFilter filter; /* pc and tid ranges */
} KitCountSpec;
/* One row: `key` is the instruction's pc (INSN), the block's (BLOCK) or the branch's (EDGE; `to`
 * the target). Ascending keys. */
typedef struct KitCountRow {
  uint64_t key, to, count;
  KitBranchKind kind; /* EDGE */
  int tid;            /* THREAD */
} KitCountRow;
KIT_API KitStatus kit_count(KitEmu *emu, const KitCountSpec *spec, KitCounter **out);
KIT_API uint64_t kit_counter_total(KitCounter *c);
KIT_API void kit_counter_rows(KitCounter *c, void (*fn)(void *ctx, const KitCountRow *row),
                              void *ctx);
KIT_API void kit_counter_zero(KitCounter *c);
KIT_API void kit_counter_close(KitCounter **c);

/* Call graph: shadow call stacks and an exact calling-context tree, costs in retired instructions.
 */
typedef struct KitGraphNode {
  uint32_t id, parent; /* parent of a root: UINT32_MAX */
  uint64_t function;   /* entry address of the callee */
  uint64_t call_pc;    /* call (or tail jump) instruction in the parent; 0 for roots */
  uint64_t calls, self;
  uint64_t inclusive; /* self and all below; nested activations of this node are counted once */
  uint64_t
      function_inclusive; /* of the function, in all contexts: nested activations counted once */
  uint32_t fold;  /* a recursive call that goes on in that node up the path; UINT32_MAX: an ordinary
                     node */
  int tid;        /* of the root */
  bool is_signal; /* entered by a signal */
} KitGraphNode;
typedef struct KitGraphSpec {
  bool by_thread;          /* keep threads apart; else merged */
  uint32_t fold_recursion; /* keep at most this many levels of one recursive chain; 0: default */
} KitGraphSpec;
KIT_API KitStatus kit_callgraph(KitEmu *emu, const KitGraphSpec *spec, KitGraph **out);
KIT_API void kit_graph_nodes(KitGraph *g, void (*fn)(void *ctx, const KitGraphNode *node),
                             void *ctx); /* parents first */
KIT_API void kit_graph_zero(KitGraph *g);
KIT_API size_t kit_graph_stack(KitGraph *g, int tid, uint64_t *call_pcs, uint64_t *functions,
                               size_t max); /* innermost first */
KIT_API void kit_graph_close(KitGraph **g);

/* Event rings: batches of fixed records. */
typedef enum KitField {
  KIT_F_PC,
  KIT_F_ADDR,
  KIT_F_SIZE,
  KIT_F_WRITE,
  KIT_F_TID,
  KIT_F_TO,
  KIT_F_KIND,
  KIT_F_TAKEN,
  KIT_F_VALUE,
  KIT_F_FIELDS
} KitField;
KIT_API const char *kit_field_name(KitField f);
typedef struct KitTraceSpec {
  KitEventKind event; /* INSN BLOCK BRANCH CALL RET JUMP COND LOAD STORE ACCESS */
  KitFilter filter;
  uint8_t fields[KIT_F_FIELDS];
  uint32_t n_fields;
  uint32_t capacity; /* records; 0: default. When full, `flush` runs, else the oldest half is
                        dropped and counted */
  void (*flush)(void *user, KitRing *ring);
  void *user;
} KitTraceSpec;
KIT_API KitStatus kit_trace(KitEmu *emu, const KitTraceSpec *spec, KitRing **out);
/* The records at hand: n rows of n_fields words each, oldest first; valid until the guest runs or
 * kit_ring_clear. */
KIT_API const uint64_t *kit_ring_records(KitRing *r, size_t *n);
/* The next record; *at is a position, 0 to begin with. NULL: no more. */
KIT_API const uint64_t *kit_ring_next(const KitRing *ring, size_t *at);
KIT_API void kit_ring_clear(KitRing *r);
KIT_API uint64_t kit_ring_dropped(const KitRing *r);
KIT_API void kit_ring_close(KitRing **r);

/* Shadow planes: `bits` (1, 2 or 8) per guest byte; unmapped memory has none (reads as 0). */
typedef struct KitPlaneSpec {
  const char *name;
  uint32_t bits;
} KitPlaneSpec;
KIT_API KitStatus kit_plane(KitEmu *emu, const KitPlaneSpec *spec, KitPlane **out);
KIT_API KitStatus kit_plane_fill(KitPlane *p, uint64_t va, uint64_t len, uint8_t value);
KIT_API KitStatus kit_plane_get(KitPlane *p, uint64_t va, uint8_t *values,
                                size_t n); /* one value a byte */
KIT_API KitStatus kit_plane_set(KitPlane *p, uint64_t va, const uint8_t *values, size_t n);
KIT_API bool kit_plane_find(KitPlane *p, uint64_t va, uint64_t len, uint64_t *where,
                            uint8_t *value); /* first non-zero */
/* Calls fn (NULL: stop) at accesses that touch a byte whose value is non-zero. The options leave out
 * of the translated code what is never to be found there. */
typedef struct KitPlaneCheck {
  KitEventKind which; /* LOAD STORE ACCESS */
  KitHookFn fn;
  void *user;
  uint64_t low, high; /* bytes are marked only in [low, high); both 0: anywhere */
  bool
      not_stack; /* none in the stack's frames: accesses relative to the stack pointer go unchecked */
  bool loose_stop; /* KIT_STOP may take effect some instructions later */
  bool unmapped;   /* also called for system call buffers that are not mapped */
} KitPlaneCheck;
KIT_API KitStatus kit_plane_check(KitPlane *p, const KitPlaneCheck *check, KitHook **out);
KIT_API void kit_plane_close(KitPlane **p);

/* ---- the guest's heap ------------------------------------------------------------------------ */

/* An allocator in the engine that stands in for the guest's, in every object that defines one:
 * malloc and its kin, C++'s new and delete (fast/heap.def has them all). Blocks lie between
 * redzones; freed ones wait in a quarantine before their memory is used again. A plane says what is
 * no part of a live block: 1 in redzones, in freed blocks and in memory not handed out yet. The
 * str*, mem* and wcs* functions are stood in for too: they look at the plane over the range that
 * they are asked to work on, and not at the words that happen to be read. Add it before the first
 * instruction. */
typedef enum KitAllocKind {
  KIT_ALLOC_MALLOC,
  KIT_ALLOC_NEW,
  KIT_ALLOC_NEW_ARRAY,
  KIT_ALLOC_KINDS
} KitAllocKind;

typedef struct KitBlock {
  uint64_t addr, size;
  KitAllocKind kind;
  bool freed;
  uint32_t alloc_stack, free_stack; /* see kit_stack_frames; 0: none */
  int tid;                          /* of the thread that allocated it */
} KitBlock;

typedef enum KitHeapErrorKind {
  KIT_HEAP_BAD_FREE,  /* addr is no live block: block is the freed one there, or has size 0 */
  KIT_HEAP_MISMATCH,  /* block is freed by a function of another kind */
  KIT_HEAP_ACCESS,    /* a str or mem function touches addr .. +size, which is marked */
  KIT_HEAP_OVERLAP,   /* source addr and destination other, of size bytes (0: not known), overlap */
  KIT_HEAP_FISHY,     /* an argument, size, is negative as a signed number */
  KIT_HEAP_BAD_ALIGN, /* size is no alignment */
  KIT_HEAP_NO_MEMORY, /* new has no memory: the program cannot go on */
  KIT_HEAP_ERRORS
} KitHeapErrorKind;
KIT_API const char *kit_heap_error_name(KitHeapErrorKind k); /* "bad-free", ... */

typedef struct KitHeapError {
  KitHeapErrorKind kind;
  const char *function; /* as the table names it */
  const char *argument; /* FISHY, BAD_ALIGN: its name */
  uint32_t site;        /* ACCESS: which of the function's accesses it is */
  uint64_t addr, other, size;
  bool is_write;
  KitBlock block;
} KitHeapError;
typedef KitVerdict (*KitHeapFn)(void *user, KitEmu *emu, const KitHeapError *e);

typedef struct KitHeapSpec {
  KitPlane *plane;            /* of 1 bit */
  uint32_t redzone;           /* bytes on each side, rounded up to 16 */
  uint32_t callers;           /* frames of stacks that are kept; 0: none are */
  uint64_t freelist;          /* bytes in quarantine */
  uint64_t big;               /* blocks of at least so many bytes leave the quarantine first */
  int malloc_fill, free_fill; /* byte, -1: none */
  bool ignore_mismatch;       /* no KIT_HEAP_MISMATCH */
  const char *const *names;   /* pairs "malloc", "je_malloc": further names; NULL-terminated */
  KitHeapFn fn;               /* may be NULL */
  void *user;
} KitHeapSpec;
KIT_API KitStatus kit_heap(KitEmu *emu, const KitHeapSpec *spec, KitHeap **out);

typedef struct KitHeapUsage {
  uint64_t bytes, blocks; /* live */
  uint64_t allocs, frees; /* so far */
  uint64_t allocated;     /* bytes so far */
  uint64_t low, high;     /* where its memory is */
  uint64_t limit;         /* where it never is beyond */
} KitHeapUsage;
KIT_API void kit_heap_usage(const KitHeap *h, KitHeapUsage *out);
/* The block whose bytes or redzones hold va, or the nearest one below it that ends at most `reach`
 * bytes before it. Live blocks come before freed ones. */
KIT_API bool kit_heap_block(KitHeap *h, uint64_t va, uint64_t reach, KitBlock *out);
KIT_API void kit_heap_blocks(KitHeap *h, void (*fn)(void *ctx, const KitBlock *b),
                             void *ctx); /* live ones, ascending */

/* The function that is stood in for at that entry, as the table names it; NULL: none. */
KIT_API const char *kit_heap_function(const KitHeap *h, uint64_t pc);

typedef enum KitLeakState {
  KIT_LEAK_REACHABLE,
  KIT_LEAK_POSSIBLE,
  KIT_LEAK_INDIRECT,
  KIT_LEAK_DEFINITE
} KitLeakState;
enum { /* interior pointers that count as pointers to the block: see Valgrind's manual, 4.2.8 */
       KIT_LEAK_STDSTRING = 1,
       KIT_LEAK_LENGTH64 = 2,
       KIT_LEAK_NEWARRAY = 4,
       KIT_LEAK_MULTIPLE_INHERITANCE = 8
};
typedef struct KitLeak {
  KitBlock block;
  KitLeakState state;
  uint64_t indirect_bytes, indirect_blocks; /* DEFINITE: lost along with it */
} KitLeak;
/* Looks for pointers to the live blocks in registers, writable memory and reachable blocks. */
KIT_API void kit_heap_leaks(KitHeap *h, uint32_t heuristics,
                            void (*fn)(void *ctx, const KitLeak *leak), void *ctx);

/* ---- client requests -------------------------------------------------------------------------- */

/* Of programs built with Valgrind's headers: valgrind.h and memcheck.h list the codes. fn may set
 * the result, which begins as the program's default. Stays until the emu closes. */
typedef struct KitRequest {
  uint64_t code, args[5], result, pc;
  int tid;
} KitRequest;
typedef void (*KitRequestFn)(void *user, KitEmu *emu, KitRequest *r);
KIT_API KitStatus kit_requests(KitEmu *emu, KitRequestFn fn, void *user);

/* ---- system calls: what syscall.def says ----------------------------------------------------- */

typedef struct KitArgInfo {
  const char *name;
  const char *kind; /* "int" "uint" "hex" "fd" "path" "flags" "enum" "buf_in" "buf_out" "struct_in"
                       "struct_out" ... (doc/syscalls) */
  const char *set;  /* flag set, enum or struct name, or NULL */
  int len_arg;      /* argument that holds this buffer's length, -1: none, -2: the result */
} KitArgInfo;
typedef struct KitSyscallInfo {
  const char *name;
  int nr;
  uint32_t n_args;
  KitArgInfo args[6];
  const char *ret;     /* kind of the result */
  const char *classes; /* "%file %desc ..." blank-separated */
} KitSyscallInfo;
KIT_API const KitSyscallInfo *kit_syscall_info(const KitEmu *emu, int nr); /* NULL unknown */
KIT_API int kit_syscall_find(const KitEmu *emu, const char *name);         /* -1 */
typedef struct KitFlag {
  const char *name;
  uint64_t value, mask; /* set when (x & mask) == value */
} KitFlag;
KIT_API const KitFlag *kit_flag_set(const KitEmu *emu, const char *set, size_t *n,
                                    bool *is_enum); /* NULL unknown */
typedef struct KitStructField {
  const char *name;
  uint32_t offset, size, count;
  const char *kind, *set; /* as KitArgInfo */
} KitStructField;
KIT_API const KitStructField *kit_struct_fields(const KitEmu *emu, const char *name, size_t *n,
                                                size_t *size); /* guest layout */
KIT_API const char *kit_errno_name(int err);                   /* "ENOENT" */
KIT_API const char *kit_errno_text(int err);                   /* "No such file or directory" */
KIT_API const char *kit_signal_name(int signo);                /* "SIGCHLD" */

/* ---- services for tools ---------------------------------------------------------------------- */

/* Moves a host descriptor high, close-on-exec, and shields it from the guest. Returns the new
 * number or -1. */
KIT_API int kit_shield_fd(KitEmu *emu, int fd);
/* The guest cannot use fd, which stays where it is. */
KIT_API void kit_hide_fd(KitEmu *emu, int fd);
/* The path as the host sees it, sysroot applied, for a path that the guest names. false: too long.
 */
KIT_API bool kit_host_path(KitEmu *emu, const char *guest_path, char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
