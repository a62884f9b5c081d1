// Memory-bound: integer matrix products by columns, over more than the second-level cache.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 640 };
static uint32_t a[N][N], b[N][N], c[N][N];

static void transpose(uint32_t m[N][N]) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < i; j++) {
      uint32_t t = m[i][j];
      m[i][j] = m[j][i], m[j][i] = t;
    }
}

static void multiply(void) {
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      uint32_t sum = 0;
      for (int k = 0; k < N; k++) sum += a[i][k] * b[k][j];
      c[i][j] = sum;
    }
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 1;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) a[i][j] = (uint32_t)(i * 7 + j), b[i][j] = (uint32_t)(i ^ j * 3);
  uint32_t trace = 0;
  for (long r = 0; r < rounds; r++) {
    multiply();
    transpose(c);
    for (int i = 0; i < N; i++) trace = trace * 31 + c[i][N - 1 - i], b[i][r % N] += trace;
  }
  printf("%u\n", trace);
}
