/* Client requests: what programs that were built with Valgrind's headers ask of the tool they run
 * under. On a bare machine the instructions do nothing: rotations that add up to none, then one that
 * is recognised behind them. A register holds the address of the request's code and five arguments,
 * another the default result. */
#include <string.h>
#include <sys/mman.h>

#include "core/hooks.h"

typedef struct Requests {
  CoreProbe probe;
  Emu *emu;
  KitRequestFn fn;
  void *user;
} Requests;

static Requests *requests_of(CoreProbe *p) { return (Requests *)(void *)p; }

static bool wants(CoreProbe *p, const CoreSite *s) {
  const Emu *emu = requests_of(p)->emu;
  const GuestRequest *r = &emu->guest->request;
  uint64_t before = r->size - s->insn->len, start = s->pc - before;
  if (s->insn->len != r->trigger || s->insn->branch || s->pc < before) return false;
  const void *code = emu_addr_space_ptr(emu, start, r->size, PROT_READ);
  return code && !memcmp(code, r->code, r->size);
}

static uint64_t callout(IrState *s, const IrCallout *out, uint64_t a, uint64_t b, uint32_t size) {
  Requests *q = out->owner;
  CoreThread *t = s->thread;
  const Guest *g = q->emu->guest;
  uint64_t words[6];
  (void)a, (void)b, (void)size;
  if (core_peek(q->emu, guest_reg(g, s, g->request.args), words, sizeof words)) return 0;
  KitRequest r = {
      .code = words[0], .result = guest_reg(g, s, g->request.result), .tid = t->tid, .pc = out->pc};
  memcpy(r.args, words + 1, sizeof r.args);
  t->in_guest = 0;
  q->fn(q->user, q->emu, &r);
  t->in_guest = 1;
  guest_set_reg(g, s, g->request.result, r.result);
  return 0;
}

static void emit(CoreProbe *p, CoreWeaver *w, const CoreSite *s) {
  IrCallout *out = core_weaver_alloc(w, sizeof *out);
  *out = (IrCallout){.fn = callout, .pc = s->pc, .kind = KIT_EV_EXEC, .owner = requests_of(p)};
  IrRef zero = core_emit_imm(w, 0);
  core_emit(w, IR_callout, zero, zero, 0, (uint64_t)(uintptr_t)out);
}

KitStatus kit_requests(KitEmu *emu, KitRequestFn fn, void *user) {
  if (!emu->guest->request.code)
    return core_fail(emu, KIT_E_UNSUPPORTED, "%s has no client requests", emu->guest->name);
  Requests *q = xcalloc(1, sizeof *q);
  *q = (Requests){.probe = {.sites = 1u << SITE_EXEC, .wants = wants, .emit = emit},
                  .emu = emu,
                  .fn = fn,
                  .user = user};
  core_own(emu, free, q);
  core_probe_add(emu, &q->probe);
  return KIT_OK;
}
