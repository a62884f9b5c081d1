// Floating point: the C library's functions over a range of arguments, double and single, with
// conversions, comparisons and rounding; what scientific programs do between their loops.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double doubles(long n) {
  double sum = 0;
  for (long i = 1; i <= n; i++) {
    double x = (double)(i % 1000) / 250;
    sum += sin(x) * cos(x) + exp(-x) + log(1 + x) + atan(x) + pow(1 + x, 0.75);
    sum = fmod(sum, 1024);
  }
  return sum;
}

static float singles(long n) {
  float sum = 0;
  for (long i = 1; i <= n; i++) {
    float x = (float)(i % 513) * 0.0078125f;
    float y = sqrtf(x * x + 1) - fabsf(x - 2) / (x + 3);
    sum = sum * 0.5f + (y > 1 ? floorf(y * 8) : y);
  }
  return sum;
}

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 1000;
  printf("%.4f\n%.3f\n", doubles(n), (double)singles(8 * n));
}
