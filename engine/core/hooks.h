/* Private to core/: the registry of hooks and probes. */
#ifndef CORE_HOOKS_H
#define CORE_HOOKS_H

#include "core/probe.h"

struct KitHook {
  CoreProbe probe; /* in translated code; unused for events that are raised from C */
  Emu *emu;
  KitHookSpec spec;
  IrNth nth;
  CorePlane *plane; /* only accesses that touch a marked byte match */
  KitPlaneCheck check;
  uint64_t hits;
  bool dead;                    /* closed; freed by core_defer */
  bool woven;                   /* probe is on the list */
  void (*on_close)(KitHook *h); /* the owner's part of closing */
  void (*on_free)(KitHook *h);  /* frees the owner's data */
  void *data;
  KitHook *next;
};

struct CoreHooks {
  CoreProbe *probes;
  uint32_t sites;                   /* union of the probes' masks */
  KitHook *by_event[KIT_EV_EVENTS]; /* in registration order */
  uint32_t next_retired;            /* whose turn it is among the slots of the retired count */
  uint64_t next_counter;            /* byte offset of the next free counter */
  IrOp *woven;                      /* instrument.c's, IR_MAX_OPS each; NULL: not needed yet */
  IrRef *renamed;
};

/* kit_hook_add with a plane in front: see fast/plane.c. */
KitStatus core_hook_add_plane(Emu *emu, const KitHookSpec *spec, CorePlane *plane,
                              const KitPlaneCheck *check, KitHook **out);
/* Closes the hooks of a plane that goes away. */
void core_hook_drop_plane(Emu *emu, const CorePlane *plane);

#endif
