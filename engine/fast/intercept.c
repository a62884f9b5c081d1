/* How the heap's functions and those on memory come to be called: the entries of the functions in
 * heap.def are looked for in every image that is loaded. At each the code becomes a return
 * (core_replace), with a callout before it. */
#include <stdlib.h>
#include <string.h>

#include "core/probe.h"
#include "fast/heap.h"
#include "fast/planes.h"

static const HeapFunction functions[] = {
#define ALLOC(name, function, kind) {name, heap_##function, KIT_ALLOC_##kind, false, false},
#define MEMFN(name, function, wide) {name, mem_##function, 0, wide, true},
#include "fast/heap.def"
};
#define N_FUNCTIONS (sizeof functions / sizeof *functions)

const char *kit_heap_error_name(KitHeapErrorKind k) {
  static const char *const names[KIT_HEAP_ERRORS] = {
      "bad-free", "mismatched-free", "access", "overlap", "fishy", "bad-alignment", "no-memory"};
  return k < KIT_HEAP_ERRORS ? names[k] : "?";
}

/* ---- reports --------------------------------------------------------------------------------- */

uint32_t heap_stack(const HeapCall *c) {
  return c->heap->spec.callers ? c->heap->emu->stack_here(c->t, c->heap->spec.callers, true) : 0;
}

void heap_report(HeapCall *c, KitHeapError *e) {
  CoreThread *t = c->t;
  e->function = c->fn->name;
  if (!c->heap->spec.fn) return;
  sig_atomic_t in_guest = t->in_guest;
  t->in_guest = 0; /* a fault in there is not the guest's */
  if (c->heap->spec.fn(c->heap->spec.user, t->emu, e) & KIT_STOP) {
    if (!t->stop_asked)
      t->emu->stop = (KitStop){.reason = KIT_STOP_HOOK, .tid = t->tid, .pc = t->state->pc};
    t->stop_asked = true;
    t->state->stop = t->state->interrupt = 1;
  }
  t->in_guest = in_guest;
}

#define MOST 1000 /* reports of one call */

bool heap_marked(const KitHeap *h, uint64_t va, uint64_t len) {
  const IrPlane *p = core_plane_ir(h->plane);
  uint64_t where, bits;
  uint8_t value;
  if (va >= HEAP_HIGH || va + len <= HEAP_LOW || !len) return false;
  if (!p->window || len > 56 || va < HEAP_LOW) /* the window goes on behind the heap's part */
    return core_plane_find(h->plane, va, len, &where, &value);
  memcpy(&bits, p->window + (va >> 3), 8);
  return bits >> (va & 7) & ((1ull << len) - 1);
}

void heap_check(HeapCall *c, uint64_t va, uint64_t len, uint64_t unit, bool is_write) {
  if (!heap_marked(c->heap, va, len)) return;
  for (uint64_t i = 0, n = 0; i < len && n < MOST; i += unit) {
    if (!heap_marked(c->heap, va + i, unit)) continue;
    n++;
    heap_report(c, &(KitHeapError){.kind = KIT_HEAP_ACCESS,
                                   .addr = va + i,
                                   .size = unit,
                                   .is_write = is_write,
                                   .site = c->site});
  }
}

/* ---- the callout ----------------------------------------------------------------------------- */

typedef struct Site {
  IrCallout out; /* first: the operation's immediate */
  const HeapFunction *fn;
} Site;

static uint64_t callout(IrState *s, const IrCallout *out, uint64_t a, uint64_t b, uint32_t size) {
  const Site *site = (const Site *)out;
  CoreThread *t = s->thread;
  const Guest *g = t->emu->guest;
  HeapCall c = {.heap = out->owner, .t = t, .fn = site->fn};
  (void)a, (void)b, (void)size;
  for (int i = 0; i < 4; i++) c.a[i] = guest_reg(g, s, g->abi.args[i]);
  bool on_memory = site->fn->touches;
  _Static_assert(sizeof c.a / sizeof *c.a <= 6, "every guest passes so many in registers");
  t->in_guest = on_memory; /* a bad pointer faults here, at the function's entry */
  uint64_t result = site->fn->run(&c);
  t->in_guest = 1;
  guest_set_reg(g, s, g->abi.ret, result);
  return 0;
}

typedef struct HeapProbe {
  CoreProbe probe;
  KitHeap *heap;
} HeapProbe;

static const HeapFunction *function_at(CoreProbe *p, uint64_t pc) {
  return map_get(&((HeapProbe *)p)->heap->functions, pc);
}

static bool wants(CoreProbe *p, const CoreSite *s) { return function_at(p, s->pc) != NULL; }

static void emit(CoreProbe *p, CoreWeaver *w, const CoreSite *s) {
  Site *site = core_weaver_alloc(w, sizeof *site);
  *site = (Site){.out = {.fn = callout, .pc = s->pc, .kind = KIT_EV_EXEC, .light = true},
                 .fn = function_at(p, s->pc)};
  site->out.owner = ((HeapProbe *)p)->heap;
  IrRef zero = core_emit_imm(w, 0);
  core_emit(w, IR_callout, zero, zero, 0, (uint64_t)(uintptr_t)&site->out);
}

/* ---- finding them ---------------------------------------------------------------------------- */

static void stand_in(KitHeap *h, uint64_t pc, const HeapFunction *f) {
  if (map_get(&h->functions, pc)) return;
  map_put(&h->functions, pc, (void *)(uintptr_t)f);
  core_replace(h->emu, pc, true);
  core_invalidate(h->emu, pc, 1);
}

const char *kit_heap_function(const KitHeap *h, uint64_t pc) {
  const HeapFunction *f = map_get(&h->functions, pc);
  return f ? f->name : NULL;
}

