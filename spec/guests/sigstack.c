// An alternate signal stack: a handler runs on it when the stack has overflowed, and siglongjmps out.
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>

#include "guest.h"

static char alternate[65536] __attribute__((aligned(16)));
static sigjmp_buf back;
static volatile int on_alternate;

static void handler(int sig) {
  char here;
  on_alternate = &here >= alternate && &here < alternate + sizeof alternate;
  stack_t now;
  sigaltstack(NULL, &now);
  CHECK(sig == SIGUSR1 || (now.ss_flags & SS_ONSTACK));
  if (sig == SIGSEGV) siglongjmp(back, 1);
}

static NOINLINE long overflow(long depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  long below = depth < 0 ? 0 : overflow(depth + 1);
  return below + frame[0];
}

int main(void) {
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
  CHECK(sigaltstack(&stack, &old) == 0 && (old.ss_flags & SS_DISABLE));
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  action.sa_flags = 0;
  sigaction(SIGUSR1, &action, NULL);

  raise(SIGUSR2);
  CHECK(on_alternate);
  raise(SIGUSR1);
  CHECK(!on_alternate);

  struct rlimit limit = {1 << 20, 1 << 20};
  setrlimit(RLIMIT_STACK, &limit);
  for (volatile int i = 0; i < 3; i++) {
    on_alternate = 0;
    if (sigsetjmp(back, 1) == 0) overflow(1);
    CHECK(on_alternate);
  }
  sigaltstack(NULL, &old);
  CHECK(old.ss_flags == 0 && old.ss_sp == alternate);
  return guest_verdict();
}
