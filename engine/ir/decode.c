/* Region -> threaded code (decode.h). Three passes over each block, all linear:
 *
 *   look_back   backwards: the last use of each value, and the `limit` of each register access:
 * before which operation the register keeps what it holds there place       forwards: in which slot
 * each value lives emit        forwards: one IrCode per operation that is still to be executed
 *
 * Time is an operation's index; an operation reads its operands before it writes its result. A
 * *barrier* is an operation at which the guest registers must be exact: it may fault, leave, call
 * out, or touch state on its own. Three placements save work:
 *
 *   get  lives in the register itself   if the register is not written before the value's last use;
 *   put  makes its value's definition write the register (so that put itself does nothing)
 *                                       if no barrier, get or put of that register lies between the
 * two, and the value is not used after the register's next write; imm  lives nowhere if all its
 * readers take an immediate (or it is 0, which has a slot).
 */
#include "ir/decode.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_VALUES (IR_SCRATCH_AT / 8)
#define SLOT_ZERO   SLOT_VALUES /* always 0; reference 0 reads it */
#define NOT_YET     UINT32_MAX
#define NO_HOME     UINT16_MAX

typedef struct Decoder {
  IrRegion *r;
  const void *const *handlers;
  IrCode *out;
  uint32_t n_out;
  uint32_t *last_use; /* of a value: operation; 0: none */
  uint32_t *limit;    /* of a get or put */
  uint32_t *barrier;  /* the last barrier before this operation */
  uint32_t *at;       /* index in out of the operation's code */
  uint16_t *home;     /* slot of a value */
  uint16_t *uses;     /* how many */
  bool *needed;       /* imm: must be in a slot */
  uint32_t next_write[SLOT_VALUES], last_touch[SLOT_VALUES]; /* of a register */
} Decoder;

static bool takes_imm(const IrOp *op) {
  return ir_has_imm(op->code) && ir_op_info[op->code].b != IR_NONE;
}

static bool is_barrier(const IrOp *op) {
  const IrOpInfo *info = &ir_op_info[op->code];
  if (op->code == IR_put || op->code == IR_insn) return false;
  return info->flags & (IR_LOADS | IR_STORES | IR_FPENV | IR_SIDE | IR_TERM);
}

/* Code behind the operation may change any guest register. */
static bool calls_out(const IrOp *op) {
  return op->code == IR_call || op->code == IR_callout || op->code == IR_ring_open;
}

static uint16_t reg_slot(const IrOp *op) { return (uint16_t)(op->imm / 8); }

static int operands(const IrOp *op, IrRef out[3]) {
  const IrOpInfo *info = &ir_op_info[op->code];
  int n = 0;
  if (info->a != IR_NONE && info->a != IR_RAW) out[n++] = op->a;
  if (info->b != IR_NONE && info->b != IR_RAW) out[n++] = op->b;
  if (info->c != IR_NONE && info->c != IR_RAW) out[n++] = op->c;
  return n;
}

static uint32_t min32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* put at k could be done by the definition of its value, as far as barriers are concerned. */
static bool may_move(const Decoder *d, const IrBlock *b, uint32_t k) {
  uint32_t def = d->r->ops[k].a;
  const IrOp *op = &d->r->ops[def];
  if (def < b->first || op->code == IR_get || op->code == IR_imm) return false;
  return d->barrier[k] <= def;
}

static void look_back(Decoder *d, const IrBlock *b) {
  const IrOp *ops = d->r->ops;
  uint32_t last = 0;
  for (uint32_t k = b->first; k < b->end; k++) {
    d->barrier[k] = last;
    if (is_barrier(&ops[k])) last = k;
  }
  uint32_t calls = NOT_YET; /* next operation that may write any register */
  for (uint32_t k = b->end; k-- > b->first;) {
    const IrOp *op = &ops[k];
    IrRef use[3];
    for (int n = operands(op, use); n-- > 0;) {
      if (!d->last_use[use[n]]) d->last_use[use[n]] = k;
      d->uses[use[n]]++;
    }
    if (calls_out(op)) calls = k;
    if (ir_op_info[op->code].flags & IR_FPENV) d->next_write[offsetof(IrState, fp_flags) / 8] = k;
    if (op->code != IR_get && op->code != IR_put) continue;
    uint32_t *next = &d->next_write[reg_slot(op)];
    d->limit[k] = min32(*next, calls);
    if (op->code == IR_put)
      *next = may_move(d, b, k) ? op->a : k; /* the earliest time that place could choose */
  }
}

