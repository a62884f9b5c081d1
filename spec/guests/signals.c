// Signal handlers and masks: order of delivery, nesting, one-shot and self-nesting handlers, siginfo,
// pending signals, sigsuspend, sigwait, interrupted and restarted calls.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static volatile sig_atomic_t count, depth, deepest, order[8];
static siginfo_t last;

static void note(int sig) { order[count++ & 7] = sig; }

static void note_info(int sig, siginfo_t *info, void *context) {
  (void)context;
  note(sig);
  last = *info;
}

static void nest(int sig) {
  if (++depth > deepest) deepest = depth;
  if (sig == SIGUSR1 && depth < 2) raise(SIGUSR2);
  note(sig);
  depth--;
}

static void self_nest(int sig) {
  if (++depth > deepest) deepest = depth;
  if (depth < 4) raise(sig);
  depth--;
}

static void install(int sig, void (*handler)(int), int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  CHECK(sigaction(sig, &action, NULL) == 0);
}

static void install_info(int sig, int flags) {
  struct sigaction action = {.sa_sigaction = note_info, .sa_flags = flags | SA_SIGINFO};
  CHECK(sigaction(sig, &action, NULL) == 0);
}

static sigset_t only(int sig) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, sig);
  return set;
}

static void test_nesting(void) {
  install(SIGUSR1, nest, 0);
  install(SIGUSR2, nest, 0);
  count = deepest = 0;
  raise(SIGUSR1);
  CHECK(count == 2 && deepest == 2);
  CHECK(order[0] == SIGUSR2 && order[1] == SIGUSR1);

  install(SIGUSR1, self_nest, SA_NODEFER);
  deepest = 0;
  raise(SIGUSR1);
  CHECK(deepest == 4);

  install(SIGUSR1, note, SA_RESETHAND);
  raise(SIGUSR1);
  struct sigaction now;
  sigaction(SIGUSR1, NULL, &now);
  CHECK(now.sa_handler == SIG_DFL);
}

static void test_masks(void) {
  sigset_t both = only(SIGUSR1), old, pending;
  sigaddset(&both, SIGUSR2);
  install(SIGUSR1, note, 0);
  install(SIGUSR2, note, 0);
  count = 0;
  sigprocmask(SIG_BLOCK, &both, &old);
  raise(SIGUSR2);
  raise(SIGUSR1);
  raise(SIGUSR1); // merges with the one pending
  CHECK(count == 0);
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGUSR1) && sigismember(&pending, SIGUSR2));
  sigprocmask(SIG_SETMASK, &old, NULL);
  CHECK(count == 2);

  sigprocmask(SIG_BLOCK, &both, &old);
  raise(SIGUSR1);
  sigset_t but_usr1 = only(SIGUSR2);
  count = 0;
  CHECK(sigsuspend(&but_usr1) == -1 && errno == EINTR);
  CHECK(count == 1 && order[0] == SIGUSR1);
  raise(SIGUSR2);
  int sig = 0;
  CHECK(sigwait(&both, &sig) == 0 && sig == SIGUSR2);
  CHECK(count == 1);
  sigprocmask(SIG_SETMASK, &old, NULL);
}

static void test_siginfo(void) {
  install_info(SIGUSR1, 0);
  kill(getpid(), SIGUSR1);
  CHECK(last.si_signo == SIGUSR1 && last.si_code == SI_USER && last.si_pid == getpid());

  install_info(SIGRTMIN, 0);
  union sigval value = {.sival_int = 4711};
  CHECK(sigqueue(getpid(), SIGRTMIN, value) == 0);
  CHECK(last.si_code == SI_QUEUE && last.si_value.sival_int == 4711);

  install_info(SIGCHLD, SA_RESTART);
  count = 0;
  pid_t child = fork();
  if (child == 0) _exit(3);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
  CHECK(count == 1 && last.si_code == CLD_EXITED && last.si_pid == child && last.si_status == 3);
  signal(SIGCHLD, SIG_DFL);
}

typedef struct Target {
  pthread_t thread;
  int restarts, fd;
  volatile int done;
} Target;

// Sends signals to a thread that reads: until its read has failed, or, if reads restart, a few; then a byte.
static void *poke(void *arg) {
  Target *target = arg;
  for (int i = 0; target->restarts ? i < 5 : !target->done; i++) {
    usleep(5000);
    pthread_kill(target->thread, SIGUSR1);
  }
  CHECK(write(target->fd, "x", 1) == 1);
  return NULL;
}

// A read of an empty pipe is interrupted by a signal; with SA_RESTART it goes on and gets the byte.
static void test_restart(int flags) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  Target target = {.thread = pthread_self(), .restarts = flags & SA_RESTART, .fd = ends[1]};
  install(SIGUSR1, note, flags);
  count = 0;
  pthread_t poker;
  pthread_create(&poker, NULL, poke, &target);
  char byte;
  ssize_t n = read(ends[0], &byte, 1);
  if (flags & SA_RESTART) CHECK(n == 1 && byte == 'x');
  else CHECK(n == -1 && errno == EINTR);
  target.done = 1;
  CHECK(count >= 1);
  while (pthread_join(poker, NULL) != 0) {}
  close(ends[0]);
  close(ends[1]);
}

static void test_timers(void) {
  install(SIGALRM, note, 0);
  count = 0;
  struct itimerval timer = {{0, 2000}, {0, 2000}};
  setitimer(ITIMER_REAL, &timer, NULL);
  while (count < 5) pause();
  timer = (struct itimerval){{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &timer, NULL);
  CHECK(order[0] == SIGALRM);
}

int main(void) {
  test_nesting();
  test_masks();
  test_siginfo();
  test_restart(0);
  test_restart(SA_RESTART);
  test_timers();
  return guest_verdict();
}
