/* The baton and the scheduler: exactly one guest thread runs at a time; who is next is decided by
 * queue order and instruction counts only. See core.h for the rules. Everything here holds
 * emu->lock while it touches the queue.
 *
 * A thread that does not run sleeps on its own futex word (`park`): a grant, a signal
 * (core_interrupt) and the end of the process all bump that word, so nothing is missed between
 * looking and sleeping. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/run.h"
#include "jit/jit.h"

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, const struct timespec *timeout) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout, NULL, 0);
}

static void bump(_Atomic uint32_t *word) {
  atomic_fetch_add(word, 1);
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- the ready queue (lock held) ------------------------------------------------------------- */

static void enqueue(Emu *emu, CoreThread *t, bool first) {
  CoreSched *q = &emu->sched;
  t->run_state = CORE_READY;
  t->ready_next = NULL;
  if (first || !q->head) {
    t->ready_next = q->head;
    q->head = t;
    if (!q->tail) q->tail = t;
  } else {
    q->tail->ready_next = t;
    q->tail = t;
  }
}

static void unlink_ready(CoreSched *q, CoreThread *t) {
  CoreThread *prev = NULL;
  for (CoreThread **p = &q->head; *p; prev = *p, p = &(*p)->ready_next) {
    if (*p != t) continue;
    *p = t->ready_next;
    if (q->tail == t) q->tail = prev;
    return;
  }
}

static CoreThread *earliest_sleeper(Emu *emu) {
  CoreThread *best = NULL;
  for (CoreThread *t = emu->threads; t; t = t->next)
    if (t->run_state == CORE_WAITING && t->wait_deadline != UINT64_MAX &&
        (!best || t->wait_deadline < best->wait_deadline))
      best = t;
  return best;
}

/* Gives the free baton to the next ready thread; with nobody ready, lets the earliest sleeper sleep
 * for real. */
static void dispatch(Emu *emu) {
  CoreSched *q = &emu->sched;
  if (!emu->running || emu->current) return;
  CoreThread *t = q->head;
  if (q->only) {
    if (q->only->run_state == CORE_READY)
      t = q->only;
    else if (q->only->run_state == CORE_WAITING || q->only->run_state == CORE_BLOCKED)
      q->only = NULL;
  }
  if (t) {
    unlink_ready(q, t);
    emu->current = t;
    t->run_state = CORE_RUNNING;
    if (t != core_self()) bump(&t->park); /* else it is about to look for itself */
  } else if ((t = earliest_sleeper(emu))) {
    t->idle_sleeper = true;
    bump(&t->park);
  }
}

/* Sleeps until this thread holds the baton. */
static void await_grant(CoreThread *t) {
  for (;;) {
    uint32_t seen = atomic_load(&t->park);
    if (__atomic_load_n(&t->emu->current, __ATOMIC_ACQUIRE) == t) return;
    futex_wait(&t->park, seen, NULL);
  }
}

void core_sched_enter(CoreThread *t, bool first) {
  pthread_mutex_lock(&t->emu->lock);
  enqueue(t->emu, t, first);
  dispatch(t->emu);
  pthread_mutex_unlock(&t->emu->lock);
  await_grant(t);
}

/* Accounts the instructions of the running slice: the deterministic clock moves with them. */
static void settle_slice(CoreThread *t) {
  Emu *emu = t->emu;
  if (!emu->budget_on) return;
  uint64_t used = (uint64_t)(t->slice - t->state->budget);
  emu->clock += used;
  t->slice = t->state->budget;
  if (emu->limit_left != UINT64_MAX)
    emu->limit_left -= used < emu->limit_left ? used : emu->limit_left;
  if (t->step_left != UINT64_MAX) t->step_left -= used < t->step_left ? used : t->step_left;
}

void core_sched_leave(CoreThread *t, CoreThreadState to) {
  Emu *emu = t->emu;
  settle_slice(t);
  pthread_mutex_lock(&emu->lock);
  t->run_state = to;
  if (emu->current == t) emu->current = NULL;
  dispatch(emu);
  pthread_mutex_unlock(&emu->lock);
}

/* ---- blocking host calls, yield -------------------------------------------------------------- */

