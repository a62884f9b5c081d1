/* Lowering of floating point: on the host's unit, with RISC-V's results and flags.
 *
 * Accrued exception flags live in MXCSR, as does the dynamic rounding mode; x86 and RISC-V agree on
 * when each flag is raised (both detect tininess after rounding). They differ in NaN results
 * (RISC-V's are canonical) and in what conversions to integers give out of range: each operation
 * tests for those, and the cold case is put right aside. Rounding to nearest with ties to max
 * magnitude (RMM) does not exist on the host: a block with dynamically rounded operations begins
 * with a test of fp_rm, and is left to the interpreter if that is RMM (or reserved).
 *
 * An F32 value in a vector register is its low half; the upper half means nothing. */
#include "jit/lower.h"

enum { RM_RTZ = 1, RM_RDN = 2, RM_RUP = 3, RM_RMM = 4, RM_DYNAMIC = 7, RM_FIRST_FOREIGN = 4 };

static unsigned rounding(const IrOp *op) { return op->imm & 7; }

/* Operand size of scalar instructions: doubles have prefix F2, singles F3; comparisons 66 and none.
 */
static unsigned scalar(bool wide) { return wide ? X64_F2 : X64_F3; }
static unsigned compare(bool wide) { return wide ? X64_66 : 0; }

/* ---- the rounding mode
 * --------------------------------------------------------------------------- */

static bool rounds(const IrOp *op) {
  return ir_op_info[op->code].flags & IR_FPENV && rounding(op) == RM_DYNAMIC;
}

bool low_is_rounding_check(const Lower *l, const IrOp *trap_if) {
  const IrOp *cond = low_op(l, trap_if->a);
  if (cond->code != IR_geu || !low_is_imm(l, cond->b) || low_imm(l, cond->b) <= RM_FIRST_FOREIGN)
    return false;
  const IrOp *get = low_op(l, cond->a);
  return get->code == IR_get && get->imm == offsetof(IrState, fp_rm);
}

void low_block_begin(Lower *l, const IrBlock *b) {
  for (uint32_t k = b->first; k < b->end; k++) {
    if (!rounds(low_op(l, (IrRef)k))) continue;
    x64_mi(&l->x, X64_ALU_I, ALU_CMP, x64_gs(offsetof(IrState, fp_rm)), RM_FIRST_FOREIGN);
    low_exit(l, x64_jcc(&l->x, CC_AE), (JitSite){.kind = IR_EXIT_SOFT, .pc = b->pc});
    l->inline_rounding = true;
    return;
  }
}

/* ---- cold cases
 * ---------------------------------------------------------------------------------- */

static void cold_canonical(Lower *l, const LowCold *c) {
  bool wide = ir_op_info[low_op(l, (IrRef)c->k)->code].result == IR_F64;
  x64_rm(&l->x, X64_MOVSD_LOAD, c->d & 15u,
         x64_gs(offsetof(IrState, jit.consts) + 8u * (wide ? JIT_C_NAN64 : JIT_C_NAN32)));
  x64_patch(x64_jmp(&l->x), c->back);
}

static void pass_register(Lower *l, unsigned reg, int n) {
  X64Mem m = x64_gs(offsetof(IrState, jit.args) + 8u * (unsigned)n);
  if (reg != X64_NONE) x64_rm(&l->x, reg < 16 ? X64_MOV_STORE : X64_MOVSD_STORE, reg & 15, m);
}

/* Scratch registers: call_keep preserves all but these four, call_full loses the vector ones as
 * well. */
static void save_scratch(Lower *l, bool vectors, bool restore) {
  static const uint8_t keep[] = {RAX, RCX, RDX, RSI};
  for (unsigned i = 0; i < sizeof keep; i++) {
    bool guests = l->j->native && !(l->window.lost >> keep[i] & 1);
    x64_rm(&l->x, restore ? X64_MOV_LOAD : X64_MOV_STORE, keep[i],
           guests ? x64_gs(l->j->native->gpr + 8u * keep[i])
                  : x64_gs(offsetof(IrState, jit.saved) + 8 * i));
  }
  for (unsigned i = 0; vectors && !l->j->native && i < 4; i++)
    x64_rm(&l->x, restore ? X64_MOVSD_LOAD : X64_MOVSD_STORE, i,
           x64_gs(offsetof(IrState, jit.vectors) + 8 * i));
}

