// What a process knows of itself: ids, limits, names, groups, sessions, scheduling, sysinfo, prctl.
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

int main(void) {
  CHECK(getpid() > 0 && getppid() > 0 && syscall(SYS_gettid) == getpid());
  CHECK(getpgid(0) == getpgrp() && getsid(0) >= 0);  // 0: a leader outside the pid namespace
  uid_t r, e, s;
  CHECK(getresuid(&r, &e, &s) == 0 && r == getuid() && e == geteuid());
  gid_t groups[64];
  CHECK(getgroups(64, groups) >= 0);

  struct utsname name;
  CHECK(uname(&name) == 0 && strcmp(name.sysname, "Linux") == 0);
#if defined(__riscv)
  CHECK(strcmp(name.machine, "riscv64") == 0);
#endif

  struct rlimit limit, again;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= 16);
  limit.rlim_cur = 64;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0 && getrlimit(RLIMIT_NOFILE, &again) == 0 && again.rlim_cur == 64);
  CHECK(dup2(1, 63) == 63 && dup2(1, 64) == -1 && errno == EBADF);
  close(63);
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur > 0);

  cpu_set_t cpus;
  CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= 1);
  CHECK(sched_yield() == 0 && sysconf(_SC_NPROCESSORS_ONLN) >= 1);
  struct sysinfo info;
  CHECK(sysinfo(&info) == 0 && info.totalram > 0 && info.mem_unit > 0);
  errno = 0;
  CHECK(getpriority(PRIO_PROCESS, 0) != -1 || errno == 0);

  char comm[16] = "";
  CHECK(prctl(PR_SET_NAME, "renamed") == 0 && prctl(PR_GET_NAME, comm) == 0 && strcmp(comm, "renamed") == 0);
  CHECK(syscall(9999) == -1 && errno == ENOSYS);
  CHECK(syscall(SYS_read, 0, (void *)-4096l, 10) == -1);
  CHECK(syscall(SYS_write, 1, (void *)8, 10) == -1 && errno == EFAULT);

  pid_t child = fork();
  if (child == 0) {
    if (setsid() != getpid() || getpgrp() != getpid()) _exit(1);
    _exit(getppid() > 0 ? 0 : 2);
  }
  int status;
  struct rusage usage;
  CHECK(wait4(child, &status, 0, &usage) == child && status == 0);
  siginfo_t ended;
  child = fork();
  if (child == 0) _exit(5);
  CHECK(waitid(P_PID, (id_t)child, &ended, WEXITED) == 0 && ended.si_status == 5 && ended.si_pid == child);
  return guest_verdict();
}
