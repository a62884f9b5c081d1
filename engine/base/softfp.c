/* Software floating point; see softfp.h.
 *
 * Both widths share one implementation over an unpacked form: a finite non-zero number is sig *
 * 2^(exp - 62) with the leading bit of sig at bit 62, so there is a bit of headroom above and, for
 * binary64, ten guard bits below. Bits that are shifted out are kept as a sticky lowest bit
 * ("jam"). Every function takes the format as a constant and is inlined into the two public
 * versions. */
#include "base/softfp.h"

#include <stdbool.h>

typedef unsigned __int128 u128;

typedef struct Format {
  int frac, bias, max; /* fraction bits; exponent bias; the biased exponent of infinities */
  uint64_t sign, nan;  /* sign bit; canonical NaN */
} Format;

static const Format f32_format = {23, 127, 255, 1ull << 31, 0x7fc00000};
static const Format f64_format = {52, 1023, 2047, 1ull << 63, 0x7ff8000000000000};

typedef enum Class { ZERO, FINITE, INF, NOT_NUM } Class;

typedef struct Num {
  Class cls;
  bool sign;
  int exp;      /* FINITE: of the leading bit */
  uint64_t sig; /* FINITE: leading bit at 62 */
} Num;

#define INLINE static inline __attribute__((always_inline))
#define TOP    62

/* ---- unpacking, rounding and packing ---- */

INLINE uint64_t jam(uint64_t v, int n) {
  if (n <= 0) return v;
  if (n > 63) return v != 0;
  return v >> n | ((v & ((1ull << n) - 1)) != 0);
}

/* jam() by 0 or 1. */
INLINE uint64_t jam1(uint64_t v, int n) { return v >> n | (v & (uint64_t)n); }

INLINE u128 jam128(u128 v, int n) {
  if (n <= 0) return v;
  if (n > 127) return v != 0;
  return v >> n | ((v & (((u128)1 << n) - 1)) != 0);
}

INLINE Num unpack(Format f, uint64_t bits) {
  uint64_t frac = bits & ((1ull << f.frac) - 1);
  int biased = (int)(bits >> f.frac) & f.max;
  Num n = {.sign = (bits & f.sign) != 0};
  if (biased == f.max) {
    n.cls = frac ? NOT_NUM : INF;
  } else if (biased) {
    n.cls = FINITE;
    n.exp = biased - f.bias;
    n.sig = (frac | 1ull << f.frac) << (TOP - f.frac);
  } else if (frac) {
    int up = __builtin_clzll(frac) - 1;
    n.cls = FINITE;
    n.sig = frac << up;
    n.exp = 1 - f.bias + (TOP - f.frac) - up;
  }
  return n;
}

INLINE uint64_t zero(Format f, bool sign) { return sign ? f.sign : 0; }
INLINE uint64_t inf(Format f, bool sign) { return zero(f, sign) | (uint64_t)f.max << f.frac; }

INLINE uint64_t invalid(Format f, SoftFp *fp) {
  fp->flags |= SOFTFP_NV;
  return f.nan;
}

INLINE uint64_t overflow(Format f, SoftFp *fp, bool sign, bool to_inf) {
  fp->flags |= SOFTFP_OF | SOFTFP_NX;
  return inf(f, sign) - !to_inf;
}

