// Memory-bound: passes over arrays larger than the caches: sums, memcpy and memset.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 21 }; // 16 MiB an array
static double a[N], b[N], c[N];

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 1;
  uint64_t sum = 0;
  for (int i = 0; i < N; i++) b[i] = i % 10, c[i] = i % 7;
  for (long r = 0; r < rounds; r++) {
    for (int i = 0; i < N; i++) a[i] = b[i] + 0.5 * c[i];
    memcpy(c, b, sizeof c);
    for (int i = 0; i < N; i++) sum += (uint64_t)(int64_t)a[i];
    memcpy(b, a, sizeof b);
    memset(a, (int)r & 1, sizeof a);
    for (int i = 0; i < N; i += 2) b[i] = c[i] - 1;
  }
  printf("%llu %.3f\n", (unsigned long long)sum, b[N / 2] + c[N / 3]);
}
