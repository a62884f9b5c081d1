// For the micro-benchmarks: calls `hot`, which stores to `target` once, as often as asked.
#include <stdio.h>
#include <stdlib.h>

long target;

__attribute__((noinline, noipa)) void hot(long i) { target = i; }

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 1000;
  for (long i = 0; i < n; i++) hot(i);
  printf("%ld\n", target);
}
