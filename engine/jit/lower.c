/* Lowering: a region's operations -> host code. See jit.h for where things are.
 *
 * One forward pass over each block. ir/place.c has decided which values live in guest registers:
 * those in pins cost nothing. Other values get scratch registers as they come, and are put into
 * their slot of the state (IR_SCRATCH_AT) when registers run out: the one whose last use is
 * furthest goes first. Values of floating-point operations live in vector registers, which is
 * decided backwards from their readers.
 *
 * What is unlikely is put aside (Cold) and emitted behind the region: guard bodies, exits, NaNs,
 * conversions that saturate. */
#include "jit/lower.h"

#include <stdlib.h>

#include "ir/probes.h"

#define SCRATCH_GPR 0x0047u /* rax rcx rdx rsi */
#define SCRATCH_XMM 0x000f0000u
#define ROOM        (64u << 10) /* bytes that must be left for a region, at least */

Lower *jit_lower_new(Jit *j) {
  Lower *l = xcalloc(1, sizeof *l);
  l->j = j;
  l->p = j->place;
  l->reg = xcalloc(IR_MAX_OPS, sizeof *l->reg + 3 * sizeof(bool));
  l->saved = (bool *)(l->reg + IR_MAX_OPS);
  l->xmm = l->saved + IR_MAX_OPS;
  l->flags_live = l->xmm + IR_MAX_OPS;
  return l;
}

void jit_lower_free(Lower *l) {
  vec_free(&l->cold);
  vec_free(&l->jumps);
  vec_free(&l->points);
  free(l->reg);
  free(l);
}

/* ---- registers ------------------------------------------------------------------------------- */

const IrOp *low_op(const Lower *l, IrRef ref) { return &l->r->ops[ref]; }
bool low_is_imm(const Lower *l, IrRef ref) { return !ref || l->r->ops[ref].code == IR_imm; }
uint64_t low_imm(const Lower *l, IrRef ref) { return ref ? l->r->ops[ref].imm : 0; }
bool low_dies(const Lower *l, IrRef ref) { return l->p->last_use[ref] <= l->now; }

static X64Mem slot_of(IrRef ref) { return x64_gs(IR_SCRATCH_AT + 8u * ref); }

/* The pin that is the value's home, or X64_NONE. */
static uint8_t home_pin(const Lower *l, IrRef ref) {
  uint16_t home = l->p->home[ref];
  return home == IR_NO_HOME ? X64_NONE : l->j->pin_of[home];
}

/* The value is in the state: in its unpinned home register. */
static bool in_memory_home(const Lower *l, IrRef ref) {
  uint16_t home = l->p->home[ref];
  return home != IR_NO_HOME && l->j->pin_of[home] == X64_NONE;
}

static void store(Lower *l, unsigned reg, X64Mem m) {
  x64_rm(&l->x, reg < 16 ? X64_MOV_STORE : X64_MOVSD_STORE, reg & 15, m);
}
static void load(Lower *l, unsigned reg, X64Mem m) {
  x64_rm(&l->x, reg < 16 ? X64_MOV_LOAD : X64_MOVSD_LOAD, reg & 15, m);
}

static void evict(Lower *l, unsigned reg) {
  IrRef v = l->in_reg[reg];
  if (!v) return;
  if (l->p->last_use[v] >= l->now && !l->saved[v] && !in_memory_home(l, v)) {
    store(l, reg, slot_of(v));
    l->saved[v] = true;
  }
  l->in_reg[reg] = 0;
  l->reg[v] = X64_NONE;
}

static void forget_reg(Lower *l, unsigned reg) {
  if (l->in_reg[reg]) l->reg[l->in_reg[reg]] = X64_NONE;
  l->in_reg[reg] = 0;
}

/* A scratch register of the class, free and locked until the operation is done. */
unsigned low_temp(Lower *l, bool xmm) {
  unsigned best = X64_NONE, set = (xmm ? SCRATCH_XMM : SCRATCH_GPR) & ~l->locked;
  for (unsigned reg = 0; reg < 32; reg++) {
    if (!(set >> reg & 1)) continue;
    IrRef v = l->in_reg[reg];
    if (!v) {
      best = reg;
      break;
    }
    if (best == X64_NONE || l->p->last_use[v] > l->p->last_use[l->in_reg[best]]) best = reg;
  }
  if (best == X64_NONE) abort(); /* no operation needs more than there are */
  evict(l, best);
  low_lose(l, best);
  l->locked |= 1u << best;
  return best;
}

