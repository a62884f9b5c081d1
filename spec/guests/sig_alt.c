// Alternate signal stacks: what sigaltstack reports and refuses, nesting, disarming, no room for a frame; forced signals;
// sigreturn from edited contexts; faults in handlers.
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

static char alternate[65536] __attribute__((aligned(16))), other[65536] __attribute__((aligned(16)));
static volatile int depth, deepest, on_alt, flags_inside, error_inside;
static volatile int *volatile nowhere = (volatile int *)8;
static sigjmp_buf back;

static int inside(const void *p, const char *stack) { return (uintptr_t)p - (uintptr_t)stack < 65536; }

static void handle(int sig, void (*fn)(int), int flags) {
  struct sigaction sa = {.sa_handler = fn, .sa_flags = flags};
  CHECK(sigaction(sig, &sa, NULL) == 0);
}

static void probe(int sig) {
  stack_t now, next = {.ss_sp = other, .ss_size = sizeof other};
  char local;
  depth++;
  if (depth > deepest) deepest = depth;
  on_alt += inside(&local, alternate);
  sigaltstack(NULL, &now);
  flags_inside = now.ss_flags;
  error_inside = sigaltstack(&next, NULL) ? errno : 0;
  if (sig == SIGUSR1) raise(SIGUSR2);
  depth--;
}

static void reports(void) {
  stack_t ss = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
  CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == SS_DISABLE);
  ss.ss_size = 1000;
  CHECK(sigaltstack(&ss, NULL) == -1 && errno == ENOMEM);
  ss.ss_size = sizeof alternate;
  ss.ss_flags = 0x40;
  CHECK(sigaltstack(&ss, NULL) == -1 && errno == EINVAL);
  ss.ss_flags = 0;
  CHECK(sigaltstack(&ss, NULL) == 0);
  CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == 0 && old.ss_sp == alternate && old.ss_size == sizeof alternate);
  handle(SIGUSR1, probe, SA_ONSTACK);
  handle(SIGUSR2, probe, SA_ONSTACK);
  raise(SIGUSR1);
  CHECK(deepest == 2 && on_alt == 2 && flags_inside == SS_ONSTACK && error_inside == EPERM);
  handle(SIGUSR1, probe, 0);
  on_alt = 0;
  raise(SIGUSR1); // on the main stack, from where it may set another: the nested handler runs there
  CHECK(on_alt == 0 && flags_inside == SS_ONSTACK && error_inside == EPERM);
  ss.ss_flags = (int)SS_AUTODISARM;
  CHECK(sigaltstack(&ss, NULL) == 0);
  handle(SIGUSR2, probe, SA_ONSTACK);
  on_alt = 0;
  raise(SIGUSR2);
  CHECK(on_alt == 1 && flags_inside == SS_DISABLE && error_inside == 0);
  CHECK(sigaltstack(NULL, &old) == 0 && old.ss_sp == alternate && old.ss_flags == (int)SS_AUTODISARM);
  ss.ss_flags = SS_DISABLE;
  CHECK(sigaltstack(&ss, NULL) == 0);
  on_alt = 0;
  raise(SIGUSR2);
  CHECK(on_alt == 0);
}

static void leap(int sig) { siglongjmp(back, sig); }

static NOINLINE int deep(int n) {
  volatile char block[4096];
  block[n & 4095] = (char)n;
  return n > 0 ? deep(n - 1) + block[n & 4095] : 0;
}

// The stack has overflowed when another signal comes: there is no room for its frame, so SIGSEGV is forced.
static void no_room(void) {
  stack_t ss = {.ss_sp = alternate, .ss_size = sizeof alternate};
  CHECK(sigaltstack(&ss, NULL) == 0);
  handle(SIGSEGV, leap, SA_ONSTACK);
  for (int i = 0; i < 3; i++)
    if (!sigsetjmp(back, 1)) {
      deep(1 << 20);
      CHECK(0);
    }
}

static int status_of(void (*fn)(void)) {
  int status = -1;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    fn();
    _exit(77);
  }
  CHECK(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void fault_blocked(void) {
  sigset_t s;
  handle(SIGSEGV, leap, 0);
  sigemptyset(&s);
  sigaddset(&s, SIGSEGV);
  sigprocmask(SIG_BLOCK, &s, NULL);
  *nowhere = 1;
}
static void fault_ignored(void) {
  signal(SIGSEGV, SIG_IGN);
  *nowhere = 1;
}
static void fault_again(int sig) {
  (void)sig;
  *nowhere = 2;
}
static void fault_in_handler(void) {
  handle(SIGSEGV, fault_again, 0);
  *nowhere = 1;
}
static void exit_30(int sig) {
  (void)sig;
  _exit(30);
}
static void fault_in_usr1(void) {
  handle(SIGUSR1, fault_again, 0);
  handle(SIGSEGV, exit_30, 0);
  raise(SIGUSR1);
}
static void oneshot(void) {
  handle(SIGSEGV, fault_again, (int)(SA_RESETHAND | SA_NODEFER));
  *nowhere = 1;
}
static void overflow_plain(void) {
  signal(SIGSEGV, SIG_DFL);
  deep(1 << 20);
}
static void bad_altstack(void) { // a frame cannot be written there
  stack_t ss = {.ss_sp = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), .ss_size = 65536};
  sigaltstack(&ss, NULL);
  handle(SIGUSR1, exit_30, SA_ONSTACK);
  raise(SIGUSR1);
}
static void bad_altstack_caught(void) {
  stack_t ss = {.ss_sp = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), .ss_size = 65536};
  sigaltstack(&ss, NULL);
  handle(SIGSEGV, exit_30, 0);
  handle(SIGUSR1, leap, SA_ONSTACK);
  raise(SIGUSR1);
}
static void deaths(void) {
  CHECK(status_of(fault_blocked) == -SIGSEGV);
  CHECK(status_of(fault_ignored) == -SIGSEGV);
  CHECK(status_of(fault_in_handler) == -SIGSEGV);
  CHECK(status_of(fault_in_usr1) == 30);
  CHECK(status_of(oneshot) == -SIGSEGV);
  CHECK(status_of(overflow_plain) == -SIGSEGV);
  CHECK(status_of(bad_altstack) == -SIGSEGV);
  CHECK(status_of(bad_altstack_caught) == 30);
  CHECK(status_of(abort) == -SIGABRT);
}

// every signal's default, by kill
static void defaults(void) {
  for (int sig = 1; sig <= 64; sig++) {
    if (sig == 32 || sig == 33) continue;
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
      signal(sig, SIG_DFL);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, NULL);
      kill(getpid(), sig);
      _exit(5);
    }
    CHECK(waitpid(pid, &status, WUNTRACED) == pid);
    int ignored = sig == SIGCHLD || sig == SIGURG || sig == SIGWINCH || sig == SIGCONT;
    int stops = sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
    if (stops && WIFSTOPPED(status)) {
      CHECK(WSTOPSIG(status) == sig);
      kill(pid, SIGCONT);
      CHECK(waitpid(pid, &status, 0) == pid);
      ignored = 1;
    } else if (stops) {
      ignored = sig != SIGSTOP; // in an orphaned process group the terminal's stops do nothing
    }
    if (ignored) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    else CHECK(WIFSIGNALED(status) && WTERMSIG(status) == sig);
  }
}

int main(void) {
  reports();
  no_room();
  deaths();
  defaults();
  return guest_verdict();
}
