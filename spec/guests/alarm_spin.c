// Spins on a flag that only a SIGALRM handler sets: a signal must reach a loop that makes no calls.
#include <signal.h>
#include <sys/time.h>

#include "guest.h"

static volatile sig_atomic_t flag;

static void handler(int sig) {
  (void)sig;
  flag = 1;
}

int main(void) {
  signal(SIGALRM, handler);
  for (int i = 0; i < 5; i++) {
    struct itimerval timer = {{0, 0}, {0, 10000}};
    flag = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
    while (!flag) {}
  }
  return guest_verdict();
}
