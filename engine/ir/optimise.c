/* The optimiser: two linear passes over each block, then one that closes the gaps.
 *
 *   forward   copies (a get of a register whose value is known), constants, identities, common pure
 *             operations
 *   backward  operations that make values nobody reads, and puts that another put overwrites
 *
 * What a put writes must be seen by whatever may observe the registers: operations that may fault,
 * leave or call out, the end of the block, and the end of an instruction with a memory access (a
 * hook on the access may stop the guest there: DESIGN.md section 3, rule 7). Loads and
 * floating-point operations stay even if their value is not read: they may fault, they set flags.
 */
#include <stdlib.h>

#include "ir/place.h"

#define REGS (IR_SCRATCH_AT / 8)
#define SHARED                                                                                     \
  256 /* entries of the table of pure operations at hand: a power of two, direct-mapped */

typedef struct Known { /* in this register is value ref, if epoch is the current one */
  IrRef ref;
  uint16_t epoch;
} Known;

typedef struct Optimiser {
  IrRegion *r;
  IrRef *same; /* value -> the value that stands for it */
  uint16_t *uses;
  bool *exact;    /* `insn`: the instruction before it has a memory access */
  uint16_t epoch; /* of the two tables of registers: raising it forgets them */
  Known known[REGS];
  uint16_t doomed[REGS]; /* backward: the epoch, if overwritten later before anybody could see it */
  IrRef shared[SHARED];
} Optimiser;

static void remove_op(IrOp *op) { *op = (IrOp){.code = IR_nop}; }
static void make_imm(IrOp *op, uint64_t value) { *op = (IrOp){.code = IR_imm, .imm = value}; }

/* ---- forward --------------------------------------------------------------------------------- */

static void rename_operands(const Optimiser *o, IrOp *op) {
  const IrOpInfo *info = &ir_op_info[op->code];
  if (info->a != IR_RAW) op->a = o->same[op->a];
  if (info->b != IR_RAW) op->b = o->same[op->b];
  if (info->c != IR_RAW) op->c = o->same[op->c];
}

static bool is_imm(const Optimiser *o, IrRef ref) { return o->r->ops[ref].code == IR_imm; }
static bool is_value(const Optimiser *o, IrRef ref, uint64_t value) {
  return is_imm(o, ref) && o->r->ops[ref].imm == value;
}

static bool is_comparison(const IrOp *op) { return op->code >= IR_eq && op->code <= IR_geu; }

static bool commutes(unsigned code) {
  switch (code) {
  case IR_add:
  case IR_and:
  case IR_or:
  case IR_xor:
  case IR_xnor:
  case IR_mul:
  case IR_mulhs:
  case IR_mulhu:
  case IR_mins:
  case IR_maxs:
  case IR_minu:
  case IR_maxu:
  case IR_add32:
  case IR_mul32:
  case IR_eq:
  case IR_ne: return true;
  default: return false;
  }
}

static bool fold(const Optimiser *o, IrOp *op) {
  const IrOpInfo *info = &ir_op_info[op->code];
  const IrOp *ops = o->r->ops;
  if (info->a == IR_NONE || !is_imm(o, op->a) || (info->b != IR_NONE && !is_imm(o, op->b)) ||
      (info->c != IR_NONE && !is_imm(o, op->c)))
    return false;
  make_imm(op, ir_eval_pure((IrOpcode)op->code, ops[op->a].imm, ops[op->b].imm, ops[op->c].imm,
                            op->imm));
  return true;
}

/* x op 0, x op -1, x op 1: the value that results, or 0. */
static IrRef right_identity(const Optimiser *o, const IrOp *op) {
  switch (op->code) {
  case IR_add:
  case IR_sub:
  case IR_or:
  case IR_xor:
  case IR_andn:
  case IR_shl:
  case IR_shr:
  case IR_sar:
  case IR_rotl:
  case IR_rotr: return is_value(o, op->b, 0) ? op->a : 0;
  case IR_and:
  case IR_orn:
  case IR_xnor: return is_value(o, op->b, UINT64_MAX) ? op->a : 0;
  case IR_mul:
  case IR_divu:
  case IR_divs: return is_value(o, op->b, 1) ? op->a : 0;
  case IR_select:
    return op->b == op->c ? op->b : is_imm(o, op->a) ? (o->r->ops[op->a].imm ? op->b : op->c) : 0;
  default: return 0;
  }
}

