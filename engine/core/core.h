/* core/: the running machine. One KitEmu owns the guest's memory map, its threads, the translation
 * cache and the hooks.
 *
 * Who runs when. kit_run's caller is the *controller*: it never executes guest code. Each guest
 * thread is a host thread of its own, and exactly one of them holds the *baton*; only the holder
 * executes guest code, touches engine data, or calls into hooks (hence into Lua). The controller
 * holds the baton whenever no run is in progress. A thread gives the baton up
 *   - around a host system call that may block (core_block_begin / core_block_end),
 *   - when it waits in the scheduler (core_wait: private futexes, sleeps),
 *   - when its quantum of instructions is over and another thread is ready (deterministic round
 *     robin),
 *   - when it stops the world (core_stop): the controller then returns from kit_run.
 *
 *   run.c: thread_main                     os/: through emu->os (struct CoreOs)
 *     take baton
 *     loop: pending work? -> os->deliver_signal
 *           region = core_region(pc)       translate.c: decode, lift, check, optimise, instrument
 *           exit = ir_interp(region)       or the JIT
 *           NEXT: again; TRAP SYSCALL -> os->syscall; FAULT / host SIGSEGV -> fault.c -> os->fault
 *
 * The guest's addresses are host addresses below CORE_LINE. core/ knows no operating system details
 * beyond mmap and threads: what a system call or a signal means is os/, reached through CoreOs. */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/map.h"
#include "base/vec.h"
#include "core/map.h"
#include "guest/guest.h"
#include "kit/emu.h"

typedef struct KitEmu Emu;
typedef struct CoreThread CoreThread;
typedef struct CoreHooks CoreHooks;
typedef struct CoreCache CoreCache;

/* What os/ provides (one constant, os_linux). Every function runs on the guest thread t, which
 * holds the baton. */
typedef struct CoreOs {
  /* Executes the system call in t's registers; sets the result register. pc is already behind the
   * instruction. */
  void (*syscall)(CoreThread *t);
  /* Delivers what is pending: builds a handler frame, kills the process, or nothing. Called when
   * state->interrupt was seen. */
  void (*deliver)(CoreThread *t);
  /* A guest fault at state->pc: becomes a guest signal (forced). signo, si_code and address as the
   * kernel would report. */
  void (*fault)(CoreThread *t, int signo, int code, uint64_t address);
  /* First call on t, on its own host thread: signal mask. */
  void (*thread_init)(CoreThread *t);
  /* Thread has ended: clear_child_tid, robust list. Last call on t. */
  void (*thread_exit)(CoreThread *t);
  /* Makes host thread t return from a blocking host call (EINTR). Any thread may call it. */
  void (*kick)(CoreThread *t);
  void (*close)(Emu *emu); /* frees emu->os_data; restores signal dispositions */
} CoreOs;

typedef enum CoreThreadState {
  CORE_READY,
  CORE_RUNNING,
  CORE_BLOCKED,
  CORE_WAITING,
  CORE_EXITED
} CoreThreadState;

struct CoreThread {
  Emu *emu;
  IrState *state; /* window of IR_STATE_WINDOW bytes */
  int tid;        /* as the guest sees it: pid for the main thread */
  int host_tid;
  pthread_t host;
  CoreThreadState run_state;
  /* Host fault recovery: armed while the interpreter runs guest code (in_guest), see fault.c. */
  sigjmp_buf fault_env;
  volatile sig_atomic_t in_guest;
  struct {
    int signo, code;
    uint64_t address, trap_no, error_code;
    bool is_write;
  } host_fault;
  /* Scheduler. */
  _Atomic uint32_t park;  /* futex word this thread sleeps on */
  uint64_t wait_key;      /* what it waits for (guest address), CORE_WAITING */
  uint32_t wait_mask;     /* futex bitset */
  uint64_t wait_deadline; /* instruction-clock nanoseconds, UINT64_MAX: none */
  bool woken;
  bool die;           /* must end at the next chance (exit_group by another thread) */
  uint64_t step_left; /* kit_step: instructions left, UINT64_MAX: not stepping */
  uint64_t
      skip_exec_pc;    /* resuming here after a stop: hooks of skip_sites had their say; ~0: none */
  uint32_t skip_sites; /* mask of CoreSiteKind */
  uint32_t stop_sites; /* of the stop being asked for: becomes skip_sites */
  bool stop_asked;     /* state->stop means: stop the world as emu->stop says */
  bool in_region;      /* inside ir_interp, callouts included */
  bool store_again;    /* the instruction at pc changes the code it is part of: execute it alone */
  bool redirected;     /* a hook wrote the pc: go on at new_pc once the region is left */
  uint64_t new_pc;
  IrState *lockstep;   /* copy of the state, with opt.lockstep */
  void *sigstack;      /* host alternate stack */
  void *os;            /* OsThread; from malloc, freed with the thread */
  bool idle_sleeper;   /* sleeps for real on everybody's behalf */
  uint64_t wait_order; /* when it began to wait: futex wake-ups are in this order */
  int64_t slice;       /* state->budget when last accounted */
  sigjmp_buf exit_env; /* thread_main's way out */
  bool ended_process;  /* the last thread: the controller waits for it */
  CoreThread *next, *ready_next;
};

