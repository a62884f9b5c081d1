/* Functions and the calls inlined into them, through libdwarf, one compilation unit at a time. After
 * decoding, a look-up is two binary searches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/image.h"

#define MAX_DEPTH 200 /* of nested DIEs */

/* ---- opening: the file itself, or its separate debug file ------------------------------------- */

static Dwarf_Debug open_dwarf(const char *path) {
  Dwarf_Debug out;
  Dwarf_Error err = NULL;
  return dwarf_init_path(path, NULL, 0, 0, DW_GROUPNUMBER_ANY, NULL, NULL, &out, NULL, 0, NULL,
                         &err) == DW_DLV_OK
             ? out
             : NULL;
}

Dwarf_Debug debug_dwarf(DebugImage *d) {
  if (d->dwarf_tried) return d->dwarf;
  d->dwarf_tried = true;
  DebugImage *with = debug_with(d, ".debug_info");
  if (with) d->dwarf = open_dwarf(with->path);
  return d->dwarf;
}

/* Stripping leaves .eh_frame in the object, and nothing of it in the separate file. */
Dwarf_Debug debug_unwind_dwarf(DebugImage *d) {
  if (d->unwind_tried) return d->unwind_dwarf;
  d->unwind_tried = true;
  size_t n;
  const char *const sections[] = {".debug_info", ".eh_frame", ".debug_frame"};
  for (int i = 0; i < 3 && !d->unwind_dwarf; i++)
    if (debug_section(d, sections[i], &n, NULL))
      d->unwind_dwarf = i == 0 ? debug_dwarf(d) : open_dwarf(d->path);
  return d->unwind_dwarf;
}

void debug_close_scopes(DebugImage *d) {
  Dwarf_Error err = NULL;
  DebugFrames *lists[] = {&d->eh, &d->debug};
  for (int i = 0; i < 2; i++)
    if (lists[i]->fdes)
      dwarf_fde_cie_list_dealloc(d->unwind_dwarf, lists[i]->cies, lists[i]->n_cies, lists[i]->fdes,
                                 lists[i]->n_fdes);
  if (d->unwind_dwarf && d->unwind_dwarf != d->dwarf) dwarf_finish(d->unwind_dwarf, &err);
  if (d->dwarf) dwarf_finish(d->dwarf, &err);
  for (size_t i = 0; i < d->units.n; i++) {
    vec_free(&d->units.at[i]->scopes);
    free(d->units.at[i]);
  }
  vec_free(&d->units);
  vec_free(&d->ranges);
}

/* ---- small accessors: false on any error ----------------------------------------------------- */

static void drop(DebugImage *d, void *p, Dwarf_Unsigned type) { dwarf_dealloc(d->dwarf, p, type); }

static bool attr(Dwarf_Die die, Dwarf_Half name, Dwarf_Attribute *out) {
  Dwarf_Error e = NULL;
  return dwarf_attr(die, name, out, &e) == DW_DLV_OK;
}

static bool attr_unsigned(DebugImage *d, Dwarf_Die die, Dwarf_Half name, uint64_t *out) {
  Dwarf_Attribute a;
  Dwarf_Error e = NULL;
  Dwarf_Unsigned u;
  Dwarf_Signed s;
  if (!attr(die, name, &a)) return false;
  bool ok = dwarf_formudata(a, &u, &e) == DW_DLV_OK;
  if (!ok && dwarf_formsdata(a, &s, &e) == DW_DLV_OK) {
    u = (Dwarf_Unsigned)s;
    ok = true;
  }
  *out = u;
  drop(d, a, DW_DLA_ATTR);
  return ok;
}

static Dwarf_Half tag_of(Dwarf_Die die) {
  Dwarf_Half tag = 0;
  Dwarf_Error e = NULL;
  return dwarf_tag(die, &tag, &e) == DW_DLV_OK ? tag : 0;
}

static Dwarf_Die die_at(DebugImage *d, uint64_t offset) {
  Dwarf_Die die;
  Dwarf_Error e = NULL;
  return dwarf_offdie_b(d->dwarf, offset, 1, &die, &e) == DW_DLV_OK ? die : NULL;
}

static uint64_t offset_of(Dwarf_Die die) {
  Dwarf_Off off = 0;
  Dwarf_Error e = NULL;
  return dwarf_dieoffset(die, &off, &e) == DW_DLV_OK ? off : 0;
}

