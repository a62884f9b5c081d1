/* kit_wrap: function interception. The entry is an exec hook; the return is a temporary exec hook at the return address that
 * fires when the stack pointer is back where the caller had it (so recursion and longjmp past the frame do no harm). */
#include <stdlib.h>

#include "core/hooks.h"

typedef struct Wrap {
  KitWrapSpec spec;
  Emu *emu;
  KitHook *entry;
  VEC(struct Leave *) leaves; /* activations that have not returned yet */
} Wrap;

typedef struct Leave {
  Wrap *wrap;
  KitHook *hook;
  uint64_t sp;
  int tid;
} Leave;

static void forget(Leave *l) {
  Wrap *w = l->wrap;
  for (size_t i = 0; i < w->leaves.n; i++)
    if (w->leaves.at[i] == l) {
      w->leaves.at[i] = vec_pop(&w->leaves);
      break;
    }
  kit_hook_close(&l->hook);
  free(l);
}

static KitVerdict on_leave(void *user, KitEmu *emu, KitEvent *ev) {
  Leave *l = user;
  Wrap *w = l->wrap;
  const Guest *g = emu->guest;
  uint64_t sp = guest_reg(g, emu->current->state, g->abi.sp);
  if (sp < l->sp) return KIT_CONTINUE; /* a deeper activation returns here */
  bool returned = sp == l->sp;         /* else the frame was skipped by longjmp or an exception */
  KitHookFn fn = w->spec.leave;
  void *fn_user = w->spec.user;
  forget(l);
  return returned ? fn(fn_user, emu, ev) : KIT_CONTINUE;
}

/* Where the function will return to: the link register, or the word at the stack pointer where there is none. */
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
  if (!return_address(emu, &ret, &sp)) return v;
  if (w->spec.replace) {
    t->state->pc = ret;
    guest_set_reg(emu->guest, t->state, emu->guest->abi.sp, sp);
    core_pc_written(t);
    return v;
  }
  if (!w->spec.leave) return v;
  Leave *l = xcalloc(1, sizeof *l);
  *l = (Leave){.wrap = w, .sp = sp, .tid = t->tid};
  KitHookSpec spec = {.event = KIT_EV_EXEC, .filter = {.pc = ret, .pc_len = 1, .tid = t->tid}, .fn = on_leave, .user = l};
  kit_hook_add(emu, &spec, &l->hook);
  vec_push(&w->leaves, l);
  return v;
}

static void free_wrap(KitHook *h) {
  Wrap *w = h->data;
  while (w->leaves.n) forget(w->leaves.at[0]);
  vec_free(&w->leaves);
  free(w);
}

KitStatus kit_wrap(KitEmu *emu, const KitWrapSpec *spec, KitHook **out) {
  if (!spec->enter && (spec->replace || !spec->leave)) return core_fail(emu, KIT_E_ARGUMENT, "nothing to call: give enter or leave");
  Wrap *w = xcalloc(1, sizeof *w);
  *w = (Wrap){.spec = *spec, .emu = emu};
  KitStatus st = kit_hook_add(emu, &(KitHookSpec){.event = KIT_EV_EXEC, .filter = {.pc = spec->address, .pc_len = 1}, .fn = on_enter, .user = w}, out);
  if (st) {
    free(w);
    return st;
  }
  (*out)->on_free = free_wrap;
  (*out)->data = w;
  return KIT_OK;
}