/* This very scratch register, free and locked. */
void low_take(Lower *l, unsigned reg) {
  evict(l, reg);
  low_lose(l, reg);
  l->locked |= 1u << reg;
}

void low_unlock(Lower *l, unsigned reg) { l->locked &= ~(1u << reg); }

/* Copies between any two registers. */
void low_move(Lower *l, unsigned to, unsigned from) {
  if (to == from) return;
  if (to < 16 && from < 16)
    x64_rr(&l->x, X64_MOV_LOAD, to, from);
  else if (to >= 16 && from >= 16)
    x64_rr(&l->x, X64_MOVAPS, to & 15, from & 15);
  else if (to >= 16)
    x64_rr(&l->x, X64_MOVQ_FROM_GPR, to & 15, from);
  else
    x64_rr(&l->x, X64_MOVQ_TO_GPR, from & 15, to);
}

bool low_is_single(const Lower *l, IrRef ref) {
  return ir_op_info[low_op(l, ref)->code].result == IR_F32;
}

/* Brings a value into the register; it stays where it was, too. */
void low_copy(Lower *l, unsigned to, IrRef ref) {
  unsigned from = home_pin(l, ref);
  if (from == X64_NONE) from = l->reg[ref];
  if (low_is_imm(l, ref)) {
    if (to < 16) {
      x64_mov_imm(&l->x, to, low_imm(l, ref));
    } else if (!low_imm(l, ref)) {
      x64_rr(&l->x, X64_XORPS, to & 15, to & 15);
    } else {
      unsigned t = low_temp(l, false);
      x64_mov_imm(&l->x, t, low_imm(l, ref));
      low_move(l, to, t);
      low_unlock(l, t);
    }
  } else if (from != X64_NONE && from >= 16 && to < 16 && low_is_single(l, ref)) {
    x64_rr(&l->x, X64_MOVQ_TO_GPR | X64_32, from & 15, to); /* the upper half means nothing */
  } else if (from != X64_NONE) {
    low_move(l, to, from);
  } else {
    X64Mem m = in_memory_home(l, ref) ? x64_gs(8u * l->p->home[ref]) : slot_of(ref);
    if (to < 16 && low_is_single(l, ref))
      x64_rm(&l->x, X64_MOV_LOAD | X64_32, to, m);
    else
      load(l, to, m);
  }
}

static bool reads_once(const Lower *l, IrRef ref) {
  IrRef use[3];
  int times = 0;
  for (int n = ir_operands(low_op(l, (IrRef)l->now), use); n-- > 0;) times += use[n] == ref;
  return times <= 1;
}

/* Brings a value into this very scratch register, to be changed there; locked. */
void low_fetch(Lower *l, unsigned reg, IrRef ref) {
  if (l->reg[ref] == reg && low_dies(l, ref) && reads_once(l, ref)) {
    l->locked |= 1u << reg;
    forget_reg(l, reg);
    return;
  }
  low_take(l, reg);
  low_copy(l, reg, ref);
  if (l->reg[ref] != X64_NONE && low_dies(l, ref) && reads_once(l, ref)) forget_reg(l, l->reg[ref]);
}

/* A register of the class that holds the value, locked. */
unsigned low_use(Lower *l, IrRef ref, bool xmm) {
  unsigned at = home_pin(l, ref);
  if (at == X64_NONE) at = l->reg[ref];
  if (at != X64_NONE && (at >= 16) == xmm && !low_is_imm(l, ref)) {
    l->locked |= 1u << at;
    return at;
  }
  unsigned reg = low_temp(l, xmm);
  low_copy(l, reg, ref);
  if (at == X64_NONE && !low_is_imm(l, ref) &&
      l->xmm[ref] == xmm) { /* later readers find it here */
    l->in_reg[reg] = ref;
    l->reg[ref] = (uint8_t)reg;
  }
  return reg;
}

