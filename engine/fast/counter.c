/* kit_count: counters in translated code, and reading them by instruction, block or edge.
 *
 * Every row of a counter is an 8-byte slot in each thread's counter area (ir/state.h), so counting
 * is one addition; reading adds up the threads. Instructions and blocks are counted at block entry:
 * what a fault or a stop kept from retiring is taken back exactly through `undo`. */
#include <stdlib.h>
#include <string.h>

#include "core/probe.h"

/* A slot of the per-thread areas and what it counts. For blocks the instructions follow. */
typedef struct Slot {
  uint64_t offset;       /* in the counter area */
  uint64_t key, to;      /* pc of instruction or block; edge target */
  uint64_t merged;       /* from threads that have ended */
  uint64_t retired_from; /* kit_counter_zero: subtracted */
  uint8_t branch;
  uint32_t n_insns;
  uint64_t *pcs;    /* instructions of the block, for by = INSN of INSN events */
  int64_t *missing; /* per instruction: entered but not retired; NULL until the first */
} Slot;

typedef struct Indirect { /* an indirect edge's counters, shared by all threads */
  uint64_t from, to, count;
  uint8_t branch;
} Indirect;

typedef struct EdgeSite {
  IrEdgeSite ir; /* first */
  VEC(Indirect *) targets;
  uint8_t branch;
} EdgeSite;

typedef struct ThreadTotal {
  int tid;
  uint64_t count;
} ThreadTotal;

struct KitCounter {
  CoreProbe probe;
  Emu *emu;
  KitCountSpec spec;
  IrNth nth;
  Map by_key; /* hash of key, to, size -> Slot */
  VEC(Slot *) slots;
  VEC(EdgeSite *) sites;
  VEC(ThreadTotal) ended;
  KitHook *hook; /* SYSCALL is counted from C */
  uint64_t syscalls;
};

static KitCounter *counter_of(CoreProbe *p) {
  return (KitCounter *)((char *)p - offsetof(KitCounter, probe));
}

static Slot *slot_for(KitCounter *c, uint64_t key, uint64_t to, uint32_t n) {
  uint64_t hash = map_hash(key ^ map_hash(to + n));
  for (Slot *s; (s = map_get(&c->by_key, hash)); hash++)
    if (s->key == key && s->to == to && s->n_insns == n) return s;
  Slot *s = xcalloc(1, sizeof *s);
  *s = (Slot){.offset = core_counter_alloc(c->emu), .key = key, .to = to, .n_insns = n};
  map_put(&c->by_key, hash, s);
  vec_push(&c->slots, s);
  return s;
}

/* ---- weaving --------------------------------------------------------------------------------- */

static bool wants(CoreProbe *p, const CoreSite *site) {
  KitCounter *c = counter_of(p);
  if (site->kind == SITE_BLOCK) return site->block->n_insns > 0;
  if (site->kind == SITE_REPEAT) return true;
  return core_event_site(c->spec.event, site) && core_filter_site(&c->spec.filter, site);
}

static void count(CoreWeaver *w, const Slot *s, uint32_t amount) {
  core_emit(w, IR_count, (IrRef)amount, 0, 0, s->offset);
}

static uint64_t *edge_miss(IrEdgeSite *ir, IrState *st, uint64_t target) {
  EdgeSite *site = (EdgeSite *)ir;
  (void)st;
  Indirect *hit = NULL;
  for (size_t i = 0; i < site->targets.n && !hit; i++)
    if (site->targets.at[i]->to == target) hit = site->targets.at[i];
  if (!hit) {
    hit = xcalloc(1, sizeof *hit);
    *hit = (Indirect){.from = ir->pc, .to = target, .branch = site->branch};
    vec_push(&site->targets, hit);
  }
  ir->last = target;
  ir->counter = &hit->count;
  return &hit->count;
}

static EdgeSite *edge_site(KitCounter *c, uint64_t pc, uint8_t branch) {
  for (size_t i = 0; i < c->sites.n; i++)
    if (c->sites.at[i]->ir.pc == pc) return c->sites.at[i];
  EdgeSite *s = xcalloc(1, sizeof *s);
  s->branch = branch;
  s->ir = (IrEdgeSite){.miss = edge_miss, .pc = pc, .owner = c, .last = UINT64_MAX};
  vec_push(&c->sites, s);
  return s;
}