/* The operation by its function; all registers but d are as before. */
static void cold_call(Lower *l, const LowCold *c) {
  const IrOp *op = low_op(l, (IrRef)c->k);
  bool full = c->kind == COLD_CALL_FULL;
  save_scratch(l, full, false);
  pass_register(l, c->a, 0);
  pass_register(l, c->b, 1);
  pass_register(l, c->c, 2);
  if (full) low_say_where(l);
  if (op->code == IR_cs_jump) {
    x64_rm(&l->x, X64_MOV_LOAD, RAX, x64_gs(offsetof(IrState, jit.args[0])));
    x64_rm(&l->x, X64_MOV_LOAD, RDX, x64_gs(offsetof(IrState, jit.args[1])));
    x64_mov_imm(&l->x, RCX, op->imm);
    low_call_on_host(l, l->j->cs_jump);
    save_scratch(l, full, true);
    x64_patch(x64_jmp(&l->x), c->back);
    return;
  }
  x64_rm(&l->x, X64_MOV_LOAD, RDX, x64_gs(offsetof(IrState, jit.args[2])));
  x64_mov_imm(&l->x, RAX, (uint64_t)(uintptr_t)jit_fns[op->code]);
  x64_mov_imm(&l->x, RCX, op->imm);
  low_call_on_host(l, full ? l->j->call_full : l->j->call_keep);
  if (full) x64_rm(&l->x, X64_MOV_STORE, RAX, x64_gs(offsetof(IrState, jit.result)));
  save_scratch(l, full, true);
  if (c->d != X64_NONE)
    x64_rm(&l->x, c->d < 16 ? X64_MOV_LOAD : X64_MOVSD_LOAD, c->d & 15u,
           x64_gs(offsetof(IrState, jit.result)));
  x64_patch(x64_jmp(&l->x), c->back);
}

void low_cold(Lower *l, const LowCold *c) {
  if (c->kind == COLD_CANONICAL)
    cold_canonical(l, c);
  else
    cold_call(l, c);
}

static uint8_t none(void) { return X64_NONE; }

/* ---- arithmetic
 * ---------------------------------------------------------------------------------- */

static void canonical_if_nan(Lower *l, uint32_t k, bool wide, unsigned d) {
  x64_rr(&l->x, X64_UCOMIS | compare(wide), d, d);
  LowCold c = {
      .kind = COLD_CANONICAL, .jump = x64_jcc(&l->x, CC_P), .k = k, .d = (uint8_t)(16 + d)};
  c.back = l->x.at;
  low_put_aside(l, c);
}

static void lower_two(Lower *l, uint32_t k, unsigned insn, bool commutes, bool wide) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_xmm(l, op->a), b = low_xmm(l, op->b), d = low_def(l, (IrRef)k, op->a) & 15,
           to = d;
  if (d == b && d != a) {
    if (commutes)
      b = a;
    else
      low_move(l, to = low_temp(l, true), 16 + a), to &= 15;
  } else {
    low_move(l, 16 + d, 16 + a);
  }
  x64_rr(&l->x, insn | scalar(wide), to, b);
  canonical_if_nan(l, k, wide, to);
  low_move(l, 16 + d, 16 + to);
  low_defined(l, (IrRef)k);
}

static void lower_one(Lower *l, uint32_t k, unsigned insn, bool from_wide, bool to_wide) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_xmm(l, op->a), d = low_def(l, (IrRef)k, op->a) & 15;
  low_move(l, 16 + d,
           16 + a); /* these leave the upper half of d alone: no dependency on what was there */
  x64_rr(&l->x, insn | scalar(from_wide), d, d);
  canonical_if_nan(l, k, to_wide, d);
  low_defined(l, (IrRef)k);
}

static LowCold by_function(Lower *l, uint32_t k, unsigned a, unsigned b, unsigned c, unsigned d) {
  return (LowCold){.kind = COLD_CALL,
                   .k = k,
                   .a = (uint8_t)a,
                   .b = (uint8_t)b,
                   .c = (uint8_t)c,
                   .d = (uint8_t)d,
                   .back = l->x.at};
}

/* Infinity times 0 plus a quiet NaN is invalid in RISC-V, not on x86: NaNs are computed again. */
static void lower_fma(Lower *l, uint32_t k, bool wide) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_xmm(l, op->a), b = low_xmm(l, op->b), c = low_xmm(l, op->c),
           t = low_temp(l, true) & 15;
  low_move(l, 16 + t, 16 + a);
  x64_vex_rr(&l->x, wide ? X64_FMA213D : X64_FMA213S, t, b, c);
  x64_rr(&l->x, X64_UCOMIS | compare(wide), t, t);
  uint8_t *nan = x64_jcc(&l->x, CC_P);
  LowCold cold = by_function(l, k, 16 + a, 16 + b, 16 + c, 16 + t);
  cold.jump = nan;
  low_put_aside(l, cold);
  low_result(l, (IrRef)k, 16 + t);
}