unsigned low_gpr(Lower *l, IrRef ref) { return low_use(l, ref, false); }
unsigned low_xmm(Lower *l, IrRef ref) { return low_use(l, ref, true) & 15; }

/* The value may be read from memory: nothing has it in a register, and nothing will want it later.
 */
bool low_memory(const Lower *l, IrRef ref, X64Mem *m) {
  if (low_is_imm(l, ref) || home_pin(l, ref) != X64_NONE || l->reg[ref] != X64_NONE ||
      !low_dies(l, ref))
    return false;
  if (low_is_single(l, ref)) return false;
  *m = in_memory_home(l, ref) ? x64_gs(8u * l->p->home[ref]) : slot_of(ref);
  return true;
}

static void claim(Lower *l, unsigned reg, IrRef ref) {
  forget_reg(l, reg);
  l->in_reg[reg] = ref;
  l->reg[ref] = (uint8_t)reg;
  l->locked |= 1u << reg;
}

/* The register that the value `ref` is to be made in: its home, or the register of the operand
 * `hint` (0: none) if that is dying there, or a free one. */
unsigned low_def(Lower *l, IrRef ref, IrRef hint) {
  unsigned pin = home_pin(l, ref);
  bool xmm = l->xmm[ref];
  if (pin != X64_NONE && (pin >= 16) == xmm) return pin;
  unsigned reg = hint ? l->reg[hint] : X64_NONE;
  if (reg == X64_NONE || (reg >= 16) != xmm || !low_dies(l, hint) || home_pin(l, hint) != X64_NONE)
    reg = low_temp(l, xmm);
  claim(l, reg, ref);
  return reg;
}

unsigned low_where(const Lower *l, IrRef ref) {
  return l->reg[ref] != X64_NONE ? l->reg[ref] : home_pin(l, ref);
}

/* Copies a value that was made in reg to its home, if that is elsewhere. */
static void bring_home(Lower *l, IrRef ref, unsigned reg) {
  unsigned pin = home_pin(l, ref);
  if (pin == reg || l->p->home[ref] == IR_NO_HOME) return;
  if (reg >= 16 && low_is_single(l, ref)) { /* as an integer: zero-extended */
    unsigned t = low_temp(l, false);
    x64_rr(&l->x, X64_MOVQ_TO_GPR | X64_32, reg & 15, t);
    low_unlock(l, reg = t);
  }
  if (pin != X64_NONE)
    low_move(l, pin, reg);
  else
    store(l, reg, x64_gs(8u * l->p->home[ref]));
}

/* The value is in the register that low_def gave. */
void low_defined(Lower *l, IrRef ref) { bring_home(l, ref, low_where(l, ref)); }

/* The value is in this scratch register (rax after a call): moves it to where it belongs. */
void low_result(Lower *l, IrRef ref, unsigned from) {
  bring_home(l, ref, from);
  if (home_pin(l, ref) != X64_NONE) return;
  if (l->xmm[ref] != (from >= 16)) {
    unsigned to = low_temp(l, l->xmm[ref]);
    low_move(l, to, from);
    from = to;
  }
  claim(l, from, ref);
}

void low_release(Lower *l) {
  l->locked = 0;
  for (unsigned reg = 0; reg < LOW_SCRATCH; reg++)
    if (l->in_reg[reg] && l->p->last_use[l->in_reg[reg]] <= l->now) forget_reg(l, reg);
}

/* Scratch registers are about to be lost: values that are wanted later go to their slots. */
void low_spill_all(Lower *l) {
  for (unsigned reg = 0; reg < LOW_SCRATCH; reg++) {
    if (!l->in_reg[reg]) continue;
    if (l->p->last_use[l->in_reg[reg]] > l->now)
      evict(l, reg);
    else
      forget_reg(l, reg);
  }
}

/* ---- which values live in vector registers ------------------------------------------------------
 */

static bool is_bit_op(unsigned code) {
  return code == IR_and || code == IR_or || code == IR_xor || code == IR_andn;
}

static bool is_fp_slot(const Lower *l, uint64_t offset) {
  const IrConvention *c = &l->j->pins;
  return offset - c->fp_first < 8u * c->fp_count;
}