static void emit_edge(KitCounter *c, CoreWeaver *w, const CoreSite *site) {
  const IrBlock *b = site->block;
  uint8_t kind = site->insn->branch;
  if (site->taken) {
    Slot *yes = slot_for(c, site->pc, b->succ[0].pc, 0),
         *no = slot_for(c, site->pc, b->succ[1].pc, 0);
    yes->branch = no->branch = kind;
    core_emit(w, IR_count_if, site->taken, 0, 0, yes->offset);
    IrRef zero = core_emit_imm(w, 0);
    core_emit(w, IR_count_if, core_emit(w, IR_eq, site->taken, zero, 0, 0), 0, 0, no->offset);
  } else if (site->insn->target) {
    Slot *s = slot_for(c, site->pc, site->insn->target, 0);
    s->branch = kind;
    count(w, s, 1);
  } else {
    core_emit(w, IR_edge_ind, site->to, 0, 0,
              (uint64_t)(uintptr_t)&edge_site(c, site->pc, kind)->ir);
  }
}

/* Instructions and blocks: one slot a block; the filter's pc range selects instructions when read.
 */
static void emit_block(KitCounter *c, CoreWeaver *w, const CoreSite *site) {
  const IrBlock *b = site->block;
  Slot *s = slot_for(c, b->pc, 0, b->n_insns);
  if (!s->pcs) {
    s->pcs = xcalloc(b->n_insns, sizeof *s->pcs);
    for (uint32_t i = 0; i < b->n_insns; i++) s->pcs[i] = site->region->insns[b->first_insn + i].pc;
  }
  uint32_t g = core_guard_begin(w, core_emit_filter(w, &c->spec.filter, site, &c->nth));
  count(w, s, 1);
  core_guard_end(w, g);
}

/* Iterations of a repeated instruction beyond the first: as executions of it. */
static void emit_repeat(KitCounter *c, CoreWeaver *w, const CoreSite *site) {
  Slot *s = slot_for(c, site->pc, UINT64_MAX, 1);
  if (!s->pcs) {
    s->pcs = xcalloc(1, sizeof *s->pcs);
    s->pcs[0] = site->pc;
  }
  core_emit(w, IR_count_add, site->extra, 0, 0, s->offset);
}

static void emit(CoreProbe *p, CoreWeaver *w, const CoreSite *site) {
  KitCounter *c = counter_of(p);
  if (site->kind == SITE_REPEAT) {
    emit_repeat(c, w, site);
    return;
  }
  if (site->kind == SITE_BLOCK) {
    emit_block(c, w, site);
    return;
  }
  uint32_t g = core_guard_begin(w, core_emit_filter(w, &c->spec.filter, site, &c->nth));
  if (c->spec.by == KIT_BY_EDGE)
    emit_edge(c, w, site);
  else
    count(w, slot_for(c, site->pc, 0, 0), 1);
  core_guard_end(w, g);
}

static Slot *find_block(KitCounter *c, const IrBlock *b) {
  uint64_t hash = map_hash(b->pc ^ map_hash(b->n_insns));
  for (Slot *s; (s = map_get(&c->by_key, hash)); hash++)
    if (s->key == b->pc && !s->to && s->n_insns == b->n_insns) return s;
  return NULL;
}

static void undo(CoreProbe *p, CoreThread *t, const IrBlock *block, uint32_t retired) {
  KitCounter *c = counter_of(p);
  if (c->spec.filter.tid && c->spec.filter.tid != t->tid) return;
  Slot *s = find_block(c, block);
  if (!s) return;
  if (c->spec.event ==
      KIT_EV_BLOCK) { /* a block is counted once entered: only its very start is undone */
    if (!retired) *ir_counter(t->state, s->offset) -= 1;
    return;
  }
  if (!s->missing) s->missing = xcalloc(s->n_insns, sizeof *s->missing);
  for (uint32_t i = retired; i < s->n_insns; i++) s->missing[i]++;
}

/* ---- threads and reading --------------------------------------------------------------------- */

static uint64_t live_count(const KitCounter *c, const Slot *s) {
  uint64_t n = s->merged;
  for (CoreThread *t = c->emu->threads; t; t = t->next) n += *ir_counter(t->state, s->offset);
  return n - s->retired_from;
}

