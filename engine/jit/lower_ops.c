/* Lowering of integer operations, guest memory, and calls. */
#include "jit/lower.h"

/* ---- two-operand arithmetic --------------------------------------------------------------------
 */

typedef struct Alu {
  uint32_t insn; /* reg, rm form; 0: not one of these */
  uint8_t group; /* with an immediate */
  bool commutes;
} Alu;

static const Alu alus[IR_OPCODES] = {
    [IR_add] = {X64_ADD, ALU_ADD, true},
    [IR_sub] = {X64_SUB, ALU_SUB, false},
    [IR_and] = {X64_AND, ALU_AND, true},
    [IR_or] = {X64_OR, ALU_OR, true},
    [IR_xor] = {X64_XOR, ALU_XOR, true},
    [IR_add32] = {X64_ADD | X64_32, ALU_ADD, true},
    [IR_sub32] = {X64_SUB | X64_32, ALU_SUB, false},
};

/* d = a insn b, whatever registers coincide. */
static void two_operands(Lower *l, unsigned insn, bool commutes, unsigned d, unsigned a,
                         unsigned b) {
  if (d == b && d != a) {
    if (!commutes) {
      unsigned t = low_temp(l, false);
      low_move(l, t, a);
      x64_rr(&l->x, insn, t, b);
      low_move(l, d, t);
      low_unlock(l, t);
      return;
    }
    b = a;
  } else {
    low_move(l, d, a);
  }
  x64_rr(&l->x, insn, d, b);
}

static void add_imm(Lower *l, bool narrow, unsigned d, unsigned a, int32_t imm) {
  unsigned size = narrow ? X64_32 : 0;
  if (d == a)
    x64_ri(&l->x, X64_ALU_I | size, ALU_ADD, d, imm);
  else
    x64_rm(&l->x, X64_LEA | size, d, x64_at(a, imm));
}

static bool is_add(unsigned code) { return code == IR_add || code == IR_add32; }

/* d = x + (y << n), where the shift is one of the operands (ir/place.h: lazy). */
static bool lower_scaled(Lower *l, const IrOp *op, IrRef to) {
  bool first = l->p->lazy[op->a];
  if (op->code != IR_add || (!first && !l->p->lazy[op->b])) return false;
  const IrOp *shift = low_op(l, first ? op->a : op->b);
  IrRef x = first ? op->b : op->a;
  unsigned y = low_gpr(l, shift->a);
  X64Mem m = {.base = X64_NONE, .index = (uint8_t)y, .scale = (uint8_t)low_imm(l, shift->b)};
  if (low_is_imm(l, x) && x64_fits((int64_t)low_imm(l, x)))
    m.disp = (int32_t)low_imm(l, x);
  else
    m.base = (uint8_t)low_gpr(l, x);
  x64_rm(&l->x, X64_LEA, low_def(l, to, 0), m);
  return true;
}

/* `to`: the value to make: k, or the sext32 of it that follows. */
static void lower_alu(Lower *l, uint32_t k, IrRef to) {
  const IrOp *op = low_op(l, (IrRef)k);
  const Alu *alu = &alus[op->code];
  if (lower_scaled(l, op, to)) return;
  bool narrow = alu->insn & X64_32;
  int64_t imm = narrow ? (int32_t)low_imm(l, op->b) : (int64_t)low_imm(l, op->b);
  if (low_is_imm(l, op->b) && x64_fits(imm) && imm != INT32_MIN) {
    unsigned a = low_gpr(l, op->a), d = low_def(l, to, op->a);
    if (is_add(op->code) || alu->group == ALU_SUB) {
      add_imm(l, narrow, d, a, (int32_t)(alu->group == ALU_SUB ? -imm : imm));
    } else if (op->code == IR_and && imm == 0xff) {
      x64_rr(&l->x, X64_MOVZX8, d, a);
    } else {
      low_move(l, d, a);
      x64_ri(&l->x, alu->insn & X64_32 ? X64_ALU_I | X64_32 : X64_ALU_I, alu->group, d,
             (int32_t)imm);
    }
    return;
  }
  X64Mem m;
  IrRef x = op->a, y = op->b; /* y may be read from memory */
  if (alu->commutes && !low_memory(l, y, &m) && low_memory(l, x, &m)) x = op->b, y = op->a;
  if (x != y && low_memory(l, y, &m)) {
    unsigned a = low_gpr(l, x), d = low_def(l, to, x);
    low_move(l, d, a);
    x64_rm(&l->x, alu->insn, d, m);
    return;
  }
  unsigned a = low_gpr(l, op->a), b = low_gpr(l, op->b);
  unsigned d = low_def(l, to, l->reg[op->a] != X64_NONE || !alu->commutes ? op->a : op->b);
  if (is_add(op->code) && d != a && d != b)
    x64_rm(&l->x, X64_LEA | (narrow ? X64_32 : 0u), d,
           (X64Mem){.base = (uint8_t)a, .index = (uint8_t)b}); /* rsp is never an operand */
  else
    two_operands(l, alu->insn, alu->commutes, d, a, b);
}

