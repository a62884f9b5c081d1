// Futexes in rarer forms: priority-inheriting and robust locks under contention, locks between processes whose owner dies,
// FUTEX_WAKE_OP, requeueing, bit sets, time-outs and errors.
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static long futex(volatile uint32_t *a, int op, uint32_t v, uintptr_t timeout_or_n, volatile uint32_t *b, uint32_t v3) {
  return syscall(SYS_futex, a, op, v, timeout_or_n, b, v3);
}

static struct timespec in_ms(clockid_t clock, long ms) {
  struct timespec ts;
  clock_gettime(clock, &ts);
  ts.tv_nsec += ms * 1000000;
  ts.tv_sec += ts.tv_nsec / 1000000000;
  ts.tv_nsec %= 1000000000;
  return ts;
}

static pthread_mutex_t pi;
static long guarded;

static void *pi_work(void *arg) {
  for (int i = 0; i < 400; i++) {
    pthread_mutex_lock(&pi);
    long v = guarded;
    if (i % 50 == 0) usleep(50);
    guarded = v + 1;
    pthread_mutex_unlock(&pi);
  }
  return arg;
}

static void *pi_die(void *arg) {
  pthread_mutex_lock(&pi);
  return arg;
}

static void priority_inheritance(void) {
  pthread_t t[4];
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
  CHECK(pthread_mutex_init(&pi, &a) == 0);
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, pi_work, NULL);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  CHECK(guarded == 1600);
  pthread_mutex_destroy(&pi);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  CHECK(pthread_mutex_init(&pi, &a) == 0);
  pthread_create(&t[0], NULL, pi_die, NULL);
  pthread_join(t[0], NULL);
  CHECK(pthread_mutex_lock(&pi) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(&pi) == 0);
  pthread_create(&t[0], NULL, pi_work, NULL);
  struct timespec ts = in_ms(CLOCK_REALTIME, 20);
  pthread_mutex_unlock(&pi);
  pthread_join(t[0], NULL);
  pthread_mutex_lock(&pi);
  volatile uint32_t word = (uint32_t)getpid();
  CHECK(futex(&word, FUTEX_LOCK_PI, 0, (uintptr_t)&ts, NULL, 0) == -1 && errno == EDEADLK);
  CHECK(futex(&word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0) == 0 && word == 0);
  CHECK(futex(&word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0) == -1 && errno == EPERM);
  CHECK(futex(&word, FUTEX_TRYLOCK_PI, 0, 0, NULL, 0) == 0 && word == (uint32_t)getpid());
  pthread_mutex_unlock(&pi);
}

typedef struct Shared {
  pthread_mutex_t robust;
  pthread_mutex_t lock;
  pthread_cond_t cond;
  pthread_barrier_t barrier;
  sem_t sem;
  volatile int turn, value;
  volatile uint32_t word, other;
} Shared;

static void between_processes(void) {
  int status;
  Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t a;
  pthread_condattr_t ca;
  pthread_barrierattr_t ba;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&s->lock, &a);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&s->robust, &a);
  pthread_condattr_init(&ca);
  pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&s->cond, &ca);
  pthread_barrierattr_init(&ba);
  pthread_barrierattr_setpshared(&ba, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&s->barrier, &ba, 2);
  sem_init(&s->sem, 1, 0);
  for (int how = 0; how < 3; how++) { // the owner dies: of a signal, by _exit, by exit_group from another thread's point of view
    pid_t pid = fork();
    if (pid == 0) {
      pthread_mutex_lock(&s->robust);
      if (how == 0) kill(getpid(), SIGTERM);
      _exit(how);
    }
    waitpid(pid, &status, 0);
    CHECK(pthread_mutex_lock(&s->robust) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(&s->robust) == 0);
    pthread_mutex_unlock(&s->robust);
  }
  pid_t pid = fork();
  for (int i = 0; i < 100; i++) { // ping, pong
    pthread_mutex_lock(&s->lock);
    while (s->turn != (pid == 0)) pthread_cond_wait(&s->cond, &s->lock);
    s->value++;
    s->turn = pid != 0;
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->lock);
  }
  for (int i = 0; i < 20; i++) {
    if (pid == 0) sem_post(&s->sem);
    else sem_wait(&s->sem);
    pthread_barrier_wait(&s->barrier);
  }
  if (pid == 0) {
    // moved from one word to the other by the parent, then woken there
    int r = futex(&s->word, FUTEX_WAIT, 0, 0, NULL, 0) == 0 || errno == EAGAIN ? 17 : 18;
    _exit(r);
  }
  CHECK(s->value == 200);
  usleep(50000);
  long moved = futex(&s->word, FUTEX_CMP_REQUEUE, 0, INT_MAX, &s->other, 0);
  CHECK(moved == 1);
  CHECK(futex(&s->word, FUTEX_WAKE, 1, 0, NULL, 0) == 0);
  CHECK(futex(&s->other, FUTEX_WAKE, 1, 0, NULL, 0) == 1);
  CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 17);
}

