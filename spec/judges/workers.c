// A program that uses threads as programs do: a bounded queue between producers and workers, a
// parallel sieve, a parallel matrix product. The output is a function of the input alone.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 4, JOBS = 2000, CAPACITY = 16, LIMIT = 200000, SIDE = 96 };

typedef struct Queue {
  pthread_mutex_t lock;
  pthread_cond_t not_empty, not_full;
  uint32_t item[CAPACITY];
  unsigned head, count;
} Queue;

static Queue queue = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, 0};
static pthread_mutex_t total_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static uint64_t total;
static unsigned char composite[LIMIT];
static double left[SIDE][SIDE], right[SIDE][SIDE], product[SIDE][SIDE];

static void put(uint32_t item) {
  pthread_mutex_lock(&queue.lock);
  while (queue.count == CAPACITY) pthread_cond_wait(&queue.not_full, &queue.lock);
  queue.item[(queue.head + queue.count++) % CAPACITY] = item;
  pthread_cond_signal(&queue.not_empty);
  pthread_mutex_unlock(&queue.lock);
}

static uint32_t take(void) {
  pthread_mutex_lock(&queue.lock);
  while (queue.count == 0) pthread_cond_wait(&queue.not_empty, &queue.lock);
  uint32_t item = queue.item[queue.head];
  queue.head = (queue.head + 1) % CAPACITY;
  queue.count--;
  pthread_cond_signal(&queue.not_full);
  pthread_mutex_unlock(&queue.lock);
  return item;
}

static uint64_t hash(uint32_t seed) {
  uint64_t h = seed;
  for (int i = 0; i < 200; i++) h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u + (uint64_t)i;
  return h;
}

// Each worker strikes the multiples in its own slice, and computes its own rows.
static void *work(void *arg) {
  unsigned id = (unsigned)(uintptr_t)arg;
  for (uint32_t item; (item = take()) != UINT32_MAX;) {
    uint64_t h = hash(item);
    pthread_mutex_lock(&total_lock);
    total += h;
    pthread_mutex_unlock(&total_lock);
  }
  pthread_barrier_wait(&barrier);
  unsigned from = LIMIT / WORKERS * id, to = from + LIMIT / WORKERS;
  for (unsigned p = 2; p * p < LIMIT; p++) {
    unsigned first = (from + p - 1) / p * p;
    for (unsigned n = first < p * p ? p * p : first; n < to; n += p) composite[n] = 1;
  }
  for (unsigned i = id; i < SIDE; i += WORKERS)
    for (unsigned j = 0; j < SIDE; j++) {
      double sum = 0;
      for (unsigned k = 0; k < SIDE; k++) sum += left[i][k] * right[k][j];
      product[i][j] = sum;
    }
  pthread_barrier_wait(&barrier);
  return NULL;
}

int main(void) {
  pthread_t thread[WORKERS];
  pthread_barrier_init(&barrier, NULL, WORKERS);
  for (unsigned i = 0; i < SIDE * SIDE; i++) {
    left[i / SIDE][i % SIDE] = 1.0 / (i + 1);
    right[i / SIDE][i % SIDE] = (double)(i % 17) - 8.5;
  }
  for (uintptr_t i = 0; i < WORKERS; i++)
    if (pthread_create(&thread[i], NULL, work, (void *)i) != 0) return 1;
  for (uint32_t i = 0; i < JOBS; i++) put(i);
  for (int i = 0; i < WORKERS; i++) put(UINT32_MAX);
  for (int i = 0; i < WORKERS; i++) pthread_join(thread[i], NULL);

  unsigned primes = 0;
  for (unsigned n = 2; n < LIMIT; n++) primes += !composite[n];
  double trace = 0;
  for (unsigned i = 0; i < SIDE; i++) trace += product[i][i];
  printf("jobs %016llx\nprimes %u\ntrace %.17g\n", (unsigned long long)total, primes, trace);
  return 0;
}