typedef struct CoreSched {
  CoreThread *head, *tail; /* ready threads, first in first out */
  CoreThread *only;        /* kit_step: nobody else runs */
  uint64_t wait_orders;
  _Atomic uint32_t controller; /* futex word of kit_run's caller */
} CoreSched;

typedef struct CoreImageRecord { /* loaded ELF file; os/ adds them, api/ and debug/ read them */
  KitImage pub;
  void *debug; /* DebugImage, opened lazily by api/ */
  bool debug_tried;
  bool unloaded; /* unmapped by the guest */
} CoreImageRecord;

struct KitEmu {
  KitOptions opt;
  const Guest *guest;
  const CoreOs *os;
  void *os_data;
  CoreMap *map;
  CoreCache *cache;
  struct Jit *jit; /* NULL: everything is interpreted */
  CoreHooks *hooks;
  VEC(CoreImageRecord *) images;
  Map owned;      /* core_own: object -> CoreOwned */
  Map replaced;   /* entries of functions that a hook stands in for: see core_replace */
  char *exe_path; /* absolute host path of the program */
  char *sysroot, *debug_folders;

  CoreThread
      *threads_first;  /* the main thread as the loader made it, until the first run starts it */
  CoreThread *threads; /* in creation order; exited ones are unlinked */
  CoreThread *current; /* holds the baton; NULL: controller */
  CoreThread *last_stopped;
  uint32_t n_threads; /* live */
  uint32_t n_threads_ever;
  pthread_mutex_t lock; /* scheduler queue and baton */
  CoreSched sched;
  VEC(pthread_t) finished; /* host threads to join */
  bool running, ended, exiting, is_child, started;
  KitStop stop; /* why the world stopped; final once `ended` */
  volatile sig_atomic_t interrupt_asked;
  int kill_asked;       /* kit_kill: end as this signal would at the next chance */
  FILE *dump;           /* of opt.dump */
  uint32_t dispatchers; /* attached tools that require the dispatcher: no chaining */
  bool (*is_entry)(
      Emu *emu, uint64_t pc); /* pc is a function's entry, as symbols have it (api/ provides it) */
  /* The number of t's call stack, at most max frames, its pc included; at_entry: no instruction of
   * the innermost function has executed yet. api/stacks.c */
  uint32_t (*stack_here)(CoreThread *t, uint32_t max, bool at_entry);
  void *stacks;
  bool budget_on; /* translations carry the budget operation */
  bool stop_on_fault;
  bool catch_interrupts; /* SIGINT from outside is kit_interrupt */
  uint64_t
      clock; /* instruction clock: budgeted instructions, plus sleeps while all threads sleep */
  uint64_t insns_exited; /* retired by threads that are gone */
  uint64_t limit_left;   /* of kit_run's max_insns; UINT64_MAX: none */
  KitError error;
  KitStats stats;
};

