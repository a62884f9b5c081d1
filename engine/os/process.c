/* Threads and processes: clone in its three forms, exit, waiting, ids. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

#include "os/os.h"

#define VFORK_STACK (2u << 20) /* as other host threads of guest threads have */

/* clone's flags that are about memory of this process, or mean nothing for a process of its own. */
#define FORK_FLAGS                                                                                 \
  ((uint64_t)(CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID |     \
              CLONE_SYSVSEM | CLONE_DETACHED))

/* ---- ids --------------------------------------------------------------------------------- */

int os_host_tid(Emu *emu, int tid) {
  CoreThread *t = tid ? core_find_thread(emu, tid) : NULL;
  if (t) return t->host_tid;
  return tid == getpid() ? INT_MAX
                         : tid; /* the main thread is gone: what has its number is the controller */
}

int64_t os_gettid(CoreThread *t, uint64_t a[6]) {
  (void)a;
  return t->tid;
}

int64_t os_set_tid_address(CoreThread *t, uint64_t a[6]) {
  os_thread(t)->clear_child_tid = a[0];
  return t->tid;
}

int64_t os_set_robust_list(CoreThread *t, uint64_t a[6]) {
  if (a[1] != 24) return -EINVAL;
  os_thread(t)->robust_head = a[0];
  return 0;
}

int64_t os_get_robust_list(CoreThread *t, uint64_t a[6]) {
  CoreThread *of = a[0] ? core_find_thread(t->emu, (int)a[0]) : t;
  uint64_t size = 24;
  if (!of) return -ESRCH;
  if (guest_write(t->emu, t, a[1], &os_thread(of)->robust_head, 8) ||
      guest_write(t->emu, t, a[2], &size, 8))
    return -EFAULT;
  return 0;
}

int64_t os_sched_yield(CoreThread *t, uint64_t a[6]) {
  (void)a;
  core_yield(t);
  return 0;
}

/* ---- the end of a thread ----------------------------------------------------------------- */

/* A futex word owned by a dying thread: mark it and wake one waiter (kernel/futex,
 * handle_futex_death). */