static void place_put(Decoder *d, const IrBlock *b, uint32_t k) {
  const IrOp *op = &d->r->ops[k];
  uint32_t def = op->a, *touch = &d->last_touch[reg_slot(op)];
  if (may_move(d, b, k) && *touch <= def && d->home[def] == NO_HOME &&
      d->last_use[def] <= d->limit[k]) {
    d->home[def] = reg_slot(op);
    d->at[k] = NOT_YET; /* nothing to execute */
  }
  *touch = k;
}

static void place(Decoder *d, const IrBlock *b) {
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &d->r->ops[k];
    d->home[k] = NO_HOME;
    if (op->code == IR_get) {
      if (d->last_use[k] <= d->limit[k]) d->home[k] = reg_slot(op);
      d->last_touch[reg_slot(op)] = k;
    } else if (op->code == IR_put) {
      place_put(d, b, k);
    }
  }
  uint16_t slot = SLOT_ZERO + 1;
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &d->r->ops[k];
    if (op->code == IR_imm && op->imm == 0) d->home[k] = SLOT_ZERO;
    if (ir_op_info[op->code].result != IR_NONE && d->home[k] == NO_HOME) d->home[k] = slot++;
    IrRef use[3];
    int n = operands(op, use);
    if (op->code == IR_put || takes_imm(op)) n--; /* the last operand may be an immediate */
    while (n-- > 0) d->needed[use[n]] = true;
  }
}

/* The register tables are cleaned for the next block. */
static void forget(Decoder *d, const IrBlock *b) {
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &d->r->ops[k];
    if (op->code != IR_get && op->code != IR_put) continue;
    d->next_write[reg_slot(op)] = NOT_YET;
    d->last_touch[reg_slot(op)] = 0;
  }
  d->next_write[offsetof(IrState, fp_flags) / 8] = NOT_YET;
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
  if (op->code == IR_put) return d->at[k] == NOT_YET;
  if (op->code == IR_get) return !d->uses[k] || d->home[k] < SLOT_VALUES;
  if (op->code == IR_imm) return !d->needed[k] || !op->imm;
  return flags & IR_PURE && !d->uses[k];
}

/* The operation at k and the one that made its operand a become one code, if nothing else reads
 * that value and no code is between them. */
static bool fuse(Decoder *d, const IrBlock *b, uint32_t k) {
  const IrOp *op = &d->r->ops[k], *from = &d->r->ops[op->a];
  bool sext = op->code == IR_sext32 && ir_has_sext(from->code);
  bool branch = op->code == IR_br && ir_is_comparison(from->code);
  if (!sext && !branch) return false;
  if (op->a < b->first || d->uses[op->a] != 1 || d->at[op->a] + 1 != d->n_out) return false;
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
    c->d = reg_slot(op);
    c->imm = value->imm;
  } else {
    emit_plain(d, k);
    d->out[d->n_out - 1].d = reg_slot(op);
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
  char *tables = xcalloc(n, 4 * sizeof(uint32_t) + 2 * sizeof(uint16_t) + sizeof(bool));
  d->r = r;
  d->handlers = handlers;
  d->last_use = (uint32_t *)tables;
  d->limit = d->last_use + n;
  d->barrier = d->limit + n;
  d->at = d->barrier + n;
  d->home = (uint16_t *)(d->at + n);
  d->uses = d->home + n;
  d->needed = (bool *)(d->uses + n);
  memset(d->next_write, 0xff, sizeof d->next_write);
  d->out = xcalloc(n, sizeof *d->out);
  IrFlow *flows = arena_new_array(r->arena, IrFlow, 2 * r->n_blocks);
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    const IrBlock *b = &r->blocks[i];
    look_back(d, b);
    place(d, b);
    emit(d, b, &flows[2 * i]);
    forget(d, b);
  }
  r->code = arena_new_array(r->arena, IrCode, d->n_out);
  memcpy(r->code, d->out, sizeof *d->out * d->n_out);
  for (uint32_t i = 0; i < r->n_blocks; i++) aim_guards(d, &r->blocks[i]);
  aim_flows(d, flows);
  free(d->out);
  free(tables);
  free(d);
}