/* The result sign * sig * 2^(exp - 62), rounded to the format; the leading bit of sig is at 62. */
INLINE uint64_t round_pack(Format f, SoftFp *fp, bool sign, int exp, uint64_t sig) {
  int shift = TOP - f.frac, biased = exp + f.bias;
  uint64_t mask = (1ull << shift) - 1, half = 1ull << (shift - 1);
  uint64_t inc = 0; /* what rounding adds before it cuts */
  if (fp->rm == SOFTFP_RNE || fp->rm == SOFTFP_RMM)
    inc = half;
  else if (fp->rm == (sign ? SOFTFP_RDN : SOFTFP_RUP))
    inc = mask;
  bool tiny = false;
  if (biased >= f.max - 1) {
    if (biased >= f.max || sig + inc >= 1ull << 63) return overflow(f, fp, sign, inc != 0);
  } else if (biased < 1) {
    /* After rounding: a carry may make it the smallest normal number. */
    tiny = biased < 0 || sig + inc < 1ull << 63;
    sig = jam(sig, 1 - biased);
    biased = 1;
  }
  uint64_t rest = sig & mask;
  sig = (sig + inc) >> shift;
  if (rest) {
    fp->flags |= tiny ? SOFTFP_NX | SOFTFP_UF : SOFTFP_NX;
    if (fp->rm == SOFTFP_RNE && rest == half) sig &= ~1ull;
  }
  /* The leading bit, its absence in a subnormal number, or a carry makes the exponent right. */
  return zero(f, sign) + ((uint64_t)(biased - 1) << f.frac) + sig;
}

/* The same for a 128-bit significand with its leading bit anywhere; value sig * 2^(exp - top). */
INLINE uint64_t round_pack128(Format f, SoftFp *fp, bool sign, int exp, int top, u128 sig) {
  int lead = sig >> 64 ? 127 - __builtin_clzll((uint64_t)(sig >> 64))
                       : 63 - __builtin_clzll((uint64_t)sig);
  uint64_t s = lead >= TOP ? (uint64_t)jam128(sig, lead - TOP) : (uint64_t)sig << (TOP - lead);
  return round_pack(f, fp, sign, exp - top + lead, s);
}

/* ---- NaNs ---- */

INLINE bool nan_bits(Format f, uint64_t x) {
  return (x & (f.sign - 1)) > (uint64_t)f.max << f.frac;
}
INLINE bool snan_bits(Format f, uint64_t x) { return nan_bits(f, x) && !(x >> (f.frac - 1) & 1); }

/* The result of an operation on x and y (the same, if it has one operand), some of which is a NaN.
 * This is the place for policies that hand on an operand's payload. */
INLINE uint64_t nan_result(Format f, SoftFp *fp, uint64_t x, uint64_t y) {
  if (snan_bits(f, x) || snan_bits(f, y)) fp->flags |= SOFTFP_NV;
  return f.nan;
}

/* ---- arithmetic ---- */

/* An exact sum of zero: of equal signs that sign, else -0 when rounding down. */
INLINE uint64_t zero_sum(Format f, SoftFp *fp, bool sign, bool other) {
  return zero(f, sign == other ? sign : fp->rm == SOFTFP_RDN);
}

INLINE uint64_t add_special(Format f, SoftFp *fp, Num a, Num b, uint64_t x, uint64_t y) {
  if (a.cls == NOT_NUM || b.cls == NOT_NUM) return nan_result(f, fp, x, y);
  if (a.cls == INF && b.cls == INF && a.sign != b.sign) return invalid(f, fp);
  if (a.cls == ZERO && b.cls == ZERO) return zero_sum(f, fp, a.sign, b.sign);
  return a.cls == INF || b.cls == ZERO ? x : y;
}

INLINE uint64_t add(Format f, SoftFp *fp, uint64_t x, uint64_t y) {
  Num a = unpack(f, x), b = unpack(f, y);
  if (a.cls != FINITE || b.cls != FINITE) return add_special(f, fp, a, b, x, y);
  if (a.exp < b.exp || (a.exp == b.exp && a.sig < b.sig)) {
    Num t = a;
    a = b;
    b = t;
  }
  uint64_t small = jam(b.sig, a.exp - b.exp);
  if (a.sign == b.sign) {
    uint64_t sum = a.sig + small;
    int carry = (int)(sum >> 63);
    return round_pack(f, fp, a.sign, a.exp + carry, jam1(sum, carry));
  }
  uint64_t diff = a.sig - small;
  if (!diff) return zero_sum(f, fp, a.sign, b.sign);
  int up = __builtin_clzll(diff) - 1;
  return round_pack(f, fp, a.sign, a.exp - up, diff << up);
}

