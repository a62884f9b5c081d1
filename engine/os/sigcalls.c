/* The system calls about signals. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/signal.h"

typedef struct GuestAction { /* the generic ABI has no restorer */
  uint64_t handler, flags, mask;
} GuestAction;

int64_t os_rt_sigaction(CoreThread *t, uint64_t a[6]) {
  OsProcess *p = os_process(t->emu);
  int signo = (int)a[0];
  bool generic = t->emu->guest->generic_syscalls;
  GuestAction g;
  OsAction new;
  if (a[3] != 8 || signo < 1 || signo >= OS_SIGNALS ||
      (a[1] && (signo == SIGKILL || signo == SIGSTOP)))
    return -EINVAL;
  OsAction old = p->actions[signo];
  if (a[1]) {
    int err =
        guest_read(t->emu, t, a[1], generic ? (void *)&g : &new, generic ? sizeof g : sizeof new);
    if (err) return err;
    if (generic) new = (OsAction){g.handler, g.flags, 0, g.mask};
    new.mask &= ~UNBLOCKABLE;
  }
  if (a[2]) {
    GuestAction o = {old.handler, old.flags, old.mask};
    int err =
        guest_write(t->emu, t, a[2], generic ? (void *)&o : &old, generic ? sizeof o : sizeof old);
    if (err) return err;
  }
  if (a[1]) {
    p->actions[signo] = new;
    os_signal_install(p, signo);
  }
  return 0;
}

int64_t os_rt_sigprocmask(CoreThread *t, uint64_t a[6]) {
  OsThread *o = os_thread(t);
  uint64_t set = 0, old = o->mask;
  if (a[3] != 8) return -EINVAL;
  if (a[1] && guest_read(t->emu, t, a[1], &set, 8)) return -EFAULT;
  if (a[1]) {
    switch ((int)a[0]) {
    case SIG_BLOCK: set |= old; break;
    case SIG_UNBLOCK: set = old & ~set; break;
    case SIG_SETMASK: break;
    default: return -EINVAL;
    }
  }
  if (a[2] && guest_write(t->emu, t, a[2], &old, 8)) return -EFAULT;
  if (a[1]) os_set_mask(t, set);
  return 0;
}

int64_t os_rt_sigpending(CoreThread *t, uint64_t a[6]) {
  OsThread *o = os_thread(t);
  uint64_t set = 0;
  if (a[1] > 8) return -EINVAL;
  os_raw(SYS_rt_sigpending, (long)(uintptr_t)&set, 8, 0, 0, 0, 0);
  set = (set | o->held) & o->mask;
  return guest_write(t->emu, t, a[0], &set, a[1]);
}

/* Waiting calls under another blocked set. A signal that the guest could have had before is
 * delivered before. */
int64_t os_blocking_masked(CoreThread *t, uint64_t mask, long nr, const long args[6]) {
  OsThread *o = os_thread(t);
  uint64_t before = o->mask;
  if (o->pending) return OS_ENOTRUN;
  os_set_mask(t, mask);
  int64_t r = os_blocking(t, nr, args);
  if (o->pending && (r == -EINTR || r == OS_ERESTART || r == OS_ENOTRUN)) {
    o->has_saved_mask = true; /* os_deliver goes on from there */
    o->saved_mask = before;
    return -EINTR;
  }
  if (o->pending &&
      before &
          BIT(o->info.si_signo)) { /* the call succeeded all the same: the signal stays pending */
    os_raw(SYS_rt_tgsigqueueinfo, getpid(), t->host_tid, o->info.si_signo,
           (long)(uintptr_t)&o->info, 0, 0);
    o->pending = false;
  }
  os_set_mask(t, before);
  return r;
}

int64_t os_rt_sigsuspend(CoreThread *t, uint64_t a[6]) {
  uint64_t mask;
  if (a[1] != 8) return -EINVAL;
  if (guest_read(t->emu, t, a[0], &mask, 8)) return -EFAULT;
  return os_blocking_masked(t, mask & ~UNBLOCKABLE, SYS_pause, (long[6]){0});
}

int64_t os_pause(CoreThread *t, uint64_t a[6]) {
  (void)a;
  return os_blocking(t, SYS_pause, (long[6]){0});
}

int64_t os_rt_sigtimedwait(CoreThread *t, uint64_t a[6]) {
  OsThread *o = os_thread(t);
  uint64_t set;
  if (a[3] != 8) return -EINVAL;
  if (guest_read(t->emu, t, a[0], &set, 8)) return -EFAULT;
  if (a[1] && guest_prepare_write(t->emu, t, a[1], 128)) return -EFAULT;
  if (a[2] && guest_prepare_read(t->emu, t, a[2], 16)) return -EFAULT;
  if (o->held & set) {
    int signo = __builtin_ctzll(o->held & set) + 1;
    o->held &= ~BIT(signo);
    return a[1] && guest_write(t->emu, t, a[1], &o->held_info[os_held_slot(signo)], 128) ? -EFAULT
                                                                                         : signo;
  }
  set &= ~NEVER_BLOCKED;
  int64_t r = os_blocking(t, SYS_rt_sigtimedwait,
                          (long[6]){(long)(uintptr_t)&set, (long)a[1], (long)a[2], 8});
  return r == OS_ERESTART ? -EINTR : r;
}

