/* F and D. Singles are kept NaN-boxed: an operand that is not boxed reads as the canonical NaN
 * (unprivileged ISA, 12.2). */
#include "guest/rv64/lift.h"

static IrRef get_s(IrBuilder *b, uint8_t reg) { return op1(b, IR_unbox32, get_f(b, reg)); }
static void put_s(IrBuilder *b, uint8_t reg, IrRef v) { put_f(b, reg, op1(b, IR_box32, v)); }

/* The operation's rounding mode; a dynamic one must be valid. */
static uint64_t rounding(IrBuilder *b, const Rv64Args *a) {
  if (a->rm == RV64_RM_DYN) {
    IrRef rm = get_state(b, offsetof(IrState, fp_rm));
    illegal_if(b, op2(b, IR_geu, rm, ir_imm(b, RV64_RM_RESERVED)));
  }
  return a->rm;
}

#define SIGN32 0x80000000ull
#define SIGN64 0x8000000000000000ull

LIFT(flw) { put_s(b, a->rd, ir_emit(b, IR_ld32u, get_x(b, a->rs1), 0, 0, (uint64_t)a->imm)); }
LIFT(fld) { put_f(b, a->rd, ir_emit(b, IR_ld64, get_x(b, a->rs1), 0, 0, (uint64_t)a->imm)); }
LIFT(fsw) { ir_emit(b, IR_st32, get_x(b, a->rs1), get_f(b, a->rs2), 0, (uint64_t)a->imm); }
LIFT(fsd) { ir_emit(b, IR_st64, get_x(b, a->rs1), get_f(b, a->rs2), 0, (uint64_t)a->imm); }