INLINE uint64_t mul_special(Format f, SoftFp *fp, Num a, Num b, uint64_t x, uint64_t y) {
  bool sign = a.sign != b.sign;
  if (a.cls == NOT_NUM || b.cls == NOT_NUM) return nan_result(f, fp, x, y);
  if (a.cls == FINITE || b.cls == FINITE || a.cls == b.cls)
    return a.cls == INF || b.cls == INF ? inf(f, sign) : zero(f, sign);
  return invalid(f, fp); /* infinity times zero */
}

INLINE uint64_t mul(Format f, SoftFp *fp, uint64_t x, uint64_t y) {
  Num a = unpack(f, x), b = unpack(f, y);
  if (a.cls != FINITE || b.cls != FINITE) return mul_special(f, fp, a, b, x, y);
  u128 p = (u128)a.sig * b.sig; /* leading bit at 124 or 125 */
  uint64_t sig = (uint64_t)(p >> TOP) | ((uint64_t)p << (64 - TOP) != 0);
  int carry = (int)(sig >> 63);
  return round_pack(f, fp, a.sign != b.sign, a.exp + b.exp + carry, jam1(sig, carry));
}

INLINE uint64_t div_special(Format f, SoftFp *fp, Num a, Num b, uint64_t x, uint64_t y) {
  bool sign = a.sign != b.sign;
  if (a.cls == NOT_NUM || b.cls == NOT_NUM) return nan_result(f, fp, x, y);
  if (a.cls == b.cls) return invalid(f, fp); /* two zeros or two infinities: one is not finite */
  if (a.cls == INF) return inf(f, sign);
  if (a.cls == ZERO || b.cls == INF) return zero(f, sign);
  fp->flags |= SOFTFP_DZ;
  return inf(f, sign);
}

INLINE uint64_t divide(Format f, SoftFp *fp, uint64_t x, uint64_t y) {
  Num a = unpack(f, x), b = unpack(f, y);
  if (a.cls != FINITE || b.cls != FINITE) return div_special(f, fp, a, b, x, y);
  int less = a.sig < b.sig;
  uint64_t sig;
  if (f.frac < 32) { /* 24-bit significands: a quotient of 39 bits takes a 64-bit division */
    enum { BITS = 38 };
    uint64_t d = b.sig >> (TOP - f.frac), n = a.sig >> (TOP - f.frac) << (BITS + less);
    sig = n / d << (TOP - BITS) | (n % d != 0);
  } else {
    u128 n = (u128)a.sig << (TOP + less);
    uint64_t q = (uint64_t)(n / b.sig);
    sig = q | ((u128)q * b.sig != n);
  }
  return round_pack(f, fp, a.sign != b.sign, a.exp - b.exp - less, sig);
}

/* x^-1/2 over [1, 2) is about C0 - C1 x + C2 x^2 - C3 x^3; and 2^-1/2. With 32 fraction bits. */
#define ROOT_C0   7884427333ull
#define ROOT_C1   5473910442ull
#define ROOT_C2   2235397224ull
#define ROOT_C3   355502159ull
#define HALF_ROOT 3037000500ull

/* The square root of x * 2^-62, from 1 to below 4, times 2^62: 57 bits and a sticky one.
 *
 * A cubic gives y = x^-1/2 over [1, 2) to 10 bits, from below; two Newton steps y(3 - xy^2)/2 to
 * about 30, and one step of r = xy towards r^2 = x to 2^-58, which are 16 units of r's 62 fraction
 * bits. So r - 16, cut to 56 bits, is right or one too small; the exact remainder, of which 64 bits
 * suffice, tells. */