/* Sets emu->error; returns code. */
KitStatus core_fail(Emu *emu, KitStatus code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- run.c: threads and the baton ------------------------------------------------------------ */

/* A new guest thread. state is copied from `from` (or zeroed if NULL); it starts to run when
 * core_thread_start is called. */
CoreThread *core_thread_new(Emu *emu, const CoreThread *from);
/* Frees a thread that was never started. */
void core_thread_discard(CoreThread *t);
/* The pc was set from outside (debugger, hook): translated code must not go on where it was. */
void core_pc_written(CoreThread *t);
/* Starts its host thread; tid is filled in with the host's (for the main thread: the pid). false:
 * no host thread to be had. */
bool core_thread_start(CoreThread *t);
/* Runs t's guest code on the calling host thread, which is t's by now (a vfork child on its own
 * stack). */
_Noreturn void core_run_here(CoreThread *t);
/* Ends the calling guest thread; does not return. The last thread ends the process with `status`.
 */
_Noreturn void core_thread_exit(CoreThread *t, int status);
/* Ends the guest process: exit hooks run here, on t, then the world stops for good (in a forked
 * child: _exit). signo != 0: killed by it. Does not return. */
_Noreturn void core_process_exit(CoreThread *t, int status, int signo);
/* Stops the world with *stop and returns when kit_run or kit_step continues it. */
void core_stop(CoreThread *t, const KitStop *stop);
/* Around host calls that may block. Between them t may not touch engine data. */
void core_block_begin(CoreThread *t);
void core_block_end(CoreThread *t);
/* Gives other ready threads a turn (sched_yield). */
void core_yield(CoreThread *t);
/* Waits in the scheduler until core_wake with the same key and an overlapping mask, the deadline
 * (ns on core_clock; UINT64_MAX none) or a signal (state->interrupt). Returns 0, -ETIMEDOUT or
 * -EINTR. key 0: only time or a signal ends it. */
int core_wait(CoreThread *t, uint64_t key, uint32_t mask, uint64_t deadline_ns);
/* Wakes at most max threads waiting on key, in the order they began to wait; returns how many.
 * requeue_key != 0: moves up to requeue_max others to that key. */
int core_wake(Emu *emu, uint64_t key, uint32_t mask, int max, uint64_t requeue_key,
              int requeue_max);
/* The deterministic clock for sleeps and time-outs between threads: retired instructions as ns,
 * plus idle time. */
uint64_t core_clock(Emu *emu);
/* In the child of fork: t is the only thread left. */
void core_after_fork_child(CoreThread *t);
/* Retired instructions of all threads (exact when counting). */
uint64_t core_insns(Emu *emu);
/* Asks thread t (any thread, async-signal-safe) to leave translated code soon. */
void core_interrupt(CoreThread *t);
/* The same in a signal handler on t's host thread, which interrupted this context (ucontext_t). */
void core_interrupt_here(CoreThread *t, void *ucontext);
/* Around fork on thread t: translated code is in memory that a child would share. */
bool core_before_fork(Emu *emu);
void core_after_fork(Emu *emu, bool child);
CoreThread *core_find_thread(Emu *emu, int tid);
/* The guest thread of the calling host thread, NULL if it is none. Async-signal-safe. */
CoreThread *core_self(void);

/* ---- translate.c: regions -------------------------------------------------------------------- */

CoreCache *core_cache_new(Emu *emu);
void core_cache_free(CoreCache *c);
/* The program is loaded, its guest known: from now on it is translated to host code, if that is
 * possible and wanted. */
void core_jit_open(Emu *emu);
/* The region at pc, translated if need be; NULL if pc cannot be fetched (no exec permission). */
IrRegion *core_region(Emu *emu, uint64_t pc);
/* Drops translations made from [va, va+len): code changed or was unmapped. Safe while such a region
 * executes: it ends normally but is never entered again. */
void core_invalidate(Emu *emu, uint64_t va, uint64_t len);
/* opt.count_insns is set: translations count from now on. */
void core_count_retired(Emu *emu);
/* Drops all (hooks changed, modes changed). */
void core_flush(Emu *emu);
/* The page at va holds translated code (and is write-protected because of it, if the guest may
 * write to it). */
bool core_page_has_code(Emu *emu, uint64_t va);

/* The function at pc is a mere return from now on: a hook there stands in for it. Calls nest; the
 * caller adds or removes a probe at pc afterwards, which drops its translations. */
void core_replace(Emu *emu, uint64_t pc, bool on);

/* What kit_close frees if nobody has closed it before: fn(p). */
void core_own(Emu *emu, void (*fn)(void *p), void *p);
/* It is being closed: fn(p) runs as by core_defer. */
void core_disown(Emu *emu, void (*fn)(void *p), void *p);
/* Calls fn(p) once no region made before this call can still be executing: for what translated code
 * points to. */
void core_defer(Emu *emu, void (*fn)(void *p), void *p);

/* ---- fault.c --------------------------------------------------------------------------------- */

void core_fault_thread(CoreThread *t); /* alternate stack for this host thread */
void core_fault_thread_end(CoreThread *t);
/* For os/'s handler of those signals: true if it was a guest access and has been dealt with (may
 * not return). */
bool core_host_fault(int signo, siginfo_t *info, void *ucontext);

/* ---- hooks.c: where events are raised -------------------------------------------------------- */

bool core_hooks_want(const Emu *emu, KitEventKind kind);
/* Calls the hooks of ev->kind (and of the kinds that include it) that match; the union of their
 * verdicts. KIT_STOP is noted in t->state->stop and emu->stop. */
int core_raise(CoreThread *t, KitEvent *ev);

#endif
