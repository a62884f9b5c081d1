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

/* Where separate debug files are when nothing else is said. */
#define DEBUG_FOLDER "/usr/lib/debug"

typedef struct DebugInflated { /* a compressed section's contents; at is NULL if they are damaged */
  const Elf64_Shdr *header;
  uint8_t *at;
  size_t size;
} DebugInflated;

typedef struct DebugScope { /* a function's or inlined call's address range */
  uint64_t low, high;
  uint64_t die; /* global offset */
  const char *name, *call_file;
  int call_line;
  int parent; /* the range around it, -1: none */
  bool inlined;
} DebugScope;

typedef struct DebugUnit {
  uint64_t die;   /* global offset of the unit's DIE */
  uint64_t lines; /* offset of its line table */
  const char *comp_dir;
  bool decoded;
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

typedef struct DebugEntry { /* a symbol while its object's are being collected */
  DebugSymbol s;
  int rank; /* among symbols at one address: larger is shown */
} DebugEntry;

typedef VEC(DebugEntry) DebugEntries;

typedef struct DebugLines DebugLines; /* lines.c */

struct DebugImage {
  char *path;
  char *sysroot, *folders; /* for the separate file; may be NULL */
  bool is_separate, separate_tried;
  DebugImage *separate;
  const uint8_t *map; /* the file */
  size_t size;
  const Elf64_Shdr *sections;
  uint32_t n_sections;
  VEC(DebugInflated) inflated;
  char build_id[80];
  bool have_symbols;
  VEC(DebugSymbol) symbols; /* by address */
  VEC(DebugName) names;
  Map by_name;  /* hash -> index in names + 1 */
  Arena *arena; /* names and strings */
  Map strings;  /* interned */
  DebugLines *lines;
  /* DWARF */
  bool dwarf_tried, unwind_tried, units_listed;
  Dwarf_Debug dwarf;        /* .debug_info's; NULL: none */
  Dwarf_Debug unwind_dwarf; /* .eh_frame's, which only the object itself holds */
  VEC(DebugUnit *) units;
  VEC(DebugRange) ranges; /* by low */
  bool frames_tried;
  DebugFrames eh, debug; /* .eh_frame and .debug_frame: a function is described in either */
};

/* ---- file.c ---- */
const char *debug_intern(DebugImage *d, const char *s);
const void *debug_at(const DebugImage *d, uint64_t off, uint64_t n); /* NULL: not in the file */
/* A string that ends inside its string table section; NULL: none. */
const char *debug_string(const DebugImage *d, const Elf64_Shdr *table, uint64_t off);
/* The section's contents, bounds-checked; NULL: none. */
const uint8_t *debug_section(const DebugImage *d, const char *name, size_t *size,
                             const Elf64_Shdr **header);
const uint8_t *debug_contents(DebugImage *d, const char *name, size_t *size); /* ... inflated */
const Elf64_Shdr *debug_section_of(const DebugImage *d, uint64_t addr);       /* NULL: none */
DebugImage *debug_separate(DebugImage *d);                  /* NULL: there is none */
DebugImage *debug_with(DebugImage *d, const char *section); /* d or its separate file; NULL */

/* ---- symbols.c, plt.c ---- */
int debug_by_address(const void *a, const void *b);       /* compares entries, for qsort */
uint64_t debug_next_symbol(DebugImage *d, uint64_t addr); /* behind addr; UINT64_MAX: none */
/* Adds the entries of PLTs to the symbols in all, which are in debug_by_address's order. */
void debug_plt(DebugImage *d, DebugEntries *all);

/* ---- lines.c ---- */
void debug_close_lines(DebugImage *d);
/* File `number` of the line table at offset `table`; NULL: none. */
const char *debug_line_file(DebugImage *d, uint64_t table, uint64_t number);

/* ---- scopes.c ---- */
void debug_close_scopes(DebugImage *d);
Dwarf_Debug debug_dwarf(DebugImage *d);                 /* NULL: no debug information */
Dwarf_Debug debug_unwind_dwarf(DebugImage *d);          /* NULL: no call frame information */
DebugUnit *debug_unit_at(DebugImage *d, uint64_t addr); /* decoded; NULL: none */
const DebugScope *debug_scope_at(const DebugUnit *u, uint64_t addr);
/* The folder that the unit with this line table was compiled in; NULL: unknown. */
const char *debug_comp_dir(DebugImage *d, uint64_t table);

#endif
