/* Translation: guest code at a pc becomes a region, once; the cache finds it again and forgets it
 * when the code changes.
 *
 * A region is grown from its entry: straight on to the next branch, then along direct branches
 * whose targets are near, as long as it stays small; a branch back to a block of the region is a
 * loop inside it. Passes, in order: decode + lift, ir_check, ir_optimise, core_instrument,
 * ir_check.
 *
 * Dropped regions may still be executing (a hook or a store invalidated them): they are freed by
 * core_reap, between regions. The generation counter breaks every link between regions at once. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/run.h"
#include "jit/jit.h"

#define DEFAULT_MAX_REGIONS 200000
#define REGION_INSNS        96
#define REGION_BLOCKS       12
#define REGION_REACH        2048 /* bytes from the entry that a followed branch target may lie away */

typedef VEC(IrRegion *) RegionList;

struct CoreCache {
  Emu *emu;
  Map regions, singles; /* pc -> IrRegion */
  Map pages;            /* page number -> RegionList of regions made from it */
  RegionList dropped;
  VEC(struct {
    void (*fn)(void *);
    void *p;
  })
  deferred;
  IrLinks *links;
  IrBuilder *builder;
};

typedef struct Cookie { /* region->cookie */
  bool single, dead;
} Cookie;

CoreCache *core_cache_new(Emu *emu) {
  CoreCache *c = xcalloc(1, sizeof *c);
  c->emu = emu;
  c->links = xcalloc(1, sizeof *c->links);
  c->links->generation = 1;
  c->builder = ir_builder_new();
  return c;
}

static void start_over(Emu *emu);

IrLinks *core_links(const Emu *emu) { return emu->cache->links; }

void core_cache_free(CoreCache *c) {
  start_over(c->emu);
  map_free(&c->regions);
  map_free(&c->singles);
  map_free(&c->pages);
  vec_free(&c->dropped);
  vec_free(&c->deferred);
  ir_builder_free(c->builder);
  jit_free(c->emu->jit);
  if (c->emu->dump) fclose(c->emu->dump);
  free(c->links);
  free(c);
}

bool core_reap(Emu *emu) {
  CoreCache *c = emu->cache;
  if (!c->dropped.n && !c->deferred.n) return false;
  while (c->dropped.n) {
    IrRegion *r = vec_pop(&c->dropped);
    if (emu->jit) jit_forget(emu->jit, r);
    ir_region_free(r);
  }
  while (c->deferred.n) {
    c->deferred.n--;
    c->deferred.at[c->deferred.n].fn(c->deferred.at[c->deferred.n].p);
  }
  return true;
}

typedef void FreeFn(void *p);

void core_own(Emu *emu, FreeFn *fn, void *p) {
  FreeFn **cell = xmalloc(sizeof *cell);
  *cell = fn;
  map_put(&emu->owned, (uint64_t)(uintptr_t)p, cell);
}

void core_disown(Emu *emu, FreeFn *fn, void *p) {
  free(map_remove(&emu->owned, (uint64_t)(uintptr_t)p));
  core_defer(emu, fn, p);
}

void core_free_owned(Emu *emu) {
  uint64_t p;
  void *cell;
  for (size_t i = 0; map_next(&emu->owned, &i, &p, &cell);) {
    (*(FreeFn **)cell)((void *)(uintptr_t)p);
    free(cell);
  }
  map_free(&emu->owned);
}

void core_defer(Emu *emu, void (*fn)(void *p), void *p) {
  CoreCache *c = emu->cache;
  vec_reserve(&c->deferred, c->deferred.n + 1);
  c->deferred.at[c->deferred.n].fn = fn;
  c->deferred.at[c->deferred.n++].p = p;
  if (!emu->running) core_reap(emu);
}

/* ---- the page index -------------------------------------------------------------------------- */

static void index_region(CoreCache *c, IrRegion *r) {
  for (uint64_t page = r->low / CORE_PAGE; page <= (r->high - 1) / CORE_PAGE; page++) {
    RegionList *list = map_get(&c->pages, page);
    if (!list) {
      list = xcalloc(1, sizeof *list);
      map_put(&c->pages, page, list);
      core_protect_code(c->emu, page * CORE_PAGE, CORE_PAGE);
    }
    vec_push(list, r);
  }
}

static void drop_region(CoreCache *c, IrRegion *r) {
  Cookie *k = r->cookie;
  if (k->dead) return;
  k->dead = true;
  if (c->emu->jit) jit_drop(c->emu->jit, r);
  map_remove(k->single ? &c->singles : &c->regions, r->pc);
  vec_push(&c->dropped, r);
}

