/* Identity, limits, and calls that are answered without the host. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "ir/native.h"
#include "os/os.h"

/* Newer than the headers (include/uapi/linux/prctl.h). */
#define OWN_SYSCALL_DISPATCH 59
#define OWN_MDWE             65
#define OWN_GET_AUXV         0x41555856

int64_t os_zero(CoreThread *t, uint64_t a[6]) {
  (void)t;
  (void)a;
  return 0;
}
int64_t os_enosys(CoreThread *t, uint64_t a[6]) { return (void)t, (void)a, -ENOSYS; }
int64_t os_eperm(CoreThread *t, uint64_t a[6]) { return (void)t, (void)a, -EPERM; }
int64_t os_einval(CoreThread *t, uint64_t a[6]) { return (void)t, (void)a, -EINVAL; }
int64_t os_eintr(CoreThread *t, uint64_t a[6]) { return (void)t, (void)a, -EINTR; }

int64_t os_uname(CoreThread *t, uint64_t a[6]) {
  struct utsname u;
  uname(&u);
  memset(u.machine, 0, sizeof u.machine);
  snprintf(u.machine, sizeof u.machine, "%s", t->emu->guest->uname_machine);
  return guest_write(t->emu, t, a[0], &u, sizeof u);
}

int64_t os_getcpu(CoreThread *t, uint64_t a[6]) {
  uint32_t zero = 0; /* one guest thread runs at a time: one processor, for a repeatable run */
  if (a[0] && guest_write(t->emu, t, a[0], &zero, 4)) return -EFAULT;
  if (a[1] && guest_write(t->emu, t, a[1], &zero, 4)) return -EFAULT;
  return 0;
}

int64_t os_prctl(CoreThread *t, uint64_t a[6]) {
  switch ((int)a[0]) {
  case PR_SET_NAME: {
    size_t len;
    if (!guest_string(t->emu, t, a[1], &len)) return -EFAULT;
    break;
  }
  case PR_GET_NAME: {
    int err = guest_prepare_write(t->emu, t, a[1], 16);
    if (err) return err;
    break;
  }
  case PR_GET_PDEATHSIG:
  case PR_GET_CHILD_SUBREAPER: {
    int err = guest_prepare_write(t->emu, t, a[1], 4);
    if (err) return err;
    break;
  }
  /* Filters, and modes of the address space and of the CPU, would be the engine's, too. */
  case PR_SET_SECCOMP:
  case PR_SET_TSC:
  case OWN_SYSCALL_DISPATCH:
  case OWN_MDWE:
  /* These would tell of the engine: its thread pointer's word, its auxiliary vector. */
  case PR_GET_TID_ADDRESS:
  case OWN_GET_AUXV: return -EINVAL;
  case PR_SET_MM: return -EPERM;
  default: break;
  }
  return os_raw(SYS_prctl, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], 0);
}

/* ---- arch_prctl ------------------------------------------------------------------------------ */

/* asm/prctl.h, of which Debian's headers have only the first four */
enum {
  SET_GS = 0x1001,
  SET_FS,
  GET_FS,
  GET_GS,
  GET_CPUID = 0x1011,
  SET_CPUID,
  GET_XCOMP_SUPP = 0x1021,
  GET_XCOMP_PERM,
};
#define TASK_SIZE_MAX ((1ull << 47) - 4096)

/* The bases of fs: and gs:, which are registers of the guest's. */
int64_t os_arch_prctl(CoreThread *t, uint64_t a[6]) {
  const Guest *g = t->emu->guest;
  int code = (int)a[0];
  bool fs = code == SET_FS || code == GET_FS;
  int reg = guest_find_reg(g, fs ? "fs_base" : "gs_base");
  uint64_t value = 0;
  if (reg < 0) return -EINVAL;
  switch (code) {
  case SET_FS:
  case SET_GS:
    if (a[1] >= TASK_SIZE_MAX) return -EPERM;
    guest_set_reg(g, t->state, reg, a[1]);
    return 0;
  case GET_FS:
  case GET_GS: value = guest_reg(g, t->state, reg); break;
  case GET_CPUID: return 1;
  case SET_CPUID: return a[1] ? 0 : -ENODEV;
  case GET_XCOMP_SUPP:
  case GET_XCOMP_PERM: value = ir_xsave_features(); break;
  default: return -EINVAL;
  }
  return guest_write(t->emu, t, a[1], &value, sizeof value);
}

/* ---- limits: the guest's view of descriptors and stack is its own ---------------------------- */

static struct rlimit *own_limit(CoreThread *t, int resource) {
  OsProcess *p = os_process(t->emu);
  return resource == RLIMIT_NOFILE  ? &p->nofile
         : resource == RLIMIT_STACK ? &p->stack
         : resource == RLIMIT_AS    ? &p->space
                                    : NULL;
}

int64_t os_prlimit64(CoreThread *t, uint64_t a[6]) {
  int pid = (int)a[0], resource = (int)a[1];
  struct rlimit *own = pid == 0 || pid == getpid() ? own_limit(t, resource) : NULL, new;
  if (!own) {
    if (a[2] && guest_prepare_read(t->emu, t, a[2], sizeof new)) return -EFAULT;
    if (a[3] && guest_prepare_write(t->emu, t, a[3], sizeof new)) return -EFAULT;
    return os_raw(SYS_prlimit64, pid, resource, (long)a[2], (long)a[3], 0, 0);
  }
  struct rlimit old = *own;
  if (a[2]) {
    if (guest_read(t->emu, t, a[2], &new, sizeof new)) return -EFAULT;
    if (new.rlim_cur > new.rlim_max) return -EINVAL;
    if (new.rlim_max > own->rlim_max && geteuid()) return -EPERM;
    *own = new;
    struct rlimit host;
    getrlimit((__rlimit_resource_t)resource, &host);
    if (resource == RLIMIT_NOFILE &&
        new.rlim_cur > host.rlim_cur) { /* more than the engine needs for itself */
      host.rlim_cur = new.rlim_cur + 64 < host.rlim_max ? new.rlim_cur + 64 : host.rlim_max;
      setrlimit(RLIMIT_NOFILE, &host);
    }
  }
  return a[3] ? guest_write(t->emu, t, a[3], &old, sizeof old) : 0;
}

int64_t os_getrlimit(CoreThread *t, uint64_t a[6]) {
  return a[1] ? os_prlimit64(t, (uint64_t[6]){0, a[0], 0, a[1]}) : -EFAULT;
}
int64_t os_setrlimit(CoreThread *t, uint64_t a[6]) {
  return a[1] ? os_prlimit64(t, (uint64_t[6]){0, a[0], a[1], 0}) : -EFAULT;
}