/* ---- shifts ------------------------------------------------------------------------------------
 */

typedef struct Shift {
  uint32_t bmi; /* VEX form with a count in a register; 0: none */
  uint8_t group;
  bool is, narrow;
} Shift;

static const Shift shifts[IR_OPCODES] = {
    [IR_shl] = {X64_SHLX, SHIFT_SHL, true, false},
    [IR_shr] = {X64_SHRX, SHIFT_SHR, true, false},
    [IR_sar] = {X64_SARX, SHIFT_SAR, true, false},
    [IR_rotl] = {0, SHIFT_ROL, true, false},
    [IR_rotr] = {0, SHIFT_ROR, true, false},
    [IR_shl32] = {X64_SHLX | X64_32, SHIFT_SHL, true, true},
    [IR_shr32] = {X64_SHRX | X64_32, SHIFT_SHR, true, true},
    [IR_sar32] = {X64_SARX | X64_32, SHIFT_SAR, true, true},
    [IR_rotl32] = {0, SHIFT_ROL, true, true},
    [IR_rotr32] = {0, SHIFT_ROR, true, true},
};

static void lower_shift(Lower *l, uint32_t k, IrRef to) {
  const IrOp *op = low_op(l, (IrRef)k);
  const Shift *s = &shifts[op->code];
  unsigned size = s->narrow ? X64_32 : 0;
  if (low_is_imm(l, op->b)) {
    unsigned a = low_gpr(l, op->a), d = low_def(l, to, op->a);
    unsigned n = low_imm(l, op->b) & (s->narrow ? 31 : 63);
    if (s->narrow && d == a && !n)
      x64_rr(&l->x, X64_MOV_LOAD | X64_32, d, a); /* zero-extends */
    else if (s->narrow)
      d == a ? (void)0 : x64_rr(&l->x, X64_MOV_LOAD | X64_32, d, a);
    else
      low_move(l, d, a);
    if (n) x64_ri(&l->x, X64_SHIFT_I | size, s->group, d, (int32_t)n);
    return;
  }
  if (s->bmi && l->j->bmi) {
    unsigned a = low_gpr(l, op->a), b = low_gpr(l, op->b), d = low_def(l, to, op->a);
    x64_vex_rr(&l->x, s->bmi, d, b, a);
    return;
  }
  low_take(l, RCX);
  low_copy(l, RCX, op->b);
  unsigned a = low_gpr(l, op->a), t = low_temp(l, false);
  low_move(l, t, a);
  x64_rr(&l->x, X64_SHIFT_CL | size, s->group, t);
  unsigned d = low_def(l, to, 0);
  low_move(l, d, t);
}

/* ---- multiplication, division
 * -------------------------------------------------------------------- */

static void lower_mul(Lower *l, uint32_t k, IrRef to) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned insn = X64_IMUL | (op->code == IR_mul32 ? X64_32 : 0);
  unsigned a = low_gpr(l, op->a), b = low_gpr(l, op->b), d = low_def(l, to, op->a);
  two_operands(l, insn, true, d, a, b);
}

