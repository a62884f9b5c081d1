/* x86-64 encoder: one function per operand shape, instructions as constants.
 *
 * A constant says all of an instruction but its operands: opcode byte, opcode map, mandatory
 * prefix, operand size.
 *
 *   x64_rr(x, X64_ADD, RAX, RBX);                         add rax, rbx
 *   x64_rr(x, X64_ADD | X64_32, RAX, RBX);                add eax, ebx
 *   x64_rm(x, X64_MOV_LOAD, RCX, x64_at(RDI, 8));         mov rcx, [rdi+8]
 *   x64_mi(x, X64_ALU_I, 0, x64_gs(0x158), 5);            add qword gs:[0x158], 5
 *
 * The first register is the ModRM `reg` field, the other operand its `rm` field (Intel SDM vol.
 * 2, 2.1). Operand size is 64 bits unless X64_32 is given; X64_BYTE says that the registers are
 * byte registers (so that spl.. need a REX prefix). */
#ifndef JIT_X64_H
#define JIT_X64_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum X64Reg {
  RAX,
  RCX,
  RDX,
  RBX,
  RSP,
  RBP,
  RSI,
  RDI,
  R8,
  R9,
  R10,
  R11,
  R12,
  R13,
  R14,
  R15,
  X64_NONE = 255
} X64Reg;

typedef enum X64Cond {
  CC_O,
  CC_NO,
  CC_B,
  CC_AE,
  CC_E,
  CC_NE,
  CC_BE,
  CC_A,
  CC_S,
  CC_NS,
  CC_P,
  CC_NP,
  CC_L,
  CC_GE,
  CC_LE,
  CC_G
} X64Cond;

typedef struct X64Mem {
  uint8_t base, index; /* X64_NONE: none */
  uint8_t scale;       /* of index: 0..3 for 1, 2, 4, 8 */
  bool gs;
  int32_t disp;
} X64Mem;

typedef struct X64 {
  uint8_t *at, *end; /* running out sets `full` and drops what is emitted */
  uint8_t *base;     /* offsets count from here */
  bool full;
} X64;

enum {
  X64_0F = 0x100,
  X64_0F38 = 0x200,
  X64_0F3A = 0x300,
  X64_MAP = 0x300,
  X64_66 = 0x1000,
  X64_F3 = 0x2000,
  X64_F2 = 0x3000,
  X64_PREFIX = 0x3000,
  X64_32 = 0x10000, /* no REX.W */
  X64_BYTE = 0x20000,
  X64_SSE = X64_32 | X64_0F,

  /* integer */
  X64_ADD = 0x03,
  X64_OR = 0x0b,
  X64_AND = 0x23,
  X64_SUB = 0x2b,
  X64_XOR = 0x33,
  X64_CMP = 0x3b,
  X64_ADD_STORE = 0x01,
  X64_CMP_STORE = 0x39,
  X64_TEST = 0x85,
  X64_MOV_LOAD = 0x8b,
  X64_MOV_STORE = 0x89,
  X64_MOV8_STORE = 0x88 | X64_32 | X64_BYTE,
  X64_LEA = 0x8d,
  X64_XCHG = 0x87,
  X64_IMUL = 0xaf | X64_0F,
  X64_MOVSXD = 0x63,
  X64_MOVZX8 = 0xb6 | X64_0F | X64_32 | X64_BYTE,
  X64_MOVZX16 = 0xb7 | X64_0F | X64_32,
  X64_MOVSX8 = 0xbe | X64_0F | X64_BYTE,
  X64_MOVSX16 = 0xbf | X64_0F,
  X64_POPCNT = 0xb8 | X64_0F | X64_F3,
  X64_LZCNT = 0xbd | X64_0F | X64_F3,
  X64_TZCNT = 0xbc | X64_0F | X64_F3,
  X64_CMPXCHG = 0xb1 | X64_0F,
  X64_XADD = 0xc1 | X64_0F,
  /* groups: `reg` is the operation */
  X64_ALU_I = 0x81,   /* /0 add /1 or /4 and /5 sub /6 xor /7 cmp: with an immediate */
  X64_SHIFT_I = 0xc1, /* /0 rol /1 ror /4 shl /5 shr /7 sar */
  X64_SHIFT_CL = 0xd3,
  X64_GROUP3 = 0xf7, /* /2 not /3 neg /4 mul /5 imul /6 div /7 idiv */
  X64_MOV_I = 0xc7,  /* /0 */
  X64_TEST_I = 0xf7, /* /0 */
  X64_TEST8_I = 0xf6 | X64_32 | X64_BYTE,
  X64_CMP8_I = 0x80 | X64_32 | X64_BYTE, /* /7 */
  X64_MOV8_I = 0xc6 | X64_32 | X64_BYTE, /* /0 */
  X64_GROUP5 = 0xff,                     /* /1 dec /4 jmp /6 push */
  X64_POP = 0x8f,                        /* /0 */
  X64_FXSAVE = 0xae | X64_0F,            /* /0 fxsave64 /1 fxrstor64 */
  X64_FSBASE = 0xae | X64_0F | X64_F3,   /* /0 rdfsbase /2 wrfsbase */
  X64_CMP16_I = 0x81 | X64_66 | X64_32,  /* /7: x64_mi16 */
  X64_IMUL_I = 0x69,
  /* vector registers, scalar use */
  X64_MOVSD_LOAD = 0x10 | X64_SSE | X64_F2,
  X64_MOVSD_STORE = 0x11 | X64_SSE | X64_F2,
  X64_MOVSS_LOAD = 0x10 | X64_SSE | X64_F3,
  X64_MOVSS_STORE = 0x11 | X64_SSE | X64_F3,
  X64_MOVAPS = 0x28 | X64_SSE,
  X64_MOVAPS_STORE = 0x29 | X64_SSE,
  X64_MOVQ_FROM_GPR = 0x6e | X64_0F | X64_66,
  X64_MOVQ_TO_GPR = 0x7e | X64_0F | X64_66,
  X64_ADDF = 0x58 | X64_SSE,
  X64_MULF = 0x59 | X64_SSE,
  X64_SUBF = 0x5c | X64_SSE,
  X64_MINF = 0x5d | X64_SSE,
  X64_DIVF = 0x5e | X64_SSE,
  X64_MAXF = 0x5f | X64_SSE,
  X64_SQRTF = 0x51 | X64_SSE,
  X64_CVTF = 0x5a | X64_SSE,
  X64_UCOMIS = 0x2e | X64_SSE,
  X64_COMIS = 0x2f | X64_SSE, /* with X64_66: doubles */
  X64_CVT_FROM_INT = 0x2a | X64_0F,
  X64_CVTT_TO_INT = 0x2c | X64_0F,
  X64_CVT_TO_INT = 0x2d | X64_0F,
  X64_XORPS = 0x57 | X64_SSE,
  X64_ORPS = 0x56 | X64_SSE,
  X64_ANDPS = 0x54 | X64_SSE,
  X64_ANDNPS = 0x55 | X64_SSE,
  X64_PEXTRD = 0x16 | X64_0F3A | X64_66 | X64_32, /* reg is the xmm */
  X64_ROUNDSS = 0x0a | X64_0F3A | X64_66 | X64_32,
  X64_ROUNDSD = 0x0b | X64_0F3A | X64_66 | X64_32,
  X64_MXCSR = 0xae | X64_SSE, /* /2 ldmxcsr /3 stmxcsr */
  /* VEX only: dst reg, src vvvv, src rm */
  X64_ANDN = 0xf2 | X64_0F38,
  X64_SHLX = 0xf7 | X64_0F38 | X64_66,
  X64_SHRX = 0xf7 | X64_0F38 | X64_F2,
  X64_SARX = 0xf7 | X64_0F38 | X64_F3,
  X64_FMA231D = 0xb9 | X64_0F38 | X64_66,
  X64_FMA231S = 0xb9 | X64_0F38 | X64_66 | X64_32,
  X64_FMA213D = 0xa9 | X64_0F38 | X64_66,
  X64_FMA213S = 0xa9 | X64_0F38 | X64_66 | X64_32,
};

