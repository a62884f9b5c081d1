// Pending and queued signals: order, values, the signals that a CPU raises sent by kill instead, signalfd, sigwait of ignored
// ones, per-thread against per-process, dispositions that discard.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static volatile int order[64], values[64], codes[64], n;

static void note(int sig, siginfo_t *info, void *context) {
  (void)context;
  order[n] = sig;
  values[n] = info->si_value.sival_int;
  codes[n] = info->si_code;
  n++;
}

static void handle(int sig, int flags) {
  struct sigaction sa = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | flags};
  sigfillset(&sa.sa_mask);
  CHECK(sigaction(sig, &sa, NULL) == 0);
}

static sigset_t set_of(int a, int b, int c) {
  sigset_t s;
  sigemptyset(&s);
  if (a) sigaddset(&s, a);
  if (b) sigaddset(&s, b);
  if (c) sigaddset(&s, c);
  return s;
}

static void queueing(void) {
  int a = SIGRTMIN, b = SIGRTMIN + 3;
  sigset_t set = set_of(a, b, SIGUSR1), pending;
  handle(a, 0);
  handle(b, 0);
  handle(SIGUSR1, 0);
  sigprocmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < 5; i++) {
    CHECK(sigqueue(getpid(), b, (union sigval){.sival_int = 100 + i}) == 0);
    CHECK(sigqueue(getpid(), a, (union sigval){.sival_int = i}) == 0);
    kill(getpid(), SIGUSR1);
  }
  sigpending(&pending);
  CHECK(sigismember(&pending, a) && sigismember(&pending, b) && sigismember(&pending, SIGUSR1));
  n = 0;
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  CHECK(n == 11);
  // The standard one first to be taken; of the frames pushed one upon another the last runs first: with all blocked in
  // the handler there is one at a time, lowest number first.
  CHECK(order[0] == SIGUSR1 && codes[0] == SI_USER);
  for (int i = 0; i < 5; i++) {
    CHECK(order[1 + i] == a && values[1 + i] == i && codes[1 + i] == SI_QUEUE);
    CHECK(order[6 + i] == b && values[6 + i] == 100 + i);
  }
}

// Signals of the CPU's, sent by kill: blocked they wait like others.
static void synchronous_by_kill(void) {
  static const int sigs[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  for (unsigned i = 0; i < sizeof sigs / sizeof *sigs; i++) {
    sigset_t set = set_of(sigs[i], SIGRTMAX, 0), pending;
    siginfo_t info;
    handle(sigs[i], 0);
    handle(SIGRTMAX, 0);
    n = 0;
    kill(getpid(), sigs[i]);
    CHECK(n == 1 && order[0] == sigs[i] && codes[0] == SI_USER);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), sigs[i]);
    sigqueue(getpid(), SIGRTMAX, (union sigval){.sival_int = 7});
    CHECK(n == 1);
    sigpending(&pending);
    CHECK(sigismember(&pending, sigs[i]) && sigismember(&pending, SIGRTMAX));
    sigset_t one = set_of(sigs[i], 0, 0);
    CHECK(sigwaitinfo(&one, &info) == sigs[i] && info.si_pid == getpid());
    kill(getpid(), sigs[i]);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    CHECK(n == 3 && ((order[1] == sigs[i] && order[2] == SIGRTMAX && values[2] == 7) ||
                     (order[2] == sigs[i] && order[1] == SIGRTMAX && values[1] == 7)));
    signal(sigs[i], SIG_DFL);
  }
}

