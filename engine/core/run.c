/* Guest threads: their host threads, the loop that runs translated code, and how they and the
 * process end. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/run.h"
#include "jit/jit.h"

#define HOST_STACK (2u << 20) /* bytes: the interpreter's value array, callbacks into Lua */

static __thread CoreThread *self __attribute__((tls_model("initial-exec")));

CoreThread *core_self(void) { return self; }

KitStatus core_fail(Emu *emu, KitStatus code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  emu->error.code = code;
  vsnprintf(emu->error.message, sizeof emu->error.message, fmt, ap);
  va_end(ap);
  return code;
}

/* ---- making threads -------------------------------------------------------------------------- */

CoreThread *core_thread_new(Emu *emu, const CoreThread *from) {
  IrState *s = mmap(NULL, IR_STATE_WINDOW, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (s == MAP_FAILED) return NULL;
  if (from) memcpy(s, from->state, emu->guest->state_size);
  CoreThread *t = xcalloc(1, sizeof *t);
  *t = (CoreThread){.emu = emu, .state = s, .step_left = UINT64_MAX, .skip_exec_pc = UINT64_MAX};
  s->thread = t;
  s->callstack = NULL;
  s->interrupt = s->stop = 0;
  return t;
}

static void link_thread(CoreThread *t) {
  Emu *emu = t->emu;
  pthread_mutex_lock(&emu->lock);
  CoreThread **p = &emu->threads;
  while (*p) p = &(*p)->next;
  *p = t;
  emu->n_threads++;
  pthread_mutex_unlock(&emu->lock);
}

static void unlink_thread(CoreThread *t) {
  Emu *emu = t->emu;
  pthread_mutex_lock(&emu->lock);
  for (CoreThread **p = &emu->threads; *p; p = &(*p)->next)
    if (*p == t) {
      *p = t->next;
      emu->n_threads--;
      break;
    }
  if (emu->last_stopped == t) emu->last_stopped = NULL;
  if (emu->threads_first == t) emu->threads_first = NULL;
  pthread_mutex_unlock(&emu->lock);
}

static void free_thread(CoreThread *t) {
  munmap(t->state, IR_STATE_WINDOW);
  if (t->lockstep) munmap(t->lockstep, IR_STATE_WINDOW);
  free(t->os);
  free(t);
}

void core_pc_written(CoreThread *t) {
  if (!t->in_region) return;
  t->redirected = true;
  t->new_pc = t->state->pc;
  t->state->stop = t->state->interrupt = 1;
}

void core_thread_discard(CoreThread *t) { free_thread(t); }

/* ---- the loop -------------------------------------------------------------------------------- */

/* How many instructions t may run now, at most one quantum. */
static int64_t slice_for(const CoreThread *t) {
  uint64_t n = CORE_QUANTUM;
  if (t->step_left < n) n = t->step_left;
  if (t->emu->limit_left < n) n = t->emu->limit_left;
  return (int64_t)n;
}

static void new_slice(CoreThread *t) { t->state->budget = t->slice = slice_for(t); }

/* Signals, requests and the ends of quanta, between regions. */
static void pending_work(CoreThread *t) {
  Emu *emu = t->emu;
  IrState *s = t->state;
  if (t->die) core_thread_vanish(t);
  if (emu->kill_asked && !emu->ended) core_process_exit(t, 0, emu->kill_asked);
  s->stop = 0;
  if (t->redirected) s->pc = t->new_pc;
  t->redirected = false;
  if (t->stop_asked) {
    t->stop_asked = false;
    KitStop stop = emu->stop;
    stop.pc = s->pc;
    core_stop(t, &stop);
    t->skip_sites = t->stop_sites;
    t->stop_sites = 0;
    t->skip_exec_pc = t->skip_sites ? s->pc : UINT64_MAX;
  }
  if (s->interrupt) {
    s->interrupt = 0;
    if (emu->interrupt_asked) {
      emu->interrupt_asked = 0;
      core_stop(t, &(KitStop){.reason = KIT_STOP_INTERRUPT, .tid = t->tid, .pc = s->pc});
    }
    emu->os->deliver(t);
  }
  if (emu->kill_asked && !emu->ended) /* asked for while t was stopped */
    core_process_exit(t, 0, emu->kill_asked);
}

/* The budget did not suffice for the block at pc: account for it, then stop, give others a turn, or
 * go on. */
static bool budget_over(CoreThread *t) {
  Emu *emu = t->emu;
  bool single =
      t->state->budget > 0; /* some is left, less than a block: go on by single instructions */
  if (single) return true;
  core_clock(emu);
  if (t->step_left == 0 || emu->limit_left == 0) {
    t->step_left = UINT64_MAX;
    emu->limit_left = UINT64_MAX;
    core_stop(t, &(KitStop){.reason = KIT_STOP_STEP, .tid = t->tid, .pc = t->state->pc});
  } else {
    core_yield(t);
  }
  new_slice(t);
  return false;
}

static void region_fault(CoreThread *t, const IrExit *x) {
  core_undo(t, x->block, t->state->pc);
  switch ((IrFault)x->detail) {
  case IR_FAULT_MISALIGNED: t->emu->os->fault(t, SIGBUS, BUS_ADRALN, x->address); break;
  case IR_FAULT_ILLEGAL: t->emu->os->fault(t, SIGILL, ILL_ILLOPC, t->state->pc); break;
  case IR_FAULT_DENIED: t->emu->os->fault(t, SIGSEGV, SEGV_ACCERR, x->address); break;
  }
}

static const IrInsn *last_of(const IrBlock *b) {
  return &b->region->insns[b->first_insn + b->n_insns - 1];
}

static void fetch_fault(CoreThread *t) {
  int code;
  uint64_t address = core_unfetchable(t->emu, t->state->pc, &code);
  t->emu->os->fault(t, SIGSEGV, code, address);
}

static void region_trap(CoreThread *t, const IrExit *x) {
  Emu *emu = t->emu;
  uint64_t pc = t->state->pc;
  switch ((IrTrap)x->detail) {
  case IR_TRAP_SYSCALL:
    emu->stats.syscalls++;
    if (emu->guest->enter_syscall) emu->guest->enter_syscall(t->state);
    emu->os->syscall(t);
    break;
  case IR_TRAP_BREAKPOINT:
    core_undo(t, x->block, pc);
    if (emu->guest->breakpoint_behind) t->state->pc = pc + last_of(x->block)->len;
    emu->os->fault(t, SIGTRAP, emu->guest->breakpoint_behind ? SI_KERNEL : TRAP_BRKPT, pc);
    break;
  case IR_TRAP_ILLEGAL:
    core_undo(t, x->block, pc);
    emu->os->fault(t, SIGILL, ILL_ILLOPC, pc);
    break;
  case IR_TRAP_FENCE_I: /* stores to translated pages have invalidated them already */
  case IR_TRAP_NEXT: break;
  }
}

static void link_regions(Emu *emu, IrSucc *from, IrRegion *to) {
  if (emu->jit) {
    jit_link(emu->jit, from, to);
    return;
  }
  from->pc = to->pc;
  from->link = to;
  from->link_generation = core_links(emu)->generation;
}

static IrExit execute(CoreThread *t, IrRegion *r, bool chain) {
  Emu *emu = t->emu;
  t->in_guest = 1;
  t->in_region = true;
  IrState *copy = emu->opt.lockstep && emu->jit ? core_lockstep_before(t, r) : NULL;
  IrExit x = emu->jit ? jit_run(emu->jit, r, t->state, chain)
                      : ir_interp(r, t->state, chain ? core_links(emu) : NULL);
  if (copy) core_lockstep_after(t, r, copy, &x);
  if (x.kind == IR_EXIT_SOFT) {
    IrRegion *soft = core_region(emu, t->state->pc);
    x = ir_interp(soft, t->state, NULL);
    x.succ = NULL;
  }
  t->in_guest = t->in_region = false;
  return x;
}

/* Runs one chain of regions; the exit's direct successor is remembered for linking. */
static void run_regions(CoreThread *t, IrSucc **link, bool *single) {
  Emu *emu = t->emu;
  IrState *s = t->state;
  if (core_reap(emu)) *link = NULL; /* it may point into what was freed */
  bool one = *single | t->store_again;
  uint64_t flushes = emu->stats.flushes;
  IrRegion *r = t->store_again ? core_region_once(emu, s->pc)
                : one          ? core_region_single(emu, s->pc)
                               : core_region(emu, s->pc);
  if (!r) {
    fetch_fault(t);
    *link = NULL;
    return;
  }
  if (flushes != emu->stats.flushes) *link = NULL; /* likewise */
  bool chain = !one && !emu->opt.requires_dispatch && !emu->dispatchers;
  if (*link && chain) link_regions(emu, *link, r);
  *link = NULL;
  *single = t->store_again = false;
  IrExit x = execute(t, r, chain);
  if (x.kind != IR_EXIT_BUDGET) t->skip_exec_pc = UINT64_MAX;
  switch (x.kind) {
  case IR_EXIT_NEXT: *link = x.succ; break;
  case IR_EXIT_TRAP: region_trap(t, &x); break;
  case IR_EXIT_FAULT: region_fault(t, &x); break;
  case IR_EXIT_STOP: core_undo(t, x.block, s->pc); break;
  case IR_EXIT_BUDGET: *single = budget_over(t); break;
  case IR_EXIT_INTERRUPT:
  case IR_EXIT_SOFT: break;
  }
}

_Noreturn static void guest_loop(CoreThread *t) {
  IrSucc *link = NULL;
  bool single = false;
  if (t->emu->jit) jit_thread_start(t->state);
  if (sigsetjmp(t->fault_env, 0)) { /* a guest access faulted: fault.c */
    t->in_guest = t->in_region = false;
    t->skip_exec_pc = UINT64_MAX;
    core_undo(t, t->state->block, t->state->pc);
    if (!t->store_again)
      t->emu->os->fault(t, t->host_fault.signo, t->host_fault.code, t->host_fault.address);
  }
  link = NULL;
  single = false;
  new_slice(t);
  for (;;) {
    if (t->state->interrupt | t->state->stop | (uint32_t)t->die) {
      link = NULL;
      pending_work(t);
    }
    run_regions(t, &link, &single);
  }
}

void core_run_here(CoreThread *t) { guest_loop(t); }

/* ---- the life of a host thread --------------------------------------------------------------- */

static void *thread_main(void *arg) {
  CoreThread *t = arg;
  Emu *emu = t->emu;
  self = t;
  t->host_tid = (int)syscall(SYS_gettid);
  core_fault_thread(t);
  emu->os->thread_init(t);
  if (!sigsetjmp(t->exit_env, 0)) {
    core_sched_enter(t, false);
    guest_loop(t);
  }
  /* From here on the thread is nobody's: it holds neither baton nor lock, and takes no signals. */
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  self = NULL;
  core_fault_thread_end(t);
  pthread_mutex_lock(&emu->lock);
  vec_push(&emu->finished, pthread_self());
  pthread_mutex_unlock(&emu->lock);
  bool last = t->ended_process;
  free_thread(t);
  if (last) core_controller_wake(emu);
  return NULL;
}

/* Joins host threads that are about to be gone. */
void core_join_finished(Emu *emu) {
  for (;;) {
    pthread_mutex_lock(&emu->lock);
    bool some = emu->finished.n > 0;
    pthread_t host = some ? vec_pop(&emu->finished) : (pthread_t){0};
    pthread_mutex_unlock(&emu->lock);
    if (!some) return;
    pthread_join(host, NULL);
  }
}

bool core_thread_start(CoreThread *t) {
  Emu *emu = t->emu;
  core_join_finished(emu);
  if (emu->n_threads == 1) core_budget_on(emu);
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, HOST_STACK);
  bool first = emu->n_threads_ever == 0;
  link_thread(t);
  t->host_tid = 0;
  int err = pthread_create(&t->host, &attr, thread_main, t);
  pthread_attr_destroy(&attr);
  if (err) {
    unlink_thread(t);
    return false;
  }
  emu->n_threads_ever++;
  /* The new thread announces its id before it asks for the baton, which the caller holds. */
  while (!__atomic_load_n(&t->host_tid, __ATOMIC_ACQUIRE)) sched_yield();
  t->tid = first ? getpid() : t->host_tid;
  t->state->tid = (uint64_t)t->tid;
  core_raise_thread(t, true);
  return true;
}