/* Equal operands may be zeros of different signs; NaNs are handled differently by the host. */
static void lower_min_max(Lower *l, uint32_t k, unsigned insn, bool wide) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_xmm(l, op->a), b = low_xmm(l, op->b), t = low_temp(l, true) & 15;
  x64_rr(&l->x, X64_UCOMIS | compare(wide), a, b);
  uint8_t *nan = x64_jcc(&l->x, CC_P), *equal = x64_jcc(&l->x, CC_E);
  low_move(l, 16 + t, 16 + a);
  x64_rr(&l->x, insn | scalar(wide), t, b);
  LowCold cold = by_function(l, k, 16 + a, 16 + b, none(), 16 + t);
  cold.jump = nan;
  low_put_aside(l, cold);
  cold.jump = equal;
  low_put_aside(l, cold);
  low_result(l, (IrRef)k, 16 + t);
}

static void lower_equal(Lower *l, uint32_t k, bool wide) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_xmm(l, op->a), b = low_xmm(l, op->b), d = low_temp(l, false),
           t = low_temp(l, false);
  x64_rr(&l->x, X64_UCOMIS | compare(wide), a, b);
  x64_setcc(&l->x, CC_E, d);
  x64_setcc(&l->x, CC_NP, t);
  x64_rr(&l->x, X64_MOVZX8, d, d);
  x64_rr(&l->x, X64_AND | X64_32, d, t);
  low_result(l, (IrRef)k, d);
}

/* a < b is b above a: an unordered result sets CF and ZF. comis raises invalid for quiet NaNs too.
 */
static void lower_less(Lower *l, uint32_t k, X64Cond cc, bool wide) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_xmm(l, op->a), b = low_xmm(l, op->b), d = low_temp(l, false);
  x64_rr(&l->x, X64_COMIS | compare(wide), b, a);
  x64_setcc(&l->x, cc, d);
  x64_rr(&l->x, X64_MOVZX8, d, d);
  low_result(l, (IrRef)k, d);
}

/* ---- conversions
 * --------------------------------------------------------------------------------- */

/* d += what is missing to the nearest integer, ties away from zero: twice the (exact) difference,
 * truncated. Where there is one the conversion was inexact, so that the flag it raises is there
 * already. */
static void round_away(Lower *l, unsigned d, unsigned a, bool wide, unsigned size) {
  unsigned x = low_temp(l, true) & 15, y = low_temp(l, true) & 15, t = low_temp(l, false);
  x64_rr(&l->x, X64_XORPS, y, y);
  x64_rr(&l->x, X64_CVT_FROM_INT | scalar(wide) | size, y, d);
  low_move(l, 16 + x, 16 + a);
  x64_rr(&l->x, X64_SUBF | scalar(wide), x, y);
  x64_rr(&l->x, X64_ADDF | scalar(wide), x, x);
  x64_rr(&l->x, X64_CVTT_TO_INT | scalar(wide) | size, t, x);
  x64_rr(&l->x, X64_ADD | size, d, t);
}

/* To a signed integer. What does not fit gives the host's smallest integer: then the function
 * decides. */
static void lower_to_int(Lower *l, uint32_t k, bool from_wide, bool narrow) {
  static const uint8_t host_rounding[] = {0, 3, 1, 2};
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned rm = rounding(op), size = narrow ? X64_32 : 0, a = low_xmm(l, op->a), from = a,
           d = low_temp(l, false);
  if (rm != RM_RTZ && rm < RM_RMM) {
    from = low_temp(l, true) & 15;
    x64_rr_i8(&l->x, from_wide ? X64_ROUNDSD : X64_ROUNDSS, from, a, host_rounding[rm]);
  }
  x64_rr(&l->x, (rm == RM_DYNAMIC ? X64_CVT_TO_INT : X64_CVTT_TO_INT) | scalar(from_wide) | size, d,
         from);
  x64_ri(&l->x, X64_ALU_I | size, ALU_CMP, d, 1); /* overflows for the smallest only */
  uint8_t *out = x64_jcc(&l->x, CC_O);
  if (rm == RM_RMM) round_away(l, d, a, from_wide, size);
  if (narrow) x64_rr(&l->x, X64_MOVSXD, d, d);
  LowCold cold = by_function(l, k, 16 + a, none(), none(), d);
  cold.jump = out;
  low_put_aside(l, cold);
  low_result(l, (IrRef)k, d);
}

