/* Files: opening, status, links, directories; and descriptors, among which the engine's own are
 * hidden. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

/* ---- engine descriptors ---------------------------------------------------------------------- */

bool os_is_engine_fd(const Emu *emu, int fd) {
  const OsProcess *p = emu->os_data;
  for (uint32_t i = 0; i < p->n_engine_fds; i++)
    if (p->engine_fds[i] == fd) return fcntl(fd, F_GETFD) >= 0;
  return false;
}

/* Moves fd above the guest's limit, close-on-exec; the old number is free again. */
int kit_shield_fd(KitEmu *emu, int fd) {
  OsProcess *p = emu->os_data;
  struct rlimit lim;
  getrlimit(RLIMIT_NOFILE, &lim);
  rlim_t want = p->nofile.rlim_cur + 64;
  if (lim.rlim_cur < want && lim.rlim_max >= want) {
    lim.rlim_cur = want;
    setrlimit(RLIMIT_NOFILE, &lim);
  }
  int high =
      fcntl(fd, F_DUPFD_CLOEXEC,
            p->nofile.rlim_cur < lim.rlim_cur ? (int)p->nofile.rlim_cur : (int)lim.rlim_cur - 64);
  if (high < 0) high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
  if (high < 0) return -1;
  close(fd);
  kit_hide_fd(emu, high);
  return high;
}

void kit_hide_fd(KitEmu *emu, int fd) {
  OsProcess *p = emu->os_data;
  uint32_t i = 0;
  while (i < p->n_engine_fds && fcntl(p->engine_fds[i], F_GETFD) >= 0 && p->engine_fds[i] != fd)
    i++; /* reuse a closed one's place */
  if (i == sizeof p->engine_fds / sizeof *p->engine_fds) return;
  p->engine_fds[i] = fd;
  if (i == p->n_engine_fds) p->n_engine_fds++;
}

/* A new descriptor at or above the guest's limit does not exist for it. */
static int64_t within_limit(CoreThread *t, int64_t fd) {
  const OsProcess *p = os_process(t->emu);
  if (fd < 0 || (rlim_t)fd < p->nofile.rlim_cur) return fd;
  close((int)fd);
  return -EMFILE;
}

int64_t os_new_fd(CoreThread *t, uint64_t a[6]) { return within_limit(t, os_pass(t, a)); }
int64_t os_new_fd_blocking(CoreThread *t, uint64_t a[6]) {
  return within_limit(t, os_pass_blocking(t, a));
}

/* ---- open, links ----------------------------------------------------------------------------- */

static const char *path_arg(CoreThread *t, uint64_t va) {
  size_t len;
  return guest_string(t->emu, t, va, &len);
}

static int64_t open_at(CoreThread *t, uint64_t dirfd, uint64_t path_va, uint64_t flags,
                       uint64_t mode) {
  char buf[PATH_MAX + 64];
  const char *path = path_arg(t, path_va);
  if (!path) return -EFAULT;
  if (os_is_engine_fd(t->emu, (int)dirfd)) return -EBADF;
  int made = os_proc_open(t, path, (int)flags);
  if (made != -1) return made < -1 ? made : within_limit(t, made);
  const char *host = os_host_path(t->emu, path, buf, sizeof buf);
  long args[6] = {(long)dirfd, (long)(uintptr_t)host, (long)flags, (long)mode};
  struct stat st;
  bool fifo = !fstatat((int)dirfd, host, &st, 0) &&
              S_ISFIFO(st.st_mode); /* opening waits for the other end */
  return within_limit(t, fifo ? os_blocking(t, SYS_openat, args)
                              : os_raw(SYS_openat, args[0], args[1], args[2], args[3], 0, 0));
}

int64_t os_openat(CoreThread *t, uint64_t a[6]) { return open_at(t, a[0], a[1], a[2], a[3]); }
int64_t os_open(CoreThread *t, uint64_t a[6]) {
  return open_at(t, (uint64_t)AT_FDCWD, a[0], a[1], a[2]);
}
int64_t os_creat(CoreThread *t, uint64_t a[6]) {
  return open_at(t, (uint64_t)AT_FDCWD, a[0], O_CREAT | O_WRONLY | O_TRUNC, a[1]);
}

typedef struct OpenHow {
  uint64_t flags, mode, resolve;
} OpenHow;

/* Beyond openat, there are limits on how the path is followed; a struct longer than ours must have
 * nothing in the rest. */
