/* Private to fast/: what KitPlane is. */
#ifndef FAST_PLANES_H
#define FAST_PLANES_H

#include "core/core.h"

struct KitPlane {
  Emu *emu;
  CorePlane *core;
  VEC(KitHook *) checks;
};

#endif
