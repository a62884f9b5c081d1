/* Private to core/map.c, access.c and planes.c: the memory map's data. */
#ifndef CORE_AREA_H
#define CORE_AREA_H

#include "core/core.h"
#include "ir/state.h"

struct CorePlane {
  IrPlane ir; /* window NULL: kept in `pages` */
  Emu *emu;
  char *name;
  Map pages; /* guest page number -> its values, bits packed as in a window */
  struct CorePlane *next;
};

struct CoreMap {
  Emu *emu;
  VEC(CoreArea) areas; /* sorted, not overlapping */
  VEC(char *) names;   /* interned */
  uint64_t brk_start, brk;
  Map guarded; /* page number -> 1: guest-writable page whose host PROT_WRITE is off because of
                  translations */
  Map aliases; /* page number of a writable alias (guarded) -> page number with code */
  CorePlane *planes;
};

size_t core_area_index(const CoreMap *m, uint64_t va); /* first with end > va; n if there is none */
int core_host_prot(int prot);
const char *core_intern(CoreMap *m, const char *name);
/* planes.c: in lockstep with the map. */
void core_planes_drop(CoreMap *m, uint64_t va, uint64_t len);
void core_planes_move(CoreMap *m, uint64_t from, uint64_t to, uint64_t len);

#endif
