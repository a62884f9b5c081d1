/* Call stacks by number. A stack is taken in a few nanoseconds a frame: how to leave a frame is
 * worked out once for each pc (debug_rule) and kept in a small cache; frames that need more than
 * that send the whole walk to api_walk. Each different stack is kept once, its frames one after
 * another in a pool. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/api.h"
#include "debug/debug.h"

#define CACHE 4096 /* rules at hand; a power of two */
#define LIMIT 512  /* frames */

typedef struct Rule {
  uint64_t pc;
  DebugRule rule;
} Rule;

typedef struct Stacks {
  Rule cache[CACHE];
  Map rules;          /* pc -> Rule */
  size_t images;      /* the rules are of so many images */
  VEC(uint64_t) pool; /* for each stack: number of frames, frames */
  VEC(size_t) at;     /* stack - 1 -> index in the pool */
  uint32_t *table;    /* open addressing: stacks by hash, 0: free */
  size_t table_size;
} Stacks;

typedef struct Cursor { /* registers of the frame being left, and what of its stack can be read */
  Emu *emu;
  Stacks *s;
  uint64_t pc, sp, fp, ra;
  uint64_t low, high;
} Cursor;

static Stacks *stacks_of(Emu *emu) {
  if (!emu->stacks) emu->stacks = xcalloc(1, sizeof(Stacks));
  return emu->stacks;
}

static void forget_rules(Stacks *s) {
  uint64_t pc;
  void *rule;
  for (size_t i = 0; map_next(&s->rules, &i, &pc, &rule);) free(rule);
  map_clear(&s->rules);
  memset(s->cache, 0, sizeof s->cache);
}

void api_stacks_free(Emu *emu) {
  Stacks *s = emu->stacks;
  if (!s) return;
  forget_rules(s);
  map_free(&s->rules);
  vec_free(&s->pool);
  vec_free(&s->at);
  free(s->table);
  free(s);
}

/* ---- walking --------------------------------------------------------------------------------- */

static int dwarf_reg(const Guest *g, int reg) { return reg >= 0 ? g->regs[reg].dwarf : -1; }

static DebugRule work_out(Emu *emu, uint64_t pc) {
  const Guest *g = emu->guest;
  CoreImageRecord *r = api_record_at(emu, pc);
  DebugImage *d = r && !r->unloaded ? api_debug(emu, r) : NULL;
  if (!d) return (DebugRule){0};
  return debug_rule(d, pc - r->pub.bias, dwarf_reg(g, g->abi.sp), dwarf_reg(g, g->abi.fp),
                    dwarf_reg(g, g->abi.ra));
}

static const DebugRule *rule_at(Cursor *c, uint64_t pc) {
  Rule *near = &c->s->cache[map_hash(pc) & (CACHE - 1)];
  if (near->pc == pc) return &near->rule;
  Rule *kept = map_get(&c->s->rules, pc);
  if (!kept) {
    kept = xmalloc(sizeof *kept);
    *kept = (Rule){pc, work_out(c->emu, pc)};
    map_put(&c->s->rules, pc, kept);
  }
  *near = *kept;
  return &near->rule;
}

static bool load(Cursor *c, uint64_t va, uint64_t *out) {
  if (va < c->low || va + 8 > c->high || va % 8) {
    const CoreArea *a = va % 8 ? NULL : core_area(c->emu, va);
    if (!a || a->start > va || !(a->prot & PROT_READ)) return false;
    c->low = a->start;
    c->high = a->end;
  }
  *out = *(const uint64_t *)(uintptr_t)va; /* identity mapping: in the area just looked up */
  return true;
}

/* The caller of a function none of whose instructions has executed. */
static bool leave_entry(Cursor *c) {
  if (c->emu->guest->abi.ra >= 0) {
    c->pc = c->ra;
    return true;
  }
  if (!load(c, c->sp, &c->pc)) return false;
  c->sp += 8;
  return true;
}

typedef enum Step { STEP_ON, STEP_END, STEP_UNKNOWN } Step;

