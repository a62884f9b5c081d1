/* Calls of functions that a tool replaces or wraps: its own, one of libc's (an indirect function on some architectures), one of
 * libm's; directly and through pointers, and by tail calls. */
#include <math.h>
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) long twice(long a, long b) { return 2 * a + b; }
__attribute__((noinline)) long tail(long a) { return twice(a, 1); }

int main(void) {
  size_t (*volatile length)(const char *) = strlen;
  long (*volatile through)(long, long) = twice;
  int (*volatile exponent)(double) = ilogb;
  size_t n = length("four");
  long a = twice(10, 1), b = through(20, 2), c = tail(30);
  printf("%zu %ld %ld %ld\n%d\n", n, a, b, c, exponent(1024));
  return 0;
}
