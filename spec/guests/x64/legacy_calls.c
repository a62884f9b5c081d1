// The calls that x86-64 has and the generic table of numbers has not, made by number, in a folder of
// their own.
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utime.h>

#include "../guest.h"

#define CALL(name, ...) syscall(SYS_##name, ##__VA_ARGS__)

static void files(void) {
  struct stat st, at;
  char text[64] = "", entries[4096];
  int fd = CALL(open, "q", O_CREAT | O_RDWR, 0644);
  CHECK(fd >= 0 && CALL(creat, "r", 0600) > fd);
  CHECK(CALL(stat, "q", &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_blksize == 4096);
  CHECK(CALL(lstat, "q", &at) == 0 && at.st_ino == st.st_ino && CALL(fstat, fd, &at) == 0 && at.st_ino == st.st_ino);
  CHECK(CALL(stat, "no", &st) == -1 && errno == ENOENT && CALL(access, "q", R_OK) == 0);
  CHECK(CALL(rename, "q", "s") == 0 && CALL(link, "s", "t") == 0 && CALL(symlink, "s", "u") == 0);
  CHECK(CALL(readlink, "u", text, sizeof text) == 1 && text[0] == 's');
  CHECK(CALL(readlink, "/proc/self/exe", text, sizeof text) > 1 && !strstr(text, "kitlua"));
  CHECK(CALL(chmod, "s", 0700) == 0 && CALL(chown, "s", -1, -1) == 0 && CALL(lchown, "u", -1, -1) == 0);
  struct utimbuf u = {1, 2};
  struct timeval times[2] = {{3, 4}, {5, 6}};
  CHECK(CALL(utime, "s", &u) == 0 && CALL(stat, "s", &st) == 0 && st.st_mtime == 2 && st.st_nlink == 2);
  CHECK(CALL(utimes, "s", times) == 0 && CALL(stat, "s", &st) == 0 && st.st_mtim.tv_nsec == 6000);
  CHECK(CALL(futimesat, AT_FDCWD, "s", NULL) == 0 && CALL(stat, "s", &st) == 0 && st.st_mtime > 6);
  CHECK(CALL(mkdir, "d", 0755) == 0 && CALL(rmdir, "d") == 0 && CALL(mknod, "f", S_IFIFO | 0600, 0) == 0);
  int here = CALL(open, ".", O_RDONLY | O_DIRECTORY), names = 0;
  long n = CALL(getdents, here, entries, sizeof entries);
  for (long i = 0; i < n; i += *(uint16_t *)(entries + i + 16)) names++;
  CHECK(n > 0 && names >= 7);
  for (const char *name = "r\0s\0t\0u\0f\0"; *name; name += 2) CHECK(CALL(unlink, name) == 0);
}

static void waiting(void) {
  int p[2], fd;
  CHECK(CALL(pipe, p) == 0 && write(p[1], "x", 1) == 1);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(p[0], &set);
  struct timeval tv = {1, 0};
  CHECK(CALL(select, p[0] + 1, &set, NULL, NULL, &tv) == 1 && FD_ISSET(p[0], &set));
  struct pollfd pf = {p[0], POLLIN, 0};
  CHECK(CALL(poll, &pf, 1, 100) == 1 && pf.revents == POLLIN);
  CHECK(CALL(dup2, p[0], 20) == 20 && CALL(dup2, 20, 20) == 20 && CALL(dup2, 99, 99) == -1);
  struct epoll_event in = {EPOLLIN, {.u64 = 0x123456789abcdef}}, out[3];
  CHECK((fd = CALL(epoll_create, 5)) >= 0 && CALL(epoll_ctl, fd, EPOLL_CTL_ADD, p[0], &in) == 0);
  memset(out, 0x55, sizeof out);
  CHECK(CALL(epoll_wait, fd, out, 3, 100) == 1 && out[0].data.u64 == in.data.u64 && out[1].events == 0x55555555);
  uint64_t count = 0;
  CHECK((fd = CALL(eventfd, 7)) >= 0 && read(fd, &count, 8) == 8 && count == 7);
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigprocmask(SIG_BLOCK, &usr1, NULL);
  CHECK((fd = CALL(signalfd, -1, &usr1, 8)) >= 0 && raise(SIGUSR1) == 0 && read(fd, (char[128]){0}, 128) == 128);
  CHECK(CALL(inotify_init) >= 0 && CALL(alarm, 100) == 0 && CALL(alarm, 0) >= 99);
}

static void on_alarm(int signo) { (void)signo; }

static void processes(void) {
  int status = 0, pid = CALL(fork);
  if (!pid) _exit(3);
  CHECK(wait4(pid, &status, 0, NULL) == pid && WEXITSTATUS(status) == 3);
  static volatile int shared;
  pid = vfork();
  if (!pid) {
    shared = 5;
    _exit(4);
  }
  CHECK(shared == 5 && wait4(pid, &status, 0, NULL) == pid && WEXITSTATUS(status) == 4);
  signal(SIGALRM, on_alarm);
  struct itimerval soon = {{0, 0}, {0, 10000}};
  setitimer(ITIMER_REAL, &soon, NULL);
  CHECK(CALL(pause) == -1 && errno == EINTR && CALL(getpgrp) == getpgid(0));
}

static void machine(void) {
  uint64_t fs = 0, gs = 0, self;
  time_t now = 0;
  __asm__("mov %%fs:0, %0" : "=r"(self));
  CHECK(CALL(arch_prctl, ARCH_GET_FS, &fs) == 0 && fs == self);
  CHECK(CALL(arch_prctl, ARCH_SET_GS, fs) == 0 && CALL(arch_prctl, ARCH_GET_GS, &gs) == 0 && gs == fs);
  __asm__("mov %%gs:0, %0" : "=r"(self));
  CHECK(self == *(uint64_t *)fs);
  CHECK(CALL(arch_prctl, ARCH_SET_GS, 1ull << 47) == -1 && errno == EPERM);
  CHECK(CALL(arch_prctl, 0x99, 0) == -1 && errno == EINVAL);
  CHECK(CALL(time, &now) == now && now > 1000000000 && CALL(set_thread_area, 0) == -1 && errno == ENOSYS);
  CHECK(CALL(iopl, 3) == -1 && CALL(uselib, "x") == -1 && errno == ENOSYS);
  char *low = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  CHECK(low != MAP_FAILED && (uintptr_t)low < 1ull << 31);
  // What `syscall` does to registers.
  uint64_t rcx, r11, next, flags;
  __asm__ volatile("pushf\n pop %3\n lea 1f(%%rip), %2\n syscall\n 1: mov %%rcx, %0\n mov %%r11, %1"
                   : "=&r"(rcx), "=&r"(r11), "=&r"(next), "=&r"(flags)
                   : "a"(SYS_getppid)
                   : "rcx", "r11", "memory");
  CHECK(rcx == next && r11 == flags);
}

int main(void) {
  char dir[] = "/tmp/legacy-XXXXXX";
  CHECK(mkdtemp(dir) && chdir(dir) == 0);
  files();
  rmdir(dir);
  waiting();
  processes();
  machine();
  return guest_verdict();
}