static void remove_from_page(CoreCache *c, uint64_t page, const IrRegion *r) {
  RegionList *list = map_get(&c->pages, page);
  if (!list) return;
  for (size_t i = 0; i < list->n; i++)
    if (list->at[i] == r) list->at[i--] = vec_pop(list);
}

/* Drops all regions of a page; they are taken off their other pages too. */
static void drop_page(CoreCache *c, uint64_t page) {
  RegionList *list = map_remove(&c->pages, page);
  if (!list) return;
  for (size_t i = 0; i < list->n; i++) {
    IrRegion *r = list->at[i];
    for (uint64_t p = r->low / CORE_PAGE; p <= (r->high - 1) / CORE_PAGE; p++)
      if (p != page) remove_from_page(c, p, r);
    drop_region(c, r);
  }
  vec_free(list);
  free(list);
  c->links->generation++;
  c->emu->stats.invalidations++;
}

void core_invalidate(Emu *emu, uint64_t va, uint64_t len) {
  CoreCache *c = emu->cache;
  if (!c || !len || !c->pages.n) return;
  uint64_t first = va / CORE_PAGE, last = (va + len - 1) / CORE_PAGE;
  if (last - first < c->pages.cap) {
    for (uint64_t page = first; page <= last; page++) drop_page(c, page);
    return;
  }
  VEC(uint64_t) hit = {0};
  uint64_t page;
  void *list;
  for (size_t i = 0; map_next(&c->pages, &i, &page, &list);)
    if (page >= first && page <= last) vec_push(&hit, page);
  for (size_t i = 0; i < hit.n; i++) drop_page(c, hit.at[i]);
  vec_free(&hit);
}

void core_flush(Emu *emu) {
  CoreCache *c = emu->cache;
  if (!c) return;
  uint64_t pc;
  void *p;
  for (size_t i = 0; map_next(&c->pages, &i, &pc, &p);) {
    RegionList *list = p;
    for (size_t j = 0; j < list->n; j++) {
      IrRegion *r = list->at[j];
      Cookie *k = r->cookie;
      if (k->dead) continue;
      k->dead = true;
      if (emu->jit) jit_drop(emu->jit, r);
      vec_push(&c->dropped, r);
    }
    vec_free(list);
    free(list);
  }
  map_clear(&c->pages);
  map_clear(&c->regions);
  map_clear(&c->singles);
  c->links->generation++;
  for (CoreThread *t = emu->jit ? emu->threads : NULL; t; t = t->next)
    jit_forget_targets(emu->jit, t->state);
  emu->stats.flushes++;
}

bool core_page_has_code(Emu *emu, uint64_t va) {
  return emu->cache && map_get(&emu->cache->pages, va / CORE_PAGE);
}

/* ---- growing a region ------------------------------------------------------------------------ */

typedef struct Growth {
  CoreCache *c;
  uint64_t entry;
  uint64_t todo[REGION_BLOCKS], done[REGION_BLOCKS];
  uint32_t n_todo, n_done, n_insns, max_insns, max_blocks;
} Growth;

/* The guest's code bytes at pc; 0: cannot be fetched. An instruction may continue on the next area.
 */
static size_t fetch(Emu *emu, uint64_t pc, const uint8_t **code) {
  const CoreArea *a = core_area(emu, pc);
  if (!a || a->start > pc || !(a->prot & PROT_EXEC)) return 0;
  uint64_t avail = a->end - pc, want = emu->guest->max_insn;
  while (avail < want) {
    const CoreArea *next = core_area(emu, pc + avail);
    if (!next || next->start > pc + avail || !(next->prot & PROT_EXEC)) break;
    avail = next->end - pc;
  }
  if (emu->replaced.n && map_get(&emu->replaced, pc)) {
    *code = emu->guest->return_code;
    return want;
  }
  *code = (const uint8_t *)(uintptr_t)pc; /* identity mapping: checked just above */
  return avail;
}

uint64_t core_unfetchable(Emu *emu, uint64_t pc, int *code) {
  uint64_t at = pc, end = pc + emu->guest->max_insn;
  const CoreArea *a = core_area(emu, at);
  while (a && a->start <= at && a->prot & PROT_EXEC && a->end < end)
    a = core_area(emu, at = a->end);
  *code = a && a->start <= at ? SEGV_ACCERR : SEGV_MAPERR;
  return at;
}

void core_replace(Emu *emu, uint64_t pc, bool on) {
  uintptr_t n = (uintptr_t)map_get(&emu->replaced, pc) + (on ? 1 : -1);
  if (n)
    map_put(&emu->replaced, pc, (void *)n);
  else
    map_remove(&emu->replaced, pc);
}

