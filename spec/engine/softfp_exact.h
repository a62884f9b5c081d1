/* Judges a rounded floating point result by exact integer arithmetic, from the definitions of IEEE
 * 754 alone.
 *
 * The exact result x is never computed as a number. It is described, as a * b + c, a / b or sqrt(a)
 * of operands that are exact (ExactResult), and the one question asked is how |x| compares with
 * some t (exact_compare), which a wide fixed-point accumulator answers: a * b + c - t, a - t * b or
 * a - t * t, from 2^-2240 to 2^2240.
 *
 *   ExactResult x = {EXACT_MULADD, exact_value(&format, three), exact_one, exact_value(&format,
 * half)};   // 3 * 1 + 0.5 ok = exact_judge(&format, SOFTFP_RMM, x, bits, flags);
 *
 * A result is right if |x| lies on the right side of it, of its neighbour, and of the middle
 * between the two. Overflow and tininess after rounding are two more such comparisons. Works for
 * every rounding mode and for finite operands; the sign of an exact zero is not judged. */
#ifndef SPEC_SOFTFP_EXACT_H
#define SPEC_SOFTFP_EXACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/softfp.h"

typedef struct ExactFormat {
  int frac, ebits;
} ExactFormat;

/* (-1)^neg * sig * 2^exp */
typedef struct ExactValue {
  bool neg;
  uint64_t sig;
  int exp;
} ExactValue;

typedef enum ExactKind { EXACT_MULADD, EXACT_DIV, EXACT_SQRT } ExactKind;

typedef struct ExactResult {
  ExactKind kind;
  ExactValue a, b, c;
} ExactResult;

static const ExactValue exact_one = {false, 1, 0}, exact_zero = {false, 0, 0};

/* Of finite bits; but infinity comes out as the power of two after the largest number, as rounding
 * sees it. */
static inline ExactValue exact_value(const ExactFormat *f, uint64_t bits) {
  int emax = (1 << f->ebits) - 1, biased = (int)(bits >> f->frac) & emax;
  uint64_t frac = bits & ((1ull << f->frac) - 1);
  return (ExactValue){bits >> (f->frac + f->ebits) & 1, biased ? frac | 1ull << f->frac : frac,
                      (biased ? biased : 1) - (emax >> 1) - f->frac};
}

enum { EXACT_WORDS = 70, EXACT_POINT = EXACT_WORDS * 32 };
typedef struct ExactSum {
  uint64_t word[EXACT_WORDS]; /* two's complement; bit EXACT_POINT is worth 1 */
} ExactSum;

/* Adds (-1)^neg * a * b. */
static inline void exact_add(ExactSum *s, bool neg, ExactValue a, ExactValue b) {
  unsigned __int128 p = (unsigned __int128)a.sig * b.sig;
  unsigned at = (unsigned)(a.exp + b.exp + EXACT_POINT), shift = at & 63;
  unsigned __int128 low = p << shift, high = shift ? p >> 64 >> (64 - shift) : 0;
  uint64_t part[3] = {(uint64_t)low, (uint64_t)(low >> 64), (uint64_t)high};
  uint64_t carry = 0;
  neg ^= a.neg != b.neg;
  for (unsigned i = at >> 6, k = 0; i < EXACT_WORDS && (k < 3 || carry); i++, k++) {
    uint64_t v = k < 3 ? part[k] : 0, old = s->word[i];
    unsigned __int128 sum =
        neg ? (unsigned __int128)old - v - carry : (unsigned __int128)old + v + carry;
    s->word[i] = (uint64_t)sum;
    carry = (uint64_t)(sum >> 64) & 1;
  }
}

static inline int exact_sign(const ExactSum *s) {
  if (s->word[EXACT_WORDS - 1] >> 63) return -1;
  for (int i = 0; i < EXACT_WORDS; i++)
    if (s->word[i]) return 1;
  return 0;
}