/* Operand n of the operation is read in a vector register, if the value is there. */
static bool reads_xmm(const Lower *l, const IrOp *op, IrRef value) {
  const IrOpInfo *info = &ir_op_info[op->code];
  if (op->code == IR_put) return is_fp_slot(l, op->imm);
  if (op->code == IR_box32 || op->code == IR_unbox32) return true;
  if (op->code == IR_st64 || op->code == IR_st32) return op->b == value && op->a != value;
  if (is_bit_op(op->code)) return l->xmm[op - l->r->ops];
  if (info->flags & IR_FPENV) {
    unsigned type = op->a == value ? info->a : op->b == value ? info->b : info->c;
    return type == IR_F32 || type == IR_F64;
  }
  return false;
}

static void classify(Lower *l, const IrBlock *b) {
  for (uint32_t k = b->first; k < b->end; k++) l->xmm[k] = true;
  for (uint32_t k = b->end; k-- > b->first;) {
    const IrOp *op = &l->r->ops[k];
    const IrOpInfo *info = &ir_op_info[op->code];
    bool may = info->result == IR_F32 || info->result == IR_F64 || op->code == IR_ld64 ||
               op->code == IR_ld32u || op->code == IR_box32 || is_bit_op(op->code) ||
               (op->code == IR_get && is_fp_slot(l, op->imm));
    bool must = (info->flags & IR_FPENV && info->result != IR_I64 && info->result != IR_I32) ||
                op->code == IR_box32 || op->code == IR_unbox32 ||
                (op->code == IR_get && is_fp_slot(l, op->imm));
    l->xmm[k] = must || (may && l->xmm[k] && l->p->uses[k]);
    IrRef use[3];
    for (int n = ir_operands(op, use); n-- > 0;)
      if (!reads_xmm(l, op, use[n])) l->xmm[use[n]] = false;
  }
}

void low_call_on_host(Lower *l, const uint8_t *stub) {
  const IrNativeState *native = l->j->native;
  X64Mem sp = x64_gs(native ? native->gpr + 8u * RSP : 0);
  if (native) {
    x64_rm(&l->x, X64_MOV_STORE, RSP, sp);
    x64_rm(&l->x, X64_MOV_LOAD, RSP, x64_gs(offsetof(IrState, jit.host_sp)));
  }
  x64_patch(x64_call(&l->x), jit_rw(l->j, stub));
  if (native) x64_rm(&l->x, X64_MOV_LOAD, RSP, sp);
}

/* ---- exits ----------------------------------------------------------------------------------- */

uint32_t low_site(Lower *l, JitSite site) {
  site.from = l->jr;
  site.block = l->block;
  vec_push(&l->j->sites, site);
  return (uint32_t)(l->j->sites.n - 1);
}

uint8_t *low_rx(const Lower *l, const uint8_t *rw) { return l->j->rx + (rw - l->j->rw); }

/* Emits the stub of a site; returns its writable address. */
static uint8_t *site_stub(Lower *l, uint32_t site) {
  uint8_t *at = l->x.at;
  if (l->j->native)
    x64_mi(&l->x, X64_MOV_I | X64_32, 0, x64_gs(offsetof(IrState, jit.site)), (int32_t)site);
  else
    x64_mov_imm(&l->x, RAX, site);
  x64_patch(x64_jmp(&l->x), jit_rw(l->j, l->j->leave));
  l->j->sites.at[site].stub = low_rx(l, at);
  return at;
}

void low_put_aside(Lower *l, LowCold c) {
  c.block = l->block;
  c.insn = l->insn;
  c.window = l->window;
  vec_push(&l->cold, c);
}

/* The jump whose rel32 is at `jump` leaves as the site says. */
void low_exit(Lower *l, uint8_t *jump, JitSite site) {
  low_put_aside(l, (LowCold){.kind = COLD_EXIT, .jump = jump, .site = low_site(l, site)});
}

void low_point(Lower *l) {
  JitPoint p = {.offset = (uint32_t)(l->x.at - l->start),
                .insn = l->insn,
                .block = l->block,
                .lost = l->window.lost,
                .flags_saved = l->window.flags_saved};
  vec_push(&l->points, p);
}

