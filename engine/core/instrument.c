/* The instrumentation pass: rewrites a region with the operations of all probes woven in. See
 * probe.h. */
#include <stdlib.h>
#include <string.h>

#include "core/hooks.h"
#include "core/probe.h"
#include "core/run.h"
#include "ir/native.h"

struct CoreWeaver {
  Emu *emu;
  IrRegion *r;
  IrOp *ops; /* the new operations, IR_MAX_OPS long */
  uint32_t n;
  IrRef *renamed; /* old reference -> new */
  bool
      stops; /* some probe may ask for a stop once an instruction is done: at its block's end, that is
                 the next block's beginning. Before instructions and blocks, it is right there. */
};

IrRef core_emit(CoreWeaver *w, IrOpcode code, IrRef a, IrRef b, IrRef c, uint64_t imm) {
  if (w->n >= IR_MAX_OPS) abort(); /* translate.c keeps regions far below */
  w->ops[w->n] = (IrOp){.code = code, .a = a, .b = b, .c = c, .imm = imm};
  return (IrRef)w->n++;
}

IrRef core_emit_imm(CoreWeaver *w, uint64_t value) { return core_emit(w, IR_imm, 0, 0, 0, value); }
void *core_weaver_alloc(CoreWeaver *w, size_t size) { return arena_alloc(w->r->arena, size); }

uint32_t core_guard_begin(CoreWeaver *w, IrRef cond) {
  return cond ? core_emit(w, IR_guard, cond, 0, 0, 0) : 0;
}
void core_guard_end(CoreWeaver *w, uint32_t guard) {
  if (guard) w->ops[guard].imm = w->n - guard - 1;
}

/* ---- filters --------------------------------------------------------------------------------- */

static bool in_range(uint64_t x, uint64_t start, uint64_t len) { return !len || x - start < len; }

uint32_t core_event_sites(KitEventKind e) {
  switch (e) {
  case KIT_EV_EXEC: return 1u << SITE_EXEC;
  case KIT_EV_INSN: return 1u << SITE_RETIRE;
  case KIT_EV_BLOCK: return 1u << SITE_BLOCK;
  case KIT_EV_BRANCH:
  case KIT_EV_CALL:
  case KIT_EV_RET:
  case KIT_EV_JUMP:
  case KIT_EV_COND: return 1u << SITE_BRANCH;
  case KIT_EV_LOAD:
  case KIT_EV_STORE:
  case KIT_EV_ACCESS: return 1u << SITE_ACCESS;
  default: return 0;
  }
}

bool core_event_site(KitEventKind e, const CoreSite *s) {
  if (!(core_event_sites(e) >> s->kind & 1)) return false;
  switch (e) {
  case KIT_EV_LOAD: return s->is_read;
  case KIT_EV_STORE: return s->is_write;
  case KIT_EV_CALL: return s->insn->branch == IR_BR_CALL;
  case KIT_EV_RET: return s->insn->branch == IR_BR_RET;
  case KIT_EV_JUMP: return s->insn->branch == IR_BR_JUMP;
  case KIT_EV_COND: return s->insn->branch == IR_BR_COND;
  default: return true;
  }
}

bool core_filter_site(const KitFilter *f, const CoreSite *s) {
  if (!in_range(s->pc, f->pc, f->pc_len) || !in_range(s->pc, f->from, f->from_len)) return false;
  if (s->kind == SITE_ACCESS && f->size_min && s->size < f->size_min) return false;
  if (s->kind == SITE_ACCESS && f->size_max && s->size > f->size_max) return false;
  if (s->kind == SITE_BRANCH && f->to_len && s->insn->target && !s->taken)
    return in_range(s->insn->target, f->to, f->to_len);
  return true;
}

static IrRef both(CoreWeaver *w, IrRef a, IrRef b) {
  return a ? core_emit(w, IR_and, a, b, 0, 0) : b;
}

static IrRef emit_range(CoreWeaver *w, IrRef x, uint64_t start, uint64_t len) {
  IrRef off = core_emit(w, IR_add, x, core_emit_imm(w, 0 - start), 0, 0);
  return core_emit(w, IR_ltu, off, core_emit_imm(w, len), 0, 0);
}

