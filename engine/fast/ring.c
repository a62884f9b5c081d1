/* kit_trace: records of chosen fields, appended to a ring by translated code and read in batches.
 */
#include <stdlib.h>
#include <string.h>

#include "core/probe.h"

#define DEFAULT_CAPACITY 65536

static const char *const field_names[KIT_F_FIELDS] = {"pc", "addr", "size",  "write", "tid",
                                                      "to", "kind", "taken", "value"};

const char *kit_field_name(KitField f) { return f < KIT_F_FIELDS ? field_names[f] : "?"; }

struct KitRing {
  IrRing ir; /* first */
  CoreProbe probe;
  Emu *emu;
  KitTraceSpec spec;
  IrNth nth;
  char *records;
  uint32_t capacity;
  uint64_t dropped;
};

static KitRing *ring_of(CoreProbe *p) { return (KitRing *)((char *)p - offsetof(KitRing, probe)); }

static bool wants(CoreProbe *p, const CoreSite *site) {
  KitRing *r = ring_of(p);
  return core_event_site(r->spec.event, site) && core_filter_site(&r->spec.filter, site);
}

static IrRef field(CoreWeaver *w, const CoreSite *s, KitField f) {
  switch (f) {
  case KIT_F_PC: return core_emit_imm(w, s->pc);
  case KIT_F_ADDR: return s->addr ? s->addr : core_emit_imm(w, 0);
  case KIT_F_SIZE: return core_emit_imm(w, s->kind == SITE_BLOCK ? s->block->n_insns : s->size);
  case KIT_F_WRITE: return core_emit_imm(w, s->is_write);
  case KIT_F_TID: return core_emit(w, IR_get, 0, 0, 0, offsetof(IrState, tid));
  case KIT_F_TO: return s->to ? s->to : core_emit_imm(w, 0);
  case KIT_F_KIND: return core_emit_imm(w, s->insn ? s->insn->branch : 0);
  case KIT_F_TAKEN: return s->taken ? s->taken : core_emit_imm(w, s->kind == SITE_BRANCH);
  case KIT_F_VALUE: return s->value ? s->value : core_emit_imm(w, 0);
  default: return core_emit_imm(w, 0);
  }
}

static void emit(CoreProbe *p, CoreWeaver *w, const CoreSite *s) {
  KitRing *r = ring_of(p);
  uint32_t g = core_guard_begin(w, core_emit_filter(w, &r->spec.filter, s, &r->nth));
  IrRef rec = core_emit(w, IR_ring_open, 0, 0, 0, (uint64_t)(uintptr_t)&r->ir);
  for (uint32_t i = 0; i < r->spec.n_fields; i++)
    core_emit(w, IR_ring_put, rec, field(w, s, r->spec.fields[i]), 0, i * 8);
  core_guard_end(w, g);
}

/* Full: the script's flush empties it, else the older half goes. */
static void flush(IrRing *ir, IrState *s) {
  KitRing *r = (KitRing *)ir;
  CoreThread *t = s->thread;
  if (r->spec.flush) {
    t->in_guest = 0;
    r->spec.flush(r->spec.user, r);
    t->in_guest = 1;
  }
  if (ir->next < ir->end) return;
  size_t half = r->capacity / 2 * (size_t)ir->record_size, all = (size_t)(ir->end - r->records);
  if (!half) half = all;
  memmove(r->records, r->records + half, all - half);
  ir->next = ir->end - half;
  r->dropped += half / ir->record_size;
}

static void fork_child(CoreProbe *p, CoreThread *t) {
  (void)t;
  kit_ring_clear(ring_of(p));
}

static void free_ring(void *p) {
  KitRing *r = p;
  free(r->records);
  free(r);
}

KitStatus kit_trace(KitEmu *emu, const KitTraceSpec *spec, KitRing **out) {
  uint32_t sites = core_event_sites(spec->event);
  if (!sites)
    return core_fail(emu, KIT_E_ARGUMENT,
                     "event \"%s\" does not happen in translated code: use a hook",
                     kit_event_name(spec->event));
  if (!spec->n_fields || spec->n_fields > KIT_F_FIELDS)
    return core_fail(emu, KIT_E_ARGUMENT, "a trace needs 1 to %d fields", KIT_F_FIELDS);
  KitRing *r = xcalloc(1, sizeof *r);
  r->emu = emu;
  r->spec = *spec;
  r->capacity = spec->capacity ? spec->capacity : DEFAULT_CAPACITY;
  r->nth = (IrNth){.every = spec->filter.every, .left = spec->filter.every};
  r->ir.record_size = spec->n_fields * 8;
  r->records = xmalloc((size_t)r->capacity * r->ir.record_size);
  r->ir.flush = flush;
  r->ir.next = r->records;
  r->ir.end = r->records + (size_t)r->capacity * r->ir.record_size;
  r->probe = (CoreProbe){.sites = sites, .wants = wants, .emit = emit, .fork_child = fork_child};
  core_probe_add(emu, &r->probe);
  core_own(emu, free_ring, r);
  *out = r;
  return KIT_OK;
}

const uint64_t *kit_ring_records(KitRing *r, size_t *n) {
  *n = (size_t)(r->ir.next - r->records) / r->ir.record_size;
  return (const uint64_t *)(const void *)r->records;
}

const uint64_t *kit_ring_next(const KitRing *r, size_t *at) {
  const char *record = r->records + *at;
  if (record >= r->ir.next) return NULL;
  *at += r->ir.record_size;
  return (const uint64_t *)(const void *)record;
}

void kit_ring_clear(KitRing *r) { r->ir.next = r->records; }
uint64_t kit_ring_dropped(const KitRing *r) { return r->dropped; }

void kit_ring_close(KitRing **ring) {
  KitRing *r = *ring;
  *ring = NULL;
  if (!r) return;
  core_probe_remove(r->emu, &r->probe);
  core_disown(r->emu, free_ring, r);
}