/* What was emitted since the last point may fault for reasons of ours: then it is as if it had come
 * to here. */
void low_resume_here(Lower *l) { vec_last(&l->points).resume = (uint32_t)(l->x.at - l->start); }

/* The way succ out of the current block, taken by the jump at `jump`. */
void low_flow(Lower *l, uint8_t *jump, IrSucc *succ) {
  if (succ->block < 0) {
    succ->site = low_site(
        l, (JitSite){.kind = IR_EXIT_NEXT, .succ = succ, .pc = succ->pc, .jump = low_rx(l, jump)});
    low_put_aside(l, (LowCold){.kind = COLD_EXIT, .jump = jump, .site = succ->site});
    return;
  }
  LowJump to = {.jump = jump, .block = (uint16_t)succ->block};
  if (succ->block <= (int)l->block) { /* every loop has such an edge: it can be interrupted */
    to.site =
        low_site(l, (JitSite){.kind = IR_EXIT_INTERRUPT, .pc = succ->pc, .jump = low_rx(l, jump)});
    low_put_aside(l, (LowCold){.kind = COLD_BACK_EDGE, .site = to.site});
  }
  vec_push(&l->jumps, to);
}

bool low_falls_through(const Lower *l, const IrSucc *succ) {
  return succ->block == (int)l->block + 1;
}

static void lower_br(Lower *l, const IrOp *op, IrBlock *b) {
  X64Cond cc = low_condition(l, op->a);
  if (low_falls_through(l, &b->succ[0])) {
    low_flow(l, x64_jcc(&l->x, cc ^ 1), &b->succ[1]);
    return;
  }
  low_flow(l, x64_jcc(&l->x, cc), &b->succ[0]);
  if (!low_falls_through(l, &b->succ[1])) low_flow(l, x64_jmp(&l->x), &b->succ[1]);
}

static void lower_jump_ind(Lower *l, const IrOp *op) {
  bool even =
      l->p->lazy[op->a]; /* the low bit is to be cleared: an odd target just misses the table */
  low_fetch(l, RAX, even ? low_op(l, op->a)->a : op->a);
  low_take(l, RCX);
  x64_rr(&l->x, X64_MOV_LOAD | X64_32, RCX, RAX);
  x64_ri(&l->x, X64_ALU_I | X64_32, ALU_AND, RCX, (IR_N_TARGETS - 1) << 1);
  X64Mem entry = {.base = X64_NONE, .index = RCX, .scale = 3, .gs = true, .disp = IR_TARGETS_AT};
  x64_rm(&l->x, X64_CMP, RAX, entry);
  x64_patch(x64_jcc(&l->x, CC_NE), jit_rw(l->j, even ? l->j->indirect_even : l->j->indirect));
  entry.disp += (int32_t)offsetof(IrTarget, code);
  x64_rm(&l->x, X64_GROUP5 | X64_32, 4, entry);
}

static void lower_trap(Lower *l, const IrOp *op, IrBlock *b) {
  if (op->a == IR_TRAP_NEXT) {
    low_flow(l, x64_jmp(&l->x), &b->succ[0]);
    return;
  }
  bool here = op->a == IR_TRAP_BREAKPOINT || op->a == IR_TRAP_ILLEGAL;
  uint64_t pc = here ? l->r->insns[l->insn].pc : b->succ[0].pc;
  low_exit(l, x64_jmp(&l->x), (JitSite){.kind = IR_EXIT_TRAP, .detail = op->a, .pc = pc});
}

static void lower_end(Lower *l, const IrOp *op, IrBlock *b) {
  switch (op->code) {
  case IR_br: lower_br(l, op, b); break;
  case IR_jump:
    if (!low_falls_through(l, &b->succ[0])) low_flow(l, x64_jmp(&l->x), &b->succ[0]);
    break;
  case IR_jump_ind: lower_jump_ind(l, op); break;
  case IR_native_br:
  case IR_native_jump: low_native_end(l, op, b); break;
  default: lower_trap(l, op, b); break;
  }
}

/* ---- guards ---------------------------------------------------------------------------------- */

