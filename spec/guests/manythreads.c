// manythreads N (default 64): waves of short-lived threads over atomics, a semaphore and a spin lock;
// detached threads, and a thread that outlives main's last statement by pthread_exit.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <unistd.h>

#include "guest.h"

static long sum, done;
static sem_t slots;
static pthread_spinlock_t spin;
static long guarded;

static void *add(void *arg) {
  for (int i = 0; i < 100; i++) __atomic_fetch_add(&sum, (intptr_t)arg, __ATOMIC_RELAXED);
  sem_wait(&slots);
  pthread_spin_lock(&spin);
  guarded++;
  pthread_spin_unlock(&spin);
  sem_post(&slots);
  __atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static void *farewell(void *arg) {
  pthread_join(*(pthread_t *)arg, NULL);
  exit(guest_verdict());
}

int main(int argc, char **argv) {
  long threads = argc > 1 ? atol(argv[1]) : 64, expect = 0;
  pthread_t ids[1024];
  sem_init(&slots, 0, 3);
  pthread_spin_init(&spin, 0);
  for (int wave = 0; wave < 2; wave++) {
    for (long i = 0; i < threads; i++) {
      CHECK(pthread_create(&ids[i], NULL, add, (void *)i) == 0);
      expect += 100 * i;
    }
    for (long i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  }
  for (long i = 0; i < 8; i++) {
    CHECK(pthread_create(&ids[i], NULL, add, (void *)i) == 0);
    pthread_detach(ids[i]);
    expect += 100 * i;
  }
  while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < 2 * threads + 8) usleep(100);
  CHECK(sum == expect);
  CHECK(guarded == 2 * threads + 8);

  static pthread_t self, last;
  self = pthread_self();
  pthread_create(&last, NULL, farewell, &self);
  pthread_exit(NULL);
}
