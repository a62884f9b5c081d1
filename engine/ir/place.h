/* Where values live: the analysis that both lowerings share (ir/decode.c for the interpreter, jit/
 * for the host).
 *
 * Time is an operation's index; an operation reads its operands before it writes its result. A
 * *barrier* is an operation at which the guest registers must be exact: it may fault, leave, call
 * out, or touch state on its own. A value's *home* is the guest register (state slot) that holds it
 * all its life, so that get and put cost nothing:
 *
 *   get  lives in the register itself            if the register is not written before the value's
 *                                                last use;
 *   put  makes its value's definition write it   if no barrier, get or put of that register lies
 *                                                between the two, and the value is not used after
 *                                                the register's next write.
 *
 * If it may be lazy, a comparison whose only reader is a br, guard, select or trap_if is computed
 * there (as flags): its operands live until then. So are a shift that scales an addend, and the
 * clearing of the low bit of a jump's target.
 *
 *    1  insn  10078
 *    2  get   a1             home a1
 *    3  imm   8
 *    4  add   %2, %3         home a0: the put is `done` by it
 *    5  put   a0, %4
 */
#ifndef IR_PLACE_H
#define IR_PLACE_H

#include "ir/ir.h"

#define IR_STATE_SLOTS (IR_SCRATCH_AT / 8)
#define IR_NO_HOME     UINT16_MAX

typedef struct IrPlace {
  const IrRegion *r;
  bool may_be_lazy;
  uint32_t *last_use; /* of a value: operation; 0: none */
  uint32_t
      *limit; /* of a get or put: before which operation the register keeps what it holds there */
  uint32_t *barrier; /* the last barrier before this operation */
  uint16_t *home;    /* of a value: state slot, or IR_NO_HOME */
  uint16_t *uses;    /* how many */
  bool *done;        /* put: its value's definition wrote the register */
  bool *lazy;
  uint32_t next_write[IR_STATE_SLOTS],
      last_touch[IR_STATE_SLOTS]; /* of a register; clean between blocks */
} IrPlace;

/* A place to work in, for any number of regions. */
IrPlace *ir_place_new(bool may_be_lazy);
void ir_place_free(IrPlace *p);
void ir_place_begin(IrPlace *p, const IrRegion *r);
void ir_place_block(IrPlace *p, const IrBlock *b);

/* The values an operation reads; returns how many. */
int ir_operands(const IrOp *op, IrRef out[3]);
/* Code behind the operation may change any guest register. */
static inline bool ir_calls_out(const IrOp *op) {
  return op->code == IR_call || op->code == IR_callout || op->code == IR_ring_open ||
         op->code == IR_element;
}
static inline uint16_t ir_slot(const IrOp *op) { return (uint16_t)(op->imm / 8); }
static inline bool ir_is_comparison(unsigned code) { return code >= IR_eq && code <= IR_geu; }

#endif