int64_t os_openat2(CoreThread *t, uint64_t a[6]) {
  OpenHow how = {0};
  char buf[PATH_MAX + 64], rest[64];
  if (a[3] < sizeof how) return -EINVAL;
  if (a[3] > sizeof how + sizeof rest) return -E2BIG;
  if (guest_read(t->emu, t, a[2], &how, sizeof how) ||
      guest_read(t->emu, t, a[2] + sizeof how, rest, a[3] - sizeof how))
    return -EFAULT;
  for (size_t i = 0; i < a[3] - sizeof how; i++)
    if (rest[i]) return -E2BIG;
  if (!how.resolve) return open_at(t, a[0], a[1], how.flags, how.mode);
  const char *path = path_arg(t, a[1]);
  if (!path) return -EFAULT;
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  const char *host = os_host_path(t->emu, path, buf, sizeof buf);
  return within_limit(t, os_raw(SYS_openat2, (long)a[0], (long)(uintptr_t)host,
                                (long)(uintptr_t)&how, sizeof how, 0, 0));
}

static int64_t read_link(CoreThread *t, uint64_t dirfd, uint64_t path_va, uint64_t out,
                         uint64_t size) {
  char buf[PATH_MAX + 64];
  const char *path = path_arg(t, path_va);
  if (!path) return -EFAULT;
  if ((int)size <= 0) return -EINVAL;
  if (os_is_engine_fd(t->emu, (int)dirfd)) return -EBADF;
  if (os_proc_hidden(t, path)) return -ENOENT;
  const char *exe = os_proc_exe(t, path);
  if (exe) {
    size_t n = strlen(exe) < size ? strlen(exe) : size;
    int err = guest_write(t->emu, t, out, exe, n);
    return err ? err : (int64_t)n;
  }
  int err = guest_prepare_write(t->emu, t, out, size);
  return err ? err
             : os_raw(SYS_readlinkat, (long)dirfd,
                      (long)(uintptr_t)os_host_path(t->emu, path, buf, sizeof buf), (long)out,
                      (long)size, 0, 0);
}

int64_t os_readlinkat(CoreThread *t, uint64_t a[6]) { return read_link(t, a[0], a[1], a[2], a[3]); }
int64_t os_readlink(CoreThread *t, uint64_t a[6]) {
  return read_link(t, (uint64_t)AT_FDCWD, a[0], a[1], a[2]);
}

/* ---- stat: the generic layout differs from x86-64's ------------------------------------------ */

typedef struct GenericStat { /* include/uapi/asm-generic/stat.h */
  uint64_t dev, ino;
  uint32_t mode, nlink, uid, gid;
  uint64_t rdev, pad1;
  int64_t size;
  int32_t blksize, pad2;
  int64_t blocks, atime;
  uint64_t atime_nsec;
  int64_t mtime;
  uint64_t mtime_nsec;
  int64_t ctime;
  uint64_t ctime_nsec;
  uint32_t unused[2];
} GenericStat;
_Static_assert(sizeof(GenericStat) == 128, "kernel's layout");

static int64_t write_stat(CoreThread *t, uint64_t va, const struct stat *st) {
  GenericStat g = {.dev = st->st_dev,
                   .ino = st->st_ino,
                   .mode = st->st_mode,
                   .nlink = (uint32_t)st->st_nlink,
                   .uid = st->st_uid,
                   .gid = st->st_gid,
                   .rdev = st->st_rdev,
                   .size = st->st_size,
                   .blksize = (int32_t)st->st_blksize,
                   .blocks = st->st_blocks,
                   .atime = st->st_atim.tv_sec,
                   .atime_nsec = (uint64_t)st->st_atim.tv_nsec,
                   .mtime = st->st_mtim.tv_sec,
                   .mtime_nsec = (uint64_t)st->st_mtim.tv_nsec,
                   .ctime = st->st_ctim.tv_sec,
                   .ctime_nsec = (uint64_t)st->st_ctim.tv_nsec};
  if (t->emu->guest->generic_syscalls) return guest_write(t->emu, t, va, &g, sizeof g);
  return guest_write(t->emu, t, va, st, sizeof *st);
}

static int64_t stat_at(CoreThread *t, uint64_t dirfd, uint64_t path_va, uint64_t out, int flags) {
  char buf[PATH_MAX + 64];
  struct stat st;
  const char *path = path_arg(t, path_va);
  if (!path) return -EFAULT;
  if (os_is_engine_fd(t->emu, (int)dirfd)) return -EBADF;
  if (os_proc_hidden(t, path)) return -ENOENT;
  const char *exe = flags & AT_SYMLINK_NOFOLLOW ? NULL : os_proc_exe(t, path);
  if (fstatat((int)dirfd, exe ? exe : os_host_path(t->emu, path, buf, sizeof buf), &st, flags))
    return -errno;
  return write_stat(t, out, &st);
}

