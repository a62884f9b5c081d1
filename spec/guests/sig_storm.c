// sig_storm [ROUNDS]: a fast timer while threads compute, lock, sleep, read, make threads and processes; processes that end in the midst
// of it. Nothing is lost, nothing crashes, registers survive.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static volatile long hits;
static volatile int stop;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long guarded, tokens;
static int channel[2];

static void hit(int sig) {
  volatile double x = hits;
  (void)sig;
  hits = (long)(x + 1.0);
}

static void storm(long us) {
  struct itimerval it = {{0, us}, {0, us}};
  setitimer(ITIMER_REAL, &it, NULL);
}

static void *compute(void *arg) {
  uint64_t a = 1, b = 2, c = 3;
  double x = 1, y = 0;
  for (int i = 0; i < 30000; i++) {
    a = a * 6364136223846793005u + 1442695040888963407u;
    b ^= a >> 7;
    c += b * 3;
    x = x * 1.0000001;
    y += x;
  }
  uint64_t again_a = 1, again_b = 2, again_c = 3;
  for (int i = 0; i < 30000; i++) {
    again_a = again_a * 6364136223846793005u + 1442695040888963407u;
    again_b ^= again_a >> 7;
    again_c += again_b * 3;
  }
  CHECK(a == again_a && b == again_b && c == again_c && y > 30000);
  return arg;
}

static void *locker(void *arg) {
  for (int i = 0; i < 300; i++) {
    pthread_mutex_lock(&lock);
    guarded++;
    tokens++;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&lock);
  }
  return arg;
}

static void *taker(void *arg) {
  for (int i = 0; i < 300; i++) {
    pthread_mutex_lock(&lock);
    while (!tokens) pthread_cond_wait(&cond, &lock);
    tokens--;
    pthread_mutex_unlock(&lock);
  }
  return arg;
}

static void *pump(void *arg) {
  for (int i = 0; i < 200; i++) CHECK(write(channel[1], "x", 1) == 1);
  return arg;
}

static void *drain(void *arg) {
  char c;
  for (int i = 0; i < 200; i++) CHECK(read(channel[0], &c, 1) == 1);
  return arg;
}

static void *doze(void *arg) {
  struct timespec ts = {0, 300000};
  for (int i = 0; i < 20; i++)
    while (nanosleep(&ts, &ts)) CHECK(errno == EINTR);
  return arg;
}

static void round_of_threads(void) {
  void *(*const jobs[])(void *) = {compute, locker, taker, pump, drain, doze};
  pthread_t t[6];
  for (int i = 0; i < 6; i++) CHECK(pthread_create(&t[i], NULL, jobs[i], NULL) == 0);
  for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
}

static void *spin(void *arg) {
  while (!stop) {}
  return arg;
}

// exit_group while the others compute, wait and are hit by signals
static void ending(int how) {
  int status;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    pthread_t t;
    void *(*const jobs[])(void *) = {spin, locker, taker, doze, drain};
    storm(100);
    for (int i = 0; i < 5; i++) pthread_create(&t, NULL, jobs[i], NULL);
    usleep(1000 * (unsigned)how);
    if (how % 3 == 0) _exit(40 + how);
    if (how % 3 == 1) kill(getpid(), SIGKILL);
    kill(getpid(), SIGTERM);
    for (;;) pause();
  }
  CHECK(waitpid(pid, &status, 0) == pid);
  if (how % 3 == 0) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 40 + how);
  else CHECK(WIFSIGNALED(status) && WTERMSIG(status) == (how % 3 == 1 ? SIGKILL : SIGTERM));
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 2;
  struct sigaction sa = {.sa_handler = hit, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &sa, NULL);
  CHECK(pipe(channel) == 0);
  storm(200);
  for (int i = 0; i < rounds; i++) round_of_threads();
  for (int i = 0; i < 3 * rounds; i++) ending(i);
  CHECK(guarded == 300l * rounds && tokens == 0);
  CHECK(hits > 0);
  return guest_verdict(); // with the timer running
}