int64_t os_sigaltstack(CoreThread *t, uint64_t a[6]) {
  struct {
    uint64_t sp;
    uint32_t flags, pad;
    uint64_t size;
  } new, old;
  OsThread *o = os_thread(t);
  const Guest *g = t->emu->guest;
  bool on = os_on_altstack(o, guest_reg(g, t->state, g->abi.sp));
  if (a[0] && guest_read(t->emu, t, a[0], &new, sizeof new)) return -EFAULT;
  if (a[1]) {
    old.sp = o->alt_sp;
    old.flags = (o->alt_size ? on ? SS_ONSTACK : 0 : SS_DISABLE) |
                (o->alt_flags & (uint32_t)SS_AUTODISARM_FLAG);
    old.pad = 0;
    old.size = o->alt_size;
    if (guest_write(t->emu, t, a[1], &old, sizeof old)) return -EFAULT;
  }
  if (!a[0]) return 0;
  if (on) return -EPERM;
  uint32_t mode = new.flags & ~(uint32_t)SS_AUTODISARM_FLAG;
  if (mode != SS_DISABLE && mode != 0 && mode != SS_ONSTACK) return -EINVAL;
  if (mode == SS_DISABLE) {
    new.sp = new.size = 0;
  } else if (new.size < 2048) {
    return -ENOMEM; /* MINSIGSTKSZ of the generic ABI */
  }
  o->alt_sp = new.sp;
  o->alt_size = new.size;
  o->alt_flags = new.flags; /* as given, SS_ONSTACK too (kernel: do_sigaltstack) */
  return 0;
}

int64_t os_signalfd4(CoreThread *t, uint64_t a[6]) {
  if (a[2] != 8) return -EINVAL;
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  if (guest_prepare_read(t->emu, t, a[1], 8)) return -EFAULT;
  return os_raw(SYS_signalfd4, (int)a[0], (long)a[1], 8,
                os_thread(t)->row->n_args > 3 ? (long)a[3] : 0, 0, 0);
}

/* ---- sending ----------------------------------------------------------------------------- */

int64_t os_kill(CoreThread *t, uint64_t a[6]) {
  (void)t;
  return os_raw(SYS_kill, (int)a[0], (int)a[1], 0, 0, 0, 0);
}

int64_t os_tkill(CoreThread *t, uint64_t a[6]) {
  if ((int)a[0] <= 0) return -EINVAL;
  return os_raw(SYS_tkill, os_host_tid(t->emu, (int)a[0]), (int)a[1], 0, 0, 0, 0);
}

int64_t os_tgkill(CoreThread *t, uint64_t a[6]) {
  if ((int)a[0] <= 0 || (int)a[1] <= 0) return -EINVAL;
  int tid = (int)a[0] == getpid() ? os_host_tid(t->emu, (int)a[1]) : (int)a[1];
  return os_raw(SYS_tgkill, (int)a[0], tid, (int)a[2], 0, 0, 0);
}

int64_t os_rt_tgsigqueueinfo(CoreThread *t, uint64_t a[6]) {
  if (guest_prepare_read(t->emu, t, a[3], 128)) return -EFAULT;
  int tid = (int)a[0] == getpid() ? os_host_tid(t->emu, (int)a[1]) : (int)a[1];
  return os_raw(SYS_rt_tgsigqueueinfo, (int)a[0], tid, (int)a[2], (long)a[3], 0, 0);
}

/* SIGEV_THREAD_ID names a guest thread. */
int64_t os_timer_create(CoreThread *t, uint64_t a[6]) {
  uint8_t sev[64];
  int id;
  if (a[1] && guest_read(t->emu, t, a[1], sev, sizeof sev)) return -EFAULT;
  if (guest_prepare_write(t->emu, t, a[2], 4)) return -EFAULT;
  if (a[1]) {
    int32_t notify, tid;
    memcpy(&notify, sev + 12, 4);
    memcpy(&tid, sev + 16, 4);
    if (notify == SIGEV_THREAD_ID) tid = os_host_tid(t->emu, tid);
    memcpy(sev + 16, &tid, 4);
  }
  int64_t r = os_raw(SYS_timer_create, (long)a[0], a[1] ? (long)(uintptr_t)sev : 0,
                     (long)(uintptr_t)&id, 0, 0, 0);
  if (r) return r;
  os_timer_made(id);
  return guest_write(t->emu, t, a[2], &id, 4);
}