static uint64_t weight(const KitCounter *c, const Slot *s, uint32_t *in_range) {
  const KitFilter *f = &c->spec.filter;
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_insns; i++) n += !f->pc_len || s->pcs[i] - f->pc < f->pc_len;
  *in_range = n;
  return n;
}

static uint64_t slot_total(const KitCounter *c, const Slot *s, uint64_t execs) {
  const KitFilter *f = &c->spec.filter;
  if (!s->n_insns) return execs;
  if (c->spec.event == KIT_EV_BLOCK) return !f->pc_len || s->key - f->pc < f->pc_len ? execs : 0;
  uint32_t n;
  uint64_t total = execs * weight(c, s, &n);
  for (uint32_t i = 0; s->missing && i < s->n_insns; i++)
    if (!f->pc_len || s->pcs[i] - f->pc < f->pc_len) total -= (uint64_t)s->missing[i];
  return total;
}

static uint64_t thread_total(const KitCounter *c, const CoreThread *t) {
  uint64_t n = 0;
  for (size_t i = 0; i < c->slots.n; i++) {
    const Slot *s = c->slots.at[i];
    n += *ir_counter(t->state, s->offset) *
         (s->n_insns && c->spec.event == KIT_EV_INSN ? s->n_insns : 1);
  }
  return n;
}

static void thread_end(CoreProbe *p, CoreThread *t) {
  KitCounter *c = counter_of(p);
  if (c->spec.by == KIT_BY_THREAD) vec_push(&c->ended, ((ThreadTotal){t->tid, thread_total(c, t)}));
  for (size_t i = 0; i < c->slots.n; i++) {
    uint64_t *n = ir_counter(t->state, c->slots.at[i]->offset);
    c->slots.at[i]->merged += *n;
    *n = 0;
  }
}

static void fork_child(CoreProbe *p, CoreThread *t) {
  (void)t;
  kit_counter_zero(counter_of(p));
}

uint64_t kit_counter_total(KitCounter *c) {
  uint64_t n = c->syscalls;
  for (size_t i = 0; i < c->slots.n; i++)
    n += slot_total(c, c->slots.at[i], live_count(c, c->slots.at[i]));
  for (size_t i = 0; i < c->sites.n; i++)
    for (size_t j = 0; j < c->sites.at[i]->targets.n; j++)
      n += c->sites.at[i]->targets.at[j]->count;
  return n;
}

typedef VEC(KitCountRow) Rows;

static int by_key_and_to(const void *a, const void *b) {
  const KitCountRow *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->to < y->to ? -1 : x->to > y->to;
}

static void add_rows(KitCounter *c, const Slot *s, Rows *rows) {
  uint64_t execs = live_count(c, s);
  const KitFilter *f = &c->spec.filter;
  bool each = c->spec.event == KIT_EV_INSN && c->spec.by == KIT_BY_INSN;
  for (uint32_t i = 0; each && i < s->n_insns; i++)
    if (!f->pc_len || s->pcs[i] - f->pc < f->pc_len)
      vec_push(rows, ((KitCountRow){.key = s->pcs[i],
                                    .count = execs - (s->missing ? (uint64_t)s->missing[i] : 0)}));
  if (!each)
    vec_push(rows, ((KitCountRow){.key = s->key,
                                  .to = s->to,
                                  .count = slot_total(c, s, execs),
                                  .kind = (KitBranchKind)s->branch}));
}

void kit_counter_rows(KitCounter *c, void (*fn)(void *ctx, const KitCountRow *row), void *ctx) {
  Rows rows = {0};
  if (c->spec.by == KIT_BY_THREAD) {
    for (size_t i = 0; i < c->ended.n; i++)
      vec_push(&rows, ((KitCountRow){.tid = c->ended.at[i].tid,
                                     .key = (uint64_t)c->ended.at[i].tid,
                                     .count = c->ended.at[i].count}));
    for (CoreThread *t = c->emu->threads; t; t = t->next)
      vec_push(&rows, ((KitCountRow){
                          .tid = t->tid, .key = (uint64_t)t->tid, .count = thread_total(c, t)}));
  } else {
    for (size_t i = 0; i < c->slots.n; i++) add_rows(c, c->slots.at[i], &rows);
  }
  for (size_t i = 0; i < c->sites.n; i++)
    for (size_t j = 0; j < c->sites.at[i]->targets.n; j++) {
      const Indirect *e = c->sites.at[i]->targets.at[j];
      vec_push(
          &rows,
          ((KitCountRow){
              .key = e->from, .to = e->to, .count = e->count, .kind = (KitBranchKind)e->branch}));
    }
  if (rows.n) qsort(rows.at, rows.n, sizeof *rows.at, by_key_and_to);
  for (size_t i = 0; i < rows.n; i++) { /* one row a key: overlapping blocks are added up */
    KitCountRow row = rows.at[i];
    while (i + 1 < rows.n && !by_key_and_to(&rows.at[i + 1], &row)) row.count += rows.at[++i].count;
    if (row.count) fn(ctx, &row);
  }
  vec_free(&rows);
}

