/* Integer computation, loads and stores, control transfer, M, Zba, Zbb, Zbs. */
#include "guest/rv64/lift.h"

/* rd = op(rs1, rs2), rd = op(rs1, imm), and the -w forms, whose 32-bit result is sign-extended. */
#define BINARY(name, op)                                                                           \
  LIFT(name) { put_x(b, a->rd, op2(b, IR_##op, get_x(b, a->rs1), get_x(b, a->rs2))); }
#define IMMEDIATE(name, op)                                                                        \
  LIFT(name) { put_x(b, a->rd, op2(b, IR_##op, get_x(b, a->rs1), ir_imm(b, (uint64_t)a->imm))); }
#define BINARY_W(name, op)                                                                         \
  LIFT(name) {                                                                                     \
    put_x(b, a->rd, op1(b, IR_sext32, op2(b, IR_##op, get_x(b, a->rs1), get_x(b, a->rs2))));       \
  }
#define IMMEDIATE_W(name, op)                                                                      \
  LIFT(name) {                                                                                     \
    put_x(b, a->rd,                                                                                \
          op1(b, IR_sext32, op2(b, IR_##op, get_x(b, a->rs1), ir_imm(b, (uint64_t)a->imm))));      \
  }
#define UNARY(name, op)                                                                            \
  LIFT(name) { put_x(b, a->rd, op1(b, IR_##op, get_x(b, a->rs1))); }

LIFT(lui) { put_x(b, a->rd, ir_imm(b, (uint64_t)a->imm)); }
LIFT(auipc) { put_x(b, a->rd, ir_imm(b, i->pc + (uint64_t)a->imm)); }

IMMEDIATE(addi, add)
IMMEDIATE(slti, lts)
IMMEDIATE(sltiu, ltu)
IMMEDIATE(xori, xor)
IMMEDIATE(ori, or)
IMMEDIATE(andi, and)
IMMEDIATE(slli, shl)
IMMEDIATE(srli, shr)
IMMEDIATE(srai, sar)
BINARY(add, add)
BINARY(sub, sub)
BINARY(sll, shl)
BINARY(slt, lts)
BINARY(sltu, ltu)
BINARY(xor, xor)
BINARY(srl, shr)
BINARY(sra, sar)
BINARY(or, or)
BINARY(and, and)
IMMEDIATE_W(addiw, add32)
IMMEDIATE_W(slliw, shl32)
IMMEDIATE_W(srliw, shr32)
IMMEDIATE_W(sraiw, sar32)
BINARY_W(addw, add32)
BINARY_W(subw, sub32)
BINARY_W(sllw, shl32)
BINARY_W(srlw, shr32)
BINARY_W(sraw, sar32)

/* ---- memory ---------------------------------------------------------------------------------- */

#define LOAD_X(name, op)                                                                           \
  LIFT(name) { put_x(b, a->rd, ir_emit(b, IR_##op, get_x(b, a->rs1), 0, 0, (uint64_t)a->imm)); }
#define STORE_X(name, op)                                                                          \
  LIFT(name) { ir_emit(b, IR_##op, get_x(b, a->rs1), get_x(b, a->rs2), 0, (uint64_t)a->imm); }

LOAD_X(lb, ld8s)
LOAD_X(lh, ld16s)
LOAD_X(lw, ld32s)
LOAD_X(ld, ld64)
LOAD_X(lbu, ld8u)
LOAD_X(lhu, ld16u)
LOAD_X(lwu, ld32u)
STORE_X(sb, st8)
STORE_X(sh, st16)
STORE_X(sw, st32)
STORE_X(sd, st64)

/* ---- control transfer ------------------------------------------------------------------------ */

#define BRANCH(name, op)                                                                           \
  LIFT(name) {                                                                                     \
    ir_br(b, op2(b, IR_##op, get_x(b, a->rs1), get_x(b, a->rs2)), i->target, i->pc + i->len);      \
  }

BRANCH(beq, eq)
BRANCH(bne, ne)
BRANCH(blt, lts)
BRANCH(bge, ges)
BRANCH(bltu, ltu)
BRANCH(bgeu, geu)

LIFT(jal) {
  put_x(b, a->rd, ir_imm(b, i->pc + i->len));
  ir_jump(b, i->target);
}

LIFT(jalr) {
  IrRef sum = op2(b, IR_add, get_x(b, a->rs1), ir_imm(b, (uint64_t)a->imm));
  IrRef target = op2(b, IR_and, sum, ir_imm(b, ~1ull));
  put_x(b, a->rd, ir_imm(b, i->pc + i->len));
  ir_jump_ind(b, target);
}

/* ---- M --------------------------------------------------------------------------------------- */

BINARY(mul, mul)
BINARY(mulh, mulhs)
BINARY(mulhsu, mulhsu)
BINARY(mulhu, mulhu)
BINARY(div, divs)
BINARY(divu, divu)
BINARY(rem, rems)
BINARY(remu, remu)
BINARY_W(mulw, mul32)
BINARY_W(divw, divs32)
BINARY_W(divuw, divu32)
BINARY_W(remw, rems32)
BINARY_W(remuw, remu32)

/* ---- Zba ------------------------------------------------------------------------------------- */

/* rd = rs2 + (rs1 << n), rs1 zero-extended from 32 bits if `word`. */
static void shift_add(IrBuilder *b, const Rv64Args *a, unsigned n, bool word) {
  IrRef x = get_x(b, a->rs1);
  if (word) x = op1(b, IR_zext32, x);
  if (n) x = op2(b, IR_shl, x, ir_imm(b, n));
  put_x(b, a->rd, op2(b, IR_add, x, get_x(b, a->rs2)));
}

LIFT(sh1add) { shift_add(b, a, 1, false); }
LIFT(sh2add) { shift_add(b, a, 2, false); }
LIFT(sh3add) { shift_add(b, a, 3, false); }
LIFT(add_uw) { shift_add(b, a, 0, true); }
LIFT(sh1add_uw) { shift_add(b, a, 1, true); }
LIFT(sh2add_uw) { shift_add(b, a, 2, true); }
LIFT(sh3add_uw) { shift_add(b, a, 3, true); }
LIFT(slli_uw) {
  put_x(b, a->rd, op2(b, IR_shl, op1(b, IR_zext32, get_x(b, a->rs1)), ir_imm(b, (uint64_t)a->imm)));
}

/* ---- Zbb ------------------------------------------------------------------------------------- */

BINARY(andn, andn)
BINARY(orn, orn)
BINARY(xnor, xnor)
BINARY(min, mins)
BINARY(minu, minu)
BINARY(max, maxs)
BINARY(maxu, maxu)
BINARY(rol, rotl)
BINARY(ror, rotr)
IMMEDIATE(rori, rotr)
BINARY_W(rolw, rotl32)
BINARY_W(rorw, rotr32)
IMMEDIATE_W(roriw, rotr32)
UNARY(clz, clz)
UNARY(ctz, ctz)
UNARY(cpop, popcnt)
UNARY(clzw, clz32)
UNARY(ctzw, ctz32)
UNARY(cpopw, popcnt32)
UNARY(sext_b, sext8)
UNARY(sext_h, sext16)
UNARY(zext_h, zext16)
UNARY(orc_b, orcb)
UNARY(rev8, bswap)

/* ---- Zbs: the bit numbered by rs2 or the immediate, modulo 64 -------------------------------- */

static IrRef bit_of(IrBuilder *b, IrRef n) { return op2(b, IR_shl, ir_imm(b, 1), n); }
static IrRef bit_number(IrBuilder *b, const Rv64Args *a, bool imm) {
  return imm ? ir_imm(b, (uint64_t)a->imm) : get_x(b, a->rs2);
}

#define BIT_OP(name, op)                                                                           \
  LIFT(name) {                                                                                     \
    put_x(b, a->rd, op2(b, IR_##op, get_x(b, a->rs1), bit_of(b, bit_number(b, a, false))));        \
  }                                                                                                \
  LIFT(name##i) {                                                                                  \
    put_x(b, a->rd, op2(b, IR_##op, get_x(b, a->rs1), bit_of(b, bit_number(b, a, true))));         \
  }

BIT_OP(bclr, andn)
BIT_OP(binv, xor)
BIT_OP(bset, or)

static void bit_extract(IrBuilder *b, const Rv64Args *a, bool imm) {
  IrRef shifted = op2(b, IR_shr, get_x(b, a->rs1), bit_number(b, a, imm));
  put_x(b, a->rd, op2(b, IR_and, shifted, ir_imm(b, 1)));
}

LIFT(bext) { bit_extract(b, a, false); }
LIFT(bexti) { bit_extract(b, a, true); }
