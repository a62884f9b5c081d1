// Mutual tail calls: a million hops must neither grow the stack nor a profiler's shadow stack.
#include "guest.h"

static NOINLINE int is_odd(unsigned long n);

static NOINLINE int is_even(unsigned long n) { return n == 0 ? 1 : is_odd(n - 1); }
static NOINLINE int is_odd(unsigned long n) { return n == 0 ? 0 : is_even(n - 1); }

static NOINLINE long leaf(long x) { return x * 3; }
static NOINLINE long middle(long x) { return leaf(x + 1); }
static NOINLINE long outer(long x) { return middle(x) + 1; }

int main(void) {
  CHECK(is_even(1000000));
  CHECK(is_odd(1000001));
  long sum = 0;
  for (long i = 0; i < 100; i++) sum += outer(i);
  CHECK(sum == 15250);
  return guest_verdict();
}