void core_thread_vanish(CoreThread *t) {
  Emu *emu = t->emu;
  core_hooks_thread_end(t);
  emu->insns_exited += ir_retired(t->state);
  pthread_mutex_lock(&emu->lock);
  core_sched_forget(t);
  pthread_mutex_unlock(&emu->lock);
  unlink_thread(t);
  core_sched_leave(t, CORE_EXITED);
  siglongjmp(t->exit_env, 1);
}

void core_thread_exit(CoreThread *t, int status) {
  if (t->emu->n_threads == 1) core_process_exit(t, status, 0);
  t->emu->os->thread_exit(t);
  core_raise_thread(t, false);
  core_thread_vanish(t);
}

/* Ends every thread but t: each is made to leave what it waits for and vanishes when it next holds
 * the baton. */
static void end_others(CoreThread *t) {
  Emu *emu = t->emu;
  emu->exiting = true;
  pthread_mutex_lock(&emu->lock);
  emu->sched.only = NULL;
  for (CoreThread *o = emu->threads; o; o = o->next)
    if (o != t) o->die = true;
  pthread_mutex_unlock(&emu->lock);
  while (emu->n_threads > 1) {
    pthread_mutex_lock(&emu->lock);
    for (CoreThread *o = emu->threads; o; o = o->next)
      if (o != t) {
        core_interrupt(o);
        emu->os->kick(o);
      }
    pthread_mutex_unlock(&emu->lock);
    core_block_begin(t); /* they need the baton to end */
    usleep(200);
    core_sched_enter(t, false);
  }
}

