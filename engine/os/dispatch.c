/* The one door for system calls: hooks, the row's handler, the result; and the generic passing of a
 * call to the host. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <limits.h>

#include "os/os.h"

#define MAX_IOV 1024

int64_t os_raw(long nr, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long ret;
  __asm__ volatile("syscall"
                   : "=a"(ret)
                   : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return ret;
}

/* ---- passing a call on ----------------------------------------------------------------------- */

static int check_fd(CoreThread *t, uint64_t fd) {
  return os_is_engine_fd(t->emu, (int)fd) ? -EBADF : 0;
}

/* An optional object that the call reads or writes. */
static int check_in(CoreThread *t, uint64_t va, uint64_t n) {
  return va && n ? guest_prepare_read(t->emu, t, va, n) : 0;
}
static int check_out(CoreThread *t, uint64_t va, uint64_t n) {
  return va && n ? guest_prepare_write(t->emu, t, va, n) : 0;
}

/* A buffer of which only the first part may be there: the kernel copies as far as it gets, so what
 * is there is prepared, and the rest is the kernel's to find missing (the host has no page where
 * the guest has none). */
static int check_buffer(CoreThread *t, uint64_t va, uint64_t n, bool write) {
  int prot = write ? PROT_WRITE : PROT_READ;
  if (!va || !n) return 0;
  if (va >= CORE_LINE || n > CORE_LINE - va) return -EFAULT;
  uint64_t there = n;
  if (!emu_addr_space_ptr(t->emu, va, n, prot)) {
    uint64_t end = va;
    while (end < va + n && emu_addr_space_ptr(t->emu, end, 1, prot))
      end = core_area(t->emu, end)->end;
    there = end > va + n ? n : end - va;
  }
  return there ? (write ? guest_prepare_write : guest_prepare_read)(t->emu, t, va, there) : 0;
}

static int check_iov(CoreThread *t, uint64_t va, uint64_t n, bool write) {
  if (n > MAX_IOV) return -EINVAL;
  if (n && !va) return -EFAULT;
  int err = check_in(t, va, n * sizeof(struct iovec));
  for (uint64_t i = 0; !err && i < n; i++) {
    struct iovec piece;
    memcpy(&piece, (const void *)(uintptr_t)(va + i * sizeof piece), sizeof piece);
    err = check_buffer(t, (uint64_t)(uintptr_t)piece.iov_base, piece.iov_len, write);
  }
  return err;
}

/* Descriptors that are sent to another process: not the engine's. */
static int check_rights(CoreThread *t, const struct msghdr *m) {
  const char *at = m->msg_control;
  size_t left = at ? m->msg_controllen : 0;
  while (left >= sizeof(struct cmsghdr)) {
    struct cmsghdr c;
    memcpy(&c, at, sizeof c);
    if (c.cmsg_len < sizeof c || c.cmsg_len > left) break; /* the kernel refuses it */
    bool rights = c.cmsg_level == SOL_SOCKET && c.cmsg_type == SCM_RIGHTS;
    for (size_t i = sizeof c; rights && i + 4 <= c.cmsg_len; i += 4) {
      int fd;
      memcpy(&fd, at + i, sizeof fd);
      if (os_is_engine_fd(t->emu, fd)) return -EBADF;
    }
    size_t step = CMSG_ALIGN(c.cmsg_len);
    if (step > left) break;
    at += step;
    left -= step;
  }
  return 0;
}

static int check_msghdr(CoreThread *t, uint64_t va, bool write) {
  int (*check)(CoreThread *, uint64_t, uint64_t) = write ? check_out : check_in;
  struct msghdr m;
  int err = va ? check(t, va, sizeof m) : -EFAULT;
  if (err) return err;
  memcpy(&m, (const void *)(uintptr_t)va, sizeof m);
  err = check_iov(t, (uint64_t)(uintptr_t)m.msg_iov, m.msg_iovlen, write);
  if (!err) err = check(t, (uint64_t)(uintptr_t)m.msg_name, m.msg_namelen);
  if (!err) err = check(t, (uint64_t)(uintptr_t)m.msg_control, m.msg_controllen);
  return err || write ? err : check_rights(t, &m);
}

