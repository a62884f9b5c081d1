// Sixteen threads, a million operations on mutexes, conditions, read-write locks, barriers, semaphores and a spin lock: each
// shared number ends as it must, and no reader sees one half-written. With an argument: that many rounds a thread.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "guest.h"

enum { THREADS = 16 };

static long rounds = 12500; // 5 operations each
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t slots;

static long counted, spun, pair[2], queue, passed, serial, turns[THREADS];
static atomic_long inside;

static void put_or_take(int put) { // a queue that holds 8
  pthread_mutex_lock(&queue_lock);
  while (put ? queue == 8 : queue == 0) pthread_cond_wait(put ? &emptied : &filled, &queue_lock);
  queue += put ? 1 : -1;
  passed += !put;
  pthread_cond_signal(put ? &filled : &emptied);
  pthread_mutex_unlock(&queue_lock);
}

static void read_or_write(int write) {
  if (write) {
    pthread_rwlock_wrlock(&rwlock);
    pair[0]++;
    pair[1]++;
  } else {
    pthread_rwlock_rdlock(&rwlock);
    CHECK(pair[0] == pair[1]);
  }
  pthread_rwlock_unlock(&rwlock);
}

static void *work(void *arg) {
  long me = (long)arg;
  for (long i = 0; i < rounds; i++) {
    pthread_mutex_lock(&mutex);
    counted++;
    pthread_mutex_unlock(&mutex);
    put_or_take(me % 2);
    read_or_write(i % 4 == 0);
    sem_wait(&slots);
    CHECK(atomic_fetch_add(&inside, 1) < 3);
    atomic_fetch_sub(&inside, 1);
    sem_post(&slots);
    pthread_spin_lock(&spin);
    spun++;
    pthread_spin_unlock(&spin);
    if (i % 125) continue;
    turns[me]++;
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) serial++;
    for (int k = 0; k < THREADS; k++) CHECK(turns[k] == turns[me]);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  if (argc > 1) rounds = atol(argv[1]);
  pthread_barrier_init(&barrier, NULL, THREADS);
  pthread_spin_init(&spin, 0);
  sem_init(&slots, 0, 3);
  for (long i = 0; i < THREADS; i++) CHECK(!pthread_create(&threads[i], NULL, work, (void *)i));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK(counted == rounds * THREADS && spun == counted && passed == counted / 2 && queue == 0);
  CHECK(pair[0] == pair[1] && pair[0] == (rounds + 3) / 4 * THREADS && serial == (rounds + 124) / 125 && inside == 0);
  return guest_verdict();
}