INLINE uint64_t root(uint64_t x, int odd) {
  uint64_t top = x >> 31, m = top >> odd; /* 31 fraction bits; y has 32 */
  uint64_t y = ROOT_C0 - (m * (ROOT_C1 - (m * (ROOT_C2 - (m * ROOT_C3 >> 31)) >> 31)) >> 31);
  y = y * (odd ? HALF_ROOT : 1ull << 32) >> 32;
  for (int i = 0; i < 2; i++) y = y * (((3ull << 32) - (top * (y * y >> 32) >> 31)) >> 2) >> 31;
  uint64_t r = top * y >> 32; /* 31 fraction bits */
  int64_t rest = (int64_t)(x - r * r);
  r = (r << 31) + (uint64_t)(int64_t)((__int128)rest * (int64_t)y >> 33);
  r = (r - 16) >> 6;
  rest = (int64_t)((x << 50) - r * r);
  if (rest > (int64_t)(2 * r)) rest -= (int64_t)(2 * r++ + 1);
  return r << 6 | (rest != 0);
}

INLINE uint64_t square_root(Format f, SoftFp *fp, uint64_t x) {
  Num a = unpack(f, x);
  if (a.cls == NOT_NUM) return nan_result(f, fp, x, x);
  if (a.cls == ZERO) return x;
  if (a.sign) return invalid(f, fp);
  if (a.cls == INF) return x;
  int odd = a.exp & 1;
  return round_pack(f, fp, false, (a.exp - odd) / 2, root(a.sig << odd, odd));
}

INLINE uint64_t fma_special(Format f, SoftFp *fp, Num a, Num b, Num c, uint64_t x, uint64_t y,
                            uint64_t z) {
  bool sign = a.sign != b.sign;
  if ((a.cls == INF && b.cls == ZERO) || (a.cls == ZERO && b.cls == INF))
    return invalid(f, fp); /* whatever c is, says RISC-V (11.6) */
  if (a.cls == NOT_NUM || b.cls == NOT_NUM || c.cls == NOT_NUM) {
    uint64_t n = nan_result(f, fp, x, y);
    return c.cls == NOT_NUM ? nan_result(f, fp, n, z) : n;
  }
  if (a.cls == INF || b.cls == INF)
    return c.cls == INF && c.sign != sign ? invalid(f, fp) : inf(f, sign);
  return c.cls == ZERO ? zero_sum(f, fp, sign, c.sign) : z; /* c is infinite, or a * b is zero */
}

INLINE uint64_t fma_(Format f, SoftFp *fp, uint64_t x, uint64_t y, uint64_t z) {
  Num a = unpack(f, x), b = unpack(f, y), c = unpack(f, z);
  bool sign = a.sign != b.sign;
  if (a.cls != FINITE || b.cls != FINITE || c.cls >= INF)
    return fma_special(f, fp, a, b, c, x, y, z);
  enum { WIDE = 124 }; /* both terms: the significand's unit is 2^(exp - 124) */
  u128 p = (u128)a.sig * b.sig;
  int exp = a.exp + b.exp;
  if (c.cls == ZERO) return round_pack128(f, fp, sign, exp, WIDE, p);
  /* Shifting out loses nothing that a subtraction could bring back: q has 62 zeros below, and p
   * twice those of a significand, so when bits are lost the terms are too far apart to cancel. */
  u128 q = (u128)c.sig << (WIDE - TOP);
  if (exp >= c.exp) {
    q = jam128(q, exp - c.exp);
  } else {
    p = jam128(p, c.exp - exp);
    exp = c.exp;
  }
  if (sign == c.sign) return round_pack128(f, fp, sign, exp, WIDE, p + q);
  if (p == q) return zero_sum(f, fp, sign, c.sign);
  if (p > q) return round_pack128(f, fp, sign, exp, WIDE, p - q);
  return round_pack128(f, fp, c.sign, exp, WIDE, q - p);
}

/* ---- comparisons ---- */

/* Order as signed integers: -0 below +0. */
INLINE int64_t key(Format f, uint64_t x) {
  uint64_t magnitude = x & (f.sign - 1);
  return x & f.sign ? -1 - (int64_t)magnitude : (int64_t)magnitude;
}

INLINE bool both_zero(Format f, uint64_t x, uint64_t y) { return !((x | y) & (f.sign - 1)); }