/* ---- indirect functions: their resolvers return an address of ours. What they would return may be
 * several functions in one (memcpy and memmove). It lies inside an instruction of the resolver, where
 * no code begins, and has the function's name. ---- */

typedef struct Resolver {
  KitHeap *heap;
  const HeapFunction *fn;
  uint64_t entry;
} Resolver;

static uint64_t inside_instruction(Emu *emu, uint64_t pc) {
  const Guest *g = emu->guest;
  uint8_t code[16];
  GuestInsn insn;
  while (!core_peek(emu, pc, code, g->max_insn) &&
         g->decode(code, g->max_insn, pc, &insn) == GUEST_DECODE_OK) {
    if (insn.len > g->min_insn) return pc + g->min_insn;
    pc += insn.len;
  }
  return 0;
}

static KitVerdict on_resolved(void *user, KitEmu *emu, KitEvent *ev) {
  Resolver *r = user;
  (void)ev;
  stand_in(r->heap, r->entry, r->fn);
  guest_set_reg(emu->guest, emu->current->state, emu->guest->abi.ret, r->entry);
  return KIT_CONTINUE;
}

static void resolve_later(KitHeap *h, uint64_t pc, const HeapFunction *f) {
  Resolver *r = xmalloc(sizeof *r);
  KitHook *hook;
  *r = (Resolver){h, f, inside_instruction(h->emu, pc)};
  core_own(h->emu, free, r);
  if (r->entry)
    kit_wrap(h->emu, &(KitWrapSpec){.address = pc, .leave = on_resolved, .user = r}, &hook);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Functions on memory are those of the C library and of its loader, or of a static program: others
 * may have theirs of the same names. */
static bool is_libc(const KitHeap *h, const KitImage *i) {
  const char *name = base_name(i->path);
  return !strncmp(name, "libc.so", 7) || !strncmp(name, "libc-", 5) || !strncmp(name, "ld-", 3) ||
         (!i->id && h->is_static);
}

static void look_for(KitHeap *h, const KitImage *image, const char *name, const HeapFunction *f) {
  KitSymbol s;
  if (!kit_image_symbol(h->emu, image, name, &s) || !s.is_function) return;
  if (s.is_indirect)
    resolve_later(h, s.address, f);
  else
    stand_in(h, s.address, f);
}

static const HeapFunction *function_named(const char *name) {
  for (size_t i = 0; i < N_FUNCTIONS; i++)
    if (!strcmp(functions[i].name, name)) return &functions[i];
  return NULL;
}

static void add_image(KitHeap *h, const KitImage *image) {
  bool libc = is_libc(h, image);
  bool loader = !strncmp(base_name(image->path), "ld-", 3); /* its malloc is another one */
  for (size_t i = 0; i < N_FUNCTIONS; i++)
    if (functions[i].touches ? libc : !loader) look_for(h, image, functions[i].name, &functions[i]);
  for (const char *const *n = h->spec.names; n && n[0] && n[1]; n += 2) {
    const HeapFunction *f = function_named(n[0]);
    if (f) look_for(h, image, n[1], f);
  }
}

static void drop_image(KitHeap *h, const KitImage *image) {
  uint64_t pc;
  void *f;
  VEC(uint64_t) gone = {0};
  for (size_t i = 0; map_next(&h->functions, &i, &pc, &f);)
    if (pc >= image->low && pc < image->high) vec_push(&gone, pc);
  for (size_t i = 0; i < gone.n; i++) {
    map_remove(&h->functions, gone.at[i]);
    core_replace(h->emu, gone.at[i], false);
  }
  vec_free(&gone);
}

static KitVerdict on_image(void *user, KitEmu *emu, KitEvent *ev) {
  (void)emu;
  (ev->image.loaded ? add_image : drop_image)(user, ev->image.image);
  return KIT_CONTINUE;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void free_heap(void *p) {
  KitHeap *h = p;
  map_free(&h->functions);
  heap_free_all(h);
  free(h->probe);
  free(h);
}

static KitStatus wrong(KitEmu *emu, const KitHeapSpec *spec) {
  if (!spec->plane || core_plane_ir(spec->plane->core)->bits != 1)
    return core_fail(emu, KIT_E_ARGUMENT, "a heap needs a plane of 1 bit");
  if (spec->redzone > 1 << 20) return core_fail(emu, KIT_E_ARGUMENT, "redzones have at most 1 MiB");
  if (emu->started)
    return core_fail(emu, KIT_E_BUSY, "the guest has started: it has a heap already");
  return KIT_OK;
}

KitStatus kit_heap(KitEmu *emu, const KitHeapSpec *spec, KitHeap **out) {
  KitStatus st = wrong(emu, spec);
  if (st) return st;
  KitHeap *h = xcalloc(1, sizeof *h);
  h->emu = emu;
  h->spec = *spec;
  h->spec.redzone = (spec->redzone + 15) & ~15u;
  h->plane = spec->plane->core;
  h->usage.limit = HEAP_HIGH;
  h->top = h->usage.low = h->usage.high = HEAP_LOW;
  h->is_static = kit_image_count(emu) == 1;
  HeapProbe *p = xcalloc(1, sizeof *p);
  p->heap = h;
  p->probe = (CoreProbe){
      .sites = 1u << SITE_EXEC, .may_stop = false, .wants = wants, .emit = emit, .pc_len = 0};
  h->probe = &p->probe;
  core_own(emu, free_heap, h);
  core_probe_add(emu, h->probe);
  KitHook *hook;
  kit_hook_add(emu, &(KitHookSpec){.event = KIT_EV_IMAGE, .fn = on_image, .user = h}, &hook);
  for (size_t i = 0; i < kit_image_count(emu); i++) add_image(h, kit_image(emu, i));
  *out = h;
  return KIT_OK;
}