static volatile uint32_t a, b;
static volatile int awake;

static void *wait_a(void *arg) {
  if (arg) futex(&a, FUTEX_WAIT_BITSET_PRIVATE, 0, 0, NULL, (uint32_t)(uintptr_t)arg);
  else futex(&a, FUTEX_WAIT_PRIVATE, 0, 0, NULL, 0);
  __atomic_fetch_add(&awake, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static void wait_for(int n) {
  for (int i = 0; i < 4000 && awake < n; i++) usleep(500);
  CHECK(awake == n);
}

static void raw(void) {
  pthread_t t[4];
  struct timespec ts = {0, 5000000}, late = in_ms(CLOCK_MONOTONIC, 5), real = in_ms(CLOCK_REALTIME, 5), bad = {0, 1000000000};
  CHECK(futex(&a, FUTEX_WAIT, 1, 0, NULL, 0) == -1 && errno == EAGAIN);
  CHECK(futex(&a, FUTEX_WAIT, 0, (uintptr_t)&ts, NULL, 0) == -1 && errno == ETIMEDOUT);
  CHECK(futex(&a, FUTEX_WAIT_BITSET, 0, (uintptr_t)&late, NULL, 1) == -1 && errno == ETIMEDOUT);
  CHECK(futex(&a, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, (uintptr_t)&real, NULL, 1) == -1 && errno == ETIMEDOUT);
  CHECK(futex(&a, FUTEX_WAIT_BITSET, 0, (uintptr_t)&late, NULL, 0) == -1 && errno == EINVAL);
  CHECK(futex(&a, FUTEX_WAIT, 0, (uintptr_t)&bad, NULL, 0) == -1 && errno == EINVAL);
  CHECK(futex((volatile uint32_t *)((char *)&a + 1), FUTEX_WAIT, 0, 0, NULL, 0) == -1 && errno == EINVAL);
  CHECK(futex((volatile uint32_t *)(uintptr_t)8, FUTEX_WAIT, 0, 0, NULL, 0) == -1 && errno == EFAULT);
  CHECK(futex(&a, 99, 0, 0, NULL, 0) == -1 && errno == ENOSYS);
  CHECK(futex(&a, FUTEX_WAKE, 1, 0, NULL, 0) == 0);
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, wait_a, (void *)(uintptr_t)(1u << i));
  usleep(50000);
  CHECK(futex(&a, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, 0, NULL, 16) == 0);
  CHECK(futex(&a, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, 0, NULL, 2) == 1);
  wait_for(1);
  CHECK(futex(&a, FUTEX_REQUEUE_PRIVATE, 1, 1, &b, 0) == 2);
  wait_for(2);
  CHECK(futex(&a, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, &b, 5) == -1 && errno == EAGAIN);
  // one waiter on each word now: b = 0 + 3, then the comparison with its old value decides about b's waiters
  CHECK(futex(&a, FUTEX_WAKE_OP_PRIVATE, 1, 1, &b, FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 1)) == 1 && b == 3);
  wait_for(3);
  CHECK(futex(&a, FUTEX_WAKE_OP_PRIVATE, 1, 1, &b, FUTEX_OP(FUTEX_OP_ANDN, 1, FUTEX_OP_CMP_GT, 2)) == 1 && b == 2);
  wait_for(4);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  CHECK(futex(&a, FUTEX_WAKE_OP_PRIVATE, 1, 1, &b, FUTEX_OP(FUTEX_OP_ADD, 0xffe, FUTEX_OP_CMP_LT, 0)) == 0 && b == 0);
}

int main(void) {
  priority_inheritance();
  raw();
  between_processes();
  return guest_verdict();
}
