/* The checker: whether a region keeps the rules of ir.h. One pass over the operations, cheap enough
 * to run after each pass on every region of a debug build. It reports the first rule broken. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "ir/ir.h"

typedef struct Checker {
  const IrRegion *r;
  const IrBlock *block;
  uint32_t k;         /* operation at hand */
  uint32_t next_insn; /* index of the next `insn` */
  bool in_insn;       /* the block's first `insn` was seen */
  bool put_seen;      /* in the current instruction */
  uint32_t guard_end; /* first operation behind the innermost guard; 0: none */
  uint32_t guard_first;
  uint8_t *fits32;  /* value is known to be below 2^32 */
  uint32_t *hidden; /* value was made inside a guard: may be used below this operation only; 0: no
                       such limit */
} Checker;

static char message[160];

static const char *fail(const Checker *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static const char *fail(const Checker *c, const char *fmt, ...) {
  char text[100];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  const IrOp *op = &c->r->ops[c->k];
  const char *name = op->code < IR_OPCODES ? ir_op_info[op->code].name : "?";
  snprintf(message, sizeof message, "operation %" PRIu32 " (%s): %s", c->k, name, text);
  return message;
}

static const char *fail_region(const char *text, uint32_t i) {
  snprintf(message, sizeof message, "block %" PRIu32 ": %s", i, text);
  return message;
}

#define TRY(call)                                                                                  \
  do {                                                                                             \
    const char *wrong_ = (call);                                                                   \
    if (wrong_) return wrong_;                                                                     \
  } while (0)

/* ---- operands -------------------------------------------------------------------------------- */

/* These may go without: reference 0. */
static bool is_optional(unsigned code, int which) {
  switch (code) {
  case IR_call:
  case IR_callout: return which < 2;
  case IR_nth: return true;
  case IR_trap_if: return which == 2;
  default: return false;
  }
}

static const char *check_operand(const Checker *c, unsigned type, IrRef ref, int which) {
  const IrOp *op = &c->r->ops[c->k];
  if (type == IR_RAW) return NULL;
  if (type == IR_NONE) return ref ? fail(c, "operand %c is not used but set", 'a' + which) : NULL;
  if (!ref)
    return is_optional(op->code, which) ? NULL : fail(c, "operand %c is missing", 'a' + which);
  if (ref >= c->k) return fail(c, "operand %%%u is not defined before", ref);
  if (ref < c->block->first) return fail(c, "operand %%%u belongs to another block", ref);
  if (ir_op_info[c->r->ops[ref].code].result == IR_NONE)
    return fail(c, "operand %%%u is not a value", ref);
  if (c->hidden[ref] && c->k >= c->hidden[ref])
    return fail(c, "operand %%%u leaves its guard", ref);
  if (type == IR_F32 && !c->fits32[ref])
    return fail(c, "operand %%%u may have more than 32 bits", ref);
  return NULL;
}

/* F32 operands may come from integer operations on sign bits; those are followed as far as bit
 * widths go. */
static bool value_fits32(const Checker *c, const IrOp *op) {
  const IrOpInfo *info = &ir_op_info[op->code];
  switch (op->code) {
  case IR_imm: return op->imm <= UINT32_MAX;
  case IR_and: return c->fits32[op->a] || c->fits32[op->b];
  case IR_or:
  case IR_xor:
  case IR_minu:
  case IR_maxu: return c->fits32[op->a] && c->fits32[op->b];
  case IR_andn:
  case IR_shr: return c->fits32[op->a];
  case IR_select: return c->fits32[op->b] && c->fits32[op->c];
  case IR_eq:
  case IR_ne:
  case IR_lts:
  case IR_ges:
  case IR_ltu:
  case IR_geu: return true;
  default: return info->result >= IR_I8 && info->result <= IR_F32 && info->result != IR_I64;
  }
}

/* ---- operations ------------------------------------------------------------------------------ */

static const char *check_state(const Checker *c, const IrOp *op) {
  if (op->imm % 8) return fail(c, "state offset %" PRIx64 " is not a slot", op->imm);
  if (op->imm >= IR_SCRATCH_AT)
    return fail(c, "state offset %" PRIx64 " is beyond the state", op->imm);
  if (op->imm == offsetof(IrState, pc))
    return fail(c, "pc is not a register: it is known statically");
  bool fp = op->imm == offsetof(IrState, fp_rm) || op->imm == offsetof(IrState, fp_flags);
  if (op->code == IR_put && op->imm < sizeof(IrState) && !fp)
    return fail(c, "writes the engine's part of the state");
  return NULL;
}

static const char *check_insn(Checker *c, const IrOp *op) {
  const IrRegion *r = c->r;
  if (c->next_insn >= (uint32_t)c->block->first_insn + c->block->n_insns)
    return fail(c, "the block has too many instructions");
  if (op->a != c->next_insn) return fail(c, "instruction %u is out of order", op->a);
  const IrInsn *insn = &r->insns[op->a];
  if (insn->pc != op->imm) return fail(c, "pc differs from its instruction's");
  if (insn->first_op != c->k) return fail(c, "its instruction says first_op %u", insn->first_op);
  if (&r->blocks[insn->block] != c->block)
    return fail(c, "its instruction belongs to block %u", insn->block);
  c->next_insn++;
  c->in_insn = true;
  c->put_seen = false;
  return NULL;
}

static const char *check_order(Checker *c, const IrOp *op) {
  uint8_t flags = ir_op_info[op->code].flags;
  bool faults =
      flags & (IR_LOADS | IR_STORES) || (op->code == IR_trap_if && op->b != IR_FAULT_DENIED);
  if ((faults || op->code == IR_put || op->code == IR_call) && !c->in_insn)
    return fail(c, "belongs to no instruction");
  if (faults && c->put_seen) return fail(c, "may fault after a put of the same instruction");
  if (op->code == IR_put) c->put_seen = true;
  return NULL;
}

static const char *check_guard(Checker *c, const IrOp *op) {
  uint64_t end = c->k + 1 + op->imm;
  if (op->imm >= c->block->end || end >= c->block->end)
    return fail(c, "reaches beyond its block's body");
  if (c->guard_end && end > c->guard_end) return fail(c, "reaches beyond the guard around it");
  for (uint32_t i = c->k + 1; i < end; i++) { /* nested guards are marked again, with less */
    const IrOp *in = &c->r->ops[i];
    if (in->code == IR_insn || in->code == IR_put)
      return fail(c, "guards operation %u, which must always execute", i);
    c->hidden[i] = (uint32_t)end;
  }
  c->guard_end = (uint32_t)end;
  return NULL;
}

static const char *check_imm(const Checker *c, const IrOp *op) {
  switch (op->code) {
  case IR_call:
  case IR_nth:
  case IR_callout:
  case IR_plane_test:
  case IR_ring_open:
  case IR_edge_ind:
  case IR_cs_call:
  case IR_native:
  case IR_native_br:
  case IR_native_jump:
  case IR_ea:
  case IR_cs_jump: return op->imm ? NULL : fail(c, "has no record");
  case IR_count:
  case IR_count_if:
    return op->imm % 8 || op->imm >= IR_NATIVE_TARGETS_AT - IR_COUNTERS_AT
               ? fail(c, "no such counter: %" PRIx64, op->imm)
               : NULL;
  case IR_budget:
    return op->imm == c->block->pc ? NULL : fail(c, "leaves at another pc than the block's");
  case IR_trap_if: return op->b <= IR_FAULT_DENIED ? NULL : fail(c, "no such fault: %u", op->b);
  case IR_trap: return op->a <= IR_TRAP_NEXT ? NULL : fail(c, "no such trap: %u", op->a);
  default: break;
  }
  if (ir_op_info[op->code].flags & IR_FPENV && (op->imm & 7) > 4 && (op->imm & 7) < 7)
    return fail(c, "no such rounding mode");
  return NULL;
}

static const char *check_term(const Checker *c, const IrOp *op) {
  const IrBlock *b = c->block;
  static const int8_t ways[IR_OPCODES] = {
      [IR_br] = 2, [IR_jump] = 1, [IR_trap] = 1, [IR_jump_ind] = 0, [IR_native_br] = 2};
  if (op->code == IR_native_jump ? b->n_succ > 1 : b->n_succ != ways[op->code])
    return fail(c, "block has %u ways out", b->n_succ);
  for (int i = 0; i < b->n_succ; i++) {
    int32_t to = b->succ[i].block;
    if (to < -1 || to >= (int32_t)c->r->n_blocks) return fail(c, "way out to block %d", (int)to);
    if (to >= 0 && op->code == IR_trap) return fail(c, "a trap always leaves the region");
    if (to >= 0 && c->r->blocks[to].pc != b->succ[i].pc)
      return fail(c, "way out to block %d with another pc", (int)to);
  }
  return NULL;
}

static const char *check_op(Checker *c) {
  const IrOp *op = &c->r->ops[c->k];
  if (op->code >= IR_OPCODES) return fail(c, "no such operation: %u", op->code);
  const IrOpInfo *info = &ir_op_info[op->code];
  if (c->guard_end && c->k >= c->guard_end) c->guard_end = c->hidden[c->k];
  TRY(check_operand(c, info->a, op->a, 0));
  TRY(check_operand(c, info->b, op->b, 1));
  TRY(check_operand(c, info->c, op->c, 2));
  TRY(check_imm(c, op));
  TRY(check_order(c, op));
  if (info->flags & IR_STATE) TRY(check_state(c, op));
  if (op->code == IR_insn) TRY(check_insn(c, op));
  if (op->code == IR_guard) TRY(check_guard(c, op));
  bool last = c->k + 1 == c->block->end;
  if (info->flags & IR_TERM && !last) return fail(c, "ends the block before its end");
  if (!(info->flags & IR_TERM) && last) return fail(c, "is last but does not end the block");
  if (last) TRY(check_term(c, op));
  c->fits32[c->k] = value_fits32(c, op);
  return NULL;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static const char *check_block(Checker *c, uint32_t i, uint32_t first) {
  const IrRegion *r = c->r;
  const IrBlock *b = c->block = &r->blocks[i];
  if (b->first != first) return fail_region("does not begin where the one before it ends", i);
  if (b->end <= b->first || b->end > r->n_ops)
    return fail_region("has no operations, or ones beyond the region's", i);
  if (b->region != r) return fail_region("belongs to another region", i);
  if (b->first_insn != c->next_insn || (uint32_t)b->first_insn + b->n_insns > r->n_insns)
    return fail_region("its instructions do not follow those of the block before it", i);
  if (b->n_insns && r->insns[b->first_insn].pc != b->pc)
    return fail_region("begins at another pc than its first instruction", i);
  c->in_insn = false;
  c->guard_end = 0;
  for (c->k = b->first; c->k < b->end; c->k++) TRY(check_op(c));
  if (c->next_insn != (uint32_t)b->first_insn + b->n_insns)
    return fail_region("has fewer instructions than it says", i);
  return NULL;
}

static const char *check_all(Checker *c) {
  const IrRegion *r = c->r;
  uint32_t first = 1;
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    TRY(check_block(c, i, first));
    first = c->block->end;
  }
  if (first != r->n_ops) return "operations behind the last block";
  if (c->next_insn != r->n_insns) return "instructions behind the last block";
  return NULL;
}

const char *ir_check(const IrRegion *r) {
  if (!r->n_blocks || r->n_blocks > IR_MAX_BLOCKS) return "no blocks, or too many";
  if (!r->n_ops || r->n_ops > IR_MAX_OPS) return "no operations, or too many";
  if (r->ops[0].code != IR_nop) return "operation 0 is not nop";
  if (r->blocks[0].pc != r->pc) return "the first block is not the entry";
  if (r->low > r->pc || r->high <= r->pc) return "its bytes do not include its entry";
  Checker c = {.r = r};
  c.fits32 = xcalloc(r->n_ops, 1);
  c.hidden = xcalloc(r->n_ops, sizeof *c.hidden);
  const char *wrong = check_all(&c);
  free(c.fits32);
  free(c.hidden);
  return wrong;
}
