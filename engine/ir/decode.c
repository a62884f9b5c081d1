/* Region -> threaded code (decode.h). place.c says where values live; here every other value gets a
 * slot of the scratch area, and each operation that is still to be executed becomes one IrCode. An
 * imm lives nowhere if all its readers take an immediate (or it is 0, which has a slot). */
#include "ir/decode.h"

#include <stdlib.h>
#include <string.h>

#include "ir/place.h"

#define SLOT_VALUES IR_STATE_SLOTS
#define SLOT_ZERO   SLOT_VALUES /* always 0; reference 0 reads it */

typedef struct Decoder {
  IrRegion *r;
  IrPlace *p;
  const void *const *handlers;
  IrCode *out;
  uint32_t n_out;
  uint32_t *at;   /* index in out of the operation's code */
  uint16_t *home; /* slot of a value */
  bool *needed;   /* imm: must be in a slot */
} Decoder;

static bool takes_imm(const IrOp *op) {
  return ir_has_imm(op->code) && ir_op_info[op->code].b != IR_NONE;
}

/* Every value gets a slot: its home register, or one of the scratch area. */
static void assign_slots(Decoder *d, const IrBlock *b) {
  uint16_t slot = SLOT_ZERO + 1;
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &d->r->ops[k];
    d->home[k] = d->p->home[k];
    if (op->code == IR_imm && op->imm == 0) d->home[k] = SLOT_ZERO;
    if (ir_op_info[op->code].result != IR_NONE && d->home[k] == IR_NO_HOME) d->home[k] = slot++;
    IrRef use[3];
    int n = ir_operands(op, use);
    if (op->code == IR_put || takes_imm(op)) n--; /* the last operand may be an immediate */
    while (n-- > 0) d->needed[use[n]] = true;
  }
}

/* ---- emission -------------------------------------------------------------------------------- */

static uint16_t operand(const Decoder *d, unsigned type, IrRef ref) {
  if (type == IR_NONE) return SLOT_ZERO;
  if (type == IR_RAW) return ref;
  return ref ? d->home[ref] : SLOT_ZERO;
}

static IrCode *add_code(Decoder *d, unsigned handler) {
  IrCode *c = &d->out[d->n_out++];
  c->go = d->handlers[handler];
  return c;
}

static bool is_dead(const Decoder *d, uint32_t k) {
  const IrOp *op = &d->r->ops[k];
  uint8_t flags = ir_op_info[op->code].flags;
  if (op->code == IR_nop || op->code == IR_insn) return true;
  if (op->code == IR_put) return d->p->done[k];
  if (op->code == IR_get) return !d->p->uses[k] || d->home[k] < SLOT_VALUES;
  if (op->code == IR_imm) return !d->needed[k] || !op->imm;
  return flags & IR_PURE && !d->p->uses[k];
}

/* The operation at k and the one that made its operand a become one code, if nothing else reads
 * that value and no code is between them. */
static bool fuse(Decoder *d, const IrBlock *b, uint32_t k) {
  const IrOp *op = &d->r->ops[k], *from = &d->r->ops[op->a];
  bool sext = op->code == IR_sext32 && ir_has_sext(from->code);
  bool branch = op->code == IR_br && ir_is_comparison(from->code);
  if (!sext && !branch) return false;
  if (op->a < b->first || d->p->uses[op->a] != 1 || d->at[op->a] + 1 != d->n_out) return false;
  bool imm = takes_imm(from) && d->r->ops[from->b].code == IR_imm;
  unsigned form = (sext ? IR_SEXT : IR_BRANCH) + imm;
  IrCode *c = &d->out[d->n_out - 1];
  c->go = d->handlers[form * IR_OPCODES + from->code];
  if (sext) c->d = d->home[k];
  return true;
}

