// longjmp out of deep frames, repeatedly, and out of a signal handler's mask (siglongjmp).
#include <setjmp.h>
#include <signal.h>

#include "guest.h"

static jmp_buf back;
static sigjmp_buf sigback;

static NOINLINE int dive(int depth, int value) {
  if (value < 0) return 0;
  if (depth == 0) longjmp(back, value);
  return dive(depth - 1, value) + 1;
}

static void handler(int sig) { siglongjmp(sigback, sig); }

int main(void) {
  volatile int returns = 0;
  for (volatile int i = 1; i <= 50; i++) {
    int value = setjmp(back);
    if (value == 0) dive(i, i);
    CHECK(value == i);
    returns++;
  }
  CHECK(returns == 50);

  signal(SIGUSR1, handler);
  for (volatile int i = 0; i < 10; i++) {
    int sig = sigsetjmp(sigback, 1);
    if (sig == 0) raise(SIGUSR1);
    CHECK(sig == SIGUSR1);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(!sigismember(&now, SIGUSR1));
  }
  return guest_verdict();
}
