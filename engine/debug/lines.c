/* Line tables (DWARF 5 standard, section 6.2; versions 2 to 5), from .debug_line alone: the reading
 * of .debug_info, many times its size, is left to who wants names of inlined functions.
 *
 * The first look-up runs all line programs for the addresses that their sequences cover; a table's
 * rows are kept once an address of it is asked for. After that a look-up is two binary searches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/cursor.h"
#include "debug/image.h"

#define MAX_FORMATS 16
#define MAX_FILES   (1u << 20)

typedef struct Row { /* this address on, up to the next row */
  uint64_t addr;
  uint32_t file, line;
  bool is_stmt, end;
} Row;

typedef struct Sequence { /* addresses [low, high) */
  uint64_t low, high;
  uint32_t table;
  uint32_t first, n; /* rows of the table, once they are decoded */
} Sequence;

typedef struct File {
  const char *name; /* as the table has it */
  uint64_t dir;
  const char *path; /* NULL: not asked for yet */
} File;

typedef struct Table {
  uint64_t offset; /* in .debug_line */
  const uint8_t *files_at, *program, *end, *standard_lengths;
  uint16_t version;
  uint8_t offset_size, address_size, min_insn, line_range, opcode_base;
  int8_t line_base;
  bool default_is_stmt, has_files, has_rows;
  VEC(const char *) dirs;
  VEC(File) files;
  VEC(Row) rows;
} Table;

struct DebugLines {
  DebugImage *in; /* whose sections these are: the object's or the separate file's */
  const uint8_t *str, *line_str;
  size_t str_size, line_str_size;
  VEC(Table) tables;       /* by offset */
  VEC(Sequence) sequences; /* by low */
};

/* ---- headers --------------------------------------------------------------------------------- */

