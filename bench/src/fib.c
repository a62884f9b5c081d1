// Call-heavy: Fibonacci numbers and the Ackermann function; direct calls, small frames.
#include <stdio.h>
#include <stdlib.h>

#define CALL __attribute__((noinline, noipa, optimize("no-optimize-sibling-calls")))

CALL static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

CALL static long ackermann(long m, long n) {
  if (m == 0) return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 20, rounds = argc > 2 ? atol(argv[2]) : 1;
  long sum = fib(n);
  for (long i = 0; i < rounds; i++) sum += ackermann(2, 300 + i % 8) + ackermann(3, 6);
  printf("%ld\n", sum);
}
