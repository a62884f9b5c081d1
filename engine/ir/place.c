/* See place.h. Two passes over each block, both linear: look_back finds uses and limits, place
 * decides. */
#include "ir/place.h"

#include <stdlib.h>
#include <string.h>

#define NOT_YET UINT32_MAX

IrPlace *ir_place_new(bool may_be_lazy) {
  IrPlace *p = xcalloc(1, sizeof *p);
  p->may_be_lazy = may_be_lazy;
  memset(p->next_write, 0xff, sizeof p->next_write);
  size_t n = IR_MAX_OPS;
  p->last_use = xcalloc(n, 3 * sizeof(uint32_t) + 2 * sizeof(uint16_t) + 2 * sizeof(bool));
  p->limit = p->last_use + n;
  p->barrier = p->limit + n;
  p->home = (uint16_t *)(p->barrier + n);
  p->uses = p->home + n;
  p->done = (bool *)(p->uses + n);
  p->lazy = p->done + n;
  return p;
}

void ir_place_free(IrPlace *p) {
  free(p->last_use);
  free(p);
}

void ir_place_begin(IrPlace *p, const IrRegion *r) {
  p->r = r;
  memset(p->last_use, 0, r->n_ops * sizeof *p->last_use);
  memset(p->uses, 0, r->n_ops * sizeof *p->uses);
  memset(p->done, 0, r->n_ops * sizeof *p->done);
  memset(p->lazy, 0, r->n_ops * sizeof *p->lazy);
}

int ir_operands(const IrOp *op, IrRef out[3]) {
  const IrOpInfo *info = &ir_op_info[op->code];
  int n = 0;
  if (info->a != IR_NONE && info->a != IR_RAW) out[n++] = op->a;
  if (info->b != IR_NONE && info->b != IR_RAW) out[n++] = op->b;
  if (info->c != IR_NONE && info->c != IR_RAW) out[n++] = op->c;
  return n;
}

static bool is_barrier(const IrOp *op) {
  const IrOpInfo *info = &ir_op_info[op->code];
  if (op->code == IR_put || op->code == IR_insn) return false;
  return info->flags & (IR_LOADS | IR_STORES | IR_FPENV | IR_SIDE | IR_TERM);
}

static uint32_t min32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* put at k could be done by the definition of its value, as far as barriers are concerned. */
static bool may_move(const IrPlace *p, const IrBlock *b, uint32_t k) {
  uint32_t def = p->r->ops[k].a;
  const IrOp *op = &p->r->ops[def];
  if (def < b->first || op->code == IR_get || op->code == IR_imm || p->lazy[def]) return false;
  return p->barrier[k] <= def;
}

/* The only reader of the operation at k, at its last use, does it in passing: takes a comparison's
 * flags, scales an addend, or clears the low bit of a jump's target. */
static bool is_lazy(const IrPlace *p, uint32_t k) {
  const IrOp *op = &p->r->ops[k], *user = &p->r->ops[p->last_use[k]], *b = &p->r->ops[op->b];
  if (p->uses[k] != 1) return false;
  if (user->code == IR_add && op->code == IR_shl)
    return b->code == IR_imm && b->imm <= 3 && !p->lazy[user->a == k ? user->b : user->a];
  if (user->a != k) return false;
  if (user->code == IR_jump_ind && op->code == IR_and) return b->code == IR_imm && b->imm == ~1ull;
  if (!ir_is_comparison(op->code)) return false;
  return user->code == IR_br || user->code == IR_guard || user->code == IR_trap_if ||
         user->code == IR_select;
}

static void look_back(IrPlace *p, const IrBlock *b) {
  const IrOp *ops = p->r->ops;
  uint32_t last = 0;
  for (uint32_t k = b->first; k < b->end; k++) {
    p->barrier[k] = last;
    if (is_barrier(&ops[k])) last = k;
  }
  uint32_t calls = NOT_YET; /* next operation that may write any register */
  for (uint32_t k = b->end; k-- > b->first;) {
    const IrOp *op = &ops[k];
    IrRef use[3];
    p->lazy[k] = p->may_be_lazy && is_lazy(p, k);
    uint32_t when = p->lazy[k] ? p->last_use[k] : k;
    for (int n = ir_operands(op, use); n-- > 0;) {
      if (p->last_use[use[n]] < when) p->last_use[use[n]] = when;
      p->uses[use[n]]++;
    }
    if (ir_calls_out(op)) calls = k;
    if (ir_op_info[op->code].flags & IR_FPENV) p->next_write[offsetof(IrState, fp_flags) / 8] = k;
    if (op->code != IR_get && op->code != IR_put) continue;
    uint32_t *next = &p->next_write[ir_slot(op)];
    p->limit[k] = min32(*next, calls);
    if (op->code == IR_put)
      *next = may_move(p, b, k) ? op->a : k; /* the earliest time that place could choose */
  }
}

/* Floating-point flags are nobody's home, and the rounding mode is written by put alone: the JIT
 * keeps both in MXCSR. */
static bool may_be_home(const IrOp *op) {
  return op->imm != offsetof(IrState, fp_flags) &&
         (op->code == IR_get || op->imm != offsetof(IrState, fp_rm));
}

static void place_put(IrPlace *p, const IrBlock *b, uint32_t k) {
  const IrOp *op = &p->r->ops[k];
  uint32_t def = op->a, *touch = &p->last_touch[ir_slot(op)];
  if (may_be_home(op) && may_move(p, b, k) && *touch <= def && p->home[def] == IR_NO_HOME &&
      p->last_use[def] <= p->limit[k]) {
    p->home[def] = ir_slot(op);
    p->done[k] = true;
  }
  *touch = k;
}

static void place(IrPlace *p, const IrBlock *b) {
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &p->r->ops[k];
    p->home[k] = IR_NO_HOME;
    if (op->code == IR_get) {
      if (may_be_home(op) && p->last_use[k] <= p->limit[k]) p->home[k] = ir_slot(op);
      p->last_touch[ir_slot(op)] = k;
    } else if (op->code == IR_put) {
      place_put(p, b, k);
    }
  }
}

/* The register tables are cleaned for the next block. */
static void forget(IrPlace *p, const IrBlock *b) {
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &p->r->ops[k];
    if (op->code != IR_get && op->code != IR_put) continue;
    p->next_write[ir_slot(op)] = NOT_YET;
    p->last_touch[ir_slot(op)] = 0;
  }
  p->next_write[offsetof(IrState, fp_flags) / 8] = NOT_YET;
}

void ir_place_block(IrPlace *p, const IrBlock *b) {
  look_back(p, b);
  place(p, b);
  forget(p, b);
}
