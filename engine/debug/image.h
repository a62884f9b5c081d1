/* Private to debug/: an open image. */
#ifndef DEBUG_IMAGE_H
#define DEBUG_IMAGE_H

#include <dwarf.h>
#include <elf.h>
#include <libdwarf.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "debug/debug.h"

typedef struct DebugRow { /* line table: this address on, up to the next row */
  uint64_t addr;
  const char *file;
  int line;
  bool is_stmt, end;
} DebugRow;

typedef struct DebugScope { /* a function's or inlined call's address range */
  uint64_t low, high;
  uint64_t die; /* global offset */
  const char *name, *call_file;
  int call_line;
  int parent; /* the range around it, -1: none */
  bool inlined;
} DebugScope;

typedef struct DebugUnit {
  uint64_t die; /* global offset of the unit's DIE */
  bool decoded;
  VEC(DebugRow) rows;
  VEC(DebugScope) scopes;
} DebugUnit;

typedef struct DebugRange {
  uint64_t low, high;
  DebugUnit *unit;
} DebugRange;

typedef struct DebugFrames {
  Dwarf_Cie *cies;
  Dwarf_Fde *fdes; /* NULL: none */
  Dwarf_Signed n_cies, n_fdes;
} DebugFrames;

typedef struct DebugName { /* aliases included */
  const char *name;
  size_t symbol;
} DebugName;

struct DebugImage {
  char *path, *sysroot;
  const uint8_t *map; /* the file */
  size_t size;
  const Elf64_Shdr *sections;
  uint32_t n_sections;
  char build_id[80];
  bool have_symbols;
  VEC(DebugSymbol) symbols; /* by address */
  VEC(DebugName) names;
  Map by_name;  /* hash -> index in names + 1 */
  Arena *arena; /* names and strings */
  Map strings;  /* interned */
  /* DWARF */
  bool dwarf_tried;
  Dwarf_Debug dwarf; /* NULL: none */
  VEC(DebugUnit *) units;
  VEC(DebugRange) ranges; /* by low */
  bool frames_tried;
  DebugFrames eh, debug; /* .eh_frame and .debug_frame: a function is described in either */
};

const char *debug_intern(DebugImage *d, const char *s);
/* The section's contents, bounds-checked; NULL: none. */
const uint8_t *debug_section(const DebugImage *d, const char *name, size_t *size,
                             const Elf64_Shdr **header);
Dwarf_Debug debug_dwarf(DebugImage *d);                 /* NULL: no debug information */
DebugUnit *debug_unit_at(DebugImage *d, uint64_t addr); /* decoded; NULL: none */
const DebugScope *debug_scope_at(const DebugUnit *u, uint64_t addr);

#endif