typedef enum IntKind { INT_I32, INT_U32, INT_I64, INT_U64 } IntKind;

/* The integers that are exact in any rounding mode are those up to 2^bits; others are computed
 * aside if the mode is static. */
static uint8_t *unless_exact(Lower *l, unsigned value, bool is_signed, unsigned bits) {
  unsigned t = low_temp(l, false), limit = low_temp(l, false);
  x64_mov_imm(&l->x, limit, 1ull << bits);
  low_move(l, t, value);
  if (is_signed) { /* value + 2^bits <= 2^(bits+1), unsigned */
    x64_rr(&l->x, X64_ADD, t, limit);
    x64_rr(&l->x, X64_ADD, limit, limit);
  }
  x64_rr(&l->x, X64_CMP, t, limit);
  low_unlock(l, limit);
  low_unlock(l, t);
  return x64_jcc(&l->x, CC_A);
}

static void lower_from_int(Lower *l, uint32_t k, IntKind kind, bool wide) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_gpr(l, op->a), from = a, d = low_temp(l, true) & 15;
  bool exact = wide && (kind == INT_I32 || kind == INT_U32);
  uint8_t *big = NULL;
  if (kind == INT_I32 || kind == INT_U32) {
    from = low_temp(l, false);
    x64_rr(&l->x, kind == INT_I32 ? X64_MOVSXD : X64_MOV_LOAD | X64_32, from, a);
  }
  if (!exact && rounding(op) != RM_DYNAMIC) {
    big = unless_exact(l, from, kind != INT_U64, wide ? 53 : 24);
  } else if (kind == INT_U64) {
    x64_rr(&l->x, X64_TEST, a, a);
    big = x64_jcc(&l->x, CC_S);
  }
  x64_rr(&l->x, X64_XORPS, d, d);
  x64_rr(&l->x, X64_CVT_FROM_INT | scalar(wide), d, from);
  if (big) {
    LowCold cold = by_function(l, k, a, none(), none(), 16 + d);
    cold.jump = big;
    low_put_aside(l, cold);
  }
  low_result(l, (IrRef)k, 16 + d);
}

/* ---- NaN boxing and sign bits
 * -------------------------------------------------------------------- */

static void lower_box(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_xmm(l, op->a), d = low_def(l, (IrRef)k, op->a) & 15;
  low_move(l, 16 + d, 16 + a);
  x64_rm(&l->x, X64_ORPS, d, x64_gs(offsetof(IrState, jit.consts) + 8u * JIT_C_BOX));
  low_defined(l, (IrRef)k);
}

static void lower_unbox(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_xmm(l, op->a), d = low_def(l, (IrRef)k, op->a) & 15, t = low_temp(l, false);
  low_move(l, 16 + d, 16 + a);
  x64_rr_i8(&l->x, X64_PEXTRD, d, t, 1);
  x64_ri(&l->x, X64_ALU_I | X64_32, ALU_CMP, t, -1);
  LowCold c = {
      .kind = COLD_CANONICAL, .jump = x64_jcc(&l->x, CC_NE), .k = k, .d = (uint8_t)(16 + d)};
  c.back = l->x.at;
  low_put_aside(l, c);
  low_defined(l, (IrRef)k);
}

static void lower_bits(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  uint64_t imm = low_imm(l, op->b);
  unsigned insn = op->code == IR_xor   ? X64_XORPS
                  : op->code == IR_or  ? X64_ORPS
                  : op->code == IR_and ? X64_ANDPS
                                       : X64_ANDNPS;
  if (op->code == IR_xor && low_is_imm(l, op->b) && (imm == 1ull << 63 || imm == 1ull << 31)) {
    unsigned a = low_xmm(l, op->a), d = low_def(l, (IrRef)k, op->a) & 15;
    low_move(l, 16 + d, 16 + a);
    x64_rm(&l->x, X64_XORPS, d,
           x64_gs(offsetof(IrState, jit.consts) +
                  8u * (imm == 1ull << 63 ? JIT_C_SIGN64 : JIT_C_SIGN32)));
    low_defined(l, (IrRef)k);
    return;
  }
  unsigned a = low_xmm(l, op->a), t = low_temp(l, true);
  low_copy(l, t, op->b); /* andnps complements its destination */
  x64_rr(&l->x, insn, t & 15, a);
  low_result(l, (IrRef)k, t);
}