INLINE uint64_t minmax(Format f, SoftFp *fp, uint64_t x, uint64_t y, bool max) {
  if (snan_bits(f, x) || snan_bits(f, y)) fp->flags |= SOFTFP_NV;
  if (nan_bits(f, x)) return nan_bits(f, y) ? f.nan : y;
  if (nan_bits(f, y)) return x;
  return (key(f, x) < key(f, y)) != max ? x : y;
}

INLINE uint64_t equal(Format f, SoftFp *fp, uint64_t x, uint64_t y) {
  if (nan_bits(f, x) || nan_bits(f, y)) {
    if (snan_bits(f, x) || snan_bits(f, y)) fp->flags |= SOFTFP_NV;
    return 0;
  }
  return x == y || both_zero(f, x, y);
}

INLINE uint64_t less(Format f, SoftFp *fp, uint64_t x, uint64_t y, bool or_equal) {
  if (nan_bits(f, x) || nan_bits(f, y)) {
    fp->flags |= SOFTFP_NV;
    return 0;
  }
  if (both_zero(f, x, y)) return or_equal;
  return or_equal ? key(f, x) <= key(f, y) : key(f, x) < key(f, y);
}

/* Bits of fclass (unprivileged ISA, table 11.5). */
INLINE uint64_t classify(Format f, uint64_t x) {
  bool sign = x & f.sign;
  int biased = (int)(x >> f.frac) & f.max;
  uint64_t frac = x & ((1ull << f.frac) - 1);
  if (nan_bits(f, x)) return snan_bits(f, x) ? 1 << 8 : 1 << 9;
  if (biased == f.max) return sign ? 1 << 0 : 1 << 7;
  if (biased) return sign ? 1 << 1 : 1 << 6;
  if (frac) return sign ? 1 << 2 : 1 << 5;
  return sign ? 1 << 3 : 1 << 4;
}

/* ---- integers ---- */

INLINE uint64_t saturate(SoftFp *fp, uint64_t limit) {
  fp->flags |= SOFTFP_NV;
  return limit;
}

/* To an integer of the given range: magnitudes up to `max` if positive, up to `min` if negative. */
INLINE uint64_t to_int(Format f, SoftFp *fp, uint64_t x, uint64_t max, uint64_t min) {
  Num a = unpack(f, x);
  if (a.cls == ZERO) return 0;
  if (a.cls == NOT_NUM) return saturate(fp, max);
  if (a.cls == INF || a.exp > 63) return saturate(fp, a.sign ? 0 - min : max);
  uint64_t n, rest = 0;
  if (a.exp >= TOP) {
    n = a.sig << (a.exp - TOP);
  } else {
    u128 v = jam128((u128)a.sig << 64, TOP - a.exp);
    n = (uint64_t)(v >> 64);
    rest = (uint64_t)v;
  }
  uint64_t half = 1ull << 63;
  bool up = false;
  switch (fp->rm) {
  case SOFTFP_RNE: up = rest > half || (rest == half && (n & 1)); break;
  case SOFTFP_RMM: up = rest >= half; break;
  case SOFTFP_RDN: up = a.sign && rest; break;
  case SOFTFP_RUP: up = !a.sign && rest; break;
  default: break;
  }
  n += up;
  if (n > (a.sign ? min : max)) return saturate(fp, a.sign ? 0 - min : max);
  if (rest) fp->flags |= SOFTFP_NX;
  return a.sign ? 0 - n : n;
}

INLINE uint64_t from_int(Format f, SoftFp *fp, bool sign, uint64_t magnitude) {
  if (!magnitude) return 0;
  int clz = __builtin_clzll(magnitude);
  return round_pack(f, fp, sign, 63 - clz, clz ? magnitude << (clz - 1) : jam(magnitude, 1));
}