/* The upper half: rdx:rax = rax * b. */
static void lower_mul_high(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  low_fetch(l, RAX, op->a);
  low_take(l, RDX);
  unsigned b = low_gpr(l, op->b);
  if (op->code == IR_mulhsu) { /* signed * unsigned: take b off the unsigned product if a < 0 */
    unsigned t = low_temp(l, false);
    low_move(l, t, RAX);
    x64_ri(&l->x, X64_SHIFT_I, SHIFT_SAR, t, 63);
    x64_rr(&l->x, X64_AND, t, b);
    x64_rr(&l->x, X64_GROUP3, 4, b);
    x64_rr(&l->x, X64_SUB, RDX, t);
  } else {
    x64_rr(&l->x, X64_GROUP3, op->code == IR_mulhs ? 5 : 4, b);
  }
  low_result(l, (IrRef)k, RDX);
}

typedef struct Division {
  bool narrow, is_signed, rem;
} Division;

static Division division_of(unsigned code) {
  switch (code) {
  case IR_divs: return (Division){.is_signed = true};
  case IR_divu: return (Division){0};
  case IR_rems: return (Division){.is_signed = true, .rem = true};
  case IR_remu: return (Division){.rem = true};
  case IR_divs32: return (Division){.narrow = true, .is_signed = true};
  case IR_divu32: return (Division){.narrow = true};
  case IR_rems32: return (Division){.narrow = true, .is_signed = true, .rem = true};
  default: return (Division){.narrow = true, .rem = true};
  }
}

/* Division traps on the host where the IR's is total: by 0, and MIN / -1. Those are computed aside.
 */
static void lower_div(Lower *l, uint32_t k, IrRef to) {
  const IrOp *op = low_op(l, (IrRef)k);
  const Division v = division_of(op->code);
  unsigned size = v.narrow ? X64_32 : 0;
  low_take(l, RCX);
  low_copy(l, RCX, op->b);
  low_fetch(l, RAX, op->a);
  low_take(l, RDX);
  /* divisors 0 and -1 (signed): b + 1 <= 1 unsigned */
  uint8_t *special;
  if (v.is_signed) {
    x64_rm(&l->x, X64_LEA | size, RDX, x64_at(RCX, 1));
    x64_ri(&l->x, X64_ALU_I | size, ALU_CMP, RDX, 1);
    special = x64_jcc(&l->x, CC_BE);
    if (!v.narrow) x64_byte(&l->x, 0x48);
    x64_byte(&l->x, 0x99); /* cqo, cdq */
  } else {
    x64_rr(&l->x, X64_TEST | size, RCX, RCX);
    special = x64_jcc(&l->x, CC_E);
    x64_rr(&l->x, X64_XOR | X64_32, RDX, RDX);
  }
  x64_rr(&l->x, X64_GROUP3 | size, v.is_signed ? 7 : 6, RCX);
  if (v.rem) x64_rr(&l->x, X64_MOV_LOAD | size, RAX, RDX);
  low_put_aside(l, (LowCold){.kind = COLD_DIVIDE, .jump = special, .back = l->x.at, .k = k});
  if (to != k) x64_rr(&l->x, X64_MOVSXD, RAX, RAX);
  low_result(l, to, RAX);
}

/* Divisor (rcx) 0: quotient -1, remainder the dividend (rax); -1: the negated dividend, remainder
 * 0. */
void low_cold_divide(Lower *l, const LowCold *c) {
  const IrOp *op = low_op(l, (IrRef)c->k);
  const Division v = division_of(op->code);
  unsigned size = v.narrow ? X64_32 : 0;
  uint8_t *by_zero = NULL;
  if (v.is_signed) {
    x64_rr(&l->x, X64_TEST | size, RCX, RCX);
    by_zero = x64_jcc(&l->x, CC_E);
    if (v.rem)
      x64_rr(&l->x, X64_XOR | X64_32, RAX, RAX);
    else
      x64_rr(&l->x, X64_GROUP3 | size, 3, RAX);
    x64_patch(x64_jmp(&l->x), c->back);
    x64_patch(by_zero, l->x.at);
  }
  if (!v.rem)
    x64_mov_imm(&l->x, RAX, v.narrow ? UINT32_MAX : UINT64_MAX);
  else if (v.narrow)
    x64_rr(&l->x, X64_MOV_LOAD | X64_32, RAX, RAX);
  x64_patch(x64_jmp(&l->x), c->back);
}

