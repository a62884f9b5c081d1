// fork in a process with threads: the child has the forking thread only, can allocate, start threads of
// its own and leave; the parent's threads go on. Then a thread ends the whole process while others wait.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static long ticks;
static volatile int stop;

static void *tick(void *arg) {
  while (!stop) {
    free(malloc(100));
    __atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&ticks, __ATOMIC_RELAXED) % 64 == 0) usleep(100);
  }
  return arg;
}

static void *answer(void *arg) { return (char *)arg + 41; }

static void child(void) {
  long before = ticks;
  usleep(5000);
  if (ticks != before) _exit(1); // somebody else still runs here
  pthread_t thread;
  void *value = NULL;
  pthread_create(&thread, NULL, answer, (void *)1);
  pthread_join(thread, &value);
  for (int i = 0; i < 100; i++) free(malloc(1000));
  _exit(value == (void *)42 ? 0 : 2);
}

static void *fork_here(void *arg) {
  int status;
  pid_t pid = fork();
  if (pid == 0) child();
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  return arg;
}

static void *leave(void *arg) {
  usleep(5000);
  exit(guest_verdict() ? 1 : 23);
  return arg;
}

int main(void) {
  pthread_t tickers[2], forker;
  for (int i = 0; i < 2; i++) pthread_create(&tickers[i], NULL, tick, NULL);
  for (int i = 0; i < 5; i++) {
    pthread_create(&forker, NULL, fork_here, NULL);
    fork_here(NULL);
    pthread_join(forker, NULL);
  }
  long before = ticks;
  while (__atomic_load_n(&ticks, __ATOMIC_RELAXED) == before) usleep(100);
  pthread_create(&forker, NULL, leave, NULL);
  pause();
  return 3;
}
