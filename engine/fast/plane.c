/* Shadow planes of kit/emu.h, and access checks against them: in translated code a plane check is a
 * load and a test; the hook behind it is called only for accesses that touch a marked byte. */
#include <stdlib.h>

#include "core/hooks.h"
#include "core/run.h"
#include "fast/planes.h"

static void free_plane(void *ptr) {
  KitPlane *p = ptr;
  core_plane_free(p->core);
  vec_free(&p->checks);
  free(p);
}

KitStatus kit_plane(KitEmu *emu, const KitPlaneSpec *spec, KitPlane **out) {
  if (spec->bits != 1 && spec->bits != 2 && spec->bits != 8)
    return core_fail(emu, KIT_E_ARGUMENT, "a plane has 1, 2 or 8 bits a byte, not %u", spec->bits);
  CorePlane *core = core_plane_new(emu, spec->name, spec->bits);
  if (!core) return emu->error.code;
  KitPlane *p = xcalloc(1, sizeof *p);
  p->emu = emu;
  p->core = core;
  core_own(emu, free_plane, p);
  *out = p;
  return KIT_OK;
}

static KitStatus bounds(KitPlane *p, uint64_t va, uint64_t len) {
  if (va < CORE_LINE && len <= CORE_LINE - va) return KIT_OK;
  return core_fail(p->emu, KIT_E_UNMAPPED, "0x%llx + %llu is no guest range",
                   (unsigned long long)va, (unsigned long long)len);
}

KitStatus kit_plane_fill(KitPlane *p, uint64_t va, uint64_t len, uint8_t value) {
  KitStatus st = bounds(p, va, len);
  if (!st) core_plane_fill(p->core, va, len, value);
  return st;
}

KitStatus kit_plane_get(KitPlane *p, uint64_t va, uint8_t *values, size_t n) {
  KitStatus st = bounds(p, va, n);
  if (!st) core_plane_get(p->core, va, values, n);
  return st;
}

KitStatus kit_plane_set(KitPlane *p, uint64_t va, const uint8_t *values, size_t n) {
  KitStatus st = bounds(p, va, n);
  if (!st) core_plane_set(p->core, va, values, n);
  return st;
}

bool kit_plane_find(KitPlane *p, uint64_t va, uint64_t len, uint64_t *where, uint8_t *value) {
  return !bounds(p, va, len) && core_plane_find(p->core, va, len, where, value);
}

KitStatus kit_plane_check(KitPlane *p, const KitPlaneCheck *check, KitHook **out) {
  KitEventKind which = check->which;
  if (which != KIT_EV_LOAD && which != KIT_EV_STORE && which != KIT_EV_ACCESS)
    return core_fail(p->emu, KIT_E_ARGUMENT,
                     "a plane checks \"load\", \"store\" or \"access\", not \"%s\"",
                     kit_event_name(which));
  KitStatus st = core_hook_add_plane(
      p->emu, &(KitHookSpec){.event = which, .fn = check->fn, .user = check->user}, p->core, check,
      out);
  if (!st) vec_push(&p->checks, *out);
  return st;
}

void kit_plane_close(KitPlane **plane) {
  KitPlane *p = *plane;
  *plane = NULL;
  if (!p) return;
  for (size_t i = 0; i < p->checks.n; i++) core_hook_drop_plane(p->emu, p->core);
  core_disown(p->emu, free_plane, p);
}