/* *n ends before the first message that cannot be used, as the kernel does. */
static int check_messages(CoreThread *t, uint64_t va, uint64_t *n, bool write) {
  *n = (uint32_t)*n;
  if (*n > MAX_IOV) *n = MAX_IOV; /* as many as the kernel looks at (UIO_MAXIOV) */
  for (uint64_t i = 0; i < *n; i++) {
    int err = check_out(t, va + i * sizeof(struct mmsghdr), sizeof(struct mmsghdr));
    if (!err) err = check_msghdr(t, va + i * sizeof(struct mmsghdr), write);
    if (err && !i) return err;
    if (err) *n = i;
  }
  return 0;
}

/* Length of a buffer argument; what the kernel would refuse anyway is left to it. */
static uint64_t buffer_len(const OsRow *row, int i, const uint64_t a[6], bool indirect) {
  int len = row->arg[i].len;
  if (len == -2)
    len = i + 1; /* the result says how much; the argument behind says how much at most */
  uint64_t n = len >= 0 ? a[len] : 0;
  if (!indirect) return n > INT_MAX ? INT_MAX : n;
  if (!n) return 0;
  uint32_t size; /* checked: it is an inout argument; guests may not align what they point to */
  memcpy(&size, (const void *)(uintptr_t)n, sizeof size);
  return size;
}

typedef char PathBuf[PATH_MAX + 64];

static int check_path(CoreThread *t, uint64_t *arg, char *buf, size_t size, bool translate) {
  size_t len;
  const char *s = guest_string(t->emu, t, *arg, &len);
  if (!s) return -EFAULT;
  if (translate) {
    if (os_proc_hidden(t, s)) return -ENOENT;
    *arg = (uint64_t)(uintptr_t)os_host_path(t->emu, s, buf, size);
  }
  return 0;
}

static int check_arg(CoreThread *t, const OsRow *row, int i, uint64_t h[6], const uint64_t a[6],
                     PathBuf buf) {
  uint64_t v = a[i], n;
  switch ((OsKind)row->arg[i].kind) {
  case OSK_fd:
  case OSK_dirfd: return check_fd(t, v);
  case OSK_tid: h[i] = (uint64_t)os_host_tid(t->emu, (int)v); return 0;
  case OSK_pathnull:
    if (!v) return 0;
    __attribute__((fallthrough));
  case OSK_path: return check_path(t, &h[i], buf, sizeof(PathBuf), true);
  case OSK_str: return check_path(t, &h[i], buf, sizeof(PathBuf), false);
  case OSK_in: return check_buffer(t, v, buffer_len(row, i, a, false), false);
  case OSK_sai: return check_in(t, v, buffer_len(row, i, a, false));
  case OSK_out:
  case OSK_outstr: {
    n = buffer_len(row, i, a, false);
    return check_buffer(t, v, n, true); /* whether it may be NULL is the kernel's to say */
  }
  case OSK_inout: return check_out(t, v, row->arg[i].size);
  case OSK_sao:
  case OSK_outp: /* its length argument comes later but must be readable now */
    if (v && row->arg[i].len >= 0 && check_in(t, a[row->arg[i].len], 4)) return -EFAULT;
    return v ? check_out(t, v, buffer_len(row, i, a, true)) : 0;
  case OSK_sin: return check_in(t, v, row->arg[i].size);
  case OSK_sout: return check_out(t, v, row->arg[i].size);
  case OSK_sigsetout: return check_out(t, v, 8);
  case OSK_iovi: return check_iov(t, v, a[row->arg[i].len], false);
  case OSK_iovo: return check_iov(t, v, a[row->arg[i].len], true);
  case OSK_msghdri: return check_msghdr(t, v, false);
  case OSK_msghdro: return check_msghdr(t, v, true);
  case OSK_mmsghdri: return check_messages(t, v, &h[row->arg[i].len], false);
  case OSK_mmsghdro: return check_messages(t, v, &h[row->arg[i].len], true);
  case OSK_ptr: return v >= CORE_LINE ? -EFAULT : 0;
  case OSK_ptrout: return v ? check_out(t, v, 1) : 0;
  default: return 0;
  }
}

