/* kit_callgraph: a shadow call stack for every thread (ir/callstack.h), driven by translated code,
 * and the calling-context trees they make, merged when read. */
#include <stdlib.h>

#include "core/probe.h"
#include "core/run.h"
#include "ir/callstack.h"

typedef struct ThreadStack {
  int tid;
  CoreThread *thread; /* NULL: has ended */
  IrCallStack *cs;
} ThreadStack;

struct KitGraph {
  CoreProbe probe;
  Emu *emu;
  KitGraphSpec spec;
  VEC(ThreadStack) stacks;
};

static KitGraph *graph_of(CoreProbe *p) {
  return (KitGraph *)((char *)p - offsetof(KitGraph, probe));
}

static bool is_entry(void *owner, uint64_t pc) {
  Emu *emu = ((KitGraph *)owner)->emu;
  return emu->is_entry && emu->is_entry(emu, pc);
}

/* ---- weaving --------------------------------------------------------------------------------- */

static bool wants(CoreProbe *p, const CoreSite *s) {
  if (s->insn->branch == IR_BR_CALL || s->insn->branch == IR_BR_RET) return true;
  if (s->insn->branch != IR_BR_JUMP) return false;
  return !s->insn->target ||
         is_entry(graph_of(p), s->insn->target); /* a direct jump is a tail call or nothing */
}

static void emit(CoreProbe *p, CoreWeaver *w, const CoreSite *s) {
  KitGraph *g = graph_of(p);
  const GuestAbi *abi = &g->emu->guest->abi;
  IrCallSite *site = core_weaver_alloc(w, sizeof *site);
  *site = (IrCallSite){.pc = s->pc, .ret_pc = s->pc + s->insn->len, .owner = g};
  uint64_t imm = (uint64_t)(uintptr_t)site;
  IrRef sp = core_emit(w, IR_get, 0, 0, 0, g->emu->guest->regs[abi->sp].offset);
  switch ((IrBranch)s->insn->branch) {
  case IR_BR_CALL: core_emit(w, IR_cs_call, s->to, sp, 0, imm); break;
  case IR_BR_RET:
    if (s->pops) sp = core_emit(w, IR_add, sp, core_emit_imm(w, s->pops), 0, 0);
    core_emit(w, IR_cs_ret, s->to, sp, 0, imm);
    break;
  default: core_emit(w, IR_cs_jump, s->to, sp, 0, imm); break;
  }
}

/* ---- threads --------------------------------------------------------------------------------- */

static void thread_start(CoreProbe *p, CoreThread *t) {
  KitGraph *g = graph_of(p);
  IrCallConfig config = {.fold = g->spec.fold_recursion, .is_entry = is_entry, .owner = g};
  t->state->callstack = ir_callstack_new(t->state, t->state->pc, &config);
  vec_push(&g->stacks, ((ThreadStack){.tid = t->tid, .thread = t, .cs = t->state->callstack}));
}

static void thread_end(CoreProbe *p, CoreThread *t) {
  KitGraph *g = graph_of(p);
  for (size_t i = 0; i < g->stacks.n; i++)
    if (g->stacks.at[i].thread == t) {
      ir_callstack_sync(g->stacks.at[i].cs, t->state);
      g->stacks.at[i].thread = NULL;
    }
  t->state->callstack = NULL;
}