/* ---- comparisons
 * --------------------------------------------------------------------------------- */

static X64Cond compare(Lower *l, const IrOp *op) {
  static const uint8_t cc[] = {CC_E, CC_NE, CC_L, CC_GE, CC_B, CC_AE}; /* eq ne lts ges ltu geu */
  X64Mem m;
  int64_t imm = (int64_t)low_imm(l, op->b);
  if (low_is_imm(l, op->b) && x64_fits(imm)) {
    if (low_memory(l, op->a, &m)) {
      x64_mi(&l->x, X64_ALU_I, ALU_CMP, m, (int32_t)imm);
    } else {
      unsigned a = low_gpr(l, op->a);
      if (imm)
        x64_ri(&l->x, X64_ALU_I, ALU_CMP, a, (int32_t)imm);
      else
        x64_rr(&l->x, X64_TEST, a, a);
    }
  } else {
    unsigned a = low_gpr(l, op->a);
    if (low_memory(l, op->b, &m))
      x64_rm(&l->x, X64_CMP, a, m);
    else
      x64_rr(&l->x, X64_CMP, a, low_gpr(l, op->b));
  }
  return (X64Cond)cc[op->code - IR_eq];
}

X64Cond low_condition(Lower *l, IrRef ref) {
  if (ref && l->p->lazy[ref]) return compare(l, low_op(l, ref));
  X64Mem m;
  if (low_memory(l, ref, &m)) {
    x64_mi(&l->x, X64_ALU_I, ALU_CMP, m, 0);
  } else {
    unsigned a = low_gpr(l, ref);
    x64_rr(&l->x, X64_TEST, a, a);
  }
  return CC_NE;
}

static void lower_comparison(Lower *l, uint32_t k) {
  X64Cond cc = compare(l, low_op(l, (IrRef)k));
  unsigned d = low_def(l, (IrRef)k, 0);
  x64_setcc(&l->x, cc, d);
  x64_rr(&l->x, X64_MOVZX8, d, d);
}

static void lower_select(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned t = low_temp(l, false), b = low_gpr(l, op->b);
  low_copy(l, t, op->c);
  X64Cond cc = low_condition(l, op->a);
  x64_cmov(&l->x, cc, t, b);
  low_result(l, (IrRef)k, t);
}

static void lower_min_max(Lower *l, uint32_t k) {
  static const uint8_t keep_b[] = {CC_GE, CC_LE, CC_AE,
                                   CC_BE}; /* mins maxs minu maxu: a is not the one */
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_gpr(l, op->a), b = low_gpr(l, op->b), t = low_temp(l, false);
  low_move(l, t, a);
  x64_rr(&l->x, X64_CMP, a, b);
  x64_cmov(&l->x, (X64Cond)keep_b[op->code - IR_mins], t, b);
  low_result(l, (IrRef)k, t);
}

/* ---- one operand
 * --------------------------------------------------------------------------------- */

static void lower_unary(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_gpr(l, op->a), d = low_def(l, (IrRef)k, op->a);
  switch (op->code) {
  case IR_not:
    low_move(l, d, a);
    x64_rr(&l->x, X64_GROUP3, 2, d);
    break;
  case IR_neg:
    low_move(l, d, a);
    x64_rr(&l->x, X64_GROUP3, 3, d);
    break;
  case IR_bswap:
    low_move(l, d, a);
    x64_bswap(&l->x, d);
    break;
  case IR_sext8: x64_rr(&l->x, X64_MOVSX8, d, a); break;
  case IR_sext16: x64_rr(&l->x, X64_MOVSX16, d, a); break;
  case IR_sext32: x64_rr(&l->x, X64_MOVSXD, d, a); break;
  case IR_zext8: x64_rr(&l->x, X64_MOVZX8, d, a); break;
  case IR_zext16: x64_rr(&l->x, X64_MOVZX16, d, a); break;
  case IR_zext32: x64_rr(&l->x, X64_MOV_LOAD | X64_32, d, a); break;
  case IR_clz: x64_rr(&l->x, X64_LZCNT, d, a); break;
  case IR_ctz: x64_rr(&l->x, X64_TZCNT, d, a); break;
  case IR_popcnt: x64_rr(&l->x, X64_POPCNT, d, a); break;
  case IR_clz32: x64_rr(&l->x, X64_LZCNT | X64_32, d, a); break;
  case IR_ctz32: x64_rr(&l->x, X64_TZCNT | X64_32, d, a); break;
  default: x64_rr(&l->x, X64_POPCNT | X64_32, d, a); break;
  }
}