/* The function's name, its own or that of what it is an instance of. */
static const char *name_of(DebugImage *d, Dwarf_Die die, int depth) {
  char *s;
  Dwarf_Error e = NULL;
  Dwarf_Attribute a;
  if (dwarf_diename(die, &s, &e) == DW_DLV_OK) return debug_intern(d, s);
  const Dwarf_Half refs[] = {DW_AT_abstract_origin, DW_AT_specification};
  for (int i = 0; i < 2 && depth < 8; i++) {
    Dwarf_Off off;
    if (!attr(die, refs[i], &a)) continue;
    bool ok = dwarf_global_formref(a, &off, &e) == DW_DLV_OK;
    drop(d, a, DW_DLA_ATTR);
    Dwarf_Die origin = ok ? die_at(d, off) : NULL;
    if (!origin) continue;
    const char *name = name_of(d, origin, depth + 1);
    drop(d, origin, DW_DLA_DIE);
    if (name) return name;
  }
  return NULL;
}

/* ---- address ranges of a DIE ----------------------------------------------------------------- */

typedef void RangeFn(void *ctx, uint64_t low, uint64_t high);

static void ranges_v5(DebugImage *d, Dwarf_Attribute a, Dwarf_Half form, Dwarf_Unsigned value,
                      RangeFn *fn, void *ctx) {
  Dwarf_Rnglists_Head head;
  Dwarf_Unsigned count, global, raw1, raw2, low, high;
  Dwarf_Error e = NULL;
  (void)d;
  if (dwarf_rnglists_get_rle_head(a, form, value, &head, &count, &global, &e) != DW_DLV_OK) return;
  for (Dwarf_Unsigned i = 0; i < count; i++) {
    unsigned len, code;
    Dwarf_Bool missing;
    if (dwarf_get_rnglists_entry_fields_a(head, i, &len, &code, &raw1, &raw2, &missing, &low, &high,
                                          &e) != DW_DLV_OK)
      break;
    if (code == DW_RLE_end_of_list) break;
    if (code == DW_RLE_base_address || code == DW_RLE_base_addressx || missing) continue;
    if (low < high) fn(ctx, low, high);
  }
  dwarf_dealloc_rnglists_head(head);
}

static void ranges_v4(DebugImage *d, Dwarf_Die die, Dwarf_Unsigned offset, uint64_t base,
                      RangeFn *fn, void *ctx) {
  Dwarf_Ranges *list;
  Dwarf_Signed n;
  Dwarf_Off real;
  Dwarf_Unsigned bytes;
  Dwarf_Error e = NULL;
  if (dwarf_get_ranges_b(d->dwarf, offset, die, &real, &list, &n, &bytes, &e) != DW_DLV_OK) return;
  for (Dwarf_Signed i = 0; i < n && list[i].dwr_type != DW_RANGES_END; i++) {
    if (list[i].dwr_type == DW_RANGES_ADDRESS_SELECTION)
      base = list[i].dwr_addr2;
    else if (list[i].dwr_addr1 < list[i].dwr_addr2)
      fn(ctx, base + list[i].dwr_addr1, base + list[i].dwr_addr2);
  }
  dwarf_ranges_dealloc(d->dwarf, list, n);
}

static void die_ranges(DebugImage *d, Dwarf_Die die, uint64_t base, RangeFn *fn, void *ctx) {
  Dwarf_Addr low, high;
  Dwarf_Half form;
  enum Dwarf_Form_Class cls;
  Dwarf_Error e = NULL;
  Dwarf_Attribute a;
  if (dwarf_lowpc(die, &low, &e) == DW_DLV_OK &&
      dwarf_highpc_b(die, &high, &form, &cls, &e) == DW_DLV_OK) {
    if (cls == DW_FORM_CLASS_CONSTANT) high += low;
    if (low < high) fn(ctx, low, high);
    return;
  }
  if (!attr(die, DW_AT_ranges, &a)) return;
  Dwarf_Half version, offset_size;
  Dwarf_Unsigned value = 0;
  Dwarf_Off off;
  if (dwarf_whatform(a, &form, &e) == DW_DLV_OK &&
      dwarf_get_version_of_die(die, &version, &offset_size) == DW_DLV_OK) {
    bool ok = form == DW_FORM_rnglistx ? dwarf_formudata(a, &value, &e) == DW_DLV_OK
                                       : dwarf_global_formref(a, &off, &e) == DW_DLV_OK;
    if (ok && form != DW_FORM_rnglistx) value = off;
    if (ok && version >= 5)
      ranges_v5(d, a, form, value, fn, ctx);
    else if (ok)
      ranges_v4(d, die, value, base, fn, ctx);
  }
  drop(d, a, DW_DLA_ATTR);
}