void core_block_begin(CoreThread *t) { core_sched_leave(t, CORE_BLOCKED); }

void core_block_end(CoreThread *t) {
  core_sched_enter(t, false);
  if (t->die) core_thread_vanish(t);
}

/* Sleepers whose time has come become ready (lock held). */
static void wake_due(Emu *emu) {
  for (CoreThread *t = emu->threads; t; t = t->next)
    if (t->run_state == CORE_WAITING && t->wait_deadline <= emu->clock) enqueue(emu, t, false);
}

void core_yield(CoreThread *t) {
  Emu *emu = t->emu;
  settle_slice(t);
  pthread_mutex_lock(&emu->lock);
  wake_due(emu);
  bool others = emu->sched.head != NULL && emu->sched.only != t;
  if (others) {
    emu->current = NULL;
    enqueue(emu, t, false);
    dispatch(emu);
  }
  pthread_mutex_unlock(&emu->lock);
  if (others) await_grant(t);
  if (t->die) core_thread_vanish(t);
}

/* ---- waiting in the scheduler ---------------------------------------------------------------- */

/* One sleep of a waiting thread; true when the wait is over. Only the idle sleeper has a real
 * time-out: when it expires and still nobody runs, the clock jumps to its deadline. */
static bool wait_once(CoreThread *t) {
  Emu *emu = t->emu;
  uint32_t seen = atomic_load(&t->park);
  struct timespec ts, *timeout = NULL;
  pthread_mutex_lock(&emu->lock);
  bool over = emu->current == t;
  if (!over && t->run_state == CORE_WAITING && (t->woken || t->state->interrupt || t->die)) {
    enqueue(emu, t, false);
    dispatch(emu);
    over = emu->current == t;
  }
  if (!over && t->run_state == CORE_WAITING && t->idle_sleeper && t->wait_deadline != UINT64_MAX) {
    uint64_t ns = t->wait_deadline > emu->clock ? t->wait_deadline - emu->clock : 0;
    ts = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    timeout = &ts;
  }
  pthread_mutex_unlock(&emu->lock);
  if (over) return true;
  struct timespec before, after;
  if (timeout) clock_gettime(CLOCK_MONOTONIC, &before);
  futex_wait(&t->park, seen, timeout);
  if (!timeout) return false;
  clock_gettime(CLOCK_MONOTONIC, &after);
  uint64_t slept = (uint64_t)(after.tv_sec - before.tv_sec) * 1000000000 + (uint64_t)after.tv_nsec -
                   (uint64_t)before.tv_nsec;
  pthread_mutex_lock(&emu->lock);
  t->idle_sleeper = false;
  if (t->run_state == CORE_WAITING && emu->clock < t->wait_deadline) {
    uint64_t left = t->wait_deadline - emu->clock;
    emu->clock += slept < left ? slept : left;
  }
  wake_due(emu);
  dispatch(emu);
  pthread_mutex_unlock(&emu->lock);
  return false;
}

int core_wait(CoreThread *t, uint64_t key, uint32_t mask, uint64_t deadline_ns) {
  if (t->state->interrupt) return -EINTR;
  t->wait_key = key;
  t->wait_mask = mask;
  t->wait_deadline = deadline_ns;
  t->wait_order = ++t->emu->sched.wait_orders;
  t->woken = t->idle_sleeper = false;
  core_sched_leave(t, CORE_WAITING);
  while (!wait_once(t)) {
  }
  t->wait_key = 0;
  t->idle_sleeper = false;
  if (t->die) core_thread_vanish(t);
  if (t->woken) return 0;
  return t->emu->clock >= deadline_ns ? -ETIMEDOUT : -EINTR;
}

static CoreThread *first_waiter(Emu *emu, uint64_t key, uint32_t mask) {
  CoreThread *best = NULL;
  for (CoreThread *t = emu->threads; t; t = t->next)
    if (t->run_state == CORE_WAITING && !t->woken && t->wait_key == key && t->wait_mask & mask &&
        (!best || t->wait_order < best->wait_order))
      best = t;
  return best;
}