/* andn orn xnor. */
static void lower_negated(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_gpr(l, op->a), b = low_gpr(l, op->b), t = low_temp(l, false);
  low_move(l, t, b);
  x64_rr(&l->x, X64_GROUP3, 2, t);
  x64_rr(&l->x, op->code == IR_andn ? X64_AND : op->code == IR_orn ? X64_OR : X64_XOR, t, a);
  low_result(l, (IrRef)k, t);
}

/* ---- registers of the guest
 * ------------------------------------------------------------------------ */

static void store_value(Lower *l, IrRef ref, X64Mem m) {
  int64_t imm = (int64_t)low_imm(l, ref);
  if (low_is_imm(l, ref) && x64_fits(imm)) {
    x64_mi(&l->x, X64_MOV_I, 0, m, (int32_t)imm);
  } else if (ref && l->xmm[ref] && !low_is_single(l, ref)) {
    x64_rm(&l->x, X64_MOVSD_STORE, low_xmm(l, ref), m);
  } else {
    x64_rm(&l->x, X64_MOV_STORE, low_gpr(l, ref), m);
  }
}

/* Flags that have accrued in MXCSR stay there as well: adding them again changes nothing. */
static void lower_get_flags(Lower *l, uint32_t k) {
  unsigned d = low_temp(l, false);
  X64Mem seen = x64_gs(offsetof(IrState, jit.seen_mxcsr));
  x64_rm(&l->x, X64_MXCSR, 3, seen);
  x64_rm(&l->x, X64_MOV_LOAD | X64_32, d, seen);
  x64_ri(&l->x, X64_ALU_I | X64_32, ALU_AND, d, JIT_MXCSR_FLAGS);
  X64Mem flags = {.base = (uint8_t)d,
                  .index = X64_NONE,
                  .gs = true,
                  .disp = (int32_t)offsetof(IrState, jit.flags)};
  x64_rm(&l->x, X64_MOVZX8 & ~(unsigned)X64_BYTE, d, flags);
  x64_rm(&l->x, X64_OR, d, x64_gs(offsetof(IrState, fp_flags)));
  low_result(l, (IrRef)k, d);
}

static void lower_put_flags(Lower *l, const IrOp *op) {
  store_value(l, op->a, x64_gs(offsetof(IrState, fp_flags)));
  x64_rm(&l->x, X64_MXCSR, 2, x64_gs(offsetof(IrState, jit.guest_mxcsr))); /* has none */
}

static uint64_t write_rounding(IrState *s, uint64_t imm, uint64_t a, uint64_t b, uint64_t c) {
  (void)b, (void)c;
  return *(uint64_t *)(void *)((char *)s + imm) = a;
}

static void lower_get(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  if (op->imm == offsetof(IrState, fp_flags)) {
    lower_get_flags(l, k);
    return;
  }
  if (l->p->home[k] != IR_NO_HOME) return; /* readers go there */
  unsigned pin = l->j->pin_of[op->imm / 8];
  l->p->home[k] = IR_NO_HOME;
  if (pin != X64_NONE) {
    unsigned d = low_def(l, (IrRef)k, 0);
    low_move(l, d, pin);
  } else {
    unsigned d = low_def(l, (IrRef)k, 0);
    x64_rm(&l->x, d < 16 ? X64_MOV_LOAD : X64_MOVSD_LOAD, d & 15, x64_gs(op->imm));
  }
}