static void futex_death(CoreThread *t, uint64_t va) {
  if (va % 4 || guest_prepare_write(t->emu, t, va, 4)) return;
  uint32_t *w = emu_addr_space_ptr(t->emu, va, 4, PROT_READ), v = w ? *w : 0;
  do {
    if (!w || (v & FUTEX_TID_MASK) != (uint32_t)t->tid) return;
  } while (!__atomic_compare_exchange_n(w, &v, (v & FUTEX_WAITERS) | FUTEX_OWNER_DIED, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  if (!(v & FUTEX_WAITERS)) return;
  core_wake(t->emu, va, ~0u, 1, 0, 0);
  os_raw(SYS_futex, (long)va, FUTEX_WAKE, 1, 0, 0, 0);
}

static void walk_robust_list(CoreThread *t) {
  uint64_t head = os_thread(t)->robust_head, list[3], next;
  if (!head || guest_read(t->emu, t, head, list, sizeof list)) return;
  next = list[0];
  for (int i = 0; next && (next & ~1ull) != head && i < 2048; i++) {
    uint64_t entry = next & ~1ull;
    if (guest_read(t->emu, t, entry, &next, 8)) return;
    if (entry != (list[2] & ~1ull)) futex_death(t, entry + list[1]);
  }
  if (list[2]) futex_death(t, (list[2] & ~1ull) + list[1]);
}

void os_thread_exit(CoreThread *t) {
  OsThread *o = os_thread(t);
  OsProcess *p = os_process(t->emu);
  uint32_t zero = 0;
  walk_robust_list(t);
  if (o->clear_child_tid && !guest_write(t->emu, t, o->clear_child_tid, &zero, 4)) {
    core_wake(t->emu, o->clear_child_tid, ~0u, 1, 0, 0);
    os_raw(SYS_futex, (long)o->clear_child_tid, FUTEX_WAKE, 1, 0, 0,
           0); /* other processes that share the page */
  }
  os_block_all(NULL); /* this host thread takes no more signals */
  t->os = NULL;
  if (p->main == o) {
    p->main = NULL;
    p->main_gone = o; /* kept: another thread's handler may just be looking at it */
  } else {
    free(o);
  }
}

/* Locks in memory shared with other processes; the rest of the memory goes with this one. */
void os_give_up_locks(Emu *emu) {
  for (CoreThread *t = emu->threads; t; t = t->next)
    if (os_thread(t)) walk_robust_list(t);
}

int64_t os_exit(CoreThread *t, uint64_t a[6]) {
  if (os_process(t->emu)->vfork_child) _exit((int)a[0] & 255);
  core_thread_exit(t, (int)a[0] & 255);
}

int64_t os_exit_group(CoreThread *t, uint64_t a[6]) {
  if (os_process(t->emu)->vfork_child) _exit((int)a[0] & 255);
  os_give_up_locks(t->emu);
  core_process_exit(t, (int)a[0] & 255, 0);
}

/* ---- clone ------------------------------------------------------------------------------- */

typedef struct CloneArgs {
  uint64_t flags, stack, parent_tid, tls, child_tid, pidfd;
  int exit_signal;
} CloneArgs;

static int64_t store_tid(CoreThread *t, uint64_t va, int tid) {
  return guest_write(t->emu, t, va, &tid, 4);
}

static int64_t new_thread(CoreThread *t, const CloneArgs *c) {
  CoreThread *child = core_thread_new(t->emu, t);
  if (!child) return -ENOMEM;
  OsThread *o = xcalloc(1, sizeof *o);
  o->mask = os_thread(t)->mask;
  o->alt_flags = SS_DISABLE;
  if (c->flags & CLONE_CHILD_CLEARTID) o->clear_child_tid = c->child_tid;
  child->os = o;
  t->emu->guest->clone_thread(child->state, c->stack, c->flags & CLONE_SETTLS ? c->tls : 0);
  uint64_t mask;
  os_block_all(&mask); /* inherited by the host thread: it takes no signal until it is a guest's */
  bool started = core_thread_start(child);
  os_restore_mask(mask);
  if (!started) {
    core_thread_discard(child);
    return -EAGAIN;
  }
  if (c->flags & CLONE_PARENT_SETTID) store_tid(t, c->parent_tid, child->tid);
  if (c->flags & CLONE_CHILD_SETTID) store_tid(t, c->child_tid, child->tid);
  return child->tid;
}

static void child_registers(CoreThread *t, const CloneArgs *c) {
  t->emu->guest->clone_thread(t->state, c->stack, c->flags & CLONE_SETTLS ? c->tls : 0);
  if (c->flags & CLONE_CHILD_SETTID) store_tid(t, c->child_tid, t->tid);
  os_thread(t)->clear_child_tid = c->flags & CLONE_CHILD_CLEARTID ? c->child_tid : 0;
}

static void raise_fork(CoreThread *t, int child, bool vfork) {
  core_raise(t, &(KitEvent){.kind = KIT_EV_FORK,
                            .tid = t->tid,
                            .pc = t->state->pc,
                            .fork = {.child = child, .vfork = vfork}});
}

/* What fork() does not do. The C library's own state in the child is then a little off (its idea of
 * its thread id), which nothing of ours looks at. */
static bool plain_fork(const CloneArgs *c) {
  return c->exit_signal == SIGCHLD && !(c->flags & ~FORK_FLAGS);
}

static int host_fork(const CloneArgs *c, int *pidfd) {
  if (plain_fork(c)) return fork();
  return (int)syscall(SYS_clone, (long)((c->flags & ~FORK_FLAGS) | (uint64_t)c->exit_signal), 0,
                      pidfd, 0, 0);
}

static int64_t fork_process(CoreThread *t, const CloneArgs *c) {
  OsProcess *p = os_process(t->emu);
  OsThread *o = os_thread(t);
  uint64_t mask;
  int pidfd = -1;
  fflush(NULL); /* what is buffered belongs to the parent */
  os_block_all(&mask);
  if (o->pending) {
    os_restore_mask(mask);
    return OS_ENOTRUN;
  }
  if (!core_before_fork(t->emu)) {
    os_restore_mask(mask);
    return -ENOMEM;
  }
  pthread_mutex_lock(&t->emu->lock); /* nobody is in the middle of the scheduler's queues */
  int pid = host_fork(c, &pidfd);
  int err = errno;
  if (pid) pthread_mutex_unlock(&t->emu->lock);
  core_after_fork(t->emu, pid == 0);
  if (pid == 0) {
    core_after_fork_child(t);
    p->main = o;
    p->main_host_tid = t->host_tid;
    p->vfork_child = false;
    o->held = 0;
    o->robust_head = 0;
    os_restore_mask(mask);
    child_registers(t, c);
    return 0;
  }
  os_restore_mask(mask);
  if (pid < 0) return -err;
  if (c->flags & CLONE_PARENT_SETTID) store_tid(t, c->parent_tid, pid);
  if (c->flags & CLONE_PIDFD) store_tid(t, c->pidfd, pidfd);
  raise_fork(t, pid, false);
  return pid;
}

/* ---- vfork ------------------------------------------------------------------------------- */

/* The child shares the parent's memory, engine and all, while the parent's host thread sleeps in
 * clone. */

/* What the child changes of the engine's view of its thread and process, put back for the parent.
 * The rest (translations, memory, what hooks have gathered) is as good for the parent. */
typedef struct VforkSaved {
  CoreThread thread;
  OsThread os;
  OsProcess process;
  void *state;
} VforkSaved;

static VforkSaved *save_for_parent(CoreThread *t) {
  VforkSaved *v = xmalloc(sizeof *v);
  v->thread = *t;
  v->os = *os_thread(t);
  v->process = *os_process(t->emu);
  v->state = xmalloc(t->emu->guest->state_size);
  memcpy(v->state, t->state, t->emu->guest->state_size);
  return v;
}

static void restore_parent(CoreThread *t, VforkSaved *v) {
  os_exec_free(os_process(t->emu)->exec);
  *t = v->thread;
  *os_thread(t) = v->os;
  *os_process(t->emu) = v->process;
  memcpy(t->state, v->state, t->emu->guest->state_size);
  t->emu->current = t;
  free(v->state);
  free(v);
}

typedef struct VforkChild {
  CoreThread *t;
  const CloneArgs *args;
  uint64_t mask;
} VforkChild;

static int vfork_main(void *arg) {
  VforkChild *v = arg;
  CoreThread *t = v->t;
  OsProcess *p = os_process(t->emu);
  t->tid = t->host_tid = getpid();
  t->state->tid = (uint64_t)t->tid;
  p->vfork_child = true;
  p->main = os_thread(t);
  p->main_host_tid = t->host_tid;
  p->exec = NULL;
  os_restore_mask(v->mask);
  child_registers(t, v->args);
  core_run_here(t); /* until exec or _exit */
}

static int64_t vfork_process(CoreThread *t, const CloneArgs *c) {
  VforkChild v = {.t = t, .args = c};
  int pidfd = -1;
  fflush(NULL);
  os_block_all(&v.mask);
  char *stack = os_thread(t)->pending ? NULL
                                      : mmap(NULL, VFORK_STACK, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!stack || stack == MAP_FAILED) {
    os_restore_mask(v.mask);
    return stack ? -ENOMEM : OS_ENOTRUN;
  }
  /* Children before this one left their frames there when they went. */
  ASAN_UNPOISON_MEMORY_REGION(stack, VFORK_STACK);
  VforkSaved *saved = save_for_parent(t);
  int flags = CLONE_VM | CLONE_VFORK | (int)(c->flags & CLONE_PIDFD) | c->exit_signal;
  int pid = clone(vfork_main, stack + VFORK_STACK, flags, &v, &pidfd);
  int err = errno;
  restore_parent(t, saved);
  os_restore_mask(v.mask);
  munmap(stack, VFORK_STACK);
  if (pid < 0) return -err;
  if (c->flags & CLONE_PARENT_SETTID) store_tid(t, c->parent_tid, pid);
  if (c->flags & CLONE_PIDFD) store_tid(t, c->pidfd, pidfd);
  raise_fork(t, pid, true);
  return pid;
}

#define THREAD_FLAGS (CLONE_VM | CLONE_THREAD | CLONE_SIGHAND)

static int64_t clone_any(CoreThread *t, const CloneArgs *c) {
  if (c->flags & CLONE_PIDFD && guest_prepare_write(t->emu, t, c->pidfd, 4)) return -EFAULT;
  if (c->flags & CLONE_THREAD)
    return (c->flags & THREAD_FLAGS) == THREAD_FLAGS ? new_thread(t, c) : -EINVAL;
  if (os_process(t->emu)->vfork_child) return -EAGAIN; /* a vfork child may only exec or exit */
  if (c->flags & CLONE_VM && c->flags & CLONE_VFORK) return vfork_process(t, c);
  if (c->flags & CLONE_VM)
    return -ENOSYS; /* two processes, one memory, both running: no program of ours does it */
  return fork_process(t, c);
}

/* riscv64 and aarch64: flags, stack, parent_tid, tls, child_tid; x86-64 has the last two exchanged.
 */
int64_t os_clone(CoreThread *t, uint64_t a[6]) {
  bool generic = t->emu->guest->generic_syscalls;
  CloneArgs c = {.flags = a[0] & ~0xffull,
                 .exit_signal = (int)(a[0] & 0xff),
                 .stack = a[1],
                 .parent_tid = a[2],
                 .pidfd = a[2],
                 .tls = generic ? a[3] : a[4],
                 .child_tid = generic ? a[4] : a[3]};
  return clone_any(t, &c);
}

int64_t os_clone3(CoreThread *t, uint64_t a[6]) {
  uint64_t k[11] = {0}; /* struct clone_args: flags pidfd child_tid parent_tid exit_signal stack
                           stack_size tls set_tid set_tid_size cgroup */
  if (a[1] < 64) return -EINVAL;
  if (guest_read(t->emu, t, a[0], k, a[1] < sizeof k ? a[1] : sizeof k)) return -EFAULT;
  if (k[8] || k[0] & 0xff || k[4] > 64) return -EINVAL;
  CloneArgs c = {.flags = k[0],
                 .pidfd = k[1],
                 .child_tid = k[2],
                 .parent_tid = k[3],
                 .exit_signal = (int)k[4],
                 .stack = k[5] ? k[5] + k[6] : 0,
                 .tls = k[7]};
  return clone_any(t, &c);
}

int64_t os_fork(CoreThread *t, uint64_t a[6]) {
  (void)a;
  return clone_any(t, &(CloneArgs){.exit_signal = SIGCHLD});
}

int64_t os_vfork(CoreThread *t, uint64_t a[6]) {
  (void)a;
  return clone_any(t, &(CloneArgs){.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD});
}

/* ---- waiting ----------------------------------------------------------------------------- */

int64_t os_wait4(CoreThread *t, uint64_t a[6]) {
  if (a[1] && guest_prepare_write(t->emu, t, a[1], 4)) return -EFAULT;
  if (a[3] && guest_prepare_write(t->emu, t, a[3], sizeof(struct rusage))) return -EFAULT;
  return os_blocking(t, SYS_wait4, (long[6]){(int)a[0], (long)a[1], (int)a[2], (long)a[3]});
}

int64_t os_waitid(CoreThread *t, uint64_t a[6]) {
  if (a[2] && guest_prepare_write(t->emu, t, a[2], 128)) return -EFAULT;
  if (a[4] && guest_prepare_write(t->emu, t, a[4], sizeof(struct rusage))) return -EFAULT;
  return os_blocking(t, SYS_waitid,
                     (long[6]){(int)a[0], (int)a[1], (long)a[2], (int)a[3], (long)a[4]});
}
