// loop N (default 1 million): a long-running integer loop, for speed and for counting.
#include "guest.h"

static NOINLINE unsigned long spin(unsigned long n) {
  unsigned long x = 88172645463325252ul;
  for (unsigned long i = 0; i < n; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

int main(int argc, char **argv) {
  unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000000;
  printf("%016lx\n", spin(n));
  return 0;
}