static void snapshot(const Lower *l, LowSnapshot *s) {
  for (int i = 0; i < LOW_SCRATCH; i++) {
    s->in_reg[i] = l->in_reg[i];
    s->saved[i] = l->in_reg[i] && l->saved[l->in_reg[i]];
  }
}

static void restore(Lower *l, const LowSnapshot *s) {
  for (unsigned i = 0; i < LOW_SCRATCH; i++) forget_reg(l, i);
  for (unsigned i = 0; i < LOW_SCRATCH; i++) {
    IrRef v = s->in_reg[i];
    l->in_reg[i] = v;
    if (v) l->reg[v] = (uint8_t)i, l->saved[v] = s->saved[i];
  }
}

void low_put_guard_aside(Lower *l, LowCold c) {
  c.snapshot = arena_new_array(l->r->arena, LowSnapshot, 1);
  snapshot(l, c.snapshot);
  low_put_aside(l, c);
}

/* The body of the guard at k is put aside; returns the operation behind it. */
static uint32_t lower_guard(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  X64Cond cc = low_condition(l, op->a);
  low_release(l);
  LowCold c = {.kind = COLD_GUARD, .jump = x64_jcc(&l->x, cc), .k = k};
  c.back = l->x.at;
  low_put_guard_aside(l, c);
  return k + (uint32_t)op->imm + 1;
}

/* The same for a plane test at k and the guard on it behind. */
static uint32_t lower_plane_guard(Lower *l, uint32_t k) {
  LowCold c = low_plane_test(l, k);
  l->now = k + 1;
  low_release(l);
  c.k = k + 1;
  low_put_guard_aside(l, c);
  return k + 2 + (uint32_t)low_op(l, (IrRef)(k + 1))->imm;
}

static void cold_guard(Lower *l, const LowCold *c) {
  if (c->kind == COLD_PLANE) low_cold_plane(l, c);
  restore(l, c->snapshot);
  if (c->kind == COLD_NATIVE_PLANE) low_cold_native_plane(l, c);
  uint32_t end = c->k + 1 + (uint32_t)low_op(l, (IrRef)c->k)->imm;
  for (uint32_t k = c->k + 1; k < end;) k = low_operation(l, k);
  low_window_restore(l, l->window.lost & ~c->window.lost, false);
  for (unsigned i = 0; i < LOW_SCRATCH; i++) {
    IrRef v = c->snapshot->in_reg[i];
    if (!v || l->in_reg[i] == v || l->p->last_use[v] <= c->k) continue;
    if (l->in_reg[i]) forget_reg(l, i);
    load(l, i, in_memory_home(l, v) ? x64_gs(8u * l->p->home[v]) : slot_of(v));
  }
  x64_patch(x64_jmp(&l->x), c->back);
}

/* ---- the whole ------------------------------------------------------------------------------- */

uint32_t low_operation(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  l->now = k;
  if (op->code == IR_insn) l->insn = op->a;
  if (l->j->native) {
    low_window_at(l, k);
    uint32_t next = op->code == IR_ea ? low_native_plane(l, k) : 0;
    if (next) return next;
    if (low_native(l, k)) return k + 1;
  }
  if (op->code == IR_guard) return lower_guard(l, k);
  if (low_is_plane_guard(l, k)) return lower_plane_guard(l, k);
  uint32_t next = k + 1;
  if (ir_op_info[op->code].flags & IR_TERM)
    lower_end(l, op, &l->r->blocks[l->block]);
  else
    next = low_body(l, k);
  l->now = next - 1;
  low_release(l);
  return next;
}

static void lower_block(Lower *l, IrBlock *b) {
  ir_place_block(l->p, b);
  for (uint32_t k = b->first; k < b->end; k++) {
    l->reg[k] = X64_NONE;
    l->saved[k] = false;
  }
  classify(l, b);
  for (unsigned i = 0; i < LOW_SCRATCH; i++) l->in_reg[i] = 0;
  l->locked = 0;
  l->insn = b->first_insn;
  l->valid = 0;
  l->inline_rounding = false;
  l->now = b->first;
  low_block_begin(l, b);
  for (uint32_t k = b->first; k < b->end;) k = low_operation(l, k);
  for (unsigned i = 0; i < LOW_SCRATCH; i++) forget_reg(l, i);
}