static uint64_t low_pc(Dwarf_Die die) {
  Dwarf_Addr low;
  Dwarf_Error e = NULL;
  return dwarf_lowpc(die, &low, &e) == DW_DLV_OK ? low : 0;
}

/* ---- units ----------------------------------------------------------------------------------- */

typedef struct AddRange {
  DebugImage *d;
  DebugUnit *unit;
} AddRange;

static void add_unit_range(void *ctx, uint64_t low, uint64_t high) {
  AddRange *a = ctx;
  vec_push(&a->d->ranges, ((DebugRange){low, high, a->unit}));
}

static int by_low(const void *a, const void *b) {
  const DebugRange *x = a, *y = b;
  return x->low < y->low ? -1 : x->low > y->low;
}

static void describe_unit(DebugImage *d, Dwarf_Die die, DebugUnit *u) {
  Dwarf_Error e = NULL;
  Dwarf_Attribute a;
  Dwarf_Off lines;
  char *dir;
  u->lines = UINT64_MAX;
  if (attr(die, DW_AT_stmt_list, &a)) {
    if (dwarf_global_formref(a, &lines, &e) == DW_DLV_OK) u->lines = lines;
    drop(d, a, DW_DLA_ATTR);
  }
  if (attr(die, DW_AT_comp_dir, &a)) {
    if (dwarf_formstring(a, &dir, &e) == DW_DLV_OK) u->comp_dir = debug_intern(d, dir);
    drop(d, a, DW_DLA_ATTR);
  }
}

static void list_units(DebugImage *d) {
  Dwarf_Unsigned len, typeoffset, next;
  Dwarf_Half version, address, length, extension, type;
  Dwarf_Off abbrev;
  Dwarf_Sig8 sig;
  Dwarf_Error e = NULL;
  if (d->units_listed || !debug_dwarf(d)) return;
  d->units_listed = true;
  while (dwarf_next_cu_header_d(d->dwarf, 1, &len, &version, &abbrev, &address, &length, &extension,
                                &sig, &typeoffset, &next, &type, &e) == DW_DLV_OK) {
    Dwarf_Die die;
    if (dwarf_siblingof_b(d->dwarf, NULL, 1, &die, &e) != DW_DLV_OK) continue;
    DebugUnit *u = xcalloc(1, sizeof *u);
    u->die = offset_of(die);
    describe_unit(d, die, u);
    vec_push(&d->units, u);
    AddRange add = {d, u};
    die_ranges(d, die, low_pc(die), add_unit_range, &add);
    drop(d, die, DW_DLA_DIE);
  }
  if (d->ranges.n) qsort(d->ranges.at, d->ranges.n, sizeof *d->ranges.at, by_low);
}

/* ---- decoding a unit ------------------------------------------------------------------------- */

typedef struct Walk {
  DebugImage *d;
  DebugUnit *unit;
  uint64_t base;
  DebugScope scope; /* of the DIE whose ranges are being added */
} Walk;

static void add_scope(void *ctx, uint64_t low, uint64_t high) {
  Walk *w = ctx;
  DebugScope s = w->scope;
  s.low = low;
  s.high = high;
  vec_push(&w->unit->scopes, s);
}

static void walk(Walk *w, Dwarf_Die die, int depth);

static void visit(Walk *w, Dwarf_Die die, int depth) {
  Dwarf_Half tag = tag_of(die);
  if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
    uint64_t file = 0, line = 0;
    w->scope = (DebugScope){
        .die = offset_of(die), .inlined = tag == DW_TAG_inlined_subroutine, .parent = -1};
    if (w->scope.inlined) {
      if (attr_unsigned(w->d, die, DW_AT_call_file, &file))
        w->scope.call_file = debug_line_file(w->d, w->unit->lines, file);
      if (attr_unsigned(w->d, die, DW_AT_call_line, &line)) w->scope.call_line = (int)line;
    }
    w->scope.name = name_of(w->d, die, 0);
    die_ranges(w->d, die, w->base, add_scope, w);
  }
  walk(w, die, depth + 1);
}