/* Of the ALU group. */
enum { ALU_ADD = 0, ALU_OR = 1, ALU_ADC = 2, ALU_AND = 4, ALU_SUB = 5, ALU_XOR = 6, ALU_CMP = 7 };
enum { SHIFT_ROL = 0, SHIFT_ROR = 1, SHIFT_SHL = 4, SHIFT_SHR = 5, SHIFT_SAR = 7 };

static inline X64Mem x64_at(unsigned base, int32_t disp) {
  return (X64Mem){.base = (uint8_t)base, .index = X64_NONE, .disp = disp};
}
static inline X64Mem x64_gs(uint64_t offset) {
  return (X64Mem){.base = X64_NONE, .index = X64_NONE, .gs = true, .disp = (int32_t)offset};
}
static inline bool x64_fits(int64_t v) { return v == (int32_t)v; }

void x64_byte(X64 *x, unsigned b);
void x64_word32(X64 *x, uint32_t v);
void x64_word64(X64 *x, uint64_t v);
void x64_rr(X64 *x, unsigned insn, unsigned reg, unsigned rm);
void x64_rm(X64 *x, unsigned insn, unsigned reg, X64Mem m);
/* With an immediate: 32 bits (8 if it fits, for the ALU group), or one byte. */
void x64_ri(X64 *x, unsigned insn, unsigned group, unsigned rm, int32_t imm);
void x64_mi(X64 *x, unsigned insn, unsigned group, X64Mem m, int32_t imm);
void x64_rr_i8(X64 *x, unsigned insn, unsigned reg, unsigned rm, unsigned imm);
void x64_mi8(X64 *x, unsigned insn, unsigned group, X64Mem m, unsigned imm);
/* Whole vector registers, by their width in bytes (64: EVEX, 32: VEX, 16), and mask registers. */
void x64_vector(X64 *x, unsigned width, bool store, unsigned reg, X64Mem m);
void x64_mask(X64 *x, bool store, unsigned reg, X64Mem m);
void x64_vex_rr(X64 *x, unsigned insn, unsigned reg, unsigned vvvv, unsigned rm);
void x64_vex_rm(X64 *x, unsigned insn, unsigned reg, unsigned vvvv, X64Mem m);
/* reg = value, in the shortest way that leaves the flags alone. */
void x64_mov_imm(X64 *x, unsigned reg, uint64_t value);
/* Jumps: return where the 32-bit displacement is, to be filled in by x64_patch. */
uint8_t *x64_jmp(X64 *x);
uint8_t *x64_jcc(X64 *x, X64Cond cc);
uint8_t *x64_call(X64 *x);
void x64_setcc(X64 *x, X64Cond cc, unsigned reg);
void x64_bswap(X64 *x, unsigned reg);
void x64_cmov(X64 *x, X64Cond cc, unsigned reg, unsigned rm);
static inline void x64_patch(uint8_t *rel32, const uint8_t *target) {
  int32_t d = (int32_t)(target - (rel32 + 4));
  memcpy(rel32, &d, 4);
}
static inline uint32_t x64_offset(const X64 *x) { return (uint32_t)(x->at - x->base); }

#endif