static bool read_header(Cursor *c, Table *t) {
  uint64_t length = cursor_u32(c), header;
  t->offset_size = length == 0xffffffff ? 8 : 4;
  if (t->offset_size == 8) length = cursor_u64(c);
  if (c->bad || length > (uint64_t)(c->end - c->at)) return false;
  t->end = c->at + length;
  Cursor h = {c->at, t->end, false};
  c->at = t->end;
  t->version = cursor_u16(&h);
  t->address_size = 8;
  if (t->version >= 5) {
    t->address_size = cursor_u8(&h);
    cursor_u8(&h); /* segment selector size */
  }
  header = cursor_offset(&h, t->offset_size);
  if (h.bad || header > (uint64_t)(h.end - h.at)) return true;
  t->program = h.at + header;
  t->min_insn = cursor_u8(&h);
  if (t->version >= 4) cursor_u8(&h); /* operations an instruction: VLIW only */
  t->default_is_stmt = cursor_u8(&h);
  t->line_base = (int8_t)cursor_u8(&h);
  t->line_range = cursor_u8(&h);
  t->opcode_base = cursor_u8(&h);
  t->standard_lengths = h.at;
  if (t->opcode_base) cursor_skip(&h, t->opcode_base - 1u);
  t->files_at = h.at;
  if (h.bad || t->version < 2 || t->version > 5 || !t->line_range || !t->opcode_base ||
      (t->address_size != 8 && t->address_size != 4))
    t->program = NULL; /* nothing that can be read */
  return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static const char *section_string(const uint8_t *at, size_t size, uint64_t off) {
  return at && off < size && memchr(at + off, 0, size - off) ? (const char *)at + off : NULL;
}

typedef struct Field {
  uint64_t content, form;
} Field;

/* A field of a file or directory entry: its text or number; what cannot be named is skipped. */
static void read_field(DebugLines *l, const Table *t, Cursor *c, uint64_t form, const char **text,
                       uint64_t *number) {
  *text = NULL;
  *number = 0;
  switch (form) {
  case DW_FORM_string: *text = cursor_string(c); break;
  case DW_FORM_line_strp:
    *text = section_string(l->line_str, l->line_str_size, cursor_offset(c, t->offset_size));
    break;
  case DW_FORM_strp:
    *text = section_string(l->str, l->str_size, cursor_offset(c, t->offset_size));
    break;
  case DW_FORM_strp_sup:
  case DW_FORM_GNU_strp_alt: cursor_skip(c, t->offset_size); break;
  case DW_FORM_udata: *number = cursor_uleb(c); break;
  case DW_FORM_data1: *number = cursor_u8(c); break;
  case DW_FORM_data2: *number = cursor_u16(c); break;
  case DW_FORM_data4: *number = cursor_u32(c); break;
  case DW_FORM_data8: *number = cursor_u64(c); break;
  case DW_FORM_data16: cursor_skip(c, 16); break;
  case DW_FORM_block: cursor_skip(c, cursor_uleb(c)); break;
  default: c->bad = true;
  }
}

/* Version 5: a list of entries, each with the fields that the formats before it name. */
static void read_entries(DebugLines *l, Table *t, Cursor *c, bool dirs) {
  Field formats[MAX_FORMATS];
  unsigned n_formats = cursor_u8(c);
  if (n_formats > MAX_FORMATS) c->bad = true;
  for (unsigned i = 0; i < n_formats && !c->bad; i++) {
    formats[i].content = cursor_uleb(c);
    formats[i].form = cursor_uleb(c);
  }
  uint64_t n = cursor_uleb(c);
  for (uint64_t i = 0; i < n && !c->bad && n_formats && i < MAX_FILES; i++) {
    File f = {0};
    for (unsigned k = 0; k < n_formats; k++) {
      const char *text;
      uint64_t number;
      read_field(l, t, c, formats[k].form, &text, &number);
      if (formats[k].content == DW_LNCT_path) f.name = text;
      if (formats[k].content == DW_LNCT_directory_index) f.dir = number;
    }
    if (dirs)
      vec_push(&t->dirs, f.name);
    else
      vec_push(&t->files, f);
  }
}

/* Versions 2 to 4: directory 0, the unit's own, and file 0 are not written down. */
static void read_old_entries(Table *t, Cursor *c) {
  const char *s;
  vec_push(&t->dirs, NULL);
  vec_push(&t->files, (File){0});
  while ((s = cursor_string(c)) && *s) vec_push(&t->dirs, s);
  while ((s = cursor_string(c)) && *s) {
    File f = {.name = s, .dir = cursor_uleb(c)};
    cursor_uleb(c); /* time */
    cursor_uleb(c); /* length */
    vec_push(&t->files, f);
  }
}

static const char *join(DebugImage *d, const char *dir, const char *name) {
  char buf[4096];
  if (!name) return dir;
  if (name[0] == '/' || !dir || !dir[0]) return debug_intern(d, name);
  snprintf(buf, sizeof buf, "%s/%s", dir, name);
  return debug_intern(d, buf);
}

static const char *file_path(DebugImage *d, Table *t, uint64_t number) {
  Cursor c = {t->files_at, t->program, false};
  if (!t->has_files && t->program) {
    if (t->version >= 5) read_entries(d->lines, t, &c, true);
    if (t->version >= 5) read_entries(d->lines, t, &c, false);
    if (t->version < 5) read_old_entries(t, &c);
  }
  t->has_files = true;
  File *f = number < t->files.n ? &t->files.at[number] : NULL;
  if (!f || !f->name) return NULL;
  if (!f->path) {
    const char *home = t->version >= 5 && t->dirs.n ? t->dirs.at[0] : NULL,
               *dir = f->dir && f->dir < t->dirs.n ? t->dirs.at[f->dir] : NULL;
    if (f->name[0] != '/' && (!dir || dir[0] != '/') && !home) home = debug_comp_dir(d, t->offset);
    f->path = join(d, join(d, home, dir), f->name);
  }
  return f->path;
}

/* ---- line programs --------------------------------------------------------------------------- */

typedef struct Machine {
  uint64_t addr, low, high; /* low, high: of the rows since the sequence began */
  uint32_t file, line;
  bool is_stmt, began;
  uint32_t first; /* row of the sequence */
} Machine;

static void reset(const Table *t, Machine *m) {
  *m = (Machine){.file = 1, .line = 1, .is_stmt = t->default_is_stmt, .low = UINT64_MAX};
  m->first = (uint32_t)t->rows.n;
}

static void row(Table *t, Machine *m, bool keep, bool end) {
  if (m->addr < m->low) m->low = m->addr;
  if (m->addr > m->high) m->high = m->addr;
  if (keep) vec_push(&t->rows, ((Row){m->addr, m->file, m->line, m->is_stmt, end}));
}

/* The sequence that ended: noted the first time, given its rows the second. A linker leaves those
 * of functions that it dropped, at address 0 or so. */
static void end_sequence(DebugImage *d, Table *t, const Machine *m, bool keep) {
  DebugLines *l = d->lines;
  uint32_t index = (uint32_t)(t - l->tables.at);
  if (!keep) {
    const Elf64_Shdr *section = m->low < m->high ? debug_section_of(d, m->low) : NULL;
    if (section && section->sh_flags & SHF_EXECINSTR)
      vec_push(&l->sequences, ((Sequence){.low = m->low, .high = m->high, .table = index}));
    return;
  }
  for (size_t low = 0, high = l->sequences.n; low < high;) {
    size_t mid = (low + high) / 2;
    Sequence *s = &l->sequences.at[mid];
    if (s->low == m->low && s->table == index && !s->n) {
      s->first = m->first;
      s->n = (uint32_t)t->rows.n - m->first;
      return;
    }
    if (s->low > m->low)
      high = mid;
    else
      low = mid + 1;
  }
}

static bool extended(DebugImage *d, Table *t, Cursor *c, Machine *m, bool keep) {
  uint64_t n = cursor_uleb(c);
  if (c->bad || !n || n > (uint64_t)(c->end - c->at)) return false;
  Cursor e = {c->at, c->at + n, false};
  c->at += n;
  switch (cursor_u8(&e)) {
  case DW_LNE_end_sequence:
    row(t, m, keep, true);
    end_sequence(d, t, m, keep);
    reset(t, m);
    break;
  case DW_LNE_set_address: m->addr = n - 1 == 4 ? cursor_u32(&e) : cursor_u64(&e); break;
  default: break;
  }
  return true;
}

static void standard(const Table *t, Cursor *c, Machine *m, unsigned op) {
  switch (op) {
  case DW_LNS_advance_pc: m->addr += cursor_uleb(c) * t->min_insn; break;
  case DW_LNS_advance_line: m->line += (uint32_t)cursor_sleb(c); break;
  case DW_LNS_set_file: m->file = (uint32_t)cursor_uleb(c); break;
  case DW_LNS_set_column: cursor_uleb(c); break;
  case DW_LNS_negate_stmt: m->is_stmt = !m->is_stmt; break;
  case DW_LNS_const_add_pc:
    m->addr += (uint64_t)((255 - t->opcode_base) / t->line_range) * t->min_insn;
    break;
  case DW_LNS_fixed_advance_pc: m->addr += cursor_u16(c); break;
  case DW_LNS_set_basic_block:
  case DW_LNS_set_prologue_end:
  case DW_LNS_set_epilogue_begin: break;
  default:
    for (unsigned i = 0; i < t->standard_lengths[op - 1]; i++) cursor_uleb(c);
  }
}

static void run(DebugImage *d, Table *t, bool keep) {
  Machine m;
  Cursor c = {t->program, t->end, false};
  reset(t, &m);
  while (t->program && c.at < c.end && !c.bad) {
    unsigned op = *c.at++;
    if (op >= t->opcode_base) {
      op -= t->opcode_base;
      m.addr += (uint64_t)(op / t->line_range) * t->min_insn;
      m.line += (uint32_t)((int)(op % t->line_range) + t->line_base);
      row(t, &m, keep, false);
    } else if (op == DW_LNS_copy)
      row(t, &m, keep, false);
    else if (op)
      standard(t, &c, &m, op);
    else if (!extended(d, t, &c, &m, keep))
      return;
  }
}

/* ---- tables ---------------------------------------------------------------------------------- */

static int by_low(const void *a, const void *b) {
  const Sequence *x = a, *y = b;
  return x->low != y->low ? (x->low < y->low ? -1 : 1)
                          : (x->table > y->table) - (x->table < y->table);
}

static DebugLines *lines_of(DebugImage *d) {
  if (d->lines) return d->lines;
  DebugLines *l = d->lines = xcalloc(1, sizeof *l);
  size_t size;
  l->in = debug_with(d, ".debug_line");
  const uint8_t *at = l->in ? debug_contents(l->in, ".debug_line", &size) : NULL;
  if (!at) return l;
  l->str = debug_contents(l->in, ".debug_str", &l->str_size);
  l->line_str = debug_contents(l->in, ".debug_line_str", &l->line_str_size);
  Cursor c = {at, at + size, false};
  for (;;) {
    Table t = {.offset = (uint64_t)(c.at - at)};
    if (c.at >= c.end || !read_header(&c, &t)) break;
    vec_push(&l->tables, t);
  }
  for (size_t i = 0; i < l->tables.n; i++) run(d, &l->tables.at[i], false);
  if (l->sequences.n) qsort(l->sequences.at, l->sequences.n, sizeof *l->sequences.at, by_low);
  return l;
}

static void decode_rows(DebugImage *d, Table *t) {
  if (!t->has_rows) run(d, t, true);
  t->has_rows = true;
}

void debug_close_lines(DebugImage *d) {
  DebugLines *l = d->lines;
  for (size_t i = 0; l && i < l->tables.n; i++) {
    vec_free(&l->tables.at[i].dirs);
    vec_free(&l->tables.at[i].files);
    vec_free(&l->tables.at[i].rows);
  }
  if (l) {
    vec_free(&l->tables);
    vec_free(&l->sequences);
  }
  free(l);
}

/* ---- look-ups -------------------------------------------------------------------------------- */

static const Sequence *sequence_at(const DebugLines *l, uint64_t addr) {
  size_t low = 0, high = l->sequences.n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (l->sequences.at[mid].low > addr)
      high = mid;
    else
      low = mid + 1;
  }
  return low && addr < l->sequences.at[low - 1].high ? &l->sequences.at[low - 1] : NULL;
}

