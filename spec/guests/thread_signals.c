// Signals and threads: each thread has its own mask, pthread_kill reaches the one named, a blocked
// process-wide signal waits for a thread that takes it, raise stays in the thread, siglongjmp works there.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

#include "guest.h"

enum { THREADS = 4 };

static _Thread_local volatile sig_atomic_t hits;
static _Thread_local sigjmp_buf back;
static pthread_barrier_t ready, go;
static volatile sig_atomic_t wild_hits;
static volatile int *volatile nowhere = (volatile int *)8;

static void hit(int sig) {
  (void)sig;
  hits++;
}

static void leap(int sig) { siglongjmp(back, sig); }

static void *work(void *arg) {
  (void)arg;
  raise(SIGUSR1);
  CHECK(hits == 1);
  volatile int leaps = 0;
  for (volatile int i = 0; i < 5; i++) {
    if (sigsetjmp(back, 1) == 0) *nowhere = 1;
    else leaps++;
  }
  CHECK(leaps == 5);
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&go); // main has sent SIGUSR1 to each of us meanwhile
  while (hits < 2) usleep(100);
  CHECK(hits == 2);
  return NULL;
}

static void wild(int sig) {
  (void)sig;
  wild_hits++;
}

static void *taker(void *arg) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  while (!wild_hits) usleep(100);
  return arg;
}

int main(void) {
  pthread_t threads[THREADS], other;
  signal(SIGUSR1, hit);
  signal(SIGUSR2, wild);
  signal(SIGSEGV, leap);
  pthread_barrier_init(&ready, NULL, THREADS + 1);
  pthread_barrier_init(&go, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
  pthread_barrier_wait(&ready);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_kill(threads[i], SIGUSR1) == 0);
  pthread_barrier_wait(&go);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK(hits == 0);

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  kill(getpid(), SIGUSR2);
  CHECK(wild_hits == 0);
  pthread_create(&other, NULL, taker, NULL);
  pthread_join(other, NULL);
  CHECK(wild_hits == 1);
  return guest_verdict();
}