/* ---- dispatch
 * ------------------------------------------------------------------------------------ */

static bool can_round(const Lower *l, const IrOp *op) {
  return rounding(op) == RM_DYNAMIC && l->inline_rounding;
}

static bool lower_rounding(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  if (!can_round(l, op)) return false;
  switch (op->code) {
  case IR_fadd32: lower_two(l, k, X64_ADDF, true, false); break;
  case IR_fadd64: lower_two(l, k, X64_ADDF, true, true); break;
  case IR_fsub32: lower_two(l, k, X64_SUBF, false, false); break;
  case IR_fsub64: lower_two(l, k, X64_SUBF, false, true); break;
  case IR_fmul32: lower_two(l, k, X64_MULF, true, false); break;
  case IR_fmul64: lower_two(l, k, X64_MULF, true, true); break;
  case IR_fdiv32: lower_two(l, k, X64_DIVF, false, false); break;
  case IR_fdiv64: lower_two(l, k, X64_DIVF, false, true); break;
  case IR_fsqrt32: lower_one(l, k, X64_SQRTF, false, false); break;
  case IR_fsqrt64: lower_one(l, k, X64_SQRTF, true, true); break;
  case IR_f32_f64: lower_one(l, k, X64_CVTF, true, false); break;
  case IR_fma32:
  case IR_fma64:
    if (!l->j->fma) return false;
    lower_fma(l, k, op->code == IR_fma64);
    break;
  default: return false;
  }
  return true;
}

static bool lower_conversion(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned rm = rounding(op);
  bool wide = op->code == IR_i32_f64 || op->code == IR_i64_f64,
       narrow = op->code == IR_i32_f32 || op->code == IR_i32_f64;
  switch (op->code) {
  case IR_i32_f32:
  case IR_i32_f64:
  case IR_i64_f32:
  case IR_i64_f64:
    /* roundsd says inexact of what then does not fit 32 bits, which RISC-V does not; 64-bit ones
     * out of range are whole */
    if (rm != RM_RTZ && !can_round(l, op) && (narrow || rm > RM_RUP)) return false;
    lower_to_int(l, k, wide, narrow);
    return true;
  case IR_f64_i32:
    lower_from_int(l, k, INT_I32, true);
    return true; /* exact in any mode, as the next two */
  case IR_f64_u32: lower_from_int(l, k, INT_U32, true); return true;
  case IR_f64_f32: lower_one(l, k, X64_CVTF, false, true); return true;
  default: return false;
  }
}

static bool lower_from_integer(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  if (rounding(op) == RM_DYNAMIC && !l->inline_rounding) return false;
  switch (op->code) {
  case IR_f32_i32: lower_from_int(l, k, INT_I32, false); return true;
  case IR_f32_u32: lower_from_int(l, k, INT_U32, false); return true;
  case IR_f32_i64: lower_from_int(l, k, INT_I64, false); return true;
  case IR_f32_u64: lower_from_int(l, k, INT_U64, false); return true;
  case IR_f64_i64: lower_from_int(l, k, INT_I64, true); return true;
  case IR_f64_u64: lower_from_int(l, k, INT_U64, true); return true;
  default: return false;
  }
}

bool low_fp(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  switch (op->code) {
  case IR_box32: lower_box(l, k); return true;
  case IR_unbox32: lower_unbox(l, k); return true;
  case IR_and:
  case IR_or:
  case IR_xor:
  case IR_andn:
    if (l->xmm[k]) lower_bits(l, k);
    return l->xmm[k];
  case IR_fmin32: lower_min_max(l, k, X64_MINF, false); return true;
  case IR_fmin64: lower_min_max(l, k, X64_MINF, true); return true;
  case IR_fmax32: lower_min_max(l, k, X64_MAXF, false); return true;
  case IR_fmax64: lower_min_max(l, k, X64_MAXF, true); return true;
  case IR_feq32:
  case IR_feq64: lower_equal(l, k, op->code == IR_feq64); return true;
  case IR_flt32:
  case IR_flt64: lower_less(l, k, CC_A, op->code == IR_flt64); return true;
  case IR_fle32:
  case IR_fle64: lower_less(l, k, CC_AE, op->code == IR_fle64); return true;
  default: break;
  }
  if (!(ir_op_info[op->code].flags & IR_FPENV)) return false;
  return lower_conversion(l, k) || lower_from_integer(l, k) || lower_rounding(l, k);
}