static void lower_put(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  if (op->imm == offsetof(IrState, fp_flags)) {
    lower_put_flags(l, op);
    return;
  }
  if (op->imm == offsetof(IrState, fp_rm)) {
    low_call(l, k, write_rounding, op->imm, op->a, 0, 0, 0, true);
    l->inline_rounding = false;
    return;
  }
  if (l->p->done[k]) return;
  unsigned pin = l->j->pin_of[op->imm / 8];
  if (pin == X64_NONE)
    store_value(l, op->a, x64_gs(op->imm));
  else if (op->a && l->xmm[op->a] && low_is_single(l, op->a))
    low_move(l, pin, low_gpr(l, op->a));
  else
    low_copy(l, pin, op->a);
}

/* ---- guest memory
 * ---------------------------------------------------------------------------------- */

X64Mem low_address(Lower *l, const IrOp *op) {
  if (low_is_imm(l, op->a)) {
    uint64_t va = low_imm(l, op->a) + op->imm;
    if (x64_fits((int64_t)va))
      return (X64Mem){.base = X64_NONE, .index = X64_NONE, .disp = (int32_t)va};
    unsigned t = low_temp(l, false);
    x64_mov_imm(&l->x, t, va);
    return x64_at(t, 0);
  }
  unsigned a = low_gpr(l, op->a);
  if (x64_fits((int64_t)op->imm)) return x64_at(a, (int32_t)op->imm);
  unsigned t = low_temp(l, false);
  x64_mov_imm(&l->x, t, op->imm);
  x64_rr(&l->x, X64_ADD, t, a);
  return x64_at(t, 0);
}

static void lower_load(Lower *l, uint32_t k) {
  static const uint32_t insn[] = {X64_MOVZX8,   X64_MOVZX16, X64_MOV_LOAD | X64_32,
                                  X64_MOV_LOAD, X64_MOVSX8,  X64_MOVSX16,
                                  X64_MOVSXD}; /* in the order of ops.def */
  const IrOp *op = low_op(l, (IrRef)k);
  X64Mem m = low_address(l, op);
  unsigned d = low_def(l, (IrRef)k, op->a);
  low_point(l);
  if (d >= 16)
    x64_rm(&l->x, op->code == IR_ld64 ? X64_MOVSD_LOAD : X64_MOVSS_LOAD, d & 15, m);
  else
    x64_rm(&l->x, insn[op->code - IR_ld8u] & ~(unsigned)X64_BYTE, d, m);
}

static void lower_store(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  X64Mem m = low_address(l, op);
  int64_t imm = (int64_t)low_imm(l, op->b);
  bool wide = op->code == IR_st64;
  if (low_is_imm(l, op->b) && op->code >= IR_st32 && (!wide || x64_fits(imm))) {
    low_point(l);
    x64_mi(&l->x, X64_MOV_I | (wide ? 0 : X64_32), 0, m, (int32_t)imm);
    return;
  }
  if (op->b && l->xmm[op->b] && op->code >= IR_st32) {
    unsigned v = low_xmm(l, op->b);
    low_point(l);
    x64_rm(&l->x, wide ? X64_MOVSD_STORE : X64_MOVSS_STORE, v, m);
    return;
  }
  unsigned v = low_gpr(l, op->b);
  low_point(l);
  switch (op->code) {
  case IR_st8: x64_rm(&l->x, X64_MOV8_STORE, v, m); break;
  case IR_st16: {
    X64Mem m16 = m;
    x64_byte(&l->x, 0x66); /* before REX */
    x64_rm(&l->x, X64_MOV_STORE | X64_32, v, m16);
    break;
  }
  default: x64_rm(&l->x, X64_MOV_STORE | (wide ? 0 : X64_32), v, m); break;
  }
}

/* swap, rmwadd: one locked instruction whose register is operand and result. */
static void lower_exchange(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  bool wide = op->code == IR_swap64 || op->code == IR_rmwadd64;
  unsigned size = wide ? 0 : X64_32;
  X64Mem m = low_address(l, op);
  unsigned t = low_temp(l, false);
  low_copy(l, t, op->b);
  low_point(l);
  if (op->code == IR_swap32 || op->code == IR_swap64) {
    x64_rm(&l->x, X64_XCHG | size, t, m); /* locked by itself */
  } else {
    x64_byte(&l->x, 0xf0);
    x64_rm(&l->x, X64_XADD | size, t, m);
  }
  low_result(l, (IrRef)k, t);
}

