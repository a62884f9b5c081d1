// Which interrupted calls SA_RESTART restarts and which give EINTR all the same; masks that a call swaps in for its
// own time; no signal lost between the last look and the call.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <linux/futex.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static volatile sig_atomic_t hits;
static int channel[2];
static volatile sig_atomic_t feed; // the handler writes a byte on its feed-th hit, so that a restarted read ends

static void hit(int sig) {
  (void)sig;
  if (++hits == feed && write(channel[1], "x", 1) != 1) _exit(99);
}

static void arm(long first_us, long every_us) {
  struct itimerval it = {{0, every_us}, {0, first_us}};
  setitimer(ITIMER_REAL, &it, NULL);
}

static void handle(int flags) {
  struct sigaction sa = {.sa_handler = hit, .sa_flags = flags};
  sigaction(SIGALRM, &sa, NULL);
  hits = feed = 0;
}

static void reads(void) {
  char c;
  handle(0);
  arm(20000, 20000);
  CHECK(read(channel[0], &c, 1) == -1 && errno == EINTR && hits >= 1);
  arm(0, 0);
  handle(SA_RESTART);
  feed = 3;
  arm(20000, 20000);
  CHECK(read(channel[0], &c, 1) == 1 && hits >= 3);
  arm(0, 0);
}

static void waits(int flags, int expected) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    usleep(100000);
    _exit(5);
  }
  handle(flags);
  arm(20000, 20000);
  pid_t r = waitpid(child, &status, 0);
  arm(0, 0);
  CHECK(hits >= 1);
  if (expected) CHECK(r == -1 && errno == expected);
  else CHECK(r == child);
  while (r != child) r = waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 5);
}

// Not restarted whatever the flags: signal(7).
static void never(void) {
  struct pollfd p = {channel[0], POLLIN, 0};
  struct timespec ts = {2, 0}, rem = {0};
  struct epoll_event ev;
  fd_set set;
  sigset_t none;
  int epfd = epoll_create1(0);
  handle(SA_RESTART);
  sigemptyset(&none);
  sigaddset(&none, SIGUSR2);
  arm(20000, 20000);
  CHECK(poll(&p, 1, 2000) == -1 && errno == EINTR);
  FD_ZERO(&set);
  FD_SET(channel[0], &set);
  CHECK(select(channel[0] + 1, &set, NULL, NULL, &(struct timeval){2, 0}) == -1 && errno == EINTR);
  CHECK(epoll_wait(epfd, &ev, 1, 2000) == -1 && errno == EINTR);
  CHECK(nanosleep(&ts, &rem) == -1 && errno == EINTR && rem.tv_sec == 1 && rem.tv_nsec > 0);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &rem) == EINTR && rem.tv_sec == 1);
  CHECK(sigtimedwait(&none, NULL, &ts) == -1 && errno == EINTR);
  CHECK(pause() == -1 && errno == EINTR);
  int word = 0;
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &ts, NULL, 0) == -1 && errno == EINTR);
  arm(0, 0);
  close(epfd);
}

static void futex_restarts(void) {
  int word = 0;
  handle(0);
  arm(20000, 20000);
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0) == -1 && errno == EINTR);
  arm(0, 0);
}

// The mask of ppoll and kin holds during the call only; the handler sees it with the signal's own bit added.
static volatile sig_atomic_t usr1_blocked, usr2_blocked;
static void look(int sig) {
  sigset_t now;
  (void)sig;
  sigprocmask(SIG_BLOCK, NULL, &now);
  usr1_blocked = sigismember(&now, SIGUSR1);
  usr2_blocked = sigismember(&now, SIGUSR2);
  hits++;
}

static void masks(void) {
  sigset_t usr1, usr2, old;
  struct sigaction sa = {.sa_handler = look};
  struct epoll_event ev;
  sigaction(SIGUSR1, &sa, NULL);
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  sigprocmask(SIG_SETMASK, &usr1, NULL);
  int epfd = epoll_create1(0);
  for (int way = 0; way < 4; way++) {
    hits = usr1_blocked = usr2_blocked = 0;
    raise(SIGUSR1);
    CHECK(hits == 0);
    int r = 0;
    if (way == 0) r = ppoll(NULL, 0, &(struct timespec){2, 0}, &usr2);
    if (way == 1) r = pselect(0, NULL, NULL, NULL, &(struct timespec){2, 0}, &usr2);
    if (way == 2) r = epoll_pwait(epfd, &ev, 1, 2000, &usr2);
    if (way == 3) r = sigsuspend(&usr2);
    CHECK(r == -1 && errno == EINTR && hits == 1);
    CHECK(usr1_blocked == 1 && usr2_blocked == 1);
    sigprocmask(SIG_BLOCK, NULL, &old);
    CHECK(sigismember(&old, SIGUSR1) && !sigismember(&old, SIGUSR2));
  }
  // ready at once: the call succeeds and the signal stays pending
  CHECK(write(channel[1], "y", 1) == 1);
  struct pollfd p = {channel[0], POLLIN, 0};
  hits = 0;
  CHECK(ppoll(&p, 1, NULL, &usr1) == 1 && hits == 0);
  char c;
  CHECK(read(channel[0], &c, 1) == 1);
  close(epfd);
  sigprocmask(SIG_UNBLOCK, &usr1, NULL);
}

// A one-shot timer of a random length, then sigsuspend: a lost signal hangs.
static void races(void) {
  sigset_t block, old;
  unsigned seed = 1;
  handle(0);
  sigemptyset(&block);
  sigaddset(&block, SIGALRM);
  sigprocmask(SIG_BLOCK, &block, &old);
  for (int i = 0; i < 1500; i++) {
    sig_atomic_t before = hits;
    arm(1 + rand_r(&seed) % 120, 0);
    while (hits == before) sigsuspend(&old);
  }
  CHECK(hits == 1500);
  sigprocmask(SIG_SETMASK, &old, NULL);
}

// A stopped and continued sleeper sleeps on: no EINTR.
static void stopped_sleep(void) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    struct timespec ts = {0, 200000000};
    int r = nanosleep(&ts, NULL);
    struct pollfd p = {channel[0], POLLIN, 0};
    if (r == 0 && poll(&p, 1, 100) == 0) _exit(3);
    _exit(4);
  }
  usleep(60000);
  kill(child, SIGSTOP);
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  kill(child, SIGCONT);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

int main(void) {
  CHECK(pipe(channel) == 0);
  reads();
  waits(0, EINTR);
  waits(SA_RESTART, 0);
  never();
  futex_restarts();
  masks();
  races();
  stopped_sleep();
  return guest_verdict();
}
