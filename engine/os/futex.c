/* futex. Words in private memory concern this process only: waiters wait in the scheduler, in order
 * and on its clock, so that a run repeats. Words in shared mappings may concern other processes:
 * the host's futex is asked, besides. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "os/os.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif
#define SECOND 1000000000ull

typedef struct Futex {
  uint64_t va, timeout_va;
  uint32_t value, mask;
  bool shared, absolute;
  clockid_t clock;
} Futex;

static uint32_t *word(CoreThread *t, uint64_t va) {
  return va % 4 ? NULL : emu_addr_space_ptr(t->emu, va, 4, PROT_READ);
}

static bool is_shared(CoreThread *t, uint64_t va) {
  const CoreArea *a = core_area(t->emu, va);
  return a && a->start <= va && a->flags & MAP_SHARED;
}

/* The time-out as a deadline on the scheduler's clock. */
static int64_t deadline_of(CoreThread *t, const Futex *f, uint64_t *out) {
  struct timespec ts, now;
  *out = UINT64_MAX;
  if (!f->timeout_va) return 0;
  if (guest_read(t->emu, t, f->timeout_va, &ts, sizeof ts)) return -EFAULT;
  if (ts.tv_sec < 0 || ts.tv_nsec < 0 || ts.tv_nsec >= (long)SECOND) return -EINVAL;
  uint64_t ns = (uint64_t)ts.tv_sec > UINT64_MAX / SECOND / 4
                    ? UINT64_MAX / 4
                    : (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
  if (f->absolute) {
    clock_gettime(f->clock, &now);
    uint64_t have = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
    ns = ns > have ? ns - have : 0;
  }
  *out = os_deadline(t, ns);
  return 0;
}

static int64_t wait_word(CoreThread *t, const Futex *f) {
  uint32_t *w = word(t, f->va);
  uint64_t deadline;
  if (!w) return f->va % 4 ? -EINVAL : -EFAULT;
  if (!f->mask) return -EINVAL;
  int64_t err = deadline_of(t, f, &deadline);
  if (err) return err;
  if (f->shared) {
    int op = f->absolute
                 ? FUTEX_WAIT_BITSET | (f->clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0)
                 : FUTEX_WAIT;
    return os_blocking(t, SYS_futex,
                       (long[6]){(long)f->va, op, (long)f->value, (long)f->timeout_va, 0, f->mask});
  }
  if (__atomic_load_n(w, __ATOMIC_SEQ_CST) != f->value) return -EAGAIN;
  if (t->emu->n_threads == 1 && deadline == UINT64_MAX) { /* only a signal can end it */
    return os_blocking(t, SYS_futex, (long[6]){(long)f->va, FUTEX_WAIT_PRIVATE, (long)f->value, 0});
  }
  return os_wait(t, f->va, f->mask, deadline);
}

static int64_t wake_word(CoreThread *t, const Futex *f, int n) {
  if (!word(t, f->va)) return f->va % 4 ? -EINVAL : -EFAULT;
  if (!f->mask) return -EINVAL;
  int64_t woken = core_wake(t->emu, f->va, f->mask, n, 0, 0);
  if (f->shared && woken < n) {
    int64_t r = os_raw(SYS_futex, (long)f->va, FUTEX_WAKE_BITSET, n - woken, 0, 0, f->mask);
    if (r > 0) woken += r;
  }
  return woken;
}

/* Moves waiters; between words of shared mappings the host does it, where those that wait for them
 * are. */
static int64_t requeue(CoreThread *t, const Futex *f, uint64_t va2, int n, int n2) {
  if (!word(t, f->va) || !word(t, va2)) return (f->va | va2) % 4 ? -EINVAL : -EFAULT;
  if (f->shared) return os_raw(SYS_futex, (long)f->va, FUTEX_REQUEUE, n, n2, (long)va2, 0);
  return core_wake(t->emu, f->va, ~0u, n, va2, n2);
}

static int sign12(uint32_t v) { return (int)(v << 20) >> 20; }

/* The operation of FUTEX_WAKE_OP on its second word, atomically: other processes may see it. */
static uint32_t apply_op(uint32_t *w, uint32_t op, uint32_t arg) {
  switch (op) {
  case FUTEX_OP_SET: return __atomic_exchange_n(w, arg, __ATOMIC_SEQ_CST);
  case FUTEX_OP_ADD: return __atomic_fetch_add(w, arg, __ATOMIC_SEQ_CST);
  case FUTEX_OP_OR: return __atomic_fetch_or(w, arg, __ATOMIC_SEQ_CST);
  case FUTEX_OP_ANDN: return __atomic_fetch_and(w, ~arg, __ATOMIC_SEQ_CST);
  default: return __atomic_fetch_xor(w, arg, __ATOMIC_SEQ_CST);
  }
}

/* FUTEX_WAKE_OP: the operation on the second word, then wakes (include/uapi/linux/futex.h). */
static int64_t wake_op(CoreThread *t, const Futex *f, uint64_t va2, int n, int n2,
                       uint32_t encoded) {
  uint32_t op = encoded >> 28 & 7, cmp = encoded >> 24 & 15;
  int oparg = sign12(encoded >> 12 & 0xfff), cmparg = sign12(encoded & 0xfff);
  uint32_t *w = word(t, va2);
  if (encoded >> 28 & FUTEX_OP_OPARG_SHIFT) oparg = (int)(1u << (oparg & 31));
  if (va2 % 4) return -EINVAL;
  if (!w || guest_prepare_write(t->emu, t, va2, 4)) return -EFAULT;
  if (op > FUTEX_OP_XOR || cmp > FUTEX_OP_CMP_GE) return -ENOSYS;
  int old = (int)apply_op(w, op, (uint32_t)oparg);
  const bool holds[] = {old == cmparg, old != cmparg, old<cmparg, old <= cmparg, old> cmparg,
                        old >= cmparg};
  int64_t woken = wake_word(t, f, n);
  if (woken >= 0 && holds[cmp]) {
    Futex second = *f;
    second.va = va2;
    second.shared = f->shared && is_shared(t, va2);
    woken += wake_word(t, &second, n2);
  }
  return woken;
}

/* Priority-inheriting locks, without the inheritance: the word holds the owner's id. Whoever has
 * waited takes the lock with FUTEX_WAITERS set, as there may be more that wait: the unlocking
 * thread then comes here. */
static int64_t lock_pi(CoreThread *t, const Futex *f, bool try) {
  for (uint32_t waited = 0;;) {
    uint32_t *w = word(t, f->va);
    if (f->va % 4) return -EINVAL;
    if (!w || guest_prepare_write(t->emu, t, f->va, 4)) return -EFAULT;
    uint32_t v = *w, owner = v & FUTEX_TID_MASK;
    if (owner == (uint32_t)t->tid) return -EDEADLK;
    if (!owner) {
      *w = (uint32_t)t->tid | (v & (FUTEX_WAITERS | FUTEX_OWNER_DIED)) | waited;
      return 0;
    }
    if (try) return -EAGAIN;
    if (!core_find_thread(t->emu, (int)owner)) return -ESRCH;
    *w = v | FUTEX_WAITERS;
    uint64_t deadline;
    int64_t err = deadline_of(t, f, &deadline);
    if (!err) err = os_wait(t, f->va, ~0u, deadline);
    if (err) return err == -EINTR || err == OS_ERESTART ? OS_ENOTRUN : err;
    waited = FUTEX_WAITERS;
  }
}

static int64_t unlock_pi(CoreThread *t, const Futex *f) {
  uint32_t *w = word(t, f->va);
  if (f->va % 4) return -EINVAL;
  if (!w || guest_prepare_write(t->emu, t, f->va, 4)) return -EFAULT;
  if ((*w & FUTEX_TID_MASK) != (uint32_t)t->tid) return -EPERM;
  *w = 0;
  core_wake(t->emu, f->va, ~0u, 1, 0, 0);
  return 0;
}

int64_t os_futex(CoreThread *t, uint64_t a[6]) {
  int op = (int)a[1];
  Futex f = {.va = a[0],
             .value = (uint32_t)a[2],
             .mask = ~0u,
             .clock = op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC};
  f.shared = !(op & FUTEX_PRIVATE_FLAG) && is_shared(t, f.va);
  int n = (int)a[2] < 0 ? INT_MAX : (int)a[2], n2 = (int)a[3] < 0 ? INT_MAX : (int)a[3];
  switch (op & FUTEX_CMD_MASK) {
  case FUTEX_WAIT: f.timeout_va = a[3]; return wait_word(t, &f);
  case FUTEX_WAIT_BITSET:
    f.timeout_va = a[3];
    f.absolute = true;
    f.mask = (uint32_t)a[5];
    return wait_word(t, &f);
  case FUTEX_WAKE: return wake_word(t, &f, n);
  case FUTEX_WAKE_BITSET: f.mask = (uint32_t)a[5]; return wake_word(t, &f, n);
  case FUTEX_CMP_REQUEUE:
    if (!word(t, f.va)) return f.va % 4 ? -EINVAL : -EFAULT;
    if (*word(t, f.va) != (uint32_t)a[5]) return -EAGAIN;
    return requeue(t, &f, a[4], n, n2);
  case FUTEX_REQUEUE: return requeue(t, &f, a[4], n, n2);
  case FUTEX_WAKE_OP: return wake_op(t, &f, a[4], n, n2, (uint32_t)a[5]);
  case FUTEX_LOCK_PI: /* always an absolute time of the real-time clock */
    f.clock = CLOCK_REALTIME;
    __attribute__((fallthrough));
  case FUTEX_LOCK_PI2:
    f.timeout_va = a[3];
    f.absolute = true;
    return lock_pi(t, &f, false);
  case FUTEX_TRYLOCK_PI: return lock_pi(t, &f, true);
  case FUTEX_UNLOCK_PI: return unlock_pi(t, &f);
  default: return -ENOSYS;
  }
}
