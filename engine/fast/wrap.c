/* kit_wrap: function interception. The entry is an exec hook; where it stands in for the function,
 * the function's code is a return (core_replace), so calls and returns stay what they are for every
 * other observer. Each return address seen gets an exec hook of its own, once and for good, so that
 * calls cost no retranslation; an activation is over when its thread comes to its return address
 * with the stack pointer where the caller had it (recursion and longjmp past the frame do no harm).
 *
 * The symbol of an indirect function (STT_GNU_IFUNC) is that of its resolver: the resolver is
 * wrapped, and what it returns becomes the function. */
#include <stdlib.h>

#include "core/hooks.h"

typedef struct Activation {
  uint64_t ret, sp;
  int tid;
} Activation;

typedef struct Wrap {
  KitWrapSpec spec;
  Emu *emu;
  Map returns;                 /* return address -> KitHook */
  KitHook *inner;              /* of an indirect function: the wrap of what was resolved */
  VEC(Activation) activations; /* not returned yet; of all threads, oldest first */
} Wrap;

/* Ends the innermost activation that returns here; those inside it that never returned (longjmp,
 * exceptions) go too. */
static bool end_activation(Wrap *w, uint64_t ret, uint64_t sp, int tid) {
  bool returned = false;
  for (size_t i = w->activations.n; i-- > 0;) {
    Activation *a = &w->activations.at[i];
    if (a->tid != tid) continue;
    if (a->sp > sp) break; /* still active, further out */
    returned = a->sp == sp && a->ret == ret;
    for (size_t j = i + 1; j < w->activations.n; j++)
      w->activations.at[j - 1] = w->activations.at[j];
    w->activations.n--;
    if (returned) break;
  }
  return returned;
}

static KitVerdict on_leave(void *user, KitEmu *emu, KitEvent *ev) {
  Wrap *w = user;
  uint64_t sp = guest_reg(emu->guest, emu->current->state, emu->guest->abi.sp);
  if (!end_activation(w, ev->pc, sp, ev->tid)) return KIT_CONTINUE;
  return w->spec.leave(w->spec.user, emu, ev);
}

/* Where the function will return to: the link register, or the word at the stack pointer where
 * there is none. */
static bool return_address(Emu *emu, uint64_t *pc, uint64_t *sp_after) {
  const Guest *g = emu->guest;
  const IrState *s = emu->current->state;
  uint64_t sp = guest_reg(g, s, g->abi.sp);
  *sp_after = sp;
  if (g->abi.ra >= 0) {
    *pc = guest_reg(g, s, g->abi.ra);
    return true;
  }
  *sp_after = sp + 8;
  return !core_peek(emu, sp, pc, 8);
}

static KitVerdict on_enter(void *user, KitEmu *emu, KitEvent *ev) {
  Wrap *w = user;
  uint64_t ret, sp;
  KitVerdict v = w->spec.enter ? w->spec.enter(w->spec.user, emu, ev) : KIT_CONTINUE;
  CoreThread *t = emu->current;
  if (w->spec.replace || !w->spec.leave || !return_address(emu, &ret, &sp)) return v;
  vec_push(&w->activations, ((Activation){.ret = ret, .sp = sp, .tid = t->tid}));
  if (!map_get(&w->returns, ret)) {
    KitHook *h;
    kit_hook_add(
        emu,
        &(KitHookSpec){
            .event = KIT_EV_EXEC, .filter = {.pc = ret, .pc_len = 1}, .fn = on_leave, .user = w},
        &h);
    map_put(&w->returns, ret, h);
  }
  return v;
}

/* The entry hook goes: its return hooks with it. They are dead at once and freed by the same sweep
 * or the next. */
static void free_wrap(KitHook *h) {
  Wrap *w = h->data;
  map_free(&w->returns);
  vec_free(&w->activations);
  free(w);
}

static void close_wrap(KitHook *h) {
  Wrap *w = h->data;
  uint64_t ret;
  void *hook;
  if (w->spec.replace) core_replace(w->emu, w->spec.address, false);
  kit_hook_close(&w->inner);
  for (size_t i = 0; map_next(&w->returns, &i, &ret, &hook);) kit_hook_close(&(KitHook *){hook});
  map_clear(&w->returns);
}

static KitStatus add(KitEmu *emu, const KitWrapSpec *spec, KitHook **out) {
  Wrap *w = xcalloc(1, sizeof *w);
  *w = (Wrap){.spec = *spec, .emu = emu};
  if (spec->replace) core_replace(emu, spec->address, true);
  KitStatus st = kit_hook_add(emu,
                              &(KitHookSpec){.event = KIT_EV_EXEC,
                                             .filter = {.pc = spec->address, .pc_len = 1},
                                             .fn = on_enter,
                                             .user = w},
                              out);
  if (st) {
    if (spec->replace) core_replace(emu, spec->address, false);
    free(w);
    return st;
  }
  (*out)->on_close = close_wrap;
  (*out)->on_free = free_wrap;
  (*out)->data = w;
  return KIT_OK;
}

/* ---- indirect functions ---------------------------------------------------------------------- */

typedef struct Resolver {
  KitWrapSpec spec; /* for the function */
  KitHook *outer;
} Resolver;

static KitVerdict on_resolved(void *user, KitEmu *emu, KitEvent *ev) {
  Resolver *r = user;
  Wrap *w = r->outer->data;
  uint64_t address = guest_reg(emu->guest, emu->current->state, emu->guest->abi.ret);
  (void)ev;
  if (w->inner || !address) return KIT_CONTINUE;
  r->spec.address = address;
  add(emu, &r->spec, &w->inner);
  return KIT_CONTINUE;
}

static void free_resolver(KitHook *h) {
  free(((Wrap *)h->data)->spec.user);
  free_wrap(h);
}

KitStatus kit_wrap(KitEmu *emu, const KitWrapSpec *spec, KitHook **out) {
  if (!spec->enter && (spec->replace || !spec->leave))
    return core_fail(emu, KIT_E_ARGUMENT, "nothing to call: give enter or leave");
  if (!spec->indirect) return add(emu, spec, out);
  Resolver *r = xcalloc(1, sizeof *r);
  r->spec = *spec;
  KitStatus st = add(emu, &(KitWrapSpec){.address = spec->address, .leave = on_resolved, .user = r},
                     &r->outer);
  *out = r->outer;
  if (st)
    free(r);
  else
    r->outer->on_free = free_resolver;
  return st;
}