/* Is a whole instruction there? */
static bool can_fetch(Emu *emu, uint64_t pc) {
  const uint8_t *code;
  GuestInsn insn;
  size_t avail = fetch(emu, pc, &code);
  return avail >= emu->guest->max_insn ||
         (avail && emu->guest->decode(code, avail, pc, &insn) != GUEST_DECODE_TRUNCATED);
}

static bool is_done(const Growth *g, uint64_t pc) {
  for (uint32_t i = 0; i < g->n_done; i++)
    if (g->done[i] == pc) return true;
  return false;
}

static void follow(Growth *g, uint64_t pc) {
  int64_t away = (int64_t)(pc - g->entry);
  if (away < -REGION_REACH || away > REGION_REACH) return;
  if (g->n_done + g->n_todo >= g->max_blocks || is_done(g, pc)) return;
  for (uint32_t i = 0; i < g->n_todo; i++)
    if (g->todo[i] == pc) return;
  g->todo[g->n_todo++] = pc;
}

static void begin_insn(IrBuilder *b, const GuestInsn *insn) {
  ir_builder_insn(b, &(IrInsn){.pc = insn->pc,
                               .target = insn->target,
                               .len = insn->len,
                               .branch = insn->branch,
                               .id = insn->id});
}

static bool is_full(const Growth *g) {
  return g->n_insns >= g->max_insns || ir_builder_ops(g->c->builder) > IR_MAX_OPS / 8;
}

/* One block: instructions up to a branch, a block already there, or a limit. */
static void grow_block(Growth *g, uint64_t pc) {
  const Guest *guest = g->c->emu->guest;
  IrBuilder *b = g->c->builder;
  ir_builder_block(b, pc);
  g->done[g->n_done++] = pc;
  for (uint32_t n = 0;; n++) {
    const uint8_t *code;
    size_t avail = fetch(g->c->emu, pc, &code);
    GuestInsn insn;
    GuestDecode d = avail ? guest->decode(code, avail, pc, &insn) : GUEST_DECODE_TRUNCATED;
    if (d == GUEST_DECODE_TRUNCATED) {
      ir_trap(b, IR_TRAP_NEXT,
              pc); /* whoever gets there asks again, and may find it mapped by then */
      return;
    }
    if (n && (is_done(g, pc) || is_full(g))) {
      ir_jump(b, pc);
      return;
    }
    begin_insn(b, &insn);
    g->n_insns++;
    if (d == GUEST_DECODE_ILLEGAL) {
      ir_trap(b, IR_TRAP_ILLEGAL, pc);
      return;
    }
    guest->lift(b, &insn);
    pc += insn.len;
    if (insn.branch == IR_BR_NONE) continue;
    if (insn.target && insn.branch != IR_BR_CALL) follow(g, insn.target);
    if (insn.branch == IR_BR_COND)
      follow(g, pc); /* last in, first grown: fall-through code comes next */
    return;
  }
}

static void check(Emu *emu, const IrRegion *r, const char *pass) {
  const char *wrong = ir_check(r);
  if (!wrong) return;
  fprintf(stderr, "kitlua: internal error: region %llx after %s: %s\n", (unsigned long long)r->pc,
          pass, wrong);
  ir_print(stderr, r, NULL);
  (void)emu;
  abort();
}

static const char *reg_name(uint64_t offset) {
  for (const Guest *const *g = guest_all(); *g; g++)
    for (uint32_t i = 0; i < (*g)->n_regs; i++)
      if ((*g)->regs[i].offset == offset) return (*g)->regs[i].name;
  return NULL;
}

/* After each pass: what opt.check_ir and opt.dump ask for. */
static void after(Emu *emu, const IrRegion *r, const char *pass) {
  bool checking = emu->opt.check_ir;
#ifdef KIT_DEBUG
  checking = true;
#endif
  if (checking) check(emu, r, pass);
  if (!emu->dump) return;
  fprintf(emu->dump, "%s: ", pass);
  ir_print(emu->dump, r, reg_name);
}

static void dump_host_code(Emu *emu, const IrRegion *r) {
  size_t size, hot;
  const uint8_t *code = jit_code(emu->jit, r, &size, &hot);
  fprintf(emu->dump, "host code: region %llx, %zu bytes, %zu of them aside\n",
          (unsigned long long)r->pc, size, size - hot);
  for (size_t i = 0; i < size; i++)
    fprintf(emu->dump, "%02x%s", code[i], i + 1 == size ? "\n" : "");
}

/* Flags that nobody reads behind the region's direct exits: counters may change them. */
static void look_behind(Emu *emu, IrRegion *r) {
  for (uint32_t i = 0; i < r->n_blocks; i++)
    for (int k = 0; k < r->blocks[i].n_succ; k++) {
      IrSucc *succ = &r->blocks[i].succ[k];
      const uint8_t *code;
      size_t avail = succ->block < 0 ? fetch(emu, succ->pc, &code) : 0;
      if (avail) succ->dead_flags = emu->guest->dead_flags(code, avail, succ->pc);
    }
}