static inline bool exact_negative(ExactResult x) {
  if (x.kind == EXACT_SQRT) return false;
  if (x.kind == EXACT_DIV) return x.a.neg != x.b.neg;
  ExactSum s = {0};
  exact_add(&s, false, x.a, x.b);
  exact_add(&s, false, x.c, exact_one);
  return exact_sign(&s) < 0;
}

/* The sign of |x| - t, for t not negative. `neg` is exact_negative(x). */
static inline int exact_compare(ExactResult x, bool neg, ExactValue t) {
  ExactSum s = {0};
  switch (x.kind) {
  case EXACT_MULADD:
    exact_add(&s, neg, x.a, x.b);
    exact_add(&s, neg, x.c, exact_one);
    exact_add(&s, true, t, exact_one);
    break;
  case EXACT_DIV:
    x.a.neg = x.b.neg = false;
    exact_add(&s, false, x.a, exact_one);
    exact_add(&s, true, t, x.b);
    break;
  case EXACT_SQRT:
    exact_add(&s, false, x.a, exact_one);
    exact_add(&s, true, t, t);
    break;
  }
  return exact_sign(&s);
}

enum { EXACT_DOWN, EXACT_NEAREST, EXACT_AWAY };
static inline int exact_direction(unsigned rm, bool neg) {
  if (rm == SOFTFP_RNE || rm == SOFTFP_RMM) return EXACT_NEAREST;
  return rm == (neg ? SOFTFP_RDN : SOFTFP_RUP) ? EXACT_AWAY : EXACT_DOWN;
}

/* Whether |x| rounds to at least this power of two, in the precision of the binade that it ends and
 * with no limit to exponents. Ties go up: the power is even, and away from zero. A direction's
 * number is the way to the least such |x| in half units. */
static inline bool exact_reaches(ExactResult x, bool neg, int direction, ExactValue power) {
  ExactValue least = {false, 4 * power.sig - (uint64_t)direction, power.exp - 2};
  int cmp = exact_compare(x, neg, least);
  return direction == EXACT_AWAY ? cmp > 0 : cmp >= 0;
}

static inline bool exact_judge(const ExactFormat *f, unsigned rm, ExactResult x, uint64_t bits,
                               unsigned flags) {
  bool neg = exact_negative(x);
  int direction = exact_direction(rm, neg), emax = (1 << f->ebits) - 1;
  uint64_t sign = 1ull << (f->frac + f->ebits), inf = (uint64_t)emax << f->frac,
           m = bits & (sign - 1);
  ExactValue huge = exact_value(f, inf), small = exact_value(f, 1ull << f->frac);
  if (exact_reaches(x, neg, direction, huge))
    return bits == ((neg ? sign : 0) | (direction == EXACT_DOWN ? inf - 1 : inf)) &&
           flags == (SOFTFP_OF | SOFTFP_NX);
  if (m >= inf) return false;
  int cmp = exact_compare(x, neg, exact_value(f, m));
  if (cmp == 0) return flags == 0 && (m == 0 || (bits & sign) != 0) == (m == 0 || neg);
  unsigned want = exact_reaches(x, neg, direction, small) ? SOFTFP_NX : SOFTFP_NX | SOFTFP_UF;
  if (flags != want || ((bits & sign) != 0) != neg) return false;
  if (cmp < 0 ? direction == EXACT_DOWN || m == 0 : direction == EXACT_AWAY) return false;
  /* |x| lies between below and below + 1, in bits; their middle has one more bit than below. */
  uint64_t below = cmp < 0 ? m - 1 : m;
  ExactValue low = exact_value(f, below), middle = {false, 2 * low.sig + 1, low.exp - 1};
  if (exact_compare(x, neg, low) <= 0 || exact_compare(x, neg, exact_value(f, below + 1)) >= 0)
    return false;
  if (direction != EXACT_NEAREST) return true;
  int half = exact_compare(x, neg, middle);
  if (half == 0) return rm == SOFTFP_RMM ? cmp < 0 : !(m & 1);
  return (half > 0) == (cmp < 0);
}

#endif
