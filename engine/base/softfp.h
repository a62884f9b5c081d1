/* Software floating point: IEEE 754 binary32 and binary64 on bit patterns, in portable integer C.
 *
 * This is the reference that the interpreter's operations and the JIT's cold paths use. Nothing
 * touches the host's floating point: neither its rounding mode nor its flags matter, and both stay
 * as they are.
 *
 *   SoftFp fp = {.rm = SOFTFP_RNE};
 *   uint32_t three = softfp_add32(&fp, 0x3f800000, 0x40000000);   // 1.0f + 2.0f
 *   if (fp.flags & SOFTFP_NX) ...                                 // flags accrue
 *
 * Rounding modes and flags are numbered as RISC-V's fcsr has them. What a NaN result looks like is
 * a policy of the context; the canonical NaN is the one there is so far (RISC-V, unprivileged
 * ISA 11.3). The rest is RISC-V's too: tininess is detected after rounding; infinity times zero
 * plus a quiet NaN is invalid; conversions to integers saturate (NaN and +big give the maximum,
 * -big the minimum, with NV and without NX). fma(-a, b, c) and the like are the caller's: it flips
 * sign bits of the operands.
 *
 * Costs, in ns on the machine of 2026 that this was written on: comparisons 2, conversions 2 to 5,
 * add and mul 5, div 5 (f32) or 9 (f64), fma 11, sqrt 13. `softfp_test time` measures them, with
 * some 2 ns for its indirect calls. */
#ifndef BASE_SOFTFP_H
#define BASE_SOFTFP_H

#include <stdint.h>

enum { SOFTFP_RNE, SOFTFP_RTZ, SOFTFP_RDN, SOFTFP_RUP, SOFTFP_RMM };
enum { SOFTFP_NX = 1, SOFTFP_UF = 2, SOFTFP_OF = 4, SOFTFP_DZ = 8, SOFTFP_NV = 16 };
typedef enum SoftFpNan { SOFTFP_NAN_CANONICAL } SoftFpNan;

typedef struct SoftFp {
  uint8_t rm;    /* rounding mode */
  uint8_t flags; /* accrued */
  uint8_t nan;   /* SoftFpNan */
} SoftFp;

#define SOFTFP_DECLARE(W, T)                                                                       \
  T softfp_add##W(SoftFp *fp, T a, T b);                                                           \
  T softfp_sub##W(SoftFp *fp, T a, T b);                                                           \
  T softfp_mul##W(SoftFp *fp, T a, T b);                                                           \
  T softfp_div##W(SoftFp *fp, T a, T b);                                                           \
  T softfp_sqrt##W(SoftFp *fp, T a);                                                               \
  T softfp_fma##W(SoftFp *fp, T a, T b, T c); /* a * b + c, rounded once */                        \
  T softfp_min##W(SoftFp *fp, T a, T b);      /* IEEE 754-2019 minimumNumber, -0 < +0 */           \
  T softfp_max##W(SoftFp *fp, T a, T b);                                                           \
  uint64_t softfp_eq##W(SoftFp *fp, T a, T b); /* quiet; 0 or 1 */                                 \
  uint64_t softfp_lt##W(SoftFp *fp, T a, T b); /* signaling */                                     \
  uint64_t softfp_le##W(SoftFp *fp, T a, T b);                                                     \
  uint64_t softfp_classify##W(T a); /* RISC-V fclass mask */                                       \
  int32_t softfp_f##W##_to_i32(SoftFp *fp, T a);                                                   \
  uint32_t softfp_f##W##_to_u32(SoftFp *fp, T a);                                                  \
  int64_t softfp_f##W##_to_i64(SoftFp *fp, T a);                                                   \
  uint64_t softfp_f##W##_to_u64(SoftFp *fp, T a);                                                  \
  T softfp_i32_to_f##W(SoftFp *fp, int32_t a);                                                     \
  T softfp_u32_to_f##W(SoftFp *fp, uint32_t a);                                                    \
  T softfp_i64_to_f##W(SoftFp *fp, int64_t a);                                                     \
  T softfp_u64_to_f##W(SoftFp *fp, uint64_t a);

SOFTFP_DECLARE(32, uint32_t)
SOFTFP_DECLARE(64, uint64_t)
#undef SOFTFP_DECLARE

uint32_t softfp_f64_to_f32(SoftFp *fp, uint64_t a);
uint64_t softfp_f32_to_f64(SoftFp *fp, uint32_t a);

#endif
