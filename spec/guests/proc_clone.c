// clone and clone3 in rarer forms: another exit signal, none, a descriptor for the child, ids stored, shared descriptors,
// vfork children that change signals, limits, memory; waitid in its forms; orphans.
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

static volatile sig_atomic_t got;
static void note(int sig) { got = sig; }

static int status_of(pid_t pid, int options) {
  int status = -1;
  CHECK(waitpid(pid, &status, options) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static pid_t clone3_of(uint64_t flags, int exit_signal, int *pidfd, int *parent, int *child) {
  struct clone_args a = {.flags = flags, .exit_signal = (uint64_t)exit_signal, .pidfd = (uintptr_t)pidfd, .parent_tid = (uintptr_t)parent,
                         .child_tid = (uintptr_t)child};
  return (pid_t)syscall(SYS_clone3, &a, sizeof a);
}

static void exit_signals(void) {
  signal(SIGUSR1, note);
  got = 0;
  pid_t pid = clone3_of(0, SIGUSR1, NULL, NULL, NULL);
  if (pid == 0) _exit(6);
  CHECK(status_of(pid, __WALL) == 6 && got == SIGUSR1);
  got = 0;
  signal(SIGCHLD, note);
  pid = clone3_of(0, 0, NULL, NULL, NULL);
  if (pid == 0) _exit(7);
  CHECK(waitpid(pid, NULL, 0) == -1 && errno == ECHILD); // not a child of that kind
  CHECK(status_of(pid, __WCLONE) == 7 && got == 0);
  signal(SIGCHLD, SIG_DFL);
}

static void descriptors(void) {
  int pidfd = -1, parent = 0, child = 0;
  siginfo_t info = {0};
  pid_t pid = clone3_of(CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID, SIGCHLD, &pidfd, &parent, &child);
  if (pid == 0) {
    usleep(30000);
    _exit(child == getpid() && syscall(SYS_gettid) == getpid() ? 8 : 1);
  }
  CHECK(pid > 0 && parent == pid && child == 0 && pidfd >= 0);
  struct pollfd p = {pidfd, POLLIN, 0};
  CHECK(poll(&p, 1, 5000) == 1);
  CHECK(waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == pid && info.si_status == 8);
  CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0 && info.si_code == CLD_EXITED && info.si_status == 8);
  CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) == -1 && errno == ECHILD);
  close(pidfd);
  pid = clone3_of(CLONE_FILES, SIGCHLD, NULL, NULL, NULL);
  if (pid == 0) _exit(dup2(1, 77) == 77 ? 9 : 1);
  CHECK(status_of(pid, 0) == 9 && fcntl(77, F_GETFD) == 0);
  close(77);
}

static void vforks(void) {
  static volatile int shared, i;
  static volatile int *volatile mapped;
  struct sigaction sa;
  sigset_t set, now;
  struct rlimit lim;
  signal(SIGUSR2, note);
  sigemptyset(&set);
  pid_t parent = getpid();
  for (i = 0; i < 20; i++) {
    pid_t pid = vfork();
    if (pid == 0) {
      sigset_t all;
      shared += getpid() != parent && getppid() == parent;
      signal(SIGUSR2, SIG_IGN);
      sigfillset(&all);
      sigprocmask(SIG_SETMASK, &all, NULL);
      setrlimit(RLIMIT_NOFILE, &(struct rlimit){30, 30});
      close(0);
      _exit(i);
    }
    CHECK(status_of(pid, 0) == i && shared == i + 1);
  }
  sigaction(SIGUSR2, NULL, &sa);
  CHECK(sa.sa_handler == note);
  sigprocmask(SIG_BLOCK, NULL, &now);
  CHECK(!sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
  getrlimit(RLIMIT_NOFILE, &lim);
  CHECK(lim.rlim_cur != 30);
  CHECK(fcntl(0, F_GETFD) >= 0);
  raise(SIGUSR2);
  CHECK(got == SIGUSR2);
  pid_t pid = vfork();
  if (pid == 0) {
    kill(getpid(), SIGTERM);
    _exit(1);
  }
  CHECK(status_of(pid, 0) == -SIGTERM);
  pid = vfork();
  if (pid == 0) {
    signal(SIGUSR2, note);
    got = 0;
    raise(SIGUSR2);
    mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *mapped = 44;
    _exit(got == SIGUSR2 ? 11 : 1);
  }
  CHECK(status_of(pid, 0) == 11);
  CHECK(*mapped == 44); // in the memory that both have
  pid = vfork();
  if (pid == 0) {
    volatile int *volatile nowhere = (volatile int *)8;
    *nowhere = 1;
    _exit(1);
  }
  CHECK(status_of(pid, 0) == -SIGSEGV);
}

// The grandchild outlives its parent and is reaped by whoever adopted it; here, by us.
static void orphans(void) {
  int status;
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    if (fork() == 0) {
      usleep(20000);
      _exit(13);
    }
    _exit(12);
  }
  CHECK(status_of(pid, 0) == 12);
  CHECK(wait(&status) > 0 && WEXITSTATUS(status) == 13);
  CHECK(wait(&status) == -1 && errno == ECHILD);
}

static void death_signal(void) {
  int fds[2];
  char c;
  CHECK(pipe(fds) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    pid_t middle = getpid();
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      close(fds[0]);
      while (getppid() == middle) pause();
      _exit(0);
    }
    usleep(50000);
    _exit(0);
  }
  close(fds[1]);
  CHECK(status_of(pid, 0) == 0);
  CHECK(read(fds[0], &c, 1) == 0); // the last one is gone
  wait(NULL);
}

static void refused(void) {
  CHECK(syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_clone3, NULL, 8) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_wait4, 999999, NULL, 0, NULL) == -1 && errno == ECHILD);
  CHECK(syscall(SYS_wait4, -1, NULL, 0x40000000 | 0x10, NULL) == -1 && errno == EINVAL);
}

int main(void) {
  exit_signals();
  descriptors();
  vforks();
  death_signal();
  orphans();
  refused();
  return guest_verdict();
}
