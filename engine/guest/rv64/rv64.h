/* Private to guest/rv64: the state, decoded operands, and what the tables expand to.
 *
 * One row of insns.def is all there is of an instruction but for its semantics:
 *
 *   INSN(addi,  "iiiiiiiiiiiisssss000ddddd0010011", I, "d,s,j", NONE)
 *   COMPRESSED(c_addi, "000idddddiiiii01", CI, addi)
 *
 * makes the row numbers RV64_addi and RV64_c_addi, an entry of rv64_rows, the prototype of
 * rv64_lift_addi (lift_int.c: LIFT(addi)), and the text "addi a0,a0,1" (which aliases.def then
 * calls "add", as objdump does). The decoder matches the bit strings; a compressed row gives the
 * operands of the instruction it means, so that 13 05 15 00 and 05 05 have the same operands and
 * the same lifter:
 *
 *   GuestInsn i;
 *   rv64_decode(code, 4, pc, &i);    // i.id = RV64_c_addi; rv64_args(&i): rd = rs1 = 10, imm = 1
 *   rv64_rows[i.id].lift(b, &i);     // rv64_lift_addi
 *
 * A new instruction: its row, its LIFT; the sweeps (spec/engine/rv64_spec.lua) then try it against
 * objdump and qemu-user without further ado. */
#ifndef RV64_RV64_H
#define RV64_RV64_H

#include "guest/guest.h"

typedef struct Rv64State {
  IrState ir;                 /* first */
  uint64_t x[32];             /* x[0] stays 0 */
  uint64_t f[32];             /* singles are NaN-boxed */
  uint64_t lr_addr, lr_value; /* reservation; ~0: none (no aligned address) */
} Rv64State;

#define RV64_NO_RESERVATION UINT64_MAX

/* Operands, in GuestInsn.priv. */
typedef struct Rv64Args {
  uint8_t rd, rs1, rs2, rs3, rm, aqrl, pred, succ;
  int64_t imm; /* sign-extended; shift amounts, csr numbers too */
} Rv64Args;
_Static_assert(sizeof(Rv64Args) <= sizeof((GuestInsn){0}.priv), "operands fit");

static inline const Rv64Args *rv64_args(const GuestInsn *i) {
  return (const Rv64Args *)(const void *)i->priv;
}

/* Rounding modes of instructions: dynamic; from 5 on a mode in frm is reserved, and its use
 * illegal. */
enum { RV64_RM_RESERVED = 5, RV64_RM_DYN = 7 };

/* Row numbers. */
typedef enum Rv64Id {
#define INSN(name, bits, ext, operands, branch) RV64_##name,
#include "guest/rv64/insns.def"
  RV64_FIRST_COMPRESSED,
  RV64_before_compressed = RV64_FIRST_COMPRESSED - 1,
#define COMPRESSED(name, bits, format, base) RV64_##name,
#include "guest/rv64/insns.def"
  RV64_ROWS
} Rv64Id;

typedef enum Rv64Branch {
  RV64_BR_NONE,
  RV64_BR_COND,
  RV64_BR_JAL,
  RV64_BR_JALR,
  RV64_BR_SYSCALL,
  RV64_BR_TRAP
} Rv64Branch;

typedef void Rv64Lifter(IrBuilder *b, const GuestInsn *i);

typedef struct Rv64Row {
  const char *name, *bits, *ext, *operands;
  uint8_t branch; /* Rv64Branch */
  uint8_t format; /* compressed: Rv64Format */
  uint16_t base;  /* the 32-bit row it means; itself if not compressed */
  Rv64Lifter *lift;
} Rv64Row;

extern const Rv64Row rv64_rows[RV64_ROWS];

/* Lifters: lift_*.c. */
#define INSN(name, bits, ext, operands, branch) Rv64Lifter rv64_lift_##name;
#include "guest/rv64/insns.def"

GuestDecode rv64_decode(const uint8_t *code, size_t avail, uint64_t pc, GuestInsn *out);
int rv64_disasm(const GuestInsn *insn, char *buf, size_t size);
const char *rv64_guest_insn_name(uint16_t id);
extern const GuestReg rv64_regs[];
extern const uint32_t rv64_n_regs;
bool rv64_signal_push(IrState *s, const GuestSignal *sig, const GuestMem *mem);
bool rv64_signal_pop(IrState *s, GuestSignal *out, const GuestMem *mem);

#endif
