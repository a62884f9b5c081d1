// Signals reach a loop that makes no calls within 10 ms, and a 1 kHz timer loses nothing: each expiry is a handler's run or an
// overrun that it is told of. Three kinds of loop: one block, many blocks with calls, through a pointer. By CPU time, so that
// a busy machine makes no difference (the kernel then looks at the timer every 4 ms); with an argument, by real time.
#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "guest.h"

enum { PERIOD = 1000000, EXPIRIES = 300 }; // ns; of each loop

static clockid_t clock_id = CLOCK_PROCESS_CPUTIME_ID;
static timer_t timer;
static volatile long handled, expired, late;
static int64_t start;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(clock_id, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void handler(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)context;
  expired += 1 + info->si_overrun;
  handled++;
  int64_t lag = now() - (start + expired * (int64_t)PERIOD); // of the last expiry that this run answers for
  if (lag > 10000000) late++;
}

static void one_block(void) {
  while (expired < EXPIRIES) {}
}

static volatile long sink;
__attribute__((noinline)) static void callee(long x) {
  if (x & 1)
    sink += x;
  else
    sink -= x;
}
static void calls(void) {
  for (long i = 0; expired < EXPIRIES; i++) callee(i);
}

static void (*volatile pointer)(long) = callee;
static void indirect(void) {
  for (long i = 0; expired < EXPIRIES; i++) pointer(i);
}

static void run(void (*loop)(void)) {
  struct itimerspec every = {{0, PERIOD}, {0, PERIOD}}, off = {{0, 0}, {0, 0}};
  handled = expired = late = 0;
  start = now();
  timer_settime(timer, 0, &every, NULL);
  loop();
  int64_t took = now() - start;
  timer_settime(timer, 0, &off, NULL);
  long should = (long)(took / PERIOD);
  CHECK(expired >= should - 8 && expired <= should + 1); // those since the last look are to come
  CHECK(late == 0);
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) clock_id = CLOCK_MONOTONIC;
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(SIGRTMIN, &action, NULL);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  CHECK(timer_create(clock_id, &event, &timer) == 0);
  run(one_block);
  run(calls);
  run(indirect);
  return guest_verdict();
}
