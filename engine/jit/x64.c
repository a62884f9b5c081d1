/* See x64.h. Encodings: Intel SDM vol. 2, chapter 2. */
#include "jit/x64.h"

void x64_byte(X64 *x, unsigned b) {
  if (x->at < x->end)
    *x->at++ = (uint8_t)b;
  else
    x->full = true;
}

void x64_word32(X64 *x, uint32_t v) {
  for (int i = 0; i < 4; i++) x64_byte(x, v >> 8 * i & 255);
}

void x64_word64(X64 *x, uint64_t v) {
  x64_word32(x, (uint32_t)v);
  x64_word32(x, (uint32_t)(v >> 32));
}

static void opcode(X64 *x, unsigned insn) {
  switch (insn & X64_MAP) {
  case X64_0F: x64_byte(x, 0x0f); break;
  case X64_0F38: x64_byte(x, 0x0f), x64_byte(x, 0x38); break;
  case X64_0F3A: x64_byte(x, 0x0f), x64_byte(x, 0x3a); break;
  default: break;
  }
  x64_byte(x, insn & 255);
}

/* Prefixes, REX and opcode; r, i, b: the registers that extend ModRM.reg, SIB.index, and ModRM.rm
 * or SIB.base. */
static void head(X64 *x, unsigned insn, bool gs, unsigned r, unsigned i, unsigned b,
                 bool force_rex) {
  static const uint8_t prefix[] = {0, 0x66, 0xf3, 0xf2};
  if (gs) x64_byte(x, 0x65);
  if (insn & X64_PREFIX) x64_byte(x, prefix[(insn & X64_PREFIX) >> 12]);
  unsigned rex = (insn & X64_32 ? 0 : 8) | (r >> 3 & 1) << 2 | (i >> 3 & 1) << 1 | (b >> 3 & 1);
  if (rex || force_rex) x64_byte(x, 0x40 | rex);
  opcode(x, insn);
}

static unsigned index_of(X64Mem m) { return m.index == X64_NONE ? 0 : m.index; }
static unsigned base_of(X64Mem m) { return m.base == X64_NONE ? 0 : m.base; }

static void modrm(X64 *x, unsigned reg, X64Mem m) {
  unsigned r = (reg & 7) << 3;
  if (m.base == X64_NONE) { /* [index*scale + disp32] */
    x64_byte(x, r | 4);
    x64_byte(x, (unsigned)m.scale << 6 | (m.index == X64_NONE ? 4u : m.index & 7u) << 3 | 5);
    x64_word32(x, (uint32_t)m.disp);
    return;
  }
  bool sib = m.index != X64_NONE || (m.base & 7) == RSP;
  unsigned mod = m.disp == 0 && (m.base & 7) != RBP ? 0 : m.disp == (int8_t)m.disp ? 1 : 2;
  x64_byte(x, mod << 6 | r | (sib ? 4u : m.base & 7u));
  if (sib)
    x64_byte(x, (unsigned)m.scale << 6 | (m.index == X64_NONE ? 4u : m.index & 7u) << 3 |
                    (m.base & 7u));
  if (mod == 1) x64_byte(x, (uint8_t)m.disp);
  if (mod == 2) x64_word32(x, (uint32_t)m.disp);
}