static void lower_cas(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  low_fetch(l, RAX, op->b);
  X64Mem m = low_address(l, op);
  unsigned desired = low_gpr(l, op->c);
  low_point(l);
  x64_byte(&l->x, 0xf0);
  x64_rm(&l->x, X64_CMPXCHG | (op->code == IR_cas32 ? X64_32 : 0), desired, m);
  if (op->code == IR_cas32)
    x64_rr(&l->x, X64_MOV_LOAD | X64_32, RAX, RAX); /* unchanged if it was equal */
  low_result(l, (IrRef)k, RAX);
}

/* ---- calls
 * ----------------------------------------------------------------------------------------- */

static void pass(Lower *l, IrRef ref, int n) {
  store_value(l, ref, x64_gs(offsetof(IrState, jit.args) + 8u * (unsigned)n));
}

/* Whoever is called may ask where the guest is, or fault there. Uses rax. */
void low_say_where(Lower *l) {
  low_point(l);
  x64_mov_imm(&l->x, RAX, l->r->insns[l->insn].pc);
  x64_rm(&l->x, X64_MOV_STORE, RAX, x64_gs(offsetof(IrState, pc)));
  x64_mov_imm(&l->x, RAX, (uint64_t)(uintptr_t)&l->r->blocks[l->block]);
  x64_rm(&l->x, X64_MOV_STORE, RAX, x64_gs(offsetof(IrState, block)));
}

/* Calls fn; c is passed as a value if given, else as the number c_raw. The result becomes value k
 * if that has one. */
void low_call(Lower *l, uint32_t k, JitFn *fn, uint64_t imm, IrRef a, IrRef b, IrRef c,
              uint64_t c_raw, bool full) {
  const IrOp *op = low_op(l, (IrRef)k);
  low_lose_scratch(l);
  pass(l, a, 0);
  pass(l, b, 1);
  if (c) low_fetch(l, RDX, c);
  low_spill_all(l);
  if (!c) x64_mov_imm(&l->x, RDX, c_raw);
  if (full) low_say_where(l);
  x64_mov_imm(&l->x, RAX, (uint64_t)(uintptr_t)fn);
  x64_mov_imm(&l->x, RCX, imm);
  bool light = op->code == IR_callout && ((const IrCallout *)(uintptr_t)imm)->light;
  low_call_on_host(l, light ? l->j->call_light : full ? l->j->call_full : l->j->call_keep);
  if (ir_op_info[op->code].result != IR_NONE && l->p->uses[k]) low_result(l, (IrRef)k, RAX);
}

/* Calls a stub with rax = a, rdx = b, rcx = imm. */
void low_call_stub(Lower *l, uint64_t imm, IrRef a, IrRef b, const uint8_t *stub) {
  low_lose_scratch(l);
  low_fetch(l, RAX, a);
  low_fetch(l, RDX, b);
  low_spill_all(l);
  x64_mov_imm(&l->x, RCX, imm);
  low_call_on_host(l, stub);
}

static void lower_by_function(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  const IrOpInfo *info = &ir_op_info[op->code];
  bool full = info->flags & (IR_LOADS | IR_STORES) || op->code == IR_call;
  IrRef a = info->a == IR_NONE || info->a == IR_RAW ? 0 : op->a;
  IrRef b = info->b == IR_NONE || info->b == IR_RAW ? 0 : op->b;
  IrRef c = info->c == IR_NONE || info->c == IR_RAW ? 0 : op->c;
  low_call(l, k, jit_fns[op->code], op->imm, a, b, c, 0, full);
}

static void lower_trap_if(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  if (l->inline_rounding && low_is_rounding_check(l, op)) return;
  LowCold c = {.kind = COLD_FAULT, .k = k, .a = X64_NONE};
  if (!low_is_imm(l, op->c)) c.a = (uint8_t)low_gpr(l, op->c);
  c.jump = x64_jcc(&l->x, low_condition(l, op->a));
  c.site =
      low_site(l, (JitSite){.kind = IR_EXIT_FAULT, .detail = op->b, .pc = l->r->insns[l->insn].pc});
  low_put_aside(l, c);
}