#define ARITHMETIC(name, op)                                                                       \
  LIFT(name##_s) {                                                                                 \
    uint64_t rm = rounding(b, a);                                                                  \
    put_s(b, a->rd, ir_emit(b, IR_##op##32, get_s(b, a->rs1), get_s(b, a->rs2), 0, rm));           \
  }                                                                                                \
  LIFT(name##_d) {                                                                                 \
    uint64_t rm = rounding(b, a);                                                                  \
    put_f(b, a->rd, ir_emit(b, IR_##op##64, get_f(b, a->rs1), get_f(b, a->rs2), 0, rm));           \
  }

ARITHMETIC(fadd, fadd)
ARITHMETIC(fsub, fsub)
ARITHMETIC(fmul, fmul)
ARITHMETIC(fdiv, fdiv)

LIFT(fsqrt_s) {
  uint64_t rm = rounding(b, a);
  put_s(b, a->rd, ir_emit(b, IR_fsqrt32, get_s(b, a->rs1), 0, 0, rm));
}
LIFT(fsqrt_d) {
  uint64_t rm = rounding(b, a);
  put_f(b, a->rd, ir_emit(b, IR_fsqrt64, get_f(b, a->rs1), 0, 0, rm));
}

/* a*b+c with the signs of the product and of the addend flipped as asked. */
static void fused(IrBuilder *b, const Rv64Args *a, bool single, bool negate_product,
                  bool negate_addend) {
  uint64_t rm = rounding(b, a);
  IrRef x = single ? get_s(b, a->rs1) : get_f(b, a->rs1);
  IrRef y = single ? get_s(b, a->rs2) : get_f(b, a->rs2);
  IrRef z = single ? get_s(b, a->rs3) : get_f(b, a->rs3);
  IrRef sign = ir_imm(b, single ? SIGN32 : SIGN64);
  if (negate_product) x = op2(b, IR_xor, x, sign);
  if (negate_addend) z = op2(b, IR_xor, z, sign);
  IrRef v = ir_emit(b, single ? IR_fma32 : IR_fma64, x, y, z, rm);
  if (single)
    put_s(b, a->rd, v);
  else
    put_f(b, a->rd, v);
}

LIFT(fmadd_s) { fused(b, a, true, false, false); }
LIFT(fmsub_s) { fused(b, a, true, false, true); }
LIFT(fnmsub_s) { fused(b, a, true, true, false); }
LIFT(fnmadd_s) { fused(b, a, true, true, true); }
LIFT(fmadd_d) { fused(b, a, false, false, false); }
LIFT(fmsub_d) { fused(b, a, false, false, true); }
LIFT(fnmsub_d) { fused(b, a, false, true, false); }
LIFT(fnmadd_d) { fused(b, a, false, true, true); }

/* Sign injection: rs1's magnitude with a sign made of both signs. Of one register it is fmv, fneg,
 * fabs. */
static IrRef inject(IrBuilder *b, IrRef x, IrRef y, uint64_t sign, char how) {
  IrRef mask = ir_imm(b, sign);
  if (how == 'x') return op2(b, IR_xor, x, op2(b, IR_and, y, mask));
  if (how == 'n') y = op1(b, IR_not, y);
  return op2(b, IR_or, op2(b, IR_andn, x, mask), op2(b, IR_and, y, mask));
}

static IrRef inject_own(IrBuilder *b, IrRef x, uint64_t sign, char how) {
  if (how == 'j') return x;
  return op2(b, how == 'n' ? IR_xor : IR_andn, x, ir_imm(b, sign));
}

static void inject_s(IrBuilder *b, const Rv64Args *a, char how) {
  IrRef x = get_s(b, a->rs1);
  bool own = a->rs1 == a->rs2;
  put_s(b, a->rd,
        own ? inject_own(b, x, SIGN32, how) : inject(b, x, get_s(b, a->rs2), SIGN32, how));
}

static void inject_d(IrBuilder *b, const Rv64Args *a, char how) {
  IrRef x = get_f(b, a->rs1);
  bool own = a->rs1 == a->rs2;
  put_f(b, a->rd,
        own ? inject_own(b, x, SIGN64, how) : inject(b, x, get_f(b, a->rs2), SIGN64, how));
}

#define INJECT(name, how)                                                                          \
  LIFT(name##_s) { inject_s(b, a, how); }                                                          \
  LIFT(name##_d) { inject_d(b, a, how); }

INJECT(fsgnj, 'j')
INJECT(fsgnjn, 'n')
INJECT(fsgnjx, 'x')

#define MINMAX(name)                                                                               \
  LIFT(name##_s) { put_s(b, a->rd, op2(b, IR_##name##32, get_s(b, a->rs1), get_s(b, a->rs2))); }   \
  LIFT(name##_d) { put_f(b, a->rd, op2(b, IR_##name##64, get_f(b, a->rs1), get_f(b, a->rs2))); }
#define COMPARE(name)                                                                              \
  LIFT(name##_s) { put_x(b, a->rd, op2(b, IR_##name##32, get_s(b, a->rs1), get_s(b, a->rs2))); }   \
  LIFT(name##_d) { put_x(b, a->rd, op2(b, IR_##name##64, get_f(b, a->rs1), get_f(b, a->rs2))); }

MINMAX(fmin)
MINMAX(fmax)
COMPARE(feq)
COMPARE(flt)
COMPARE(fle)

LIFT(fclass_s) { put_x(b, a->rd, op1(b, IR_fclass32, get_s(b, a->rs1))); }
LIFT(fclass_d) { put_x(b, a->rd, op1(b, IR_fclass64, get_f(b, a->rs1))); }

/* ---- moves and conversions ------------------------------------------------------------------- */

LIFT(fmv_x_w) { put_x(b, a->rd, op1(b, IR_sext32, get_f(b, a->rs1))); }
LIFT(fmv_w_x) { put_s(b, a->rd, op1(b, IR_zext32, get_x(b, a->rs1))); }
LIFT(fmv_x_d) { put_x(b, a->rd, get_f(b, a->rs1)); }
LIFT(fmv_d_x) { put_f(b, a->rd, get_x(b, a->rs1)); }

/* To integers: 32-bit results, unsigned ones too, are sign-extended. */
#define TO_INT(name, op, get, finish)                                                              \
  LIFT(name) {                                                                                     \
    uint64_t rm = rounding(b, a);                                                                  \
    put_x(b, a->rd, finish(ir_emit(b, IR_##op, get(b, a->rs1), 0, 0, rm)));                        \
  }
#define AS_IS(v) (v)
#define SEXT(v)  op1(b, IR_sext32, v)

TO_INT(fcvt_w_s, i32_f32, get_s, AS_IS)
TO_INT(fcvt_wu_s, u32_f32, get_s, SEXT)
TO_INT(fcvt_l_s, i64_f32, get_s, AS_IS)
TO_INT(fcvt_lu_s, u64_f32, get_s, AS_IS)
TO_INT(fcvt_w_d, i32_f64, get_f, AS_IS)
TO_INT(fcvt_wu_d, u32_f64, get_f, SEXT)
TO_INT(fcvt_l_d, i64_f64, get_f, AS_IS)
TO_INT(fcvt_lu_d, u64_f64, get_f, AS_IS)

#define FROM(name, op, get, put)                                                                   \
  LIFT(name) {                                                                                     \
    uint64_t rm = rounding(b, a);                                                                  \
    put(b, a->rd, ir_emit(b, IR_##op, get(b, a->rs1), 0, 0, rm));                                  \
  }

FROM(fcvt_s_w, f32_i32, get_x, put_s)
FROM(fcvt_s_wu, f32_u32, get_x, put_s)
FROM(fcvt_s_l, f32_i64, get_x, put_s)
FROM(fcvt_s_lu, f32_u64, get_x, put_s)
FROM(fcvt_d_w, f64_i32, get_x, put_f)
FROM(fcvt_d_wu, f64_u32, get_x, put_f)
FROM(fcvt_d_l, f64_i64, get_x, put_f)
FROM(fcvt_d_lu, f64_u64, get_x, put_f)
FROM(fcvt_s_d, f32_f64, get_f, put_s)
FROM(fcvt_d_s, f64_f32, get_s, put_f)