/* Extensions of what is extended already, by the type of the operand. */
static IrRef narrow_identity(const Optimiser *o, const IrOp *op) {
  const IrOp *from = &o->r->ops[op->a];
  unsigned type = ir_op_info[from->code].result;
  bool bit = is_comparison(from);
  switch (op->code) {
  case IR_zext8: return bit || type == IR_I8 ? op->a : 0;
  case IR_zext16: return bit || type == IR_I8 || type == IR_I16 ? op->a : 0;
  case IR_zext32:
    return bit || type == IR_I8 || type == IR_I16 || type == IR_I32 || type == IR_F32 ? op->a : 0;
  case IR_sext8: return bit || from->code == IR_sext8 || from->code == IR_ld8s ? op->a : 0;
  case IR_sext16:
    return bit || type == IR_I8 || from->code == IR_sext16 || from->code == IR_ld16s ||
                   from->code == IR_ld8s
               ? op->a
               : 0;
  case IR_sext32:
    return bit || type == IR_I8 || type == IR_I16 || from->code == IR_sext32 ||
                   from->code == IR_ld32s || from->code == IR_ld16s || from->code == IR_ld8s
               ? op->a
               : 0;
  case IR_ne: return bit && is_value(o, op->b, 0) ? op->a : 0;
  default: return 0;
  }
}

/* x op x, x & 0 and the like: a constant. */
static bool to_constant(const Optimiser *o, IrOp *op) {
  bool same = op->a == op->b, zero = is_value(o, op->b, 0);
  switch (op->code) {
  case IR_sub:
  case IR_xor:
  case IR_ne:
  case IR_lts:
  case IR_sub32:
    if (same) return make_imm(op, 0), true;
    return false;
  case IR_ltu:
    if (same || zero) return make_imm(op, 0), true;
    return false;
  case IR_eq:
  case IR_ges:
    if (same) return make_imm(op, 1), true;
    return false;
  case IR_geu:
    if (same || zero) return make_imm(op, 1), true;
    return false;
  case IR_and:
  case IR_mul:
  case IR_mulhu:
  case IR_mul32:
    if (zero) return make_imm(op, 0), true;
    return false;
  default: return false;
  }
}

/* Extensions look through extensions; comparisons of comparisons with 0 turn around. */
static void rewrite(const Optimiser *o, IrOp *op) {
  const IrOp *from = &o->r->ops[op->a];
  if ((op->code == IR_sext32 || op->code == IR_zext32) &&
      (from->code == IR_sext32 || from->code == IR_zext32))
    op->a = from->a;
  if (op->code == IR_eq && is_value(o, op->b, 0) && is_comparison(from)) {
    static const uint8_t opposite[IR_OPCODES] = {
        [IR_eq] = IR_ne,   [IR_ne] = IR_eq,   [IR_lts] = IR_ges,
        [IR_ges] = IR_lts, [IR_ltu] = IR_geu, [IR_geu] = IR_ltu};
    *op = (IrOp){.code = opposite[from->code], .a = from->a, .b = from->b};
  }
}

/* The same operation done before in this block, or 0; remembers this one. */
static IrRef share(Optimiser *o, const IrBlock *b, uint32_t k) {
  const IrOp *op = &o->r->ops[k];
  uint64_t h =
      op->imm ^ (uint64_t)op->code << 56 ^ (uint64_t)op->a << 40 ^ (uint64_t)op->b << 20 ^ op->c;
  IrRef *slot = &o->shared[h * 0x9e3779b97f4a7c15ull >> 56];
  const IrOp *old = &o->r->ops[*slot];
  if (*slot >= b->first && *slot < k && old->code == op->code && old->a == op->a &&
      old->b == op->b && old->c == op->c && old->imm == op->imm)
    return *slot;
  *slot = (IrRef)k;
  return 0;
}

static void pure(Optimiser *o, const IrBlock *b, uint32_t k) {
  IrOp *op = &o->r->ops[k];
  if (commutes(op->code) && is_imm(o, op->a) && !is_imm(o, op->b)) {
    IrRef a = op->a;
    op->a = op->b;
    op->b = a;
  }
  IrRef same = 0;
  if (!fold(o, op) && !to_constant(o, op)) {
    rewrite(o, op);
    same = right_identity(o, op);
    if (!same) same = narrow_identity(o, op);
    if (!same && (op->code == IR_and || op->code == IR_or) && op->a == op->b) same = op->a;
  }
  if (!same) same = share(o, b, k);
  if (same) {
    o->same[k] = same;
    remove_op(op);
  }
}

static void state_access(Optimiser *o, uint32_t k) {
  IrOp *op = &o->r->ops[k];
  Known *known = &o->known[op->imm / 8];
  bool valid = known->epoch == o->epoch;
  if (op->code == IR_get) {
    if (valid) {
      o->same[k] = known->ref;
      remove_op(op);
    } else {
      *known = (Known){(IrRef)k, o->epoch};
    }
  } else if (valid && known->ref == op->a) {
    remove_op(op); /* writes what is there */
  } else {
    *known = (Known){op->a, o->epoch};
  }
}