int64_t os_statx(CoreThread *t, uint64_t a[6]) {
  char buf[PATH_MAX + 64];
  const char *path = path_arg(t, a[1]);
  if (!path) return -EFAULT;
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  if (os_proc_hidden(t, path)) return -ENOENT;
  if (guest_prepare_write(t->emu, t, a[4], sizeof(struct statx))) return -EFAULT;
  const char *exe = a[2] & AT_SYMLINK_NOFOLLOW ? NULL : os_proc_exe(t, path);
  const char *host = exe ? exe : os_host_path(t->emu, path, buf, sizeof buf);
  return os_raw(SYS_statx, (long)a[0], (long)(uintptr_t)host, (long)a[2], (long)a[3], (long)a[4],
                0);
}

int64_t os_newfstatat(CoreThread *t, uint64_t a[6]) {
  return stat_at(t, a[0], a[1], a[2], (int)a[3]);
}
int64_t os_stat(CoreThread *t, uint64_t a[6]) {
  return stat_at(t, (uint64_t)AT_FDCWD, a[0], a[1], 0);
}
int64_t os_lstat(CoreThread *t, uint64_t a[6]) {
  return stat_at(t, (uint64_t)AT_FDCWD, a[0], a[1], AT_SYMLINK_NOFOLLOW);
}