static void walk(Walk *w, Dwarf_Die parent, int depth) {
  Dwarf_Die die, next;
  Dwarf_Error e = NULL;
  if (depth > MAX_DEPTH || dwarf_child(parent, &die, &e) != DW_DLV_OK) return;
  for (;;) {
    visit(w, die, depth);
    int r = dwarf_siblingof_b(w->d->dwarf, die, 1, &next, &e);
    drop(w->d, die, DW_DLA_DIE);
    if (r != DW_DLV_OK) return;
    die = next;
  }
}

static int by_scope(const void *a, const void *b) { /* outer ranges first */
  const DebugScope *x = a, *y = b;
  if (x->low != y->low) return x->low < y->low ? -1 : 1;
  if (x->high != y->high) return x->high > y->high ? -1 : 1;
  return x->inlined != y->inlined ? (int)x->inlined - (int)y->inlined : x->die < y->die ? -1 : 1;
}

static void nest(DebugUnit *u) {
  if (u->scopes.n) qsort(u->scopes.at, u->scopes.n, sizeof *u->scopes.at, by_scope);
  int open = -1;
  for (size_t i = 0; i < u->scopes.n; i++) {
    while (open >= 0 && u->scopes.at[open].high <= u->scopes.at[i].low)
      open = u->scopes.at[open].parent;
    u->scopes.at[i].parent = open;
    open = (int)i;
  }
}

static void decode(DebugImage *d, DebugUnit *u) {
  Dwarf_Die die = die_at(d, u->die);
  u->decoded = true;
  if (!die) return;
  Walk w = {.d = d, .unit = u, .base = low_pc(die)};
  walk(&w, die, 0);
  nest(u);
  drop(d, die, DW_DLA_DIE);
}

const char *debug_comp_dir(DebugImage *d, uint64_t table) {
  list_units(d);
  for (size_t i = 0; i < d->units.n; i++)
    if (d->units.at[i]->lines == table) return d->units.at[i]->comp_dir;
  return NULL;
}

DebugUnit *debug_unit_at(DebugImage *d, uint64_t addr) {
  list_units(d);
  size_t low = 0, high = d->ranges.n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (d->ranges.at[mid].low > addr)
      high = mid;
    else
      low = mid + 1;
  }
  if (!low || addr >= d->ranges.at[low - 1].high) return NULL;
  DebugUnit *u = d->ranges.at[low - 1].unit;
  if (!u->decoded) decode(d, u);
  return u;
}

/* ---- look-ups -------------------------------------------------------------------------------- */

const DebugScope *debug_scope_at(const DebugUnit *u, uint64_t addr) {
  size_t low = 0, high = u->scopes.n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (u->scopes.at[mid].low > addr)
      high = mid;
    else
      low = mid + 1;
  }
  for (int i = (int)low - 1; i >= 0; i = u->scopes.at[i].parent)
    if (addr < u->scopes.at[i].high) return &u->scopes.at[i];
  return NULL;
}

size_t debug_lookup(DebugImage *d, uint64_t addr, DebugFrame *out, size_t max) {
  DebugUnit *u = debug_unit_at(d, addr);
  DebugSymbol sym;
  const char *symbol = debug_symbol_at(d, addr, &sym) ? sym.name : NULL;
  const DebugScope *s = u ? debug_scope_at(u, addr) : NULL;
  DebugLine row;
  bool has_row = debug_line_at(d, addr, &row);
  const char *file = has_row ? row.file : NULL;
  int line = has_row ? row.line : 0;
  size_t n = 0;
  for (; s && s->inlined && s->parent >= 0; s = &u->scopes.at[s->parent], n++) {
    if (n < max) out[n] = (DebugFrame){s->name, file, line, true};
    file = s->call_file;
    line = s->call_line;
  }
  if (!s && !symbol && !has_row) return n;
  if (n < max) out[n] = (DebugFrame){s && s->name ? s->name : symbol, file, line, false};
  return n + 1;
}
