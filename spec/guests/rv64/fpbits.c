// RISC-V's own floating-point rules: NaN boxing, canonical NaNs, fmin/fmax, saturating conversions,
// fclass, sign injection, dynamic rounding, accrued flags.
#include <stdint.h>

#include "guest.h"

static NOINLINE uint64_t fcvt_w_d(uint64_t bits) {
  uint64_t x;
  __asm__ volatile("fmv.d.x fa0, %1\n fcvt.w.d %0, fa0, rtz" : "=r"(x) : "r"(bits) : "fa0");
  return x;
}

#define UNARY(name, insn)                                                                       \
  static NOINLINE uint64_t name(uint64_t bits) {                                                \
    uint64_t x;                                                                                 \
    __asm__ volatile("fmv.d.x fa0, %1\n " insn : "=r"(x) : "r"(bits) : "fa0", "fa1");           \
    return x;                                                                                   \
  }
UNARY(fcvt_wu_d, "fcvt.wu.d %0, fa0, rtz")
UNARY(fcvt_l_d, "fcvt.l.d %0, fa0, rtz")
UNARY(fcvt_lu_d, "fcvt.lu.d %0, fa0, rtz")
UNARY(fclass_d, "fclass.d %0, fa0")
UNARY(fclass_s, "fclass.s %0, fa0")
UNARY(fmv_x_w, "fmv.x.w %0, fa0")
UNARY(add_self_s, "fadd.s fa1, fa0, fa0\n fmv.x.d %0, fa1")
UNARY(to_single, "fcvt.s.d fa1, fa0\n fmv.x.d %0, fa1")
UNARY(root, "fsqrt.d fa1, fa0\n fmv.x.d %0, fa1")
UNARY(negate, "fneg.d fa1, fa0\n fmv.x.d %0, fa1")

#define BINARY(name, insn)                                                                      \
  static NOINLINE uint64_t name(uint64_t a, uint64_t b) {                                       \
    uint64_t x;                                                                                 \
    __asm__ volatile("fmv.d.x fa0, %1\n fmv.d.x fa1, %2\n " insn "\n fmv.x.d %0, fa0"           \
                     : "=r"(x) : "r"(a), "r"(b) : "fa0", "fa1");                                \
    return x;                                                                                   \
  }
BINARY(min_d, "fmin.d fa0, fa0, fa1")
BINARY(max_d, "fmax.d fa0, fa0, fa1")
BINARY(add_d, "fadd.d fa0, fa0, fa1")

static uint64_t flags(void) {
  uint64_t x;
  __asm__ volatile("fsflags %0, zero" : "=r"(x));
  return x;
}

enum { NX = 1, UF = 2, OF = 4, DZ = 8, NV = 16 };
#define QNAN 0x7ff8000000000000u
#define SNAN 0x7ff0000000000001u
#define INF 0x7ff0000000000000u
#define ONE 0x3ff0000000000000u
#define MINUS 0x8000000000000000u

int main(void) {
  flags();
  CHECK(fcvt_w_d(QNAN) == 0x7fffffff && flags() == NV);
  CHECK(fcvt_w_d(INF | MINUS) == 0xffffffff80000000 && flags() == NV);
  CHECK(fcvt_wu_d(QNAN) == UINT64_MAX && flags() == NV);
  CHECK(fcvt_wu_d(ONE | MINUS) == 0 && flags() == NV);
  CHECK(fcvt_wu_d(0xbfe0000000000000) == 0 && flags() == NX); // -0.5
  CHECK(fcvt_wu_d(0x41efffffffe00000) == 0xffffffffffffffff && flags() == 0); // 4294967295, sign-extended
  CHECK(fcvt_l_d(INF) == INT64_MAX && fcvt_l_d(QNAN | MINUS) == INT64_MAX && flags() == NV);
  CHECK(fcvt_lu_d(INF) == UINT64_MAX && fcvt_lu_d(INF | MINUS) == 0 && flags() == NV);

  CHECK(fclass_d(INF | MINUS) == 1 << 0 && fclass_d(ONE | MINUS) == 1 << 1 && fclass_d(MINUS | 1) == 1 << 2);
  CHECK(fclass_d(MINUS) == 1 << 3 && fclass_d(0) == 1 << 4 && fclass_d(1) == 1 << 5 && fclass_d(ONE) == 1 << 6);
  CHECK(fclass_d(INF) == 1 << 7 && fclass_d(SNAN) == 1 << 8 && fclass_d(QNAN) == 1 << 9 && flags() == 0);

  CHECK(fclass_s(0x3f800000) == 1 << 9);                // not boxed: a quiet NaN
  CHECK(fclass_s(0xffffffff3f800000) == 1 << 6);
  CHECK(add_self_s(0x3f800000) == 0xffffffff7fc00000 && flags() == 0);
  CHECK(add_self_s(0xffffffff3f800000) == 0xffffffff40000000);
  CHECK(fmv_x_w(0x80000000) == 0xffffffff80000000);     // moves do not look at the box
  CHECK(to_single(SNAN | MINUS) == 0xffffffff7fc00000 && flags() == NV);
  CHECK(to_single(0x3690000000000000) == 0xffffffff00000000 && flags() == (NX | UF));

  CHECK(add_d(QNAN | MINUS | 5, ONE) == QNAN && flags() == 0);
  CHECK(add_d(SNAN, ONE) == QNAN && flags() == NV);
  CHECK(add_d(INF, INF | MINUS) == QNAN && flags() == NV);
  CHECK(root(ONE | MINUS) == QNAN && flags() == NV && root(MINUS) == MINUS && flags() == 0);
  CHECK(negate(SNAN) == (SNAN | MINUS) && flags() == 0);

  CHECK(min_d(0, MINUS) == MINUS && max_d(MINUS, 0) == 0);
  CHECK(min_d(QNAN, ONE) == ONE && max_d(ONE, QNAN | 3) == ONE && flags() == 0);
  CHECK(min_d(SNAN, ONE) == ONE && flags() == NV);
  CHECK(max_d(QNAN | 7, QNAN | MINUS) == QNAN && flags() == 0);

  static const uint64_t thirds[5] = {0x3fd5555555555555, 0x3fd5555555555555, 0x3fd5555555555555,
                                     0x3fd5555555555556, 0x3fd5555555555555};
  for (uint64_t mode = 0; mode < 5; mode++) {
    uint64_t x;
    __asm__ volatile("fsrm %1\n fmv.d.x fa0, %2\n fmv.d.x fa1, %3\n fdiv.d fa0, fa0, fa1\n fmv.x.d %0, fa0\n fsrm zero"
                     : "=r"(x) : "r"(mode), "r"(ONE), "r"(0x4008000000000000) : "fa0", "fa1");
    CHECK(x == thirds[mode] && flags() == NX);
  }
  return guest_verdict();
}