static void fork_child(CoreProbe *p, CoreThread *t) {
  KitGraph *g = graph_of(p);
  size_t kept = 0;
  for (size_t i = 0; i < g->stacks.n; i++) {
    if (g->stacks.at[i].thread == t)
      g->stacks.at[kept++] = g->stacks.at[i];
    else
      ir_callstack_free(g->stacks.at[i].cs);
  }
  g->stacks.n = kept;
  core_flush(g->emu); /* call sites point into what was freed */
  kit_graph_zero(g);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void sync_all(KitGraph *g) {
  for (size_t i = 0; i < g->stacks.n; i++)
    if (g->stacks.at[i].thread)
      ir_callstack_sync(g->stacks.at[i].cs, g->stacks.at[i].thread->state);
}

/* All threads under one artificial root, which is not shown. */
static IrCallStack *merged(KitGraph *g, size_t from, size_t to) {
  IrCallStack *all = ir_callstack_new(NULL, 0, NULL);
  for (size_t i = from; i < to; i++) ir_callstack_merge(all, g->stacks.at[i].cs);
  return all;
}

static uint32_t shown_id(const IrCallNode *n, uint32_t base) {
  return n && n->parent ? n->id - 1 + base : UINT32_MAX;
}

static uint32_t show(const IrCallStack *all, int tid, uint32_t base,
                     void (*fn)(void *, const KitGraphNode *), void *ctx) {
  for (size_t i = 1; i < all->nodes.n; i++) {
    const IrCallNode *n = all->nodes.at[i];
    KitGraphNode node = {.id = shown_id(n, base),
                         .parent = shown_id(n->parent, base),
                         .fold = shown_id(n->fold, base),
                         .function = n->callee,
                         .call_pc = n->site,
                         .calls = n->calls,
                         .self = n->self,
                         .inclusive = n->inclusive,
                         .function_inclusive = n->function->inclusive,
                         .tid = tid,
                         .is_signal = n->kind == IR_CALL_SIGNAL};
    fn(ctx, &node);
  }
  return base + (uint32_t)all->nodes.n - 1;
}

void kit_graph_nodes(KitGraph *g, void (*fn)(void *ctx, const KitGraphNode *node), void *ctx) {
  sync_all(g);
  uint32_t base = 0;
  for (size_t i = 0; i < g->stacks.n; i++) {
    size_t to = g->spec.by_thread ? i + 1 : g->stacks.n;
    IrCallStack *all = merged(g, i, to);
    base = show(all, g->stacks.at[i].tid, base, fn, ctx);
    ir_callstack_free(all);
    i = to - 1;
  }
}

void kit_graph_zero(KitGraph *g) {
  size_t kept = 0;
  for (size_t i = 0; i < g->stacks.n; i++) {
    ThreadStack s = g->stacks.at[i];
    if (s.thread) {
      ir_callstack_zero(s.cs, s.thread->state);
      g->stacks.at[kept++] = s;
    } else {
      ir_callstack_free(s.cs);
    }
  }
  if (kept < g->stacks.n) core_flush(g->emu); /* call sites point into what was freed */
  g->stacks.n = kept;
}

size_t kit_graph_stack(KitGraph *g, int tid, uint64_t *call_pcs, uint64_t *functions, size_t max) {
  const CoreThread *want = tid               ? core_find_thread(g->emu, tid)
                           : g->emu->current ? g->emu->current
                                             : g->emu->last_stopped;
  const IrCallStack *cs = want ? want->state->callstack : NULL;
  if (!cs) return 0;
  size_t n = 0;
  for (const IrCallFrame *f = cs->top; f >= cs->base && n < max; f--, n++) {
    call_pcs[n] = f->link->site; /* frames, not nodes: recursion is folded in the tree only */
    functions[n] = f->link->callee;
  }
  return n;
}

/* ---- making and closing ---------------------------------------------------------------------- */

static void free_graph(void *p) {
  KitGraph *g = p;
  for (size_t i = 0; i < g->stacks.n; i++) ir_callstack_free(g->stacks.at[i].cs);
  vec_free(&g->stacks);
  free(g);
}

KitStatus kit_callgraph(KitEmu *emu, const KitGraphSpec *spec, KitGraph **out) {
  for (CoreProbe *p = core_probes(emu); p; p = p->next)
    if (p->emit == emit)
      return core_fail(emu, KIT_E_BUSY,
                       "there is a call graph already: share it, or close it first");
  if (!emu->opt.count_insns) {
    KitStatus st = kit_count_insns(emu);
    if (st) return st;
  }
  KitGraph *g = xcalloc(1, sizeof *g);
  g->emu = emu;
  g->spec = *spec;
  g->probe = (CoreProbe){.sites = 1u << SITE_BRANCH,
                         .wants = wants,
                         .emit = emit,
                         .thread_start = thread_start,
                         .thread_end = thread_end,
                         .fork_child = fork_child};
  core_probe_add(emu, &g->probe);
  core_own(emu, free_graph, g);
  *out = g;
  return KIT_OK;
}

void kit_graph_close(KitGraph **graph) {
  KitGraph *g = *graph;
  *graph = NULL;
  if (!g) return;
  core_probe_remove(g->emu, &g->probe);
  for (size_t i = 0; i < g->stacks.n; i++)
    if (g->stacks.at[i].thread) g->stacks.at[i].thread->state->callstack = NULL;
  core_disown(g->emu, free_graph, g);
}
