// What stands on futexes beyond plain locks: timeouts, a robust mutex whose owner died, mutex and condition
// variable shared between processes, recursive and error-checking mutexes, raw wait and wake.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

typedef struct Shared {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int value;
} Shared;

static struct timespec soon(long ms) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += ms * 1000000;
  t.tv_sec += t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  return t;
}

static void *die_holding(void *arg) {
  pthread_mutex_lock(arg);
  return NULL;
}

static void test_robust(void) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex;
  pthread_t thread;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  pthread_create(&thread, NULL, die_holding, &mutex);
  pthread_join(thread, NULL);
  CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(&mutex) == 0);
  CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_lock(&mutex) == 0);
}

static void test_timeouts(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  struct timespec t = soon(10);
  pthread_mutex_lock(&mutex);
  CHECK(pthread_cond_timedwait(&never, &mutex, &t) == ETIMEDOUT);
  t = soon(10);
  CHECK(pthread_mutex_timedlock(&mutex, &t) == ETIMEDOUT);
  CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
  pthread_mutex_unlock(&mutex);

  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&mutex, &attributes);
  CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_lock(&mutex) == EDEADLK);
  CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == EPERM);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&mutex, &attributes);
  for (int i = 0; i < 3; i++) CHECK(pthread_mutex_lock(&mutex) == 0);
  for (int i = 0; i < 3; i++) CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void test_between_processes(void) {
  Shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t lock_attributes;
  pthread_condattr_t cond_attributes;
  pthread_mutexattr_init(&lock_attributes);
  pthread_mutexattr_setpshared(&lock_attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared->lock, &lock_attributes);
  pthread_condattr_init(&cond_attributes);
  pthread_condattr_setpshared(&cond_attributes, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&shared->changed, &cond_attributes);
  pid_t child = fork();
  for (int i = 0; i < 20; i++) {
    int mine = child == 0;
    pthread_mutex_lock(&shared->lock);
    while (shared->value % 2 != mine) pthread_cond_wait(&shared->changed, &shared->lock);
    shared->value++;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
  }
  if (child == 0) _exit(0);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(shared->value == 40);
}

static void test_raw(void) {
  static int word = 5;
  struct timespec brief = {0, 5000000};
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 4, NULL) == -1 && errno == EAGAIN);
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, &brief) == -1 && errno == ETIMEDOUT);
  CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1) == 0);
  CHECK(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAIT_PRIVATE, 5, &brief) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_futex, 8, FUTEX_WAIT_PRIVATE, 5, &brief) == -1 && errno == EFAULT);
}

int main(void) {
  test_robust();
  test_timeouts();
  test_between_processes();
  test_raw();
  return guest_verdict();
}