int64_t os_fstat(CoreThread *t, uint64_t a[6]) {
  struct stat st;
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  if (fstat((int)a[0], &st)) return -errno;
  return write_stat(t, a[1], &st);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

int64_t os_close(CoreThread *t, uint64_t a[6]) {
  return os_is_engine_fd(t->emu, (int)a[0]) ? -EBADF : os_raw(SYS_close, (long)a[0], 0, 0, 0, 0, 0);
}

int64_t os_close_range(CoreThread *t, uint64_t a[6]) {
  uint64_t first = (uint32_t)a[0], last = (uint32_t)a[1];
  if (first > last) return -EINVAL;
  /* Around each engine descriptor, in ascending order. */
  while (first <= last) {
    uint64_t stop = last + 1;
    for (uint32_t i = 0; i < os_process(t->emu)->n_engine_fds; i++) {
      uint64_t fd = (uint64_t)os_process(t->emu)->engine_fds[i];
      if (fd >= first && fd < stop && os_is_engine_fd(t->emu, (int)fd)) stop = fd;
    }
    if (stop > first) {
      int64_t r = os_raw(SYS_close_range, (long)first, (long)(stop - 1), (long)a[2], 0, 0, 0);
      if (r < 0) return r;
    }
    first = stop + 1;
  }
  return 0;
}

int64_t os_dup3(CoreThread *t, uint64_t a[6]) {
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  if (os_is_engine_fd(t->emu, (int)a[1]) ||
      (rlim_t)(uint32_t)a[1] >= os_process(t->emu)->nofile.rlim_cur)
    return -EBADF;
  return os_raw(SYS_dup3, (long)a[0], (long)a[1], (long)a[2], 0, 0, 0);
}

int64_t os_dup2(CoreThread *t, uint64_t a[6]) {
  if (a[0] == a[1])
    return fcntl((int)a[0], F_GETFD) < 0 || os_is_engine_fd(t->emu, (int)a[0]) ? -EBADF
                                                                               : (int64_t)a[0];
  return os_dup3(t, (uint64_t[6]){a[0], a[1], 0});
}

int64_t os_fcntl(CoreThread *t, uint64_t a[6]) {
  int cmd = (int)a[1];
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  bool dup = cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC;
  if (dup && (uint32_t)a[2] >= os_process(t->emu)->nofile.rlim_cur) return -EINVAL;
  bool lock = cmd == F_GETLK || cmd == F_SETLK || cmd == F_SETLKW || cmd == F_OFD_GETLK ||
              cmd == F_OFD_SETLK || cmd == F_OFD_SETLKW;
  if (lock) {
    int err = guest_prepare_write(t->emu, t, a[2], sizeof(struct flock));
    if (err) return err;
  } else if (cmd == F_GETOWN_EX || cmd == F_SETOWN_EX) {
    int err = guest_prepare_write(t->emu, t, a[2], 8);
    if (err) return err;
  }
  long args[6] = {(long)a[0], cmd, (long)a[2]};
  int64_t r = cmd == F_SETLKW || cmd == F_OFD_SETLKW
                  ? os_blocking(t, SYS_fcntl, args)
                  : os_raw(SYS_fcntl, args[0], args[1], args[2], 0, 0, 0);
  return dup ? within_limit(t, r) : r;
}

/* The argument of an ioctl is a pointer to _IOC_SIZE bytes for the new style of numbers; terminals
 * have an older one. */
static uint64_t ioctl_size(unsigned long cmd, bool *writes) {
  *writes = true;
  switch (cmd) {
  case 0x5401: return 36; /* TCGETS: struct termios of the kernel */
  case 0x5402:
  case 0x5403:
  case 0x5404: *writes = false; return 36;
  case 0x5413: return 8; /* TIOCGWINSZ */
  case 0x5414: *writes = false; return 8;
  case 0x540f:
  case 0x541b:
  case 0x5411:
  case 0x5429: return 4; /* TIOCGPGRP FIONREAD TIOCOUTQ TIOCGSID */
  case 0x5410:
  case 0x5421: *writes = false; return 4; /* TIOCSPGRP FIONBIO */
  default: break;
  }
  if (_IOC_DIR(cmd) == _IOC_NONE) return 0;
  *writes = _IOC_DIR(cmd) & _IOC_READ;
  return _IOC_SIZE(cmd);
}

int64_t os_ioctl(CoreThread *t, uint64_t a[6]) {
  bool writes;
  uint64_t n = ioctl_size((uint32_t)a[1], &writes);
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  int err = n ? (writes ? guest_prepare_write : guest_prepare_read)(t->emu, t, a[2], n) : 0;
  if (err && a[2] >= CORE_LINE) return err;
  return os_raw(SYS_ioctl, (long)a[0], (long)(uint32_t)a[1], (long)a[2], 0, 0, 0);
}

static int64_t make_pair(CoreThread *t, uint64_t out, int fds[2]) {
  if (within_limit(t, fds[0]) >= 0 && within_limit(t, fds[1]) >= 0 &&
      !guest_write(t->emu, t, out, fds, 8))
    return 0;
  bool limit = (rlim_t)fds[1] >= os_process(t->emu)->nofile.rlim_cur;
  close(fds[0]);
  close(fds[1]);
  return limit ? -EMFILE : -EFAULT;
}

int64_t os_pipe2(CoreThread *t, uint64_t a[6]) {
  int fds[2];
  return pipe2(fds, (int)a[1]) ? -errno : make_pair(t, a[0], fds);
}
int64_t os_pipe(CoreThread *t, uint64_t a[6]) { return os_pipe2(t, (uint64_t[6]){a[0], 0}); }

int64_t os_socketpair(CoreThread *t, uint64_t a[6]) {
  int fds[2];
  int64_t r =
      os_raw(SYS_socketpair, (long)a[0], (long)a[1], (long)a[2], (long)(uintptr_t)fds, 0, 0);
  return r ? r : make_pair(t, a[3], fds);
}

/* What /proc/<us>/fd and task do not show: the engine's descriptors, and the threads of the host
 * that are no guest thread under that number. */
static bool hidden_fd(CoreThread *t, int fd) { return os_is_engine_fd(t->emu, fd); }
static bool hidden_task(CoreThread *t, int tid) {
  return tid != getpid() && !core_find_thread(t->emu, tid);
}

/* The older call's entries have the name where the newer one's have the type. */
static int64_t hide_entries(CoreThread *t, char *buf, int64_t n, size_t name_at,
                            bool (*hidden)(CoreThread *t, int number)) {
  int64_t kept = 0;
  for (int64_t at = 0; at < n;) {
    struct dirent64 *d = (struct dirent64 *)(void *)(buf + at);
    unsigned short len = d->d_reclen;
    char *name = buf + at + name_at, *end;
    long number = strtol(name, &end, 10);
    if (*end || end == name || !hidden(t, (int)number)) {
      memmove(buf + kept, buf + at, len);
      kept += len;
    }
    at += len;
  }
  return kept;
}

static int64_t list(CoreThread *t, uint64_t a[6], size_t name_at) {
  char link[64], target[64];
  int64_t n;
  snprintf(link, sizeof link, "/proc/self/fd/%d", (int)a[0]);
  ssize_t len = readlink(link, target, sizeof target - 1);
  target[len < 0 ? 0 : len] = 0;
  int own = snprintf(link, sizeof link, "/proc/%d/", (int)getpid());
  bool ours = !strncmp(target, link, (size_t)own), fds = ours && !strcmp(target + own, "fd"),
       tasks = ours && !strcmp(target + own, "task");
  do {
    n = os_pass(t, a);
    if (n <= 0 || !(fds || tasks)) return n;
    n = hide_entries(t, (char *)(uintptr_t)a[1], n, name_at, fds ? hidden_fd : hidden_task);
  } while (n == 0); /* all of them hidden: not the end of the directory */
  return n;
}

int64_t os_getdents64(CoreThread *t, uint64_t a[6]) {
  return list(t, a, offsetof(struct dirent64, d_name));
}
int64_t os_getdents(CoreThread *t, uint64_t a[6]) {
  return list(t, a, offsetof(struct dirent64, d_type));
}