IrRef core_emit_filter(CoreWeaver *w, const KitFilter *f, const CoreSite *s, IrNth *nth) {
  IrRef cond = 0;
  if (s->kind == SITE_ACCESS && f->addr_len) /* overlap of [addr, addr+size) with the range */
    cond =
        both(w, cond, emit_range(w, s->addr, f->addr - (s->size - 1), f->addr_len + s->size - 1));
  if (s->kind == SITE_BRANCH && f->to_len && (!s->insn->target || s->taken))
    cond = both(w, cond, emit_range(w, s->to, f->to, f->to_len));
  if (f->tid) {
    IrRef tid = core_emit(w, IR_get, 0, 0, 0, offsetof(IrState, tid));
    cond = both(w, cond, core_emit(w, IR_eq, tid, core_emit_imm(w, (uint64_t)f->tid), 0, 0));
  }
  if (f->every > 1)
    cond = core_emit(w, IR_nth, cond ? cond : core_emit_imm(w, 1), 0, 0, (uint64_t)(uintptr_t)nth);
  return cond;
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool offer(CoreWeaver *w, const CoreSite *site) {
  bool stops = false;
  for (CoreProbe *p = w->emu->hooks->probes; p; p = p->next) {
    if (!(p->sites >> site->kind & 1) || (p->wants && !p->wants(p, site))) continue;
    p->emit(p, w, site);
    stops |= p->may_stop;
  }
  return stops;
}

/* Some probe will want the site. What a native operation's site needs is not free: no value of it
 * is made before that is known. */
static bool wanted(const CoreWeaver *w, const CoreSite *site) {
  for (const CoreProbe *p = w->emu->hooks->probes; p; p = p->next)
    if (p->sites >> site->kind & 1 && (!p->wants || p->wants((CoreProbe *)p, site))) return true;
  return false;
}

static void stop_point(CoreWeaver *w, uint64_t pc) { core_emit(w, IR_stop_if_asked, 0, 0, 0, pc); }

static CoreSite site_of(CoreWeaver *w, CoreSiteKind kind, const IrBlock *b, const IrInsn *i) {
  return (CoreSite){.kind = kind, .region = w->r, .block = b, .insn = i, .pc = i ? i->pc : b->pc};
}

static bool is_sp(const CoreWeaver *w, const IrOp *ops, IrRef a) {
  const GuestAbi *abi = &w->emu->guest->abi;
  return ops[a].code == IR_get && ops[a].imm == w->emu->guest->regs[abi->sp].offset;
}

/* What is known of the address A + IMM of an operation. */
static void known_address(const CoreWeaver *w, const IrOp *op, CoreSite *s) {
  const IrOp *ops = w->r->ops, *a = &ops[op->a];
  int64_t off = (int64_t)op->imm;
  s->by_sp = off >= 0 && is_sp(w, ops, op->a);
  if (a->code == IR_imm) s->address = a->imm + op->imm;
}

static bool weave_access(CoreWeaver *w, const IrBlock *b, const IrInsn *i, const IrOp *op) {
  if (!(w->emu->hooks->sites >> SITE_ACCESS & 1)) return false;
  const IrOpInfo *info = &ir_op_info[op->code];
  CoreSite s = site_of(w, SITE_ACCESS, b, i);
  s.size = info->size;
  s.is_read = info->flags & IR_LOADS;
  s.is_write = info->flags & IR_STORES;
  s.value = s.is_write ? w->renamed[op->b] : 0;
  known_address(w, op, &s);
  s.addr = w->renamed[op->a];
  if (op->imm) s.addr = core_emit(w, IR_add, s.addr, core_emit_imm(w, op->imm), 0, 0);
  return offer(w, &s);
}

/* ---- native operations ---- */

static uint64_t record(const IrNative *n) { return (uint64_t)(uintptr_t)n; }

/* A value that is 0 if no probe minds what lies where the elements are; 0: cannot be said. */
static IrRef near_elements(CoreWeaver *w, const CoreSite *s, const IrNative *n) {
  IrRef addr = 0, any = 0;
  for (CoreProbe *p = w->emu->hooks->probes; p; p = p->next) {
    if (!(p->sites >> s->kind & 1) || (p->wants && !p->wants(p, s))) continue;
    if (!n->span || !p->near) return 0;
    if (!addr) addr = core_emit(w, IR_ea, 0, 0, 0, record(n));
    IrRef near = p->near(p, w, addr, n->span);
    any = any ? core_emit(w, IR_or, any, near, 0, 0) : near;
  }
  return any;
}

/* The accesses of an instruction whose vector registers say which there are. */
static bool weave_elements(CoreWeaver *w, CoreSite *s, const IrNative *n) {
  bool stops = false;
  uint32_t near = core_guard_begin(w, near_elements(w, s, n));
  for (unsigned i = 0; i < n->n_elements; i++) {
    s->addr = core_emit(w, IR_element, (IrRef)i, 0, 0, record(n));
    IrRef none = core_emit_imm(w, IR_NO_ELEMENT);
    uint32_t g = core_guard_begin(w, core_emit(w, IR_ne, s->addr, none, 0, 0));
    stops |= offer(w, s);
    core_guard_end(w, g);
  }
  core_guard_end(w, near);
  return stops;
}

static void describe_access(const CoreWeaver *w, const IrNative *n, const IrAccess *a,
                            CoreSite *s) {
  const GuestAbi *abi = &w->emu->guest->abi;
  s->size = a->size;
  s->is_read = a->is_read;
  s->is_write = a->is_write;
  if (n->element || a->base_slot || a->index >= 0) return;
  s->by_sp = a->base == abi->sp && a->disp >= -(int64_t)abi->red_zone;
  if (a->base < 0) s->address = (uint64_t)a->disp;
}

static bool weave_native_accesses(CoreWeaver *w, const IrBlock *b, const IrInsn *i,
                                  const IrNative *n) {
  bool stops = false;
  for (unsigned k = 0; k < n->n_accesses; k++) {
    const IrAccess *a = &n->accesses[k];
    CoreSite s = site_of(w, SITE_ACCESS, b, i);
    describe_access(w, n, a, &s);
    if (!wanted(w, &s)) continue;
    if (n->element && !k) {
      stops |= weave_elements(w, &s, n);
      continue;
    }
    s.addr = core_emit(w, IR_ea, (IrRef)k, 0, 0, record(n));
    stops |= offer(w, &s);
  }
  return stops;
}

static bool wants_accesses(CoreWeaver *w, const IrBlock *b, const IrInsn *i, const IrNative *n) {
  for (unsigned k = 0; k < n->n_accesses; k++) {
    const IrAccess *a = &n->accesses[k];
    CoreSite s = site_of(w, SITE_ACCESS, b, i);
    describe_access(w, n, a, &s);
    if (wanted(w, &s)) return true;
  }
  return false;
}

/* A repeated string instruction. Each iteration counts, as it does for a debugger that steps. */
static bool weave_repeated(CoreWeaver *w, const IrBlock *b, const IrInsn *i, const IrNative *n) {
  bool stops = false;
  CoreSite s = site_of(w, SITE_REPEAT, b, i);
  bool counting = w->emu->opt.count_insns || wanted(w, &s);
  if (counting) core_emit(w, IR_repeat_from, 0, 0, 0, record(n));
  if (wants_accesses(w, b, i, n)) {
    core_emit(w, IR_repeat, 0, 0, 0, record(n));
    stops = weave_native_accesses(w, b, i, n);
    core_emit(w, IR_native_once, 0, 0, 0, record(n));
    core_emit(w, IR_repeat_end, 0, 0, 0, record(n));
  } else {
    core_emit(w, IR_native, 0, 0, 0, record(n));
  }
  if (!counting) return stops;
  s.extra = core_emit(w, IR_repeated, 0, 0, 0, record(n));
  if (w->emu->opt.count_insns) core_emit(w, IR_count_add, s.extra, 0, 0, 0);
  offer(w, &s);
  return stops;
}

/* Where a native branch goes, and whether. */
static void native_branch(CoreWeaver *w, const IrBlock *b, const IrOp *op, CoreSite *s) {
  const IrNative *n = ir_native_of(op);
  s->pops = n->pops;
  if (op->code == IR_native_br) {
    s->taken = core_emit(w, IR_taken, 0, 0, 0, record(n));
    s->to = core_emit(w, IR_select, s->taken, core_emit_imm(w, b->succ[0].pc),
                      core_emit_imm(w, b->succ[1].pc), 0);
  } else {
    s->to = core_emit(w, IR_target, 0, 0, 0, record(n));
  }
}

/* Branch and retirement of the block's last instruction, before its terminator transfers control.
 */
static void weave_end(CoreWeaver *w, const IrBlock *b, const IrInsn *i, const IrOp *op) {
  bool traps = op->code == IR_trap && (op->a == IR_TRAP_ILLEGAL || op->a == IR_TRAP_BREAKPOINT);
  if (!i || traps) return;
  if (w->emu->hooks->sites >> SITE_BRANCH & 1 && i->branch >= IR_BR_JUMP &&
      i->branch <= IR_BR_RET) {
    CoreSite s = site_of(w, SITE_BRANCH, b, i);
    if (ir_is_native(op->code)) {
      if (wanted(w, &s)) native_branch(w, b, op, &s);
    } else if (op->code == IR_jump_ind)
      s.to = w->renamed[op->a];
    else
      s.to = core_emit_imm(w, b->succ[0].pc);
    if (op->code == IR_br) {
      s.taken = w->renamed[op->a];
      s.to = core_emit(w, IR_select, s.taken, s.to, core_emit_imm(w, b->succ[1].pc), 0);
    }
    if (s.to) offer(w, &s);
  }
  CoreSite s = site_of(w, SITE_RETIRE, b, i);
  offer(w, &s);
}

/* Lifted code may have the count in a register: always in the first slot's place. */
static uint64_t retired_slot(Emu *emu) {
  return emu->guest->convention.native ? 8 * (emu->hooks->next_retired++ % IR_RETIRED) : 0;
}

static void weave_entry(CoreWeaver *w, const IrBlock *b, uint32_t counted) {
  if (w->emu->budget_on) core_emit(w, IR_budget, (IrRef)counted, 0, 0, b->pc);
  if (w->emu->opt.count_insns && counted)
    core_emit(w, IR_count, (IrRef)counted, 0, 0, retired_slot(w->emu));
  CoreSite s = site_of(w, SITE_BLOCK, b, NULL);
  if (offer(w, &s) | w->stops) stop_point(w, b->pc);
}

static IrOp renamed(const CoreWeaver *w, const IrOp *op) {
  const IrOpInfo *info = &ir_op_info[op->code];
  IrOp n = *op;
  if (info->a != IR_RAW) n.a = w->renamed[op->a];
  if (info->b != IR_RAW) n.b = w->renamed[op->b];
  if (info->c != IR_RAW) n.c = w->renamed[op->c];
  return n;
}

static void weave_block(CoreWeaver *w, IrBlock *b) {
  IrRegion *r = w->r;
  const IrOp *old = r->ops;
  IrInsn *insn = NULL;
  bool stops_here = false; /* the current instruction had a probe that may stop */
  uint32_t first = w->n, next_insn = b->first_insn;
  weave_entry(w, b, b->n_insns);
  for (uint32_t k = b->first; k < b->end; k++) {
    const IrOp *op = &old[k];
    uint8_t flags = ir_op_info[op->code].flags;
    if (op->code == IR_insn) {
      if (insn) {
        CoreSite s = site_of(w, SITE_RETIRE, b, insn);
        if (offer(w, &s) | stops_here) stop_point(w, op->imm);
      }
      insn = &r->insns[next_insn++];
      insn->first_op = (IrRef)w->n;
    }
    const IrNative *native = ir_is_native(op->code) ? ir_native_of(op) : NULL;
    if (native && native->repeats) {
      stops_here |= weave_repeated(w, b, insn, native);
      continue;
    }
    if (native) stops_here |= weave_native_accesses(w, b, insn, native);
    if (flags & (IR_LOADS | IR_STORES)) stops_here |= weave_access(w, b, insn, op);
    if (flags & IR_TERM) weave_end(w, b, insn, op);
    IrOp n = renamed(w, op);
    w->renamed[k] = core_emit(w, n.code, n.a, n.b, n.c, n.imm);
    if (op->code == IR_insn) {
      CoreSite s = site_of(w, SITE_EXEC, b, insn);
      if (offer(w, &s)) stop_point(w, insn->pc);
      stops_here = false;
    }
  }
  b->first = first;
  b->end = w->n;
}

static bool wanted_inside(Emu *emu, const IrRegion *r, uint32_t sites) {
  for (CoreProbe *p = emu->hooks->probes; p; p = p->next)
    for (uint32_t kind = 0; kind <= SITE_RETIRE; kind++) {
      if (!(p->sites & sites & 1u << kind)) continue;
      for (uint32_t i = 0; i < r->n_insns; i++) {
        CoreSite s = {.kind = kind, .region = r, .insn = &r->insns[i], .pc = r->insns[i].pc};
        if (!p->wants || p->wants(p, &s)) return true;
      }
    }
  return false;
}

bool core_observes_insns(Emu *emu, const IrRegion *r) {
  return wanted_inside(emu, r, 1u << SITE_EXEC | 1u << SITE_RETIRE);
}

bool core_instruments(const Emu *emu) {
#ifdef KIT_BARE /* to compare with: spec/engine/jit_spec.lua */
  return false;
#endif
  return emu->hooks->probes || emu->budget_on || emu->opt.count_insns;
}

void core_instrument(Emu *emu, IrRegion *r) {
  if (!core_instruments(emu)) return;
  CoreHooks *h = emu->hooks;
  if (!h->woven) h->woven = xmalloc(sizeof *h->woven * IR_MAX_OPS);
  if (!h->renamed) h->renamed = xmalloc(sizeof *h->renamed * IR_MAX_OPS);
  CoreWeaver w = {.emu = emu, .r = r, .ops = h->woven, .renamed = h->renamed};
  memset(w.renamed, 0, r->n_ops * sizeof *w.renamed);
  for (CoreProbe *p = h->probes; p; p = p->next)
    w.stops |= p->may_stop && p->sites & ~(1u << SITE_EXEC | 1u << SITE_BLOCK);
  core_emit(&w, IR_nop, 0, 0, 0, 0);
  for (uint32_t i = 0; i < r->n_blocks; i++) weave_block(&w, &r->blocks[i]);
  r->ops = w.ops; /* of native operations: as long as the builder's */
  if (!emu->guest->convention.native) {
    r->ops = arena_alloc(r->arena, sizeof(IrOp) * w.n);
    memcpy(r->ops, w.ops, sizeof(IrOp) * w.n);
  }
  r->n_ops = w.n;
}
