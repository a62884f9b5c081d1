/* base/softfp against the host's FPU in the four rounding modes it has, against exact integer
 * arithmetic (softfp_exact.h) in all five, and against libm for what these do not compute.
 *
 *   softfp_test [ROUNDS [STRIDE]]   ROUNDS random operands per operation and mode, some of them
 * related to each other; all triples of corner values; every STRIDEth pattern of an f32 softfp_test
 * time                ns per operation */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/softfp.h"
#include "softfp_exact.h"

typedef struct Width {
  ExactFormat format;
  uint64_t sign, inf, nan;
} Width;
static const Width w32 = {{23, 8}, 1ull << 31, 0x7f800000, 0x7fc00000};
static const Width w64 = {{52, 11}, 1ull << 63, 0x7ffull << 52, 0x7ff8000000000000};

static unsigned long failures, cases;

static uint64_t random64(void) {
  static uint64_t seed = 88172645463325252ull;
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

static bool is_nan(const Width *w, uint64_t v) { return (v & (w->sign - 1)) > w->inf; }
static bool is_snan(const Width *w, uint64_t v) { return is_nan(w, v) && !(v & (w->nan ^ w->inf)); }
static bool is_finite(const Width *w, uint64_t v) { return (v & w->inf) != w->inf; }

static float to_float(uint64_t v) {
  uint32_t t = (uint32_t)v;
  float f;
  memcpy(&f, &t, sizeof f);
  return f;
}
static double to_double(uint64_t v) {
  double d;
  memcpy(&d, &v, sizeof d);
  return d;
}

static void check(const char *name, unsigned rm, const uint64_t *v, SoftFp got, uint64_t bits,
                  uint64_t want, unsigned flags) {
  cases++;
  if (bits == want && got.flags == flags) return;
  if (failures++ < 20)
    printf("%s, rounding mode %u: %016llx %016llx %016llx: got %016llx flags %x, want %016llx "
           "flags %x\n",
           name, rm, (unsigned long long)v[0], (unsigned long long)v[1], (unsigned long long)v[2],
           (unsigned long long)bits, got.flags, (unsigned long long)want, flags);
}

/* ---- operations that round ---- */

typedef uint64_t Ours(SoftFp *fp, const uint64_t *v);
typedef uint64_t Host(unsigned *mxcsr,
                      const uint64_t *v); /* mxcsr: its rounding mode in, flags out */

/* One instruction between setting and reading mxcsr, on the raw bits of v[0..2] in %0, %2 and %3.
 */
#define HOST(name, insn)                                                                           \
  static uint64_t name(unsigned *mxcsr, const uint64_t *v) {                                       \
    double x = to_double(v[0]), y = to_double(v[1]), z = to_double(v[2]);                          \
    unsigned usual = 0x1f80;                                                                       \
    uint64_t bits;                                                                                 \
    __asm__ volatile("ldmxcsr %1\n\t" insn "\n\tstmxcsr %1\n\tldmxcsr %4"                          \
                     : "+x"(x), "+m"(*mxcsr)                                                       \
                     : "x"(y), "x"(z), "m"(usual));                                                \
    memcpy(&bits, &x, sizeof bits);                                                                \
    return bits;                                                                                   \
  }
#define OURS(name, call)                                                                           \
  static uint64_t name(SoftFp *fp, const uint64_t *v) { return call; }

#define BOTH(W, s)                                                                                 \
  HOST(host_add##W, "adds" s " %2, %0")                                                            \
  HOST(host_sub##W, "subs" s " %2, %0")                                                            \
  HOST(host_mul##W, "muls" s " %2, %0")                                                            \
  HOST(host_div##W, "divs" s " %2, %0")                                                            \
  HOST(host_sqrt##W, "sqrts" s " %0, %0")                                                          \
  HOST(host_fma##W, "vfmadd213s" s " %3, %2, %0")                                                  \
  OURS(add##W, softfp_add##W(fp, v[0], v[1]))                                                      \
  OURS(sub##W, softfp_sub##W(fp, v[0], v[1]))                                                      \
  OURS(mul##W, softfp_mul##W(fp, v[0], v[1]))                                                      \
  OURS(div##W, softfp_div##W(fp, v[0], v[1]))                                                      \
  OURS(sqrt##W, softfp_sqrt##W(fp, v[0]))                                                          \
  OURS(fma##W, softfp_fma##W(fp, v[0], v[1], v[2]))                                                \
  OURS(from_i32_##W, softfp_i32_to_f##W(fp, (int32_t)v[0]))                                        \
  OURS(from_u32_##W, softfp_u32_to_f##W(fp, (uint32_t)v[0]))                                       \
  OURS(from_i64_##W, softfp_i64_to_f##W(fp, (int64_t)v[0]))                                        \
  OURS(from_u64_##W, softfp_u64_to_f##W(fp, v[0]))

BOTH(32, "s")
BOTH(64, "d")
HOST(host_narrow, "cvtsd2ss %0, %0")
HOST(host_widen, "cvtss2sd %0, %0")
OURS(narrow, softfp_f64_to_f32(fp, v[0]))
OURS(widen, softfp_f32_to_f64(fp, (uint32_t)v[0]))

typedef enum Meaning { ADD, SUB, MUL, DIV, SQRT, FMA, CONVERT, I32, U32, I64, U64 } Meaning;
typedef struct Op {
  const char *name;
  Meaning meaning;
  int operands;
  const Width *from, *to; /* from: NULL for integers */
  Ours *ours;
  Host *host;
} Op;

#define OPS(W)                                                                                     \
  {"add" #W, ADD, 2, &w##W, &w##W, add##W, host_add##W},                                           \
      {"sub" #W, SUB, 2, &w##W, &w##W, sub##W, host_sub##W},                                       \
      {"mul" #W, MUL, 2, &w##W, &w##W, mul##W, host_mul##W},                                       \
      {"div" #W, DIV, 2, &w##W, &w##W, div##W, host_div##W},                                       \
      {"sqrt" #W, SQRT, 1, &w##W, &w##W, sqrt##W, host_sqrt##W},                                   \
      {"fma" #W, FMA, 3, &w##W, &w##W, fma##W, host_fma##W},                                       \
      {"i32_to_f" #W, I32, 1, NULL, &w##W, from_i32_##W, NULL},                                    \
      {"u32_to_f" #W, U32, 1, NULL, &w##W, from_u32_##W, NULL},                                    \
      {"i64_to_f" #W, I64, 1, NULL, &w##W, from_i64_##W, NULL},                                    \
      {"u64_to_f" #W, U64, 1, NULL, &w##W, from_u64_##W, NULL},

static const Op ops[] = {OPS(32) OPS(64){"f64_to_f32", CONVERT, 1, &w64, &w32, narrow, host_narrow},
                         {"f32_to_f64", CONVERT, 1, &w32, &w64, widen, host_widen}};
enum { OPS_COUNT = sizeof ops / sizeof *ops };

static bool host_has(const Op *op) {
  return op->host && (op->meaning != FMA || __builtin_cpu_supports("fma"));
}

static void against_host(const Op *op, unsigned rm, const uint64_t *v) {
  static const unsigned mode[] = {0, 3, 1, 2};
  unsigned csr = 0x1f80 | mode[rm] << 13;
  uint64_t want = op->host(&csr, v) & (op->to->sign * 2 - 1);
  if (is_nan(op->to, want)) want = op->to->nan;
  unsigned flags = (csr & 1 ? SOFTFP_NV : 0) | (csr & 4 ? SOFTFP_DZ : 0) |
                   (csr & 8 ? SOFTFP_OF : 0) | (csr & 16 ? SOFTFP_UF : 0) |
                   (csr & 32 ? SOFTFP_NX : 0);
  if (op->meaning ==
      FMA) { /* infinity times zero plus a NaN: RISC-V wants NV (11.6), the host does not */
    uint64_t a = v[0] & ~op->from->sign, b = v[1] & ~op->from->sign;
    if ((a == op->from->inf && !b) || (b == op->from->inf && !a)) flags = SOFTFP_NV;
  }
  SoftFp fp = {.rm = (uint8_t)rm};
  uint64_t got = op->ours(&fp, v);
  check(op->name, rm, v, fp, got, want, flags);
}

static ExactResult exact_integer(bool neg, uint64_t magnitude) {
  return (ExactResult){EXACT_MULADD, {neg, magnitude, 0}, exact_one, exact_zero};
}
static ExactResult exact_signed(int64_t n) {
  return exact_integer(n < 0, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

static ExactResult exact_of(const Op *op, const uint64_t *v) {
  ExactValue x[3] = {exact_zero, exact_zero, exact_zero};
  for (int i = 0; op->from && i < op->operands; i++) x[i] = exact_value(&op->from->format, v[i]);
  switch (op->meaning) {
  case SUB: x[1].neg ^= true; /* fall through */
  case ADD: return (ExactResult){EXACT_MULADD, x[0], exact_one, x[1]};
  case MUL: return (ExactResult){EXACT_MULADD, x[0], x[1], exact_zero};
  case FMA: return (ExactResult){EXACT_MULADD, x[0], x[1], x[2]};
  case DIV: return (ExactResult){EXACT_DIV, x[0], x[1], exact_zero};
  case SQRT: return (ExactResult){EXACT_SQRT, x[0], exact_one, exact_zero};
  case I32: return exact_signed((int32_t)v[0]);
  case U32: return exact_integer(false, (uint32_t)v[0]);
  case I64: return exact_signed((int64_t)v[0]);
  case U64: return exact_integer(false, v[0]);
  default: return (ExactResult){EXACT_MULADD, x[0], exact_one, exact_zero};
  }
}

/* Finite results of finite operands by exact arithmetic; others do not depend on the mode: as to
 * nearest. */
static void against_exact(const Op *op, unsigned rm, const uint64_t *v) {
  bool finite = true;
  for (int i = 0; op->from && i < op->operands; i++) finite = finite && is_finite(op->from, v[i]);
  if (op->meaning == DIV && !(v[1] & ~op->from->sign)) finite = false;
  if (op->meaning == SQRT && v[0] & op->from->sign) finite = false;
  SoftFp fp = {.rm = (uint8_t)rm}, nearest = {.rm = SOFTFP_RNE};
  uint64_t got = op->ours(&fp, v), same = op->ours(&nearest, v);
  if (!finite)
    check(op->name, rm, v, fp, got, same, nearest.flags);
  else if (exact_judge(&op->to->format, rm, exact_of(op, v), got, fp.flags))
    cases++;
  else
    check(op->name, rm, v, fp, got, ~got, 0);
}

/* ---- operations with integer results, comparisons, min and max ---- */

/* To an integer of BITS bits: libm makes the double integral, exactly; lo and end are powers of
 * two. */
static double integral(unsigned rm, double d) {
  switch (rm) {
  case SOFTFP_RNE: return nearbyint(d);
  case SOFTFP_RTZ: return trunc(d);
  case SOFTFP_RDN: return floor(d);
  case SOFTFP_RUP: return ceil(d);
  default: return round(d);
  }
}

static void one_to_int(const char *name, unsigned rm, uint64_t bits, double d, SoftFp fp,
                       uint64_t got, int size, bool is_signed) {
  double whole = integral(rm, d), end = ldexp(1, size - is_signed), lo = is_signed ? -end : 0;
  uint64_t mask = ~0ull >> (64 - size), max = mask >> is_signed, v[3] = {bits};
  uint64_t want = is_signed ? (uint64_t)(int64_t)(whole >= lo && whole < end ? whole : 0)
                            : (uint64_t)(whole >= lo && whole < end ? whole : 0);
  unsigned flags = whole < d || whole > d ? SOFTFP_NX : 0;
  if (!(whole >= lo && whole < end)) {
    want = whole < lo ? (is_signed ? max + 1 : 0) : max;
    flags = SOFTFP_NV;
  }
  check(name, rm, v, fp, got & mask, want & mask, flags);
}

#define TO_INTS(W, value)                                                                          \
  static void to_ints##W(unsigned rm, uint64_t v) {                                                \
    double d = value;                                                                              \
    TO_INT(W, i32, 32, true)                                                                       \
    TO_INT(W, u32, 32, false)                                                                      \
    TO_INT(W, i64, 64, true)                                                                       \
    TO_INT(W, u64, 64, false)                                                                      \
  }
#define TO_INT(W, type, size, is_signed)                                                           \
  {                                                                                                \
    SoftFp fp = {.rm = (uint8_t)rm};                                                               \
    uint64_t got = (uint64_t)softfp_f##W##_to_##type(&fp, v);                                      \
    one_to_int("f" #W "_to_" #type, rm, v, d, fp, got, size, is_signed);                           \
  }
TO_INTS(32, (double)to_float(v))
TO_INTS(64, to_double(v))

static uint64_t class_of(const Width *w, uint64_t v, int kind) {
  bool neg = v & w->sign;
  switch (kind) {
  case FP_NAN: return is_snan(w, v) ? 1 << 8 : 1 << 9;
  case FP_INFINITE: return neg ? 1 << 0 : 1 << 7;
  case FP_NORMAL: return neg ? 1 << 1 : 1 << 6;
  case FP_SUBNORMAL: return neg ? 1 << 2 : 1 << 5;
  default: return neg ? 1 << 3 : 1 << 4;
  }
}

/* The smaller (sign 1) or greater (sign -1) number of those with these values; -0 < +0. */
static uint64_t extreme(const Width *w, const uint64_t *v, double x, double y, int sign) {
  if (is_nan(w, v[0]) || is_nan(w, v[1]))
    return !is_nan(w, v[0]) ? v[0] : !is_nan(w, v[1]) ? v[1] : w->nan;
  if (x < y || x > y) return (x < y) == (sign > 0) ? v[0] : v[1];
  return ((v[0] & w->sign) != 0) == (sign > 0) ? v[0] : v[1];
}

#define PAIRS(W, T, value)                                                                         \
  static void pair##W(const uint64_t *v) {                                                         \
    double x = value(v[0]), y = value(v[1]);                                                       \
    unsigned quiet = is_snan(&w##W, v[0]) || is_snan(&w##W, v[1]) ? SOFTFP_NV : 0,                 \
             any = isunordered(x, y) ? SOFTFP_NV : 0;                                              \
    T a = (T)v[0], b = (T)v[1];                                                                    \
    PAIR("eq" #W, softfp_eq##W, isgreaterequal(x, y) && islessequal(x, y), quiet)                  \
    PAIR("lt" #W, softfp_lt##W, isless(x, y), any)                                                 \
    PAIR("le" #W, softfp_le##W, islessequal(x, y), any)                                            \
    PAIR("min" #W, softfp_min##W, extreme(&w##W, v, x, y, 1), quiet)                               \
    PAIR("max" #W, softfp_max##W, extreme(&w##W, v, x, y, -1), quiet)                              \
    check("classify" #W, 0, v, (SoftFp){0}, softfp_classify##W(a),                                 \
          class_of(&w##W, v[0], fpclassify(value(v[0]))), 0);                                      \
  }
#define PAIR(name, fn, want, want_flags)                                                           \
  {                                                                                                \
    SoftFp fp = {0};                                                                               \
    uint64_t got = fn(&fp, a, b);                                                                  \
    check(name, 0, v, fp, got, want, want_flags);                                                  \
  }
PAIRS(32, uint32_t, to_float)
PAIRS(64, uint64_t, to_double)

/* ---- operands ---- */

/* Mostly interesting: exponents close to each other or extreme, few significant bits, ties,
 * integers of all sizes. */
static uint64_t operand(const Width *w) {
  int frac = w->format.frac;
  uint64_t r = random64(), emask = w->inf >> frac, fmask = (1ull << frac) - 1;
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
  return (r >> 60 & 1 ? w->sign : 0) | exp << frac | f;
}

/* Three operands, half the time related: sums that cancel, products that cancel with the addend,
 * quotients near integers and near one, squares; each exactly or some units off. */
static void operands(const Op *op, uint64_t *v) {
  const Width *w = op->from;
  if (!w) {
    v[0] = random64() >> (random64() & 63);
    v[0] = random64() & 1 ? v[0] : 0 - (v[0] & ~0ull << (random64() & 63));
    v[1] = v[2] = 0;
    return;
  }
  for (int i = 0; i < 3; i++) v[i] = operand(w);
  uint64_t r = random64(), off = (r >> 8 & 1 ? 0 : (r >> 16 & 7) - 3);
  SoftFp fp = {.rm = r >> 24 & 3};
  bool wide = w == &w64;
  switch (r & 7) {
  case 0: v[1] = (v[0] + off) ^ (r >> 32 & 1 ? w->sign : 0); break;
  case 1:
    v[2] = ((wide ? softfp_mul64(&fp, v[0], v[1]) : softfp_mul32(&fp, v[0], v[1])) + off) ^ w->sign;
    break;
  case 2:
    v[0] = (wide ? softfp_mul64(&fp, v[1], v[1]) : softfp_mul32(&fp, v[1], v[1])) + off;
    break;
  case 3:
    v[0] = (wide ? softfp_mul64(&fp, v[1], v[2]) : softfp_mul32(&fp, v[1], v[2])) + off;
    break;
  default: break;
  }
  for (int i = 0; i < 3; i++) v[i] &= w->sign * 2 - 1;
}

static int corners(const Width *w, uint64_t *out) {
  uint64_t hidden = 1ull << w->format.frac, one = w->inf / 2 & w->inf, half = w->nan ^ w->inf;
  const uint64_t positive[] = {0,
                               1,
                               2,
                               hidden - 1,
                               hidden,
                               hidden + 1,
                               2 * hidden - 1,
                               one - hidden,
                               one - 1,
                               one,
                               one + 1,
                               one + half,
                               one + hidden - 1,
                               one + hidden,
                               one + w->format.frac * hidden,
                               w->inf - hidden,
                               w->inf - 1,
                               w->inf,
                               w->inf + 1,
                               w->nan - 1,
                               w->nan,
                               w->nan + 5};
  int n = 0;
  for (unsigned i = 0; i < sizeof positive / sizeof *positive; i++) {
    out[n++] = positive[i];
    out[n++] = positive[i] | w->sign;
  }
  return n;
}

/* ---- the runs ---- */

static void one(const Op *op, unsigned rm, const uint64_t *v, bool exact) {
  if (rm < 4 && host_has(op)) against_host(op, rm, v);
  if (exact) against_exact(op, rm, v);
}

/* Exact arithmetic is slow, so it takes fewer cases where the host judges too. */
static void random_cases(unsigned long rounds) {
  uint64_t v[3];
  for (int i = 0; i < OPS_COUNT; i++)
    for (unsigned rm = 0; rm < 5; rm++) {
      bool host = rm < 4 && host_has(&ops[i]);
      for (unsigned long n = 0; n < (host ? rounds : rounds / 4); n++) {
        operands(&ops[i], v);
        one(&ops[i], rm, v, !host || n % 32 == 0);
      }
    }
  for (unsigned long n = 0; n < rounds; n++) {
    operands(&ops[0], v);
    pair32(v);
    for (unsigned rm = 0; rm < 5; rm++) to_ints32(rm, v[0]);
    operands(&ops[OPS_COUNT - 2], v);
    pair64(v);
    for (unsigned rm = 0; rm < 5; rm++) to_ints64(rm, v[0]);
  }
}

static void corner_cases(void) {
  uint64_t c[64], v[3];
  for (int i = 0; i < OPS_COUNT; i++) {
    const Op *op = &ops[i];
    int n = corners(op->from ? op->from : op->to, c), second = op->operands > 1 ? n : 1,
        third = op->operands > 2 ? n : 1;
    for (int k = 0; k < n * second * third; k++) {
      v[0] = c[k % n], v[1] = c[k / n % second], v[2] = c[k / n / second];
      for (unsigned rm = 0; rm < 5; rm++)
        one(op, rm, v, !host_has(op) || rm == SOFTFP_RMM || k % 8 == 0);
      if (op->meaning == ADD) op->from == &w32 ? pair32(v) : pair64(v);
    }
  }
}

/* Quarters and representable numbers around the ends of the integer types, of both signs. */
static void integer_corners(void) {
  static const int ends[] = {0, 1, 31, 32, 52, 53, 63, 64};
  for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++)
    for (int j = -12; j <= 12; j++) {
      double end = ldexp(1, ends[i]), quarters = end + 0.25 * j;
      float single = (float)end;
      uint64_t d[2];
      uint32_t f;
      memcpy(&d[0], &end, sizeof end);
      memcpy(&d[1], &quarters, sizeof quarters);
      memcpy(&f, &single, sizeof single);
      d[0] += (uint64_t)j;
      f += (uint32_t)j;
      for (unsigned rm = 0; rm < 5; rm++)
        for (int neg = 0; neg < 2; neg++) {
          to_ints64(rm, neg ? d[0] ^ w64.sign : d[0]);
          to_ints64(rm, neg ? d[1] ^ w64.sign : d[1]);
          to_ints32(rm, neg ? f ^ w32.sign : f);
        }
    }
}

/* Every stride-th f32 through the operations of one operand. */
static void sweep(unsigned stride) {
  for (uint64_t x = 0; x < 1ull << 32; x += stride) {
    uint64_t v[3] = {x, x ^ 1, 0};
    pair32(v);
    for (unsigned rm = 0; rm < 5; rm++) to_ints32(rm, x);
    for (int i = 0; i < OPS_COUNT; i++)
      if (ops[i].from == &w32 && ops[i].operands == 1)
        for (unsigned rm = 0; rm < 4; rm++) against_host(&ops[i], rm, v);
  }
}

/* ---- time ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Ordinary numbers of mixed signs; through a pointer, as an interpreter calls. */
static void time_ops(void) {
  enum { N = 1024, REPEAT = 2000 };
  static uint64_t v[2][N + 2];
  volatile uint64_t sink = 0;
  for (int i = 0; i < N + 2; i++) {
    float f = (float)(int64_t)random64() * 0x1p-60f;
    double d = (double)(int64_t)random64() * 0x1p-60;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    v[0][i] = bits;
    memcpy(&v[1][i], &d, sizeof d);
  }
  for (int i = 0; i < OPS_COUNT; i++) {
    const uint64_t *in = v[ops[i].from != &w32];
    uint64_t sum = 0, mask = ops[i].meaning == SQRT ? ops[i].from->sign - 1 : ~0ull;
    double start = now();
    for (int k = 0; k < N * REPEAT; k++) {
      uint64_t x[3] = {in[k % N] & mask, in[k % N + 1], in[k % N + 2]};
      SoftFp fp = {.rm = SOFTFP_RNE};
      sum += ops[i].ours(&fp, x) + fp.flags;
    }
    sink += sum;
    printf("%-11s %5.1f ns\n", ops[i].name, (now() - start) / N / REPEAT);
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "time")) {
    time_ops();
    return 0;
  }
  random_cases(argc > 1 ? strtoul(argv[1], NULL, 10) : 50000);
  corner_cases();
  integer_corners();
  sweep(argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 9973);
  if (!__builtin_cpu_supports("fma"))
    printf("this CPU has no FMA: fma was judged by exact arithmetic only\n");
  if (failures) printf("%lu failed\n", failures);
  printf("%lu passed\n", cases - failures);
  return failures != 0;
}
