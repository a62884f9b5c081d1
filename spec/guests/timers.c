// Timers of every sort that end in a signal: alarm, interval timers on real and CPU time, POSIX timers
// with a value, overruns, absolute sleeps, a sleep that a signal cuts short and tells the rest.
#include <errno.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static volatile sig_atomic_t hits, value;

static void hit(int sig, siginfo_t *info, void *context) {
  (void)sig;
  (void)context;
  hits++;
  value = info->si_value.sival_int;
}

static void catch(int sig) {
  struct sigaction action = {.sa_sigaction = hit, .sa_flags = SA_SIGINFO};
  sigaction(sig, &action, NULL);
  hits = 0;
}

int main(void) {
  catch(SIGALRM);
  CHECK(alarm(100) == 0 && alarm(1) >= 99);
  pause();
  CHECK(hits == 1 && alarm(0) == 0);

  catch(SIGVTALRM);
  struct itimerval virtual = {{0, 0}, {0, 5000}};
  CHECK(setitimer(ITIMER_VIRTUAL, &virtual, NULL) == 0);
  while (!hits) {}
  catch(SIGPROF);
  CHECK(setitimer(ITIMER_PROF, &virtual, NULL) == 0);
  while (!hits) {}

  catch(SIGRTMIN + 1);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 77};
  timer_t timer;
  CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  struct itimerspec when = {{0, 2000000}, {0, 2000000}}, left;
  CHECK(timer_settime(timer, 0, &when, NULL) == 0);
  while (hits < 3) pause();
  CHECK(value == 77);
  CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 2000000);
  CHECK(timer_getoverrun(timer) >= 0 && timer_delete(timer) == 0);

  struct timespec target, now, rest = {0, 0}, day = {86400, 0};
  clock_gettime(CLOCK_MONOTONIC, &target);
  target.tv_sec += target.tv_nsec >= 990000000;
  target.tv_nsec = (target.tv_nsec + 10000000) % 1000000000;
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &target, NULL) == 0);
  clock_gettime(CLOCK_MONOTONIC, &now);
  CHECK(now.tv_sec > target.tv_sec || (now.tv_sec == target.tv_sec && now.tv_nsec >= target.tv_nsec));

  catch(SIGALRM);
  struct itimerval brief = {{0, 0}, {0, 10000}};
  setitimer(ITIMER_REAL, &brief, NULL);
  CHECK(nanosleep(&day, &rest) == -1 && errno == EINTR);
  CHECK(rest.tv_sec >= 86390 && rest.tv_sec < 86400);
  return guest_verdict();
}