static _Noreturn void end_child(int status, int signo) {
  fflush(NULL);
  if (signo) {
    signal(signo, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    syscall(SYS_kill, getpid(), signo);
  }
  _exit(status);
}

void core_process_exit(CoreThread *t, int status, int signo) {
  Emu *emu = t->emu;
  if (!emu->ended) {
    emu->ended = true;
    end_others(t);
    t->state->stop = 0;
    core_raise(t, &(KitEvent){.kind = KIT_EV_EXIT,
                              .tid = t->tid,
                              .pc = t->state->pc,
                              .exit = {.status = status, .signo = signo}});
  }
  if (emu->is_child) end_child(status, signo);
  core_hooks_thread_end(t);
  emu->insns_exited += ir_retired(t->state);
  memset(ir_counter(t->state, 0), 0, 8 * IR_RETIRED);
  pthread_mutex_lock(&emu->lock);
  emu->stop = (KitStop){.reason = signo ? KIT_STOP_SIGNAL : KIT_STOP_EXIT,
                        .status = status,
                        .signo = signo,
                        .tid = t->tid,
                        .pc = t->state->pc};
  pthread_mutex_unlock(&emu->lock);
  t->ended_process = true;
  unlink_thread(t);
  pthread_mutex_lock(&emu->lock);
  emu->running = false;
  emu->current = NULL;
  pthread_mutex_unlock(&emu->lock);
  siglongjmp(t->exit_env, 1); /* thread_main wakes the controller when it is done with t */
}

void core_after_fork_child(CoreThread *t) {
  Emu *emu = t->emu;
  pthread_mutex_init(&emu->lock, NULL);
  emu->is_child = true;
  emu->sched = (CoreSched){0};
  emu->finished.n = 0;
  for (CoreThread *o = emu->threads, *next; o; o = next) {
    next = o->next;
    if (o != t) free_thread(o);
  }
  emu->threads = emu->last_stopped = emu->threads_first = t;
  t->next = NULL;
  emu->n_threads = 1;
  emu->current = t;
  emu->running = true;
  t->run_state = CORE_RUNNING;
  t->host_tid = (int)syscall(SYS_gettid);
  t->tid = getpid();
  t->state->tid = (uint64_t)t->tid;
  emu->insns_exited = 0;
  memset(ir_counter(t->state, 0), 0, 8 * IR_RETIRED);
  core_hooks_fork_child(t);
}

CoreThread *core_find_thread(Emu *emu, int tid) {
  for (CoreThread *t = emu->threads; t; t = t->next)
    if (t->tid == tid) return t;
  return NULL;
}

uint64_t core_insns(Emu *emu) {
  uint64_t n = emu->insns_exited;
  for (CoreThread *t = emu->threads; t; t = t->next) n += ir_retired(t->state);
  return n;
}

/* ---- kit_run and kit_step -------------------------------------------------------------------- */

static KitStatus go(KitEmu *emu, KitStop *stop) {
  if (!emu->started) {
    emu->started = true;
    if (!core_thread_start(emu->threads_first))
      return core_fail(emu, KIT_E_MEMORY, "cannot make a thread for the guest: %s",
                       strerror(errno));
  }
  core_controller_run(emu);
  if (emu->ended) core_join_finished(emu);
  *stop = emu->stop;
  return KIT_OK;
}

static KitStatus may_run(KitEmu *emu) {
  if (emu->running)
    return core_fail(emu, KIT_E_BUSY, "the guest is running: it cannot be run from a hook");
  if (emu->ended) return core_fail(emu, KIT_E_DEAD, "the guest has ended");
  return KIT_OK;
}

KitStatus kit_run(KitEmu *emu, uint64_t max_insns, KitStop *stop) {
  KitStatus st = may_run(emu);
  if (st) return st;
  if (max_insns != UINT64_MAX) core_budget_on(emu);
  emu->limit_left = max_insns;
  for (CoreThread *t = emu->threads; t; t = t->next) new_slice(t);
  return go(emu, stop);
}

KitStatus kit_step(KitEmu *emu, int tid, uint64_t n, KitStop *stop) {
  KitStatus st = may_run(emu);
  if (st) return st;
  CoreThread *t = tid ? core_find_thread(emu, tid) : emu->last_stopped;
  if (!t) t = emu->threads ? emu->threads : emu->threads_first;
  if (tid && t->tid != tid) return core_fail(emu, KIT_E_ARGUMENT, "no thread %d", tid);
  core_budget_on(emu);
  emu->limit_left = UINT64_MAX;
  t->step_left = n;
  emu->sched.only = t;
  new_slice(t);
  st = go(emu, stop);
  if (!emu->ended) {
    emu->sched.only = NULL;
    t->step_left = UINT64_MAX;
  }
  return st;
}