static int check_args(CoreThread *t, const OsRow *row, uint64_t h[6], const uint64_t a[6],
                      PathBuf bufs[2]) {
  int paths = 0, err = 0;
  for (int i = 0; i < row->n_args && !err; i++) {
    bool is_path = row->arg[i].kind == OSK_path || row->arg[i].kind == OSK_pathnull;
    err = check_arg(t, row, i, h, a, bufs[paths]);
    if (is_path && paths < 1) paths++;
  }
  return err;
}

static int64_t pass(CoreThread *t, const uint64_t a[6], bool blocking) {
  const OsRow *row = os_thread(t)->row;
  uint64_t h[6];
  PathBuf bufs[2];
  memcpy(h, a, sizeof h);
  int err = check_args(t, row, h, a, bufs);
  if (err) return err;
  if (row->nr_x64 < 0) return -ENOSYS;
  long args[6];
  for (int i = 0; i < 6; i++) args[i] = (long)h[i];
  return blocking ? os_blocking(t, row->nr_x64, args)
                  : os_raw(row->nr_x64, args[0], args[1], args[2], args[3], args[4], args[5]);
}

int64_t os_pass(CoreThread *t, uint64_t a[6]) { return pass(t, a, false); }

/* Regular files do not block for long: giving the baton up for them would make the order of threads
 * depend on the disk. */
