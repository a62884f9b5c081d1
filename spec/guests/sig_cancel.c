// What the C library does by signals of its own: cancelling threads wherever they wait, and changing
// the ids of all threads at once; timers that call a function in a thread.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static int channel[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static volatile int cleaned;

static void clean(void *arg) {
  if (arg) pthread_mutex_unlock(arg);
  cleaned++;
}

static void *in_read(void *arg) {
  char c;
  pthread_cleanup_push(clean, NULL);
  CHECK(read(channel[0], &c, 1) == 1);
  pthread_cleanup_pop(0);
  return arg;
}
static void *in_cond(void *arg) {
  pthread_mutex_lock(&lock);
  pthread_cleanup_push(clean, &lock);
  for (;;) pthread_cond_wait(&never, &lock);
  pthread_cleanup_pop(0);
  return arg;
}
static void *in_sleep(void *arg) {
  pthread_cleanup_push(clean, NULL);
  for (;;) sleep(1000);
  pthread_cleanup_pop(0);
  return arg;
}
static void *in_sem(void *arg) {
  pthread_cleanup_push(clean, NULL);
  for (;;) sem_wait(&sem);
  pthread_cleanup_pop(0);
  return arg;
}
static void *in_loop(void *arg) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  pthread_cleanup_push(clean, NULL);
  for (volatile long i = 0;; i++) {}
  pthread_cleanup_pop(0);
  return arg;
}

static void cancelling(void) {
  void *(*const where[])(void *) = {in_read, in_cond, in_sleep, in_sem, in_loop};
  for (int i = 0; i < 5; i++) {
    pthread_t t;
    void *result = NULL;
    cleaned = 0;
    CHECK(pthread_create(&t, NULL, where[i], NULL) == 0);
    usleep(i % 2 ? 20000 : 0);
    CHECK(pthread_cancel(t) == 0);
    CHECK(pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(cleaned <= 1);
  }
}

static volatile int stop;
static uid_t uid;
static gid_t gid;
static void *ids(void *arg) {
  while (!stop) usleep(1000);
  CHECK(geteuid() == uid && getegid() == gid);
  return arg;
}

static void all_ids(void) { // root gives up its rights; others set what they have
  pthread_t t[3];
  uid = geteuid() == 0 ? 65534 : geteuid();
  gid = geteuid() == 0 ? 65534 : getegid();
  for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, ids, NULL);
  usleep(5000);
  CHECK(setegid(gid) == 0);
  CHECK(seteuid(uid) == 0);
  stop = 1;
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
}

static volatile int ticks, tick_value;
static void tick(union sigval v) {
  tick_value = v.sival_int;
  ticks++;
}

static void thread_timer(void) {
  timer_t timer;
  struct sigevent ev = {.sigev_notify = SIGEV_THREAD, .sigev_value = {.sival_int = 31}};
  ev.sigev_notify_function = tick;
  struct itimerspec every = {{0, 2000000}, {0, 2000000}};
  CHECK(timer_create(CLOCK_MONOTONIC, &ev, &timer) == 0);
  CHECK(timer_settime(timer, 0, &every, NULL) == 0);
  for (int i = 0; i < 2000 && ticks < 5; i++) usleep(1000);
  CHECK(ticks >= 5 && tick_value == 31);
  CHECK(timer_delete(timer) == 0);
}

int main(void) {
  CHECK(pipe(channel) == 0);
  sem_init(&sem, 0, 0);
  cancelling();
  thread_timer();
  all_ids();
  return guest_verdict();
}