void kit_counter_zero(KitCounter *c) {
  c->syscalls = 0;
  c->ended.n = 0;
  for (size_t i = 0; i < c->slots.n; i++) {
    Slot *s = c->slots.at[i];
    s->retired_from += live_count(c, s);
    if (s->missing) memset(s->missing, 0, s->n_insns * sizeof *s->missing);
  }
  for (size_t i = 0; i < c->sites.n; i++)
    for (size_t j = 0; j < c->sites.at[i]->targets.n; j++) c->sites.at[i]->targets.at[j]->count = 0;
}

/* ---- making and closing ---------------------------------------------------------------------- */

static KitVerdict on_syscall(void *user, KitEmu *emu, KitEvent *ev) {
  (void)emu;
  (void)ev;
  ((KitCounter *)user)->syscalls++;
  return KIT_CONTINUE;
}

static void free_counter(void *p) {
  KitCounter *c = p;
  for (size_t i = 0; i < c->slots.n; i++) {
    free(c->slots.at[i]->pcs);
    free(c->slots.at[i]->missing);
    free(c->slots.at[i]);
  }
  for (size_t i = 0; i < c->sites.n; i++) {
    for (size_t j = 0; j < c->sites.at[i]->targets.n; j++) free(c->sites.at[i]->targets.at[j]);
    vec_free(&c->sites.at[i]->targets);
    free(c->sites.at[i]);
  }
  vec_free(&c->slots);
  vec_free(&c->sites);
  vec_free(&c->ended);
  map_free(&c->by_key);
  free(c);
}

KitStatus kit_count(KitEmu *emu, const KitCountSpec *spec, KitCounter **out) {
  uint32_t sites = core_event_sites(spec->event);
  if (spec->event == KIT_EV_INSN) sites = 1u << SITE_BLOCK | 1u << SITE_REPEAT;
  if (!sites && spec->event != KIT_EV_SYSCALL)
    return core_fail(
        emu, KIT_E_ARGUMENT,
        "event \"%s\" cannot be counted (use insn, block, exec, a branch, an access or syscall)",
        kit_event_name(spec->event));
  if (spec->by == KIT_BY_EDGE && !(sites >> SITE_BRANCH & 1))
    return core_fail(emu, KIT_E_ARGUMENT, "only branches have edges, not \"%s\"",
                     kit_event_name(spec->event));
  KitCounter *c = xcalloc(1, sizeof *c);
  c->emu = emu;
  c->spec = *spec;
  c->nth = (IrNth){.every = spec->filter.every, .left = spec->filter.every};
  c->probe = (CoreProbe){.sites = sites,
                         .wants = wants,
                         .emit = emit,
                         .thread_end = thread_end,
                         .fork_child = fork_child,
                         .undo = sites >> SITE_BLOCK & 1 ? undo : NULL};
  if (sites)
    core_probe_add(emu, &c->probe);
  else
    kit_hook_add(emu,
                 &(KitHookSpec){
                     .event = KIT_EV_SYSCALL, .filter = spec->filter, .fn = on_syscall, .user = c},
                 &c->hook);
  core_own(emu, free_counter, c);
  *out = c;
  return KIT_OK;
}

void kit_counter_close(KitCounter **counter) {
  KitCounter *c = *counter;
  *counter = NULL;
  if (!c) return;
  if (c->probe.sites) core_probe_remove(c->emu, &c->probe);
  kit_hook_close(&c->hook);
  core_disown(c->emu, free_counter, c);
}