static Step leave(Cursor *c, bool innermost) {
  const DebugRule *r = rule_at(c, innermost ? c->pc : c->pc - 1);
  if (!r->known) return STEP_UNKNOWN;
  if (r->end) return STEP_END;
  uint64_t cfa = (r->by_fp ? c->fp : c->sp) + (uint64_t)(int64_t)r->cfa;
  if (cfa < c->sp) return STEP_UNKNOWN;
  if (r->ra_kept && !innermost) return STEP_UNKNOWN;
  if (r->ra_kept)
    c->pc = c->ra;
  else if (!load(c, cfa + (uint64_t)(int64_t)r->ra, &c->pc))
    return STEP_UNKNOWN;
  if (!r->fp_kept && !load(c, cfa + (uint64_t)(int64_t)r->fp, &c->fp)) return STEP_UNKNOWN;
  c->sp = cfa;
  return c->pc ? STEP_ON : STEP_END;
}

static size_t walk(CoreThread *t, Stacks *s, uint64_t *pcs, size_t max, bool at_entry) {
  const Guest *g = t->emu->guest;
  Cursor c = {.emu = t->emu,
              .s = s,
              .pc = t->state->pc,
              .sp = guest_reg(g, t->state, g->abi.sp),
              .fp = g->abi.fp >= 0 ? guest_reg(g, t->state, g->abi.fp) : 0,
              .ra = g->abi.ra >= 0 ? guest_reg(g, t->state, g->abi.ra) : 0};
  size_t n = 0;
  pcs[n++] = c.pc;
  if (at_entry && n < max) {
    if (!leave_entry(&c)) return n;
    pcs[n++] = c.pc;
  }
  while (n < max) {
    Step step = leave(&c, n == 1);
    if (step == STEP_UNKNOWN) return api_walk(t->emu, t, pcs, max);
    if (step == STEP_END) break;
    pcs[n++] = c.pc;
  }
  return n;
}

/* ---- keeping --------------------------------------------------------------------------------- */

static uint64_t hash(const uint64_t *pcs, size_t n) {
  uint64_t h = n;
  for (size_t i = 0; i < n; i++) h = (h ^ pcs[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
  return h;
}

static bool is_stack(const Stacks *s, uint32_t id, const uint64_t *pcs, size_t n) {
  const uint64_t *have = &s->pool.at[s->at.at[id - 1]];
  return have[0] == n && !memcmp(have + 1, pcs, n * sizeof *pcs);
}

static void grow_table(Stacks *s) {
  size_t size = s->table_size ? s->table_size * 2 : 1024;
  free(s->table);
  s->table = xcalloc(size, sizeof *s->table);
  s->table_size = size;
  for (uint32_t id = 1; id <= s->at.n; id++) {
    const uint64_t *have = &s->pool.at[s->at.at[id - 1]];
    size_t i = hash(have + 1, have[0]) & (size - 1);
    while (s->table[i]) i = (i + 1) & (size - 1);
    s->table[i] = id;
  }
}

static uint32_t intern(Stacks *s, const uint64_t *pcs, size_t n) {
  if (s->at.n * 2 >= s->table_size) grow_table(s);
  size_t i = hash(pcs, n) & (s->table_size - 1);
  for (; s->table[i]; i = (i + 1) & (s->table_size - 1))
    if (is_stack(s, s->table[i], pcs, n)) return s->table[i];
  vec_push(&s->at, s->pool.n);
  vec_push(&s->pool, n);
  for (size_t k = 0; k < n; k++) vec_push(&s->pool, pcs[k]);
  return s->table[i] = (uint32_t)s->at.n;
}

uint32_t api_stack_here(CoreThread *t, uint32_t max, bool at_entry) {
  Stacks *s = stacks_of(t->emu);
  uint64_t pcs[LIMIT];
  if (s->images != t->emu->images.n) forget_rules(s); /* another may be where one was */
  s->images = t->emu->images.n;
  return intern(s, pcs, walk(t, s, pcs, max < LIMIT ? max : LIMIT, at_entry));
}

uint32_t kit_stack(KitEmu *emu, int tid, uint32_t max) {
  CoreThread *t = api_thread(emu, tid);
  return t && max ? api_stack_here(t, max, false) : 0;
}

const uint64_t *kit_stack_frames(KitEmu *emu, uint32_t stack, size_t *n) {
  Stacks *s = emu->stacks;
  if (!s || !stack || stack > s->at.n) return NULL;
  const uint64_t *have = &s->pool.at[s->at.at[stack - 1]];
  *n = have[0];
  return have + 1;
}