/* Address arithmetic with a constant goes into the access. */
static void fold_address(const Optimiser *o, IrOp *op) {
  const IrOp *add = &o->r->ops[op->a];
  if (add->code != IR_add || !is_imm(o, add->b)) return;
  op->imm += o->r->ops[add->b].imm;
  op->a = add->a;
}

static void forward(Optimiser *o, const IrBlock *b) {
  o->epoch++;
  for (uint32_t k = b->first; k < b->end; k++) {
    IrOp *op = &o->r->ops[k];
    const IrOpInfo *info = &ir_op_info[op->code];
    o->same[k] = (IrRef)k;
    rename_operands(o, op);
    if (op->code == IR_nop) continue;
    if (info->flags & IR_PURE)
      pure(o, b, k);
    else if (info->flags & IR_STATE)
      state_access(o, k);
    else if (info->flags & (IR_LOADS | IR_STORES))
      fold_address(o, op);
    else if (info->flags & IR_FPENV)
      o->known[offsetof(IrState, fp_flags) / 8].epoch = 0;
    else if (ir_calls_out(op))
      o->epoch++;
    else if (op->code == IR_trap_if && is_value(o, op->a, 0))
      remove_op(op);
  }
}

/* ---- backward -------------------------------------------------------------------------------- */

static void count_uses(Optimiser *o, const IrOp *op, int by) {
  const IrOpInfo *info = &ir_op_info[op->code];
  if (info->a != IR_RAW) o->uses[op->a] += (uint16_t)by;
  if (info->b != IR_RAW) o->uses[op->b] += (uint16_t)by;
  if (info->c != IR_RAW) o->uses[op->c] += (uint16_t)by;
}

/* Registers must be exact here. Floating-point operations only look at two registers of their own.
 */
static bool observes(const IrOp *op) {
  const IrOpInfo *info = &ir_op_info[op->code];
  return op->code != IR_put && op->code != IR_insn &&
         info->flags & (IR_LOADS | IR_STORES | IR_SIDE | IR_TERM);
}

static bool is_removable(const IrOp *op) {
  return op->code == IR_get || (op->code != IR_nop && ir_op_info[op->code].flags & IR_PURE);
}

static void backward_op(Optimiser *o, uint32_t k) {
  IrOp *op = &o->r->ops[k];
  uint16_t *doomed = &o->doomed[op->imm / 8 % REGS];
  bool dead = is_removable(op) && !o->uses[k];
  if (observes(op) || o->exact[k]) o->epoch++;
  if (ir_op_info[op->code].flags & IR_FPENV)
    o->doomed[offsetof(IrState, fp_rm) / 8] = o->doomed[offsetof(IrState, fp_flags) / 8] = 0;
  if (op->code == IR_put) {
    dead = *doomed == o->epoch;
    *doomed = o->epoch;
  } else if (op->code == IR_get && !dead) {
    *doomed = 0;
  }
  if (!dead) return;
  count_uses(o, op, -1);
  remove_op(op);
}

static void backward(Optimiser *o, const IrBlock *b) {
  bool access = false; /* in the current instruction */
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &o->r->ops[k];
    count_uses(o, op, 1);
    if (op->code == IR_insn) {
      o->exact[k] = access;
      access = false;
    }
    if (ir_op_info[op->code].flags & (IR_LOADS | IR_STORES)) access = true;
  }
  o->epoch++;
  for (uint32_t k = b->end; k-- > b->first;) backward_op(o, k);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Closes the gaps that removed operations left. */
static void squeeze(Optimiser *o) {
  IrRegion *r = o->r;
  uint32_t n = 1;
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    IrBlock *b = &r->blocks[i];
    uint32_t first = n;
    for (uint32_t k = b->first; k < b->end; k++) {
      IrOp *op = &r->ops[k];
      if (op->code == IR_nop) continue;
      rename_operands(o, op);
      if (op->code == IR_insn) r->insns[op->a].first_op = (IrRef)n;
      o->same[k] = (IrRef)n;
      r->ops[n++] = *op;
    }
    b->first = first;
    b->end = n;
  }
  r->n_ops = n;
}

void ir_optimise(IrRegion *r) {
  for (uint32_t k = 0; k < r->n_ops; k++)
    if (r->ops[k].code == IR_guard)
      return; /* instrumented already: values inside guards are not everybody's */
  Optimiser *o = xcalloc(1, sizeof *o);
  o->r = r;
  o->same = xcalloc(r->n_ops, 2 * sizeof(uint16_t) + sizeof(bool));
  o->uses = o->same + r->n_ops;
  o->exact = (bool *)(o->uses + r->n_ops);
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    forward(o, &r->blocks[i]);
    backward(o, &r->blocks[i]);
  }
  squeeze(o);
  free(o->same);
  free(o);
}