// SIGCHLD, ignored by default, is kept while blocked, for sigwait and signalfd.
static void quiet(void) {
  sigset_t set = set_of(SIGCHLD, SIGWINCH, 0);
  struct signalfd_siginfo si;
  siginfo_t info;
  int status;
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &set, NULL);
  int fd = signalfd(-1, &set, SFD_CLOEXEC);
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 0) == 0);
  pid_t child = fork();
  if (child == 0) _exit(3);
  CHECK(poll(&p, 1, 5000) == 1);
  CHECK(read(fd, &si, sizeof si) == sizeof si && si.ssi_signo == SIGCHLD && si.ssi_pid == (unsigned)child && si.ssi_status == 3);
  CHECK(wait(&status) == child);
  child = fork();
  if (child == 0) _exit(4);
  CHECK(sigwaitinfo(&set, &info) == SIGCHLD && info.si_pid == child && info.si_status == 4 && info.si_code == CLD_EXITED);
  CHECK(wait(&status) == child);
  kill(getpid(), SIGWINCH);
  CHECK(sigtimedwait(&set, &info, &(struct timespec){0, 0}) == SIGWINCH);
  CHECK(sigtimedwait(&set, &info, &(struct timespec){0, 0}) == -1 && errno == EAGAIN);
  // ignoring discards what is pending
  kill(getpid(), SIGWINCH);
  signal(SIGWINCH, SIG_IGN);
  CHECK(sigtimedwait(&set, &info, &(struct timespec){0, 0}) == -1 && errno == EAGAIN);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  close(fd);
  // SA_NOCLDWAIT and SIG_IGN: no zombies
  signal(SIGCHLD, SIG_IGN);
  if ((child = fork()) == 0) _exit(5);
  CHECK(waitpid(child, &status, 0) == -1 && errno == ECHILD);
  signal(SIGCHLD, SIG_DFL);
}

static pthread_t first;
static volatile int thread_hits, main_hits;
static void who(int sig) {
  (void)sig;
  if (pthread_equal(pthread_self(), first)) main_hits++;
  else thread_hits++;
}

static void *sleeper(void *arg) {
  volatile int *stop = arg;
  while (!*stop) usleep(500);
  return NULL;
}

// The process's first thread gets what is sent to the process, if it wants it.
static void preference(void) {
  volatile int stop = 0;
  pthread_t t[3];
  first = pthread_self();
  struct sigaction sa = {.sa_handler = who, .sa_flags = SA_RESTART};
  sigaction(SIGUSR2, &sa, NULL);
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, sleeper, (void *)&stop);
  for (int i = 0; i < 20; i++) {
    kill(getpid(), SIGUSR2);
    for (int k = 0; k < 5000 && main_hits + thread_hits <= i; k++) usleep(500);
    CHECK(main_hits + thread_hits == i + 1);
  }
  CHECK(thread_hits <= 2); // unless it was just dealing with another signal (kernel: wants_signal)
  main_hits = 20;
  thread_hits = 0;
  sigset_t set = set_of(SIGUSR2, 0, 0);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  kill(getpid(), SIGUSR2);
  for (int i = 0; i < 5000 && !thread_hits; i++) usleep(500);
  CHECK(thread_hits == 1 && main_hits == 20);
  // sent to one thread it stays with it
  CHECK(pthread_kill(first, SIGUSR2) == 0);
  sigset_t pending;
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGUSR2) && thread_hits == 1);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  CHECK(main_hits == 21);
  CHECK(syscall(SYS_tgkill, getpid(), getpid(), SIGUSR2) == 0 && main_hits == 22);
  CHECK(syscall(SYS_tkill, getpid(), SIGUSR2) == 0 && main_hits == 23);
  CHECK(syscall(SYS_tgkill, getpid(), 999999, SIGUSR2) == -1 && errno == ESRCH);
  CHECK(syscall(SYS_tgkill, getpid(), 0, SIGUSR2) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_gettid) == getpid());
  stop = 1;
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
}

static void arguments(void) {
  struct sigaction sa = {.sa_handler = SIG_DFL};
  CHECK(sigaction(SIGKILL, &sa, NULL) == -1 && errno == EINVAL);
  CHECK(sigaction(SIGSTOP, &sa, NULL) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_rt_sigaction, 65, NULL, &sa, 8) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_rt_sigprocmask, 77, &sa, NULL, 8) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, (void *)1, NULL, 8) == -1 && errno == EFAULT);
  CHECK(kill(getpid(), 65) == -1 && errno == EINVAL);
  CHECK(kill(getpid(), 0) == 0);
  sigset_t all, now;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sigprocmask(SIG_BLOCK, NULL, &now);
  CHECK(!sigismember(&now, SIGKILL) && !sigismember(&now, SIGSTOP) && sigismember(&now, SIGSEGV));
  sigemptyset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
}

int main(void) {
  arguments();
  queueing();
  synchronous_by_kill();
  quiet();
  preference();
  return guest_verdict();
}