static IrRegion *translate(Emu *emu, uint64_t pc, bool single) {
  CoreCache *c = emu->cache;
  if (!can_fetch(emu, pc)) return NULL;
  Growth g = {.c = c,
              .entry = pc,
              .max_insns = single ? 1 : REGION_INSNS,
              .max_blocks = single ? 1 : REGION_BLOCKS};
  ir_builder_begin(c->builder, pc);
  follow(&g, pc);
  /* A full region gets no further block: one without instructions would be a jump to itself. */
  while (g.n_todo && !is_full(&g)) grow_block(&g, g.todo[--g.n_todo]);
  IrRegion *r = ir_builder_finish(c->builder);
  after(emu, r, "lift");
  if (emu->guest->convention.native) {
    if (core_instruments(emu) && !emu->opt.exact) look_behind(emu, r);
  } else {
    if (!emu->opt.no_optimise && !core_observes_insns(emu, r)) ir_optimise(r);
    after(emu, r, "optimise");
  }
  core_instrument(emu, r);
  after(emu, r, "instrument");
  emu->stats.regions++;
  emu->stats.region_insns += r->n_insns;
  return r;
}

/* Drops everything, between regions: the code memory is free again. */
static void start_over(Emu *emu) {
  if (emu->jit) jit_reset(emu->jit); /* first: regions need not be broken one by one then */
  core_flush(emu);
  core_reap(emu);
}

static void compile(Emu *emu, IrRegion *r) {
  if (emu->jit && !jit_compile(emu->jit, r)) { /* full */
    start_over(emu);
    if (!jit_compile(emu->jit, r)) abort(); /* an empty cache has room for any region */
  }
  if (emu->dump && emu->jit) dump_host_code(emu, r);
}

/* For once: not found again, and its page not watched for stores. */
IrRegion *core_region_once(Emu *emu, uint64_t pc) {
  IrRegion *r = translate(emu, pc, true);
  if (!r) return NULL;
  compile(emu, r);
  Cookie *k = arena_alloc(r->arena, sizeof *k);
  *k = (Cookie){.single = true, .dead = true};
  r->cookie = k;
  vec_push(&emu->cache->dropped, r);
  return r;
}

static IrRegion *lookup(Emu *emu, Map *map, uint64_t pc, bool single) {
  CoreCache *c = emu->cache;
  IrRegion *r = map_get(map, pc);
  emu->stats.lookups++;
  if (r) return r;
  uint32_t max = emu->opt.max_regions ? emu->opt.max_regions : DEFAULT_MAX_REGIONS;
  if (map->n >= max || (emu->jit && jit_wants_reset(emu->jit))) start_over(emu);
  r = translate(emu, pc, single);
  if (!r) return NULL;
  compile(emu, r);
  Cookie *k = arena_alloc(r->arena, sizeof *k);
  *k = (Cookie){.single = single};
  r->cookie = k;
  map_put(map, pc, r);
  index_region(c, r);
  return r;
}

IrRegion *core_region(Emu *emu, uint64_t pc) {
  if (emu->opt.one_insn) return core_region_single(emu, pc);
  return lookup(emu, &emu->cache->regions, pc, false);
}

IrRegion *core_region_single(Emu *emu, uint64_t pc) {
  return lookup(emu, &emu->cache->singles, pc, true);
}

_Static_assert((int)KIT_WITHOUT_BMI == (int)JIT_NO_BMI && (int)KIT_WITHOUT_FMA == (int)JIT_NO_FMA,
               "KitOptions.without is passed on as it is");

void core_jit_open(Emu *emu) {
  KitOptions *o = &emu->opt;
  if (o->lockstep) o->one_insn = o->requires_dispatch = true;
  if (!o->interp)
    emu->jit = jit_new(&emu->guest->convention, o->code_size ? o->code_size : JIT_CODE_SIZE,
                       o->without | (o->exact ? JIT_EXACT : 0u));
  if (o->count_insns) core_count_retired(emu);
}

void core_count_retired(Emu *emu) {
  core_flush(emu);
  if (emu->jit) jit_count_retired(emu->jit);
}

bool core_before_fork(Emu *emu) { return !emu->jit || jit_before_fork(emu->jit); }

void core_after_fork(Emu *emu, bool child) {
  if (emu->jit) jit_after_fork(emu->jit, child);
}

void core_budget_on(Emu *emu) {
  if (emu->budget_on) return;
  emu->budget_on = true;
  core_flush(emu);
}