/* ---- dispatch
 * -------------------------------------------------------------------------------------- */

static bool is_load(unsigned code) { return code >= IR_ld8u && code <= IR_ld32s; }

/* 32-bit arithmetic is mostly followed by the sign extension of its result, which alone is wanted.
 */
static bool sext_follows(const Lower *l, uint32_t k) {
  const IrOp *next = low_op(l, (IrRef)(k + 1));
  return next->code == IR_sext32 && next->a == k && l->p->uses[k] == 1;
}

static uint32_t lower_arithmetic(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  bool sext = op->code >= IR_add32 && op->code <= IR_remu32 && sext_follows(l, k);
  IrRef to = (IrRef)(sext ? k + 1 : k);
  if (alus[op->code].insn)
    lower_alu(l, k, to);
  else if (shifts[op->code].is)
    lower_shift(l, k, to);
  else if (op->code == IR_mul || op->code == IR_mul32)
    lower_mul(l, k, to);
  else
    return lower_div(l, k, to), to + 1u;
  unsigned d = low_where(l, to);
  if (sext) x64_rr(&l->x, X64_MOVSXD, d, d);
  low_defined(l, to);
  return to + 1u;
}

static bool is_arithmetic(unsigned code) {
  return alus[code].insn || shifts[code].is || code == IR_mul || code == IR_mul32 ||
         (code >= IR_divs && code <= IR_remu) || (code >= IR_divs32 && code <= IR_remu32);
}

static bool is_unary(const Lower *l, unsigned code) {
  switch (code) {
  case IR_clz:
  case IR_ctz:
  case IR_clz32:
  case IR_ctz32: return l->j->lzcnt;
  case IR_not:
  case IR_neg:
  case IR_bswap:
  case IR_popcnt:
  case IR_popcnt32: return true;
  default: return code >= IR_sext8 && code <= IR_zext32;
  }
}

static void lower_fence(Lower *l) {
  x64_byte(&l->x, 0x0f);
  x64_byte(&l->x, 0xae);
  x64_byte(&l->x, 0xf0); /* mfence */
}

/* Operations that put their result where it belongs by themselves, or have none; false: none of
 * these. */
static bool lower_other(Lower *l, uint32_t k) {
  switch (low_op(l, (IrRef)k)->code) {
  case IR_get: lower_get(l, k); break;
  case IR_put: lower_put(l, k); break;
  case IR_mulhs:
  case IR_mulhu:
  case IR_mulhsu: lower_mul_high(l, k); break;
  case IR_select: lower_select(l, k); break;
  case IR_mins:
  case IR_maxs:
  case IR_minu:
  case IR_maxu: lower_min_max(l, k); break;
  case IR_andn:
  case IR_orn:
  case IR_xnor: lower_negated(l, k); break;
  case IR_st8:
  case IR_st16:
  case IR_st32:
  case IR_st64: lower_store(l, k); break;
  case IR_swap32:
  case IR_swap64:
  case IR_rmwadd32:
  case IR_rmwadd64: lower_exchange(l, k); break;
  case IR_cas32:
  case IR_cas64: lower_cas(l, k); break;
  case IR_fence: lower_fence(l); break;
  case IR_trap_if: lower_trap_if(l, k); break;
  default: return false;
  }
  return true;
}

static bool is_nothing(const Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  bool unused = !l->p->uses[k] && (ir_op_info[op->code].flags & IR_PURE || op->code == IR_get);
  return unused || l->p->lazy[k] || op->code == IR_imm || op->code == IR_insn;
}

uint32_t low_body(Lower *l, uint32_t k) {
  unsigned code = low_op(l, (IrRef)k)->code;
  if (is_nothing(l, k) || low_fp(l, k) || low_probe(l, k) || lower_other(l, k)) return k + 1;
  if (is_arithmetic(code)) return lower_arithmetic(l, k);
  if (ir_is_comparison(code))
    lower_comparison(l, k);
  else if (is_unary(l, code))
    lower_unary(l, k);
  else if (is_load(code))
    lower_load(l, k);
  else {
    lower_by_function(l, k);
    return k + 1;
  }
  low_defined(l, (IrRef)k);
  return k + 1;
}