static void fault_address(Lower *l, const LowCold *c) {
  unsigned reg = c->a;
  if (reg == X64_NONE) x64_mov_imm(&l->x, reg = RAX, low_imm(l, low_op(l, (IrRef)c->k)->c));
  x64_rm(&l->x, X64_MOV_STORE, reg, x64_gs(offsetof(IrState, jit.fault_address)));
}

static void lower_cold(Lower *l) {
  for (size_t i = 0; i < l->cold.n; i++) { /* bodies of guards add to it */
    LowCold c = l->cold.at[i];
    l->block = c.block;
    l->insn = c.insn;
    l->window = c.window;
    if (c.jump) x64_patch(c.jump, l->x.at);
    switch (c.kind) {
    case COLD_EXIT: {
      low_window_restore(l, c.window.lost, c.window.flags_saved);
      uint8_t *stub = site_stub(l, c.site);
      JitSite *s = &l->j->sites.at[c.site];
      s->target = low_rx(l, stub);
      break;
    }
    case COLD_BACK_EDGE: site_stub(l, c.site); break;
    case COLD_GUARD:
    case COLD_PLANE:
    case COLD_NATIVE_PLANE: cold_guard(l, &c); break;
    case COLD_FAULT:
      fault_address(l, &c);
      low_window_restore(l, c.window.lost, c.window.flags_saved);
      site_stub(l, c.site);
      break;
    case COLD_BUDGET:
      x64_mi(&l->x, X64_ALU_I, ALU_ADD, x64_gs(offsetof(IrState, budget)),
             low_op(l, (IrRef)c.k)->a);
      low_window_restore(l, c.window.lost, c.window.flags_saved);
      site_stub(l, c.site);
      break;
    case COLD_DIVIDE: low_cold_divide(l, &c); break;
    default: low_cold(l, &c); break;
    }
  }
}

static void aim_jumps(Lower *l) {
  for (size_t i = 0; i < l->jumps.n; i++) {
    const LowJump *to = &l->jumps.at[i];
    x64_patch(to->jump, l->start + l->block_at[to->block]);
    if (to->site) l->j->sites.at[to->site].target = low_rx(l, l->start + l->block_at[to->block]);
  }
}

bool jit_lower(Jit *j, JitRegion *jr) {
  Lower *l = j->lower;
  IrRegion *r = jr->region;
  size_t start = (j->used + 15) & ~15ul;
  if (j->size - start < ROOM) return false;
  l->r = r;
  l->jr = jr;
  l->start = j->rw + start;
  l->x = (X64){.at = l->start, .base = j->rw, .end = j->rw + j->size};
  l->cold.n = l->jumps.n = l->points.n = 0;
  jr->start = j->rx + start;
  jr->first_site = (uint32_t)j->sites.n;
  l->window = (LowWindow){.open = false};
  ir_place_begin(l->p, r);
  if (j->native) {
    low_native_flags(l);
    low_native_entry(l);
  }
  jr->entry = low_rx(l, l->x.at);
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    l->block = (uint16_t)i;
    l->block_at[i] = (uint32_t)(l->x.at - l->start);
    lower_block(l, &r->blocks[i]);
  }
  jr->hot = (uint32_t)(l->x.at - l->start);
  lower_cold(l);
  l->block = 0;
  uint32_t dead = low_site(l, (JitSite){.kind = IR_EXIT_NEXT, .pc = r->pc});
  j->sites.at[dead].from = NULL;
  jr->gone = low_rx(l, site_stub(l, dead));
  aim_jumps(l);
  jr->n_sites = (uint32_t)j->sites.n - jr->first_site;
  if (l->x.full || (size_t)(l->x.end - l->x.at) < 64) {
    j->sites.n = jr->first_site;
    return false;
  }
  jr->size = (uint32_t)(l->x.at - l->start);
  j->used = (size_t)(l->x.at - j->rw);
  jr->n_points = (uint32_t)l->points.n;
  jr->points = arena_new_array(r->arena, JitPoint, l->points.n + 1);
  if (l->points.n) memcpy(jr->points, l->points.at, sizeof(JitPoint) * l->points.n);
  return true;
}
