/* base/softfp against the host's FPU in the four rounding modes it has, and RMM against exact integer arithmetic on the results of
 * the others: RMM differs from RNE only at ties, where it is the one of RDN and RUP that lies away from zero. */
#pragma GCC optimize("rounding-math")
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/softfp.h"

static uint64_t seed = 88172645463325252ull;
static uint64_t random64(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

/* Mostly interesting: exponents close together or extreme, few significant bits, ties. */
static uint64_t operand(int frac, int ebits) {
  uint64_t r = random64(), sign = (r >> 60 & 1) << (frac + ebits), emask = (1ull << ebits) - 1, fmask = (1ull << frac) - 1;
  uint64_t exp = random64() & emask, f = random64() & fmask;
  switch (r & 7) {
  case 0: exp = (emask >> 1) + (random64() % 9) - 4; break;
  case 1: exp = random64() & 1 ? 0 : emask; break;
  case 2: exp = random64() % 4; break;
  case 3: exp = emask - random64() % 4; break;
  case 4: exp = (emask >> 1) + random64() % 70; break;
  default: break;
  }
  switch (r >> 3 & 7) {
  case 0: f = 0; break;
  case 1: f = fmask; break;
  case 2: f = 1ull << (random64() % (unsigned)frac); break;
  case 3: f &= ~0ull << (random64() % (unsigned)frac); break;
  case 4: f = random64() & 1; break;
  default: break;
  }
  return sign | exp << frac | f;
}

static unsigned host_flags(void) {
  int e = fetestexcept(FE_ALL_EXCEPT);
  return (unsigned)((e & FE_INEXACT ? SOFTFP_NX : 0) | (e & FE_UNDERFLOW ? SOFTFP_UF : 0) | (e & FE_OVERFLOW ? SOFTFP_OF : 0) |
                    (e & FE_DIVBYZERO ? SOFTFP_DZ : 0) | (e & FE_INVALID ? SOFTFP_NV : 0));
}

static unsigned long failures, cases;

static void check(const char *op, int rm, uint64_t a, uint64_t b, uint64_t c, uint64_t got, unsigned flags, uint64_t want, unsigned want_flags) {
  cases++;
  if (got == want && flags == want_flags) return;
  if (failures++ < 20)
    printf("%s rm %d: %016llx %016llx %016llx: got %016llx flags %x, want %016llx flags %x\n", op, rm, (unsigned long long)a, (unsigned long long)b,
           (unsigned long long)c, (unsigned long long)got, flags, (unsigned long long)want, want_flags);
}

#define WIDTH(W, T, F, FRAC, EBITS, NAN_, SQRT, FMA)                                                                   \
  static F as_float##W(uint64_t v) {                                                                                   \
    T t = (T)v;                                                                                                        \
    F f;                                                                                                               \
    memcpy(&f, &t, sizeof f);                                                                                          \
    return f;                                                                                                          \
  }                                                                                                                    \
  static uint64_t as_bits##W(F f) {                                                                                    \
    T t;                                                                                                               \
    memcpy(&t, &f, sizeof t);                                                                                          \
    return isnan(f) ? NAN_ : t;                                                                                        \
  }                                                                                                                    \
  static void run##W(int rm) {                                                                                         \
    uint64_t a = operand(FRAC, EBITS), b = operand(FRAC, EBITS), c = operand(FRAC, EBITS), got;                        \
    volatile F x = as_float##W(a), y = as_float##W(b), z = as_float##W(c), r;                                          \
    SoftFp fp;                                                                                                         \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wfloat-equal\"")                                 \
    ONE(W, "add", softfp_add##W(&fp, (T)a, (T)b), x + y)                                                               \
    ONE(W, "sub", softfp_sub##W(&fp, (T)a, (T)b), x - y)                                                               \
    ONE(W, "mul", softfp_mul##W(&fp, (T)a, (T)b), x * y)                                                               \
    ONE(W, "div", softfp_div##W(&fp, (T)a, (T)b), x / y)                                                               \
    ONE(W, "sqrt", softfp_sqrt##W(&fp, (T)a), SQRT(x))                                                                 \
    if (!isnan(z) || !isnan(x * y)) /* inf * 0 + NaN: RISC-V raises NV (11.8), the host does not */                    \
    ONE(W, "fma", softfp_fma##W(&fp, (T)a, (T)b, (T)c), FMA(x, y, z))                                                  \
    ONE(W, "i32", softfp_i32_to_f##W(&fp, (int32_t)a), (F)(int32_t)a)                                                  \
    ONE(W, "u32", softfp_u32_to_f##W(&fp, (uint32_t)a), (F)(uint32_t)a)                                                \
    ONE(W, "i64", softfp_i64_to_f##W(&fp, (int64_t)a), (F)(int64_t)a)                                                  \
    _Pragma("GCC diagnostic pop")                                                                                      \
  }

#define ONE(W, op, ours, theirs)                                                                                       \
  {                                                                                                                    \
  fp = (SoftFp){.rm = (uint8_t)rm};                                                                                    \
  got = ours;                                                                                                          \
  feclearexcept(FE_ALL_EXCEPT);                                                                                        \
  r = theirs;                                                                                                          \
  check(op #W, rm, a, b, c, got, fp.flags, as_bits##W(r), host_flags());                                               \
  }

static float sqrt_f(float x) { __asm__ volatile("sqrtss %0, %0" : "+x"(x)); return x; }
static double sqrt_d(double x) { __asm__ volatile("sqrtsd %0, %0" : "+x"(x)); return x; }
static float fma_f(float x, float y, float z) { __asm__ volatile("vfmadd213ss %2, %1, %0" : "+x"(x) : "x"(y), "x"(z)); return x; }
static double fma_d(double x, double y, double z) { __asm__ volatile("vfmadd213sd %2, %1, %0" : "+x"(x) : "x"(y), "x"(z)); return x; }

WIDTH(32, uint32_t, float, 23, 8, 0x7fc00000u, sqrt_f, fma_f)
WIDTH(64, uint64_t, double, 52, 11, 0x7ff8000000000000ull, sqrt_d, fma_d)

static void conversions(int rm) {
  uint64_t a = operand(52, 11), b = operand(23, 8);
  SoftFp fp = {.rm = (uint8_t)rm};
  uint64_t got = softfp_f64_to_f32(&fp, a);
  feclearexcept(FE_ALL_EXCEPT);
  volatile double d = as_float64(a);
  volatile float r = (float)d;
  check("f64_to_f32", rm, a, 0, 0, got, fp.flags, as_bits32(r), host_flags());
  fp = (SoftFp){.rm = (uint8_t)rm};
  got = softfp_f32_to_f64(&fp, (uint32_t)b);
  feclearexcept(FE_ALL_EXCEPT);
  volatile float s = as_float32(b);
  volatile double e = (double)s;
  check("f32_to_f64", rm, b, 0, 0, got, fp.flags, as_bits64(e), host_flags());
  /* To integers: the host rounds to an integral double first; its range is checked here. */
  fp = (SoftFp){.rm = (uint8_t)rm};
  int64_t n = softfp_f64_to_i64(&fp, a);
  feclearexcept(FE_ALL_EXCEPT);
  double whole = rint(d);
  int64_t want = isnan(d) || whole >= 0x1p63 ? INT64_MAX : whole < -0x1p63 ? INT64_MIN : (int64_t)whole;
  unsigned flags = isnan(d) || whole >= 0x1p63 || whole < -0x1p63 ? SOFTFP_NV : whole != d ? SOFTFP_NX : 0;
  check("f64_to_i64", rm, a, 0, 0, (uint64_t)n, fp.flags, (uint64_t)want, flags);
  fp = (SoftFp){.rm = (uint8_t)rm};
  uint32_t u = softfp_f64_to_u32(&fp, a);
  int bad = isnan(d) || whole > 4294967295.0 || whole < 0;
  uint32_t want_u = isnan(d) || whole > 4294967295.0 ? UINT32_MAX : whole < 0 ? 0 : (uint32_t)whole;
  check("f64_to_u32", rm, a, 0, 0, u, fp.flags, want_u, bad ? SOFTFP_NV : whole != d ? SOFTFP_NX : 0u);
}

/* RMM: between RDN and RUP neighbours, the nearer one; a tie (RNE picked the even one) goes away from zero. */
#define RMM(W, op, T, call)                                                                                            \
  {                                                                                                                    \
    SoftFp fp = {.rm = SOFTFP_RMM}, near = {.rm = SOFTFP_RNE}, down = {.rm = SOFTFP_RTZ}, *p = &fp;                    \
    T got = call;                                                                                                      \
    p = &near;                                                                                                         \
    T even = call;                                                                                                     \
    p = &down;                                                                                                         \
    T z = call;                                                                                                        \
    cases++;                                                                                                           \
    if (got != even && !(even == z && got == (T)(z + 1)) && failures++ < 20) printf("RMM " op #W " %llx\n", (unsigned long long)got); \
  }

int main(int argc, char **argv) {
  static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
  for (int rm = 0; rm < 4; rm++) {
    fesetround(modes[rm]);
    for (unsigned long i = 0; i < n; i++) {
      run32(rm);
      run64(rm);
      conversions(rm);
    }
  }
  fesetround(FE_TONEAREST);
  for (unsigned long i = 0; i < n; i++) {
    uint64_t a = operand(52, 11), b = operand(52, 11), c = operand(23, 8), d = operand(23, 8);
    RMM(64, "add", uint64_t, softfp_add64(p, a, b))
    RMM(64, "mul", uint64_t, softfp_mul64(p, a, b))
    RMM(32, "div", uint32_t, softfp_div32(p, (uint32_t)c, (uint32_t)d))
    RMM(32, "add", uint32_t, softfp_add32(p, (uint32_t)c, (uint32_t)d))
  }
  printf("%lu passed, %lu failed\n", cases - failures, failures);
  return failures != 0;
}
