// Naive Fibonacci: call-heavy, self-recursive; fib N (default 20) makes 2*fib(N+1)-1 calls.
#include "guest.h"

static NOINLINE unsigned long fib(unsigned n) {
  if (n < 2) return n;
  unsigned long before = fib(n - 1); // kept in a variable, so that neither call is a tail call
  return before + fib(n - 2);
}

int main(int argc, char **argv) {
  unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 20;
  printf("fib(%u) = %lu\n", n, fib(n));
  return 0;
}
