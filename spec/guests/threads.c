// Four threads over every pthread primitive: mutex, condition variable, barrier, once, thread-local
// storage, rwlock, join values.
#include <pthread.h>
#include <stdint.h>

#include "guest.h"

enum { THREADS = 4, ROUNDS = 500 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static _Thread_local long mine;
static long counter, shared, initialised;
static int turn;

static void initialise(void) { initialised++; }

static void take_turns(int id) {
  for (int round = 0; round < 20; round++) {
    pthread_mutex_lock(&lock);
    while (turn != id) pthread_cond_wait(&turn_changed, &lock);
    turn = (turn + 1) % THREADS;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&lock);
  }
}

static void *work(void *arg) {
  int id = (int)(intptr_t)arg;
  pthread_once(&once, initialise);
  for (int i = 0; i < ROUNDS; i++) {
    pthread_mutex_lock(&lock);
    counter++;
    pthread_mutex_unlock(&lock);
    mine += id;
  }
  pthread_barrier_wait(&barrier);
  CHECK(counter == THREADS * ROUNDS);
  pthread_barrier_wait(&barrier);
  take_turns(id);
  pthread_rwlock_wrlock(&rwlock);
  shared += mine;
  pthread_rwlock_unlock(&rwlock);
  return (void *)(intptr_t)mine;
}

int main(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
  for (int i = 0; i < THREADS; i++) {
    void *value;
    pthread_join(threads[i], &value);
    CHECK((intptr_t)value == (intptr_t)i * ROUNDS);
  }
  CHECK(initialised == 1);
  CHECK(mine == 0);
  pthread_rwlock_rdlock(&rwlock);
  CHECK(shared == ROUNDS * (THREADS * (THREADS - 1) / 2));
  pthread_rwlock_unlock(&rwlock);
  return guest_verdict();
}