int core_wake(Emu *emu, uint64_t key, uint32_t mask, int max, uint64_t requeue_key,
              int requeue_max) {
  int n = 0;
  CoreThread *t;
  pthread_mutex_lock(&emu->lock);
  while (n < max && (t = first_waiter(emu, key, mask))) {
    t->woken = true;
    enqueue(emu, t, false);
    n++;
  }
  for (int moved = 0; requeue_key && moved < requeue_max && (t = first_waiter(emu, key, mask));
       moved++) {
    t->wait_key = requeue_key;
    n++;
  }
  dispatch(emu);
  pthread_mutex_unlock(&emu->lock);
  return n;
}

uint64_t core_clock(Emu *emu) {
  if (emu->current) settle_slice(emu->current);
  return emu->clock;
}

/* ---- stopping the world ---------------------------------------------------------------------- */

void core_controller_wake(Emu *emu) { bump(&emu->sched.controller); }

void core_stop(CoreThread *t, const KitStop *stop) {
  Emu *emu = t->emu;
  if (emu->is_child) return; /* nobody there to stop for: a forked child runs to its end */
  settle_slice(t);
  pthread_mutex_lock(&emu->lock);
  emu->stop = *stop;
  emu->last_stopped = t;
  emu->running = false;
  emu->current = NULL;
  enqueue(emu, t, true);
  pthread_mutex_unlock(&emu->lock);
  core_controller_wake(emu);
  await_grant(t);
  if (t->die) core_thread_vanish(t);
}

/* Host calls that wait for input would take what the user types for the debugger: they are broken
 * off, and made again when the guest goes on (lock held). */
static void break_host_calls(Emu *emu) {
  for (CoreThread *t = emu->threads; t; t = t->next) {
    if (t->run_state != CORE_BLOCKED) continue;
    core_interrupt(t);
    emu->os->kick(t);
  }
}

static void run_until_stopped(Emu *emu) {
  pthread_mutex_lock(&emu->lock);
  emu->running = true;
  dispatch(emu);
  pthread_mutex_unlock(&emu->lock);
  for (;;) {
    uint32_t seen = atomic_load(&emu->sched.controller);
    pthread_mutex_lock(&emu->lock);
    /* An interrupt while every thread is blocked in the host: nobody would notice it. */
    if (emu->running && emu->interrupt_asked && !emu->current && !emu->sched.head) {
      emu->interrupt_asked = 0;
      emu->running = false;
      CoreThread *t = emu->last_stopped ? emu->last_stopped : emu->threads;
      emu->stop = (KitStop){
          .reason = KIT_STOP_INTERRUPT, .tid = t ? t->tid : 0, .pc = t ? t->state->pc : 0};
      break_host_calls(emu);
    }
    bool over = !emu->running;
    pthread_mutex_unlock(&emu->lock);
    if (over) return;
    futex_wait(&emu->sched.controller, seen, NULL);
  }
}

void core_controller_run(Emu *emu) {
  sigset_t all, before;
  sigfillset(&all); /* signals sent to the process are the guest's: one of its threads takes them */
  /* What has no effect by default is dropped by the kernel, unless the process's first thread
   * blocks it. */
  const int quiet[] = {SIGCHLD, SIGURG, SIGWINCH, SIGCONT};
  for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) sigdelset(&all, quiet[i]);
  if (emu->catch_interrupts) sigdelset(&all, SIGINT);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  run_until_stopped(emu);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void core_interrupt(CoreThread *t) {
  t->state->interrupt = 1;
  bump(&t->park);
}

void core_interrupt_here(CoreThread *t, void *ucontext) {
  core_interrupt(t);
  if (t->emu->jit) jit_interrupt(t->emu->jit, t->state, ucontext);
}

void kit_interrupt(KitEmu *emu) {
  emu->interrupt_asked = 1;
  CoreThread *t = __atomic_load_n(&emu->current, __ATOMIC_ACQUIRE);
  if (t) {
    core_interrupt(t);
    emu->os->kick(t); /* translated code polls nothing: a signal makes it leave */
  }
  core_controller_wake(emu);
}

/* Takes t out of the queue: it is ending, or it is not part of this process (after fork). */
void core_sched_forget(CoreThread *t) { unlink_ready(&t->emu->sched, t); }
