// Floating point: radix-2 Fourier transforms in place, there and back, in strides.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOG = 14, N = 1 << LOG };
typedef struct {
  double re, im;
} Complex;

static Complex data[N], roots[N / 2];

static void reverse(void) {
  for (unsigned i = 0, j = 0; i < N; i++) {
    if (i < j) {
      Complex t = data[i];
      data[i] = data[j], data[j] = t;
    }
    unsigned bit = N >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
  }
}

static void transform(double sign) {
  reverse();
  for (int half = 1; half < N; half *= 2)
    for (int base = 0; base < N; base += 2 * half)
      for (int k = 0; k < half; k++) {
        Complex w = roots[k * (N / 2 / half)], *a = &data[base + k], *b = a + half;
        double re = b->re * w.re - sign * b->im * w.im, im = sign * b->re * w.im + b->im * w.re;
        b->re = a->re - re, b->im = a->im - im;
        a->re += re, a->im += im;
      }
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 2;
  for (int i = 0; i < N / 2; i++)
    roots[i] = (Complex){cos(2 * M_PI * i / N), sin(2 * M_PI * i / N)};
  for (int i = 0; i < N; i++) data[i].re = (i * 37 % 101) / 101.0;
  for (long r = 0; r < rounds; r++) {
    transform(1);
    transform(-1);
    for (int i = 0; i < N; i++) data[i].re /= N, data[i].im /= N;
  }
  double sum = 0;
  for (int i = 0; i < N; i++) sum += data[i].re * (i % 7);
  printf("%.6f %.6f %.6f\n", data[1].re, data[N - 1].re, sum);
}