static bool may_block(CoreThread *t, const OsRow *row, const uint64_t a[6]) {
  struct stat st;
  if (t->emu->n_threads == 1 || row->arg[0].kind != OSK_fd) return true;
  return fstat((int)a[0], &st) || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

int64_t os_pass_blocking(CoreThread *t, uint64_t a[6]) {
  return pass(t, a, may_block(t, os_thread(t)->row, a));
}

int64_t os_unknown(CoreThread *t, uint64_t a[6]) {
  OsProcess *p = os_process(t->emu);
  const OsRow *row = os_thread(t)->row;
  int nr = row->info.nr;
  (void)a;
  if (!p->warned[nr])
    fprintf(stderr, "kitlua: system call %s (%d) is not supported: the program gets ENOSYS\n",
            row->name, nr);
  p->warned[nr] = true;
  return -ENOSYS;
}

/* ---- the door -------------------------------------------------------------------------------- */

/* Guest memory that the map has may still not be there: a page behind the end of its file. The
 * kernel would give EFAULT, and so do we, wherever the handler was. */
static int64_t protected_call(CoreThread *t, OsHandler *handler, uint64_t args[6]) {
  sigjmp_buf here;
  OsThread *o = os_thread(t);
  if (sigsetjmp(here, 0)) {
    o->escape = NULL;
    return -EFAULT;
  }
  o->escape = &here;
  int64_t result = handler(t, args);
  o->escape = NULL;
  return result;
}

void os_fault_in_call(CoreThread *t, uint64_t address) {
  if (!t || !os_thread(t) || !os_thread(t)->escape || address >= CORE_LINE) return;
  siglongjmp(*os_thread(t)->escape, 1);
}

static int64_t call_row(CoreThread *t, OsRow *row, int nr, uint64_t args[6]) {
  OsProcess *p = os_process(t->emu);
  OsThread *o = os_thread(t);
  if (!row) {
    size_t last = sizeof p->warned - 1, which = nr >= 0 && (size_t)nr < last
                                                    ? (size_t)nr
                                                    : last; /* those far off share one warning */
    if (!p->warned[which])
      fprintf(stderr, "kitlua: there is no system call %d on %s: the program gets ENOSYS\n", nr,
              t->emu->guest->name);
    p->warned[which] = true;
    return -ENOSYS;
  }
  o->row = row;
  return protected_call(t, row->handler, args);
}

static OsAgain again(int64_t result) {
  return result == -EINTR        ? OS_AGAIN_UNHANDLED
         : result == OS_ERESTART ? OS_AGAIN_IF_ASKED
         : result == OS_ENOTRUN  ? OS_AGAIN_ALWAYS
                                 : OS_DONE;
}

/* A hook of the call's entry stops the guest: there, before the call is made, so that going on
 * makes it, once. False: it is not to be made, as the guest is somewhere else now, or ends. */
static bool stop_before_call(CoreThread *t, uint64_t pc) {
  Emu *emu = t->emu;
  IrState *s = t->state;
  uint64_t next = s->pc;
  KitStop stop = emu->stop;
  t->stop_asked = false;
  s->stop = 0;
  s->pc = stop.pc = pc;
  core_stop(t, &stop);
  bool moved = s->pc != pc;
  if (!moved) s->pc = next;
  s->interrupt = os_thread(t)->pending || emu->interrupt_asked || emu->kill_asked;
  return !moved && !emu->kill_asked;
}

void os_syscall(CoreThread *t) {
  Emu *emu = t->emu;
  const Guest *g = emu->guest;
  IrState *s = t->state;
  OsThread *o = os_thread(t);
  int nr = (int)guest_reg(g, s, g->abi.syscall_nr);
  OsRow *row = os_row(emu, nr);
  KitEvent ev = {.kind = KIT_EV_SYSCALL,
                 .tid = t->tid,
                 .pc = s->pc - g->abi.syscall_insn_size,
                 .syscall = {.nr = nr, .name = row ? row->name : ""}};
  for (int i = 0; i < 6; i++) ev.syscall.args[i] = guest_reg(g, s, g->abi.syscall_args[i]);
  o->call_pc = ev.pc;
  o->call_ret = guest_reg(g, s, g->abi.syscall_ret);
  o->again = OS_DONE;
  bool watched = core_hooks_want(emu, KIT_EV_SIGNAL);
  if (watched != os_process(emu)->signals_watched) os_watch_signals(emu, watched);
  if (!o->rewound) o->deadline = 0;
  o->rewound = false;
  int verdict = core_hooks_want(emu, KIT_EV_SYSCALL) ? core_raise(t, &ev) : 0;
  bool replaced = verdict & (KIT_DENY | KIT_REPLACE);
  if (verdict & KIT_STOP && t->stop_asked && !os_process(emu)->vfork_child &&
      !stop_before_call(t, ev.pc))
    return;
  uint64_t args[6]; /* read again: a hook may have changed the registers */
  for (int i = 0; i < 6; i++) args[i] = guest_reg(g, s, g->abi.syscall_args[i]);
  int64_t result = replaced ? ev.syscall.result : call_row(t, row, nr, args);
  if (o->no_result) /* rt_sigreturn: the registers are the ones it restored */
    result = (int64_t)guest_reg(g, s, g->abi.syscall_ret);
  else if (!replaced)
    o->again = again(result);
  o->no_result = false;
  if (o->again) result = -EINTR;
  if (core_hooks_want(emu, KIT_EV_SYSRET)) {
    ev.kind = KIT_EV_SYSRET;
    ev.syscall.result = result;
    ev.syscall.replaced = false;
    ev.syscall.restarted = o->again > OS_AGAIN_UNHANDLED;
    if (core_raise(t, &ev) & KIT_REPLACE) {
      result = ev.syscall.result;
      o->again = OS_DONE;
    }
  }
  guest_set_reg(g, s, g->abi.syscall_ret, (uint64_t)result);
  if (o->again) s->interrupt = 1; /* os_deliver decides whether it is made again */
}
