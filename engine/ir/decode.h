/* The interpreter's own form of a region: threaded code.
 *
 * An IrCode names a handler in interp.c and its operands. Guest registers and values are operands
 * of one kind, 64-bit slots counted from the state: slot 0x800 and up are the scratch area's
 * (state.h), below that are the registers. This lets the decoder do without most data movement.
 * `addi a0,a1,8` is five operations and becomes one IrCode:
 *
 *    1  insn  10078                    (nothing: pc travels with those operations that need it)
 *    2  get   a1                       (nothing: readers of %2 read a1 itself, which is not written
 *                                       before the last of them)
 *    3  imm   8                        (nothing: becomes the immediate of its reader)
 *    4  add   %2, %3            ->     add_imm  d=a0 a=a1 imm=8
 *    5  put   a0, %4                   (nothing: %4 is made in a0 to begin with, since nothing
 *                                       between 4 and 5 can tell)
 *
 * decode.c says when each of those is right. No operation is moved and none is computed
 * differently: what executes is still ops.def's expression of each operation, in order, so the
 * interpreter stays the oracle of the JIT. */
#ifndef IR_DECODE_H
#define IR_DECODE_H

#include "ir/ir.h"

typedef struct IrCode IrCode;

/* A way out of a block. */
typedef struct IrFlow {
  IrCode *code; /* the target, if it is a block of the region; else NULL and succ says */
  IrBlock *block;
  IrSucc *succ;
  bool back; /* to this block or an earlier one: every loop has such an edge, which asks for
                interrupts */
} IrFlow;

struct IrCode {
  const void *go; /* handler: a label's address in interp.c */
  uint64_t imm;
  union {
    uint64_t pc;        /* of the instruction, for operations that may fault or be observed */
    const IrFlow *flow; /* terminators: the block's ways out, [0] taken */
  };
  uint16_t d, a, b, c; /* slots (d: result), or plain numbers where ops.def says RAW */
};

/* Forms of an operation. Its handler number is form * IR_OPCODES + IrOpcode. */
typedef enum IrForm {
  IR_PLAIN,
  IR_PLAIN_IMM, /* operand b is imm */
  IR_SEXT,      /* followed by the sext32 of its result, which only that reads */
  IR_SEXT_IMM,
  IR_BRANCH, /* followed by the br on its result, which only that reads */
  IR_BRANCH_IMM,
  IR_FORMS
} IrForm;

/* What has which forms; these are constants in interp.c. Only pure operations are in these ranges
 * of ops.def. */
static inline bool ir_has_imm(unsigned code) { return code >= IR_add && code < IR_select; }
static inline bool ir_has_sext(unsigned code) { return code >= IR_add32 && code <= IR_popcnt32; }

/* Makes r->code. `handlers` maps handler numbers to label addresses. */
void ir_decode(IrRegion *r, const void *const *handlers);

#endif