/* Of several rows at one address the last one counts. */
bool debug_line_at(DebugImage *d, uint64_t addr, DebugLine *out) {
  const DebugLines *l = lines_of(d);
  const Sequence *s = sequence_at(l, addr);
  if (!s) return false;
  Table *t = &l->tables.at[s->table];
  decode_rows(d, t);
  const Row *rows = t->rows.at + s->first;
  size_t low = 0, high = s->n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (rows[mid].addr > addr)
      high = mid;
    else
      low = mid + 1;
  }
  if (!low || low == s->n) return false;
  *out = (DebugLine){file_path(d, t, rows[low - 1].file), (int)rows[low - 1].line, rows[low].addr};
  return true;
}

const char *debug_line_file(DebugImage *d, uint64_t table, uint64_t number) {
  const DebugLines *l = lines_of(d);
  for (size_t low = 0, high = l->tables.n; low < high;) {
    size_t mid = (low + high) / 2;
    if (l->tables.at[mid].offset == table) return file_path(d, &l->tables.at[mid], number);
    if (l->tables.at[mid].offset > table)
      high = mid;
    else
      low = mid + 1;
  }
  return NULL;
}

static bool same_file(const char *have, const char *want) {
  size_t h = strlen(have), w = strlen(want);
  return h >= w && !strcmp(have + h - w, want) && (h == w || have[h - w - 1] == '/');
}

/* The line's first address, each time that it begins. */
size_t debug_line_addresses(DebugImage *d, const char *file, int line, uint64_t *out, size_t max) {
  const DebugLines *l = lines_of(d);
  size_t n = 0;
  for (size_t i = 0; i < l->sequences.n; i++) {
    const Sequence *s = &l->sequences.at[i];
    Table *t = &l->tables.at[s->table];
    decode_rows(d, t);
    const Row *rows = t->rows.at + s->first;
    for (size_t r = 0; r < s->n; r++) {
      if ((int)rows[r].line != line || !rows[r].is_stmt || rows[r].end) continue;
      if (r && (int)rows[r - 1].line == line && !rows[r - 1].end) continue;
      const char *path = file_path(d, t, rows[r].file);
      if (!path || !same_file(path, file)) continue;
      if (n < max) out[n] = rows[r].addr;
      n++;
    }
  }
  return n;
}
