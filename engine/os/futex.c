/* futex. Words in private memory concern this process only: waiters wait in the scheduler, in order and on its clock, so that a run
 * repeats. Words in shared mappings may concern other processes: the host's futex is asked, besides. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "os/os.h"

#define SECOND 1000000000ull

typedef struct Futex {
  uint64_t va, timeout_va;
  uint32_t value, mask;
  bool shared, absolute;
  clockid_t clock;
} Futex;

static uint32_t *word(CoreThread *t, uint64_t va) { return va % 4 ? NULL : emu_addr_space_ptr(t->emu, va, 4, PROT_READ); }

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
  uint64_t ns = (uint64_t)ts.tv_sec > UINT64_MAX / SECOND / 4 ? UINT64_MAX / 4 : (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
  if (f->absolute) {
    clock_gettime(f->clock, &now);
    uint64_t have = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
    ns = ns > have ? ns - have : 0;
  }
  *out = core_clock(t->emu) + ns;
  return 0;
}

static int64_t wait_word(CoreThread *t, const Futex *f) {
  uint32_t *w = word(t, f->va);
  uint64_t deadline;
  if (!w) return f->va % 4 ? -EINVAL : -EFAULT;
  int64_t err = deadline_of(t, f, &deadline);
  if (err) return err;
  os_thread(t)->restartable = true;
  if (f->shared) {
    int op = f->absolute ? FUTEX_WAIT_BITSET | (f->clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0) : FUTEX_WAIT;
    return os_blocking(t, SYS_futex, (long[6]){(long)f->va, op, (long)f->value, (long)f->timeout_va, 0, f->mask});
  }
  if (__atomic_load_n(w, __ATOMIC_SEQ_CST) != f->value) return -EAGAIN;
  if (!f->mask) return -EINVAL;
  if (t->emu->n_threads == 1 && deadline == UINT64_MAX) { /* only a signal can end it */
    return os_blocking(t, SYS_futex, (long[6]){(long)f->va, FUTEX_WAIT_PRIVATE, (long)f->value, 0});
  }
  return core_wait(t, f->va, f->mask, deadline);
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

/* FUTEX_WAKE_OP: the operation on the second word, then wakes (include/uapi/linux/futex.h). */
static int64_t wake_op(CoreThread *t, const Futex *f, uint64_t va2, int n, int n2, uint32_t encoded) {
  uint32_t op = encoded >> 28 & 7, cmp = encoded >> 24 & 15, oparg = encoded >> 12 & 0xfff, cmparg = encoded & 0xfff;
  uint32_t *w = word(t, va2);
  if (encoded >> 28 & 8) oparg = 1u << (oparg & 31);
  if (!w || guest_prepare_write(t->emu, t, va2, 4)) return -EFAULT;
  uint32_t old = *w, values[] = {oparg, old + oparg, old | oparg, old & ~oparg, old ^ oparg};
  if (op > 4) return -ENOSYS;
  __atomic_store_n(w, values[op], __ATOMIC_SEQ_CST);
  bool holds[] = {old == cmparg, old != cmparg, (int)old < (int)cmparg, (int)old <= (int)cmparg, (int)old > (int)cmparg, (int)old >= (int)cmparg};
  if (cmp > 5) return -ENOSYS;
  int64_t woken = wake_word(t, f, n);
  if (woken >= 0 && holds[cmp]) {
    Futex second = *f;
    second.va = va2;
    woken += wake_word(t, &second, n2);
  }
  return woken;
}

/* Priority-inheriting locks, without the inheritance: the word holds the owner's id. */
static int64_t lock_pi(CoreThread *t, Futex *f, bool try) {
  for (;;) {
    uint32_t *w = word(t, f->va);
    if (!w || guest_prepare_write(t->emu, t, f->va, 4)) return -EFAULT;
    uint32_t v = *w, owner = v & FUTEX_TID_MASK;
    if (owner == (uint32_t)t->tid) return -EDEADLK;
    if (!owner) {
      *w = (uint32_t)t->tid | (v & (FUTEX_WAITERS | FUTEX_OWNER_DIED));
      return 0;
    }
    if (try) return -EAGAIN;
    if (!core_find_thread(t->emu, (int)owner)) return -ESRCH;
    *w = v | FUTEX_WAITERS;
    uint64_t deadline;
    f->absolute = true;
    f->clock = CLOCK_REALTIME;
    int64_t err = deadline_of(t, f, &deadline);
    if (!err) err = core_wait(t, f->va, ~0u, deadline);
    if (err) return err;
  }
}

static int64_t unlock_pi(CoreThread *t, const Futex *f) {
  uint32_t *w = word(t, f->va);
  if (!w || guest_prepare_write(t->emu, t, f->va, 4)) return -EFAULT;
  if ((*w & FUTEX_TID_MASK) != (uint32_t)t->tid) return -EPERM;
  *w = 0;
  core_wake(t->emu, f->va, ~0u, 1, 0, 0);
  return 0;
}

int64_t os_futex(CoreThread *t, uint64_t a[6]) {
  int op = (int)a[1];
  Futex f = {.va = a[0], .value = (uint32_t)a[2], .mask = ~0u, .clock = op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC};
  f.shared = !(op & FUTEX_PRIVATE_FLAG) && is_shared(t, f.va);
  int n = (int)a[2] < 0 ? INT_MAX : (int)a[2], n2 = (int)a[3] < 0 ? INT_MAX : (int)a[3];
  switch (op & FUTEX_CMD_MASK) {
  case FUTEX_WAIT:
    f.timeout_va = a[3];
    return wait_word(t, &f);
  case FUTEX_WAIT_BITSET:
    f.timeout_va = a[3];
    f.absolute = true;
    f.mask = (uint32_t)a[5];
    return wait_word(t, &f);
  case FUTEX_WAKE: return wake_word(t, &f, n);
  case FUTEX_WAKE_BITSET:
    f.mask = (uint32_t)a[5];
    return wake_word(t, &f, n);
  case FUTEX_CMP_REQUEUE:
    if (!word(t, f.va)) return -EFAULT;
    if (*word(t, f.va) != (uint32_t)a[5]) return -EAGAIN;
    __attribute__((fallthrough));
  case FUTEX_REQUEUE:
    if (!word(t, a[4])) return -EFAULT;
    return core_wake(t->emu, f.va, ~0u, n, a[4], n2);
  case FUTEX_WAKE_OP: return wake_op(t, &f, a[4], n, n2, (uint32_t)a[5]);
  case FUTEX_LOCK_PI:
    f.timeout_va = a[3];
    return lock_pi(t, &f, false);
  case FUTEX_TRYLOCK_PI: return lock_pi(t, &f, true);
  case FUTEX_UNLOCK_PI: return unlock_pi(t, &f);
  default: return -ENOSYS;
  }
}