INLINE uint64_t from_signed(Format f, SoftFp *fp, int64_t v) {
  return from_int(f, fp, v < 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

INLINE uint64_t convert(Format from, Format to, SoftFp *fp, uint64_t x) {
  Num a = unpack(from, x);
  switch (a.cls) {
  case ZERO: return zero(to, a.sign);
  case FINITE: return round_pack(to, fp, a.sign, a.exp, a.sig);
  case INF: return inf(to, a.sign);
  default:
    nan_result(from, fp, x, x); /* for its NV; the payload has another width */
    return to.nan;
  }
}

/* ---- the public functions ---- */

#define DEFINE(W, T)                                                                               \
  T softfp_add##W(SoftFp *fp, T a, T b) { return (T)add(f##W##_format, fp, a, b); }                \
  T softfp_sub##W(SoftFp *fp, T a, T b) {                                                          \
    return (T)add(f##W##_format, fp, a,                                                            \
                  nan_bits(f##W##_format, b) ? b : b ^ (T)f##W##_format.sign);                     \
  }                                                                                                \
  T softfp_mul##W(SoftFp *fp, T a, T b) { return (T)mul(f##W##_format, fp, a, b); }                \
  T softfp_div##W(SoftFp *fp, T a, T b) { return (T)divide(f##W##_format, fp, a, b); }             \
  T softfp_sqrt##W(SoftFp *fp, T a) { return (T)square_root(f##W##_format, fp, a); }               \
  T softfp_fma##W(SoftFp *fp, T a, T b, T c) { return (T)fma_(f##W##_format, fp, a, b, c); }       \
  T softfp_min##W(SoftFp *fp, T a, T b) { return (T)minmax(f##W##_format, fp, a, b, false); }      \
  T softfp_max##W(SoftFp *fp, T a, T b) { return (T)minmax(f##W##_format, fp, a, b, true); }       \
  uint64_t softfp_eq##W(SoftFp *fp, T a, T b) { return equal(f##W##_format, fp, a, b); }           \
  uint64_t softfp_lt##W(SoftFp *fp, T a, T b) { return less(f##W##_format, fp, a, b, false); }     \
  uint64_t softfp_le##W(SoftFp *fp, T a, T b) { return less(f##W##_format, fp, a, b, true); }      \
  uint64_t softfp_classify##W(T a) { return classify(f##W##_format, a); }                          \
  int32_t softfp_f##W##_to_i32(SoftFp *fp, T a) {                                                  \
    return (int32_t)to_int(f##W##_format, fp, a, INT32_MAX, 1ull << 31);                           \
  }                                                                                                \
  uint32_t softfp_f##W##_to_u32(SoftFp *fp, T a) {                                                 \
    return (uint32_t)to_int(f##W##_format, fp, a, UINT32_MAX, 0);                                  \
  }                                                                                                \
  int64_t softfp_f##W##_to_i64(SoftFp *fp, T a) {                                                  \
    return (int64_t)to_int(f##W##_format, fp, a, INT64_MAX, 1ull << 63);                           \
  }                                                                                                \
  uint64_t softfp_f##W##_to_u64(SoftFp *fp, T a) {                                                 \
    return to_int(f##W##_format, fp, a, UINT64_MAX, 0);                                            \
  }                                                                                                \
  T softfp_i32_to_f##W(SoftFp *fp, int32_t a) { return (T)from_signed(f##W##_format, fp, a); }     \
  T softfp_u32_to_f##W(SoftFp *fp, uint32_t a) {                                                   \
    return (T)from_int(f##W##_format, fp, false, a);                                               \
  }                                                                                                \
  T softfp_i64_to_f##W(SoftFp *fp, int64_t a) { return (T)from_signed(f##W##_format, fp, a); }     \
  T softfp_u64_to_f##W(SoftFp *fp, uint64_t a) { return (T)from_int(f##W##_format, fp, false, a); }

DEFINE(32, uint32_t)
DEFINE(64, uint64_t)

uint32_t softfp_f64_to_f32(SoftFp *fp, uint64_t a) {
  return (uint32_t)convert(f64_format, f32_format, fp, a);
}
uint64_t softfp_f32_to_f64(SoftFp *fp, uint32_t a) {
  return convert(f32_format, f64_format, fp, a);
}
