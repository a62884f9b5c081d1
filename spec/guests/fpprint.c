// Floating point through printf, strtod and libm: text and bits that do not depend on the machine.
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "guest.h"

static volatile double numbers[] = {0.0, -0.0, 1.0, 0.1, 1.0 / 3, 1e308, 5e-324, 2.2250738585072014e-308,
                                    9007199254740993.0, -123456.789, INFINITY, NAN};

int main(void) {
  for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    double x = fabs(numbers[i]) >= 0 ? numbers[i] : fabs(numbers[i]); // the sign of a NaN is not fixed
    printf("%g %.17g %a %.3e %10.4f\n", x, x, x, x, fabs(x) < 1e20 ? x : 0.0);
    char text[64];
    snprintf(text, sizeof text, "%.17g", x);
    CHECK(strtod(text, NULL) == x || x != x);
  }
  volatile float f = 16777217.0f, third = 1.0f / 3;
  printf("%.9g %.9g %.9g\n", (double)f, (double)third, (double)sqrtf(2.0f));
  volatile long double quad = 1.0L;
  printf("%.20Lg %.20Lg\n", quad / 3, (long double)0.1);
  printf("%.15g %.15g %.15g %.15g\n", sin(1.0), exp(1.0), log(10.0), pow(2.0, 0.5));
  volatile double one = 1.0, three = 3.0;
  int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  for (int i = 0; i < 4; i++) {
    fesetround(modes[i]);
    CHECK(fegetround() == modes[i]);
    printf("%a %a %ld\n", one / three, -one / three, lrint(2.5));
  }
  fesetround(FE_TONEAREST);
  feclearexcept(FE_ALL_EXCEPT);
  volatile double bad = one / three;
  CHECK(fetestexcept(FE_ALL_EXCEPT) == FE_INEXACT);
  bad = one / numbers[0];
  CHECK(fetestexcept(FE_DIVBYZERO));
  bad = sqrt(-one);
  CHECK(fetestexcept(FE_INVALID));
  bad = numbers[5] * 10;
  CHECK(fetestexcept(FE_OVERFLOW));
  bad = numbers[7] / 3;
  CHECK(fetestexcept(FE_UNDERFLOW));
  (void)bad;
  return guest_verdict();
}