void x64_rr(X64 *x, unsigned insn, unsigned reg, unsigned rm) {
  head(x, insn, false, reg, 0, rm, insn & X64_BYTE);
  x64_byte(x, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

void x64_rm(X64 *x, unsigned insn, unsigned reg, X64Mem m) {
  head(x, insn, m.gs, reg, index_of(m), base_of(m), insn & X64_BYTE);
  modrm(x, reg, m);
}

static bool short_imm(unsigned insn, int32_t imm) {
  return (insn & 255) == X64_ALU_I && imm == (int8_t)imm;
}

static void immediate(X64 *x, unsigned insn, int32_t imm) {
  unsigned op = insn & 255;
  if (short_imm(insn, imm) || op == X64_SHIFT_I || op == (X64_TEST8_I & 255) ||
      op == (X64_CMP8_I & 255))
    x64_byte(x, (uint8_t)imm);
  else
    x64_word32(x, (uint32_t)imm);
}

void x64_ri(X64 *x, unsigned insn, unsigned group, unsigned rm, int32_t imm) {
  x64_rr(x, short_imm(insn, imm) ? insn | 2 : insn, group, rm); /* 0x83: sign-extended byte */
  immediate(x, insn, imm);
}

void x64_mi(X64 *x, unsigned insn, unsigned group, X64Mem m, int32_t imm) {
  x64_rm(x, short_imm(insn, imm) ? insn | 2 : insn, group, m);
  immediate(x, insn, imm);
}

void x64_rr_i8(X64 *x, unsigned insn, unsigned reg, unsigned rm, unsigned imm) {
  x64_rr(x, insn, reg, rm);
  x64_byte(x, imm);
}

void x64_mi8(X64 *x, unsigned insn, unsigned group, X64Mem m, unsigned imm) {
  x64_rm(x, insn, group, m);
  x64_byte(x, imm);
}

static void vex(X64 *x, unsigned insn, unsigned r, unsigned vvvv, unsigned i, unsigned b) {
  unsigned map = (insn & X64_MAP) >> 8, pp = (insn & X64_PREFIX) >> 12;
  x64_byte(x, 0xc4);
  x64_byte(x, (~r >> 3 & 1) << 7 | (~i >> 3 & 1) << 6 | (~b >> 3 & 1) << 5 | map);
  x64_byte(x, (insn & X64_32 ? 0u : 0x80u) | (~vvvv & 15) << 3 | pp);
  x64_byte(x, insn & 255);
}

void x64_vex_rr(X64 *x, unsigned insn, unsigned reg, unsigned vvvv, unsigned rm) {
  vex(x, insn, reg, vvvv, 0, rm);
  x64_byte(x, 0xc0 | (reg & 7) << 3 | (rm & 7));
}

void x64_vex_rm(X64 *x, unsigned insn, unsigned reg, unsigned vvvv, X64Mem m) {
  if (m.gs) x64_byte(x, 0x65);
  vex(x, insn, reg, vvvv, index_of(m), base_of(m));
  modrm(x, reg, m);
}

/* m is an absolute address by gs. */
void x64_vector(X64 *x, unsigned width, bool store, unsigned reg, X64Mem m) {
  if (width == 16) {
    x64_rm(x, (store ? 0x11u : 0x10u) | X64_SSE, reg, m);
    return;
  }
  if (m.gs) x64_byte(x, 0x65);
  if (width == 64) { /* vmovdqu64 */
    x64_byte(x, 0x62);
    x64_byte(x, (~reg >> 3 & 1) << 7 | 0x60 | (~reg >> 4 & 1) << 4 | 1);
    x64_byte(x, 0xfe);
    x64_byte(x, 0x48);
  } else { /* vmovdqu */
    x64_byte(x, 0xc5);
    x64_byte(x, (~reg >> 3 & 1) << 7 | 0x7e);
  }
  x64_byte(x, store ? 0x7f : 0x6f);
  modrm(x, reg, m);
}

void x64_mask(X64 *x, bool store, unsigned reg, X64Mem m) { /* kmovq */
  if (m.gs) x64_byte(x, 0x65);
  vex(x, (store ? 0x91u : 0x90u) | X64_0F, reg, 0, 0, 0);
  modrm(x, reg, m);
}

void x64_mov_imm(X64 *x, unsigned reg, uint64_t value) {
  if (value == (uint32_t)value) {
    if (reg & 8) x64_byte(x, 0x41);
    x64_byte(x, 0xb8 | (reg & 7));
    x64_word32(x, (uint32_t)value);
  } else if (x64_fits((int64_t)value)) {
    x64_ri(x, X64_MOV_I, 0, reg, (int32_t)value);
  } else {
    x64_byte(x, 0x48 | reg >> 3);
    x64_byte(x, 0xb8 | (reg & 7));
    x64_word64(x, value);
  }
}

static uint8_t *rel32(X64 *x) {
  x64_word32(x, 0);
  return x->at - 4;
}

uint8_t *x64_jmp(X64 *x) {
  x64_byte(x, 0xe9);
  return rel32(x);
}
uint8_t *x64_jcc(X64 *x, X64Cond cc) {
  x64_byte(x, 0x0f);
  x64_byte(x, 0x80 | cc);
  return rel32(x);
}
uint8_t *x64_call(X64 *x) {
  x64_byte(x, 0xe8);
  return rel32(x);
}

void x64_setcc(X64 *x, X64Cond cc, unsigned reg) {
  x64_rr(x, 0x90u | cc | X64_0F | X64_32 | X64_BYTE, 0, reg);
}
void x64_cmov(X64 *x, X64Cond cc, unsigned reg, unsigned rm) {
  x64_rr(x, 0x40u | cc | X64_0F, reg, rm);
}
void x64_bswap(X64 *x, unsigned reg) {
  x64_byte(x, 0x48 | reg >> 3);
  x64_byte(x, 0x0f);
  x64_byte(x, 0xc8 | (reg & 7));
}
