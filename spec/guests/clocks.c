// Time and randomness: clocks go forward, sleeps last, getrandom gives bytes, CPU time is counted.
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static long now_us(clockid_t clock) {
  struct timespec t;
  CHECK(clock_gettime(clock, &t) == 0 && t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
  return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(void) {
  long before = now_us(CLOCK_MONOTONIC);
  for (int i = 0; i < 100; i++) {
    long next = now_us(CLOCK_MONOTONIC);
    CHECK(next >= before);
    before = next;
  }
  struct timespec nap = {0, 20000000}, resolution;
  CHECK(nanosleep(&nap, NULL) == 0);
  CHECK(now_us(CLOCK_MONOTONIC) - before >= 20000);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) == 0);
  CHECK(clock_getres(CLOCK_MONOTONIC, &resolution) == 0);

  struct timeval wall;
  CHECK(gettimeofday(&wall, NULL) == 0);
  CHECK(labs(wall.tv_sec - time(NULL)) <= 1);
  CHECK(wall.tv_sec > 1600000000);

  volatile unsigned spin = 0;
  while (now_us(CLOCK_PROCESS_CPUTIME_ID) < 5000) spin++;
  struct rusage usage;
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  CHECK(usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec > 0);
  struct tms used;
  CHECK(times(&used) != (clock_t)-1);

  unsigned char a[64] = {0}, b[64] = {0};
  CHECK(getrandom(a, sizeof a, 0) == 64 && getrandom(b, sizeof b, GRND_NONBLOCK) == 64);
  CHECK(memcmp(a, b, 64) != 0);
  return guest_verdict();
}