static void emit_plain(Decoder *d, uint32_t k) {
  const IrOp *op = &d->r->ops[k], *b = &d->r->ops[op->b];
  const IrOpInfo *info = &ir_op_info[op->code];
  bool by_imm = takes_imm(op) && b->code == IR_imm;
  IrCode *c = add_code(d, by_imm ? IR_PLAIN_IMM * IR_OPCODES + op->code : op->code);
  c->imm = by_imm ? b->imm : op->imm;
  c->d = info->result == IR_NONE ? 0 : d->home[k];
  c->a = operand(d, info->a, op->a);
  c->b = by_imm ? 0 : operand(d, info->b, op->b);
  c->c = operand(d, info->c, op->c);
}

static void emit_put(Decoder *d, uint32_t k) {
  const IrOp *op = &d->r->ops[k], *value = &d->r->ops[op->a];
  if (value->code == IR_imm) {
    IrCode *c = add_code(d, IR_imm);
    c->d = ir_slot(op);
    c->imm = value->imm;
  } else {
    emit_plain(d, k);
    d->out[d->n_out - 1].d = ir_slot(op);
  }
}

static void emit(Decoder *d, const IrBlock *b, const IrFlow *flow) {
  uint64_t pc = b->pc;
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &d->r->ops[k];
    bool dead = is_dead(d, k);
    d->at[k] = d->n_out;
    if (op->code == IR_insn) pc = op->imm;
    if (dead) continue;
    if (op->code == IR_put)
      emit_put(d, k);
    else if (!fuse(d, b, k))
      emit_plain(d, k);
    IrCode *c = &d->out[d->n_out - 1];
    c->pc = pc;
    if (ir_op_info[op->code].flags & IR_TERM && op->code != IR_trap && op->code != IR_jump_ind)
      c->flow = flow;
    if (op->code == IR_budget) c->imm = b->pc;
    if (op->code == IR_nth) c->c = op->a == 0;
    if (op->code == IR_trap && op->a != IR_TRAP_BREAKPOINT && op->a != IR_TRAP_ILLEGAL)
      c->pc = b->succ[0].pc;
  }
}

/* Guards skip to an operation: now its code is known. */
static void aim_guards(Decoder *d, const IrBlock *b) {
  for (uint32_t k = b->first; k < b->end; k++)
    if (d->r->ops[k].code == IR_guard)
      d->r->code[d->at[k]].imm = (uint64_t)(uintptr_t)&d->r->code[d->at[k + 1 + d->r->ops[k].imm]];
}

static void aim_flows(Decoder *d, IrFlow *flows) {
  IrRegion *r = d->r;
  for (uint32_t i = 0; i < r->n_blocks; i++)
    for (int k = 0; k < r->blocks[i].n_succ; k++) {
      IrSucc *succ = &r->blocks[i].succ[k];
      IrFlow *f = &flows[2 * i + (uint32_t)k];
      f->succ = succ;
      if (succ->block < 0) continue;
      f->block = &r->blocks[succ->block];
      f->code = &r->code[d->at[f->block->first]];
      f->back = succ->block <= (int32_t)i;
    }
}

void ir_decode(IrRegion *r, const void *const *handlers) {
  uint32_t n = r->n_ops;
  Decoder *d = xcalloc(1, sizeof *d);
  d->r = r;
  static IrPlace *place; /* one thread translates at a time: the baton's holder */
  if (!place) place = ir_place_new(false);
  d->p = place;
  ir_place_begin(d->p, r);
  d->handlers = handlers;
  d->at = xcalloc(n, sizeof(uint32_t) + sizeof(uint16_t) + sizeof(bool));
  d->home = (uint16_t *)(d->at + n);
  d->needed = (bool *)(d->home + n);
  d->out = xcalloc(n, sizeof *d->out);
  IrFlow *flows = arena_new_array(r->arena, IrFlow, 2 * r->n_blocks);
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    const IrBlock *b = &r->blocks[i];
    ir_place_block(d->p, b);
    assign_slots(d, b);
    emit(d, b, &flows[2 * i]);
  }
  r->code = arena_new_array(r->arena, IrCode, d->n_out);
  memcpy(r->code, d->out, sizeof *d->out * d->n_out);
  for (uint32_t i = 0; i < r->n_blocks; i++) aim_guards(d, &r->blocks[i]);
  aim_flows(d, flows);
  free(d->out);
  free(d->at);
  free(d);
}
