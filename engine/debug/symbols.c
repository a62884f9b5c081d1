/* Symbols: the object's .symtab, else that of its separate debug file; .dynsym where there is neither.
 * PLT entries as name@plt (plt.c). Names stay in the files, which are mapped. */
#include <stdlib.h>
#include <string.h>

#include "debug/image.h"

/* Which of several names at one address is shown: functions before data, global before weak before
 * local, then fewer leading underscores. */
#define LABEL (-100)

static int rank_of(const Elf64_Sym *sym, const char *name) {
  if (ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE && ELF64_ST_BIND(sym->st_info) == STB_LOCAL)
    return LABEL;
  int bind = ELF64_ST_BIND(sym->st_info), rank = ELF64_ST_TYPE(sym->st_info) == STT_FUNC ? 100 : 0;
  rank += bind == STB_GLOBAL ? 30 : bind == STB_WEAK ? 20 : 10;
  return rank - (int)strspn(name, "_");
}

static bool wanted(const DebugImage *d, const Elf64_Sym *sym, const char *name) {
  int type = ELF64_ST_TYPE(sym->st_info);
  if (!name || !name[0] || sym->st_shndx == SHN_UNDEF ||
      (sym->st_shndx >= d->n_sections && sym->st_shndx != SHN_ABS))
    return false;
  if (sym->st_shndx == SHN_ABS) return false;
  if (name[0] == '$' || !strncmp(name, ".L", 2))
    return false; /* mapping symbols, assembler's locals */
  if (type == STT_NOTYPE) return d->sections[sym->st_shndx].sh_flags & SHF_EXECINSTR;
  return type == STT_FUNC || type == STT_OBJECT || type == STT_GNU_IFUNC;
}

/* Without the version that .symtab shows: puts@@GLIBC_2.2.5 is puts, as in .dynsym. */
static const char *unversioned(DebugImage *d, const char *name) {
  char buf[256];
  const char *at = strchr(name + 1, '@');
  if (!at || (size_t)(at - name) >= sizeof buf) return name;
  memcpy(buf, name, (size_t)(at - name));
  buf[at - name] = 0;
  return debug_intern(d, buf);
}

static void read_table(DebugImage *d, DebugImage *file, const Elf64_Shdr *table,
                       DebugEntries *out) {
  if (table->sh_link >= file->n_sections || table->sh_entsize != sizeof(Elf64_Sym)) return;
  const Elf64_Shdr *strings = &file->sections[table->sh_link];
  const Elf64_Sym *syms = debug_at(file, table->sh_offset, table->sh_size);
  if (!syms || table->sh_offset % 8) return;
  for (uint64_t i = 0; i < table->sh_size / sizeof *syms; i++) {
    const char *name = debug_string(file, strings, syms[i].st_name);
    if (!wanted(file, &syms[i], name)) continue;
    bool code = file->sections[syms[i].st_shndx].sh_flags & SHF_EXECINSTR;
    bool indirect = ELF64_ST_TYPE(syms[i].st_info) == STT_GNU_IFUNC;
    DebugEntry e = {{unversioned(d, name), syms[i].st_value, syms[i].st_size, code, indirect},
                    rank_of(&syms[i], name)};
    vec_push(out, e);
  }
}

int debug_by_address(const void *a, const void *b) {
  const DebugEntry *x = a, *y = b;
  if (x->s.addr != y->s.addr) return x->s.addr < y->s.addr ? -1 : 1;
  return y->rank != x->rank ? y->rank - x->rank : strcmp(x->s.name, y->s.name);
}

static void load(DebugImage *d);

static uint64_t name_hash(const char *s) {
  uint64_t h = 5381;
  while (*s) h = h * 33 + (uint8_t)*s++;
  return h;
}

static void index_names(DebugImage *d) {
  for (size_t i = 0; i < d->names.n; i++) {
    uint64_t h = name_hash(d->names.at[i].name);
    while (map_get(&d->by_name, h)) h++;
    map_put(&d->by_name, h, (void *)(uintptr_t)(i + 1));
  }
}

bool debug_symbol_named(DebugImage *d, const char *name, DebugSymbol *out) {
  load(d);
  if (d->names.n && !d->by_name.n) index_names(d);
  uint64_t h = name_hash(name);
  for (void *v; (v = map_get(&d->by_name, h)); h++) {
    const DebugName *n = &d->names.at[(uintptr_t)v - 1];
    if (strcmp(n->name, name)) continue;
    *out = d->symbols.at[n->symbol];
    out->name = n->name;
    return true;
  }
  return false;
}

static bool read_tables(DebugImage *d, DebugImage *file, uint32_t type, DebugEntries *out) {
  size_t had = out->n;
  for (uint32_t i = 0; file && i < file->n_sections; i++)
    if (file->sections[i].sh_type == type) read_table(d, file, &file->sections[i], out);
  return out->n > had;
}

/* One symbol an address: the one that is shown, with the size of the largest. An assembler's label
 * (_start of ld.so) is one only where no function is around it. */
static void keep(DebugImage *d, const DebugEntries *all) {
  uint64_t covered = 0;
  for (size_t i = 0; i < all->n; i++) {
    const DebugSymbol *s = &all->at[i].s;
    if (all->at[i].rank == LABEL && s->addr < covered) continue;
    if (s->addr + s->size > covered) covered = s->addr + s->size;
    bool first = !d->symbols.n || s->addr != vec_last(&d->symbols).addr;
    if (first) vec_push(&d->symbols, *s);
    DebugSymbol *shown = &vec_last(&d->symbols);
    if (s->size > shown->size) shown->size = s->size;
    shown->is_indirect |= s->is_indirect;
    vec_push(&d->names, ((DebugName){s->name, d->symbols.n - 1}));
  }
}

/* A symbol without a size ends at the next one or with its section. */
static void give_sizes(DebugImage *d) {
  for (size_t i = 0; i < d->symbols.n; i++) {
    DebugSymbol *s = &d->symbols.at[i];
    if (s->size) continue;
    const Elf64_Shdr *section = debug_section_of(d, s->addr);
    uint64_t end = section ? section->sh_addr + section->sh_size : s->addr + 1;
    bool cut = i + 1 < d->symbols.n && d->symbols.at[i + 1].addr < end;
    s->size = (cut ? d->symbols.at[i + 1].addr : end) - s->addr;
  }
}

static void load(DebugImage *d) {
  if (d->have_symbols) return;
  d->have_symbols = true;
  DebugEntries all = {0};
  if (!read_tables(d, d, SHT_SYMTAB, &all) && !read_tables(d, debug_separate(d), SHT_SYMTAB, &all))
    read_tables(d, d, SHT_DYNSYM, &all);
  if (all.n) qsort(all.at, all.n, sizeof *all.at, debug_by_address);
  debug_plt(d, &all);
  keep(d, &all);
  give_sizes(d);
  vec_free(&all);
}

/* How many symbols begin at addr or before it. */
static size_t up_to(DebugImage *d, uint64_t addr) {
  load(d);
  size_t low = 0, high = d->symbols.n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (d->symbols.at[mid].addr > addr)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

uint64_t debug_next_symbol(DebugImage *d, uint64_t addr) {
  size_t i = up_to(d, addr);
  return i < d->symbols.n ? d->symbols.at[i].addr : UINT64_MAX;
}

bool debug_symbol_at(DebugImage *d, uint64_t addr, DebugSymbol *out) {
  size_t low = up_to(d, addr);
  for (size_t back = 0; low > 0 && back < 8;
       back++, low--) { /* an enclosing symbol may have begun earlier */
    const DebugSymbol *s = &d->symbols.at[low - 1];
    if (addr - s->addr >= s->size) continue;
    *out = *s;
    return true;
  }
  return false;
}

bool debug_is_function_entry(DebugImage *d, uint64_t addr) {
  DebugSymbol s;
  uint64_t start, size;
  if (debug_symbol_at(d, addr, &s)) return s.addr == addr && s.is_function;
  return debug_extent(d, addr, &start, &size) && start == addr;
}

void debug_symbols(DebugImage *d, void (*fn)(void *ctx, const DebugSymbol *s), void *ctx) {
  load(d);
  for (size_t i = 0; i < d->symbols.n; i++) fn(ctx, &d->symbols.at[i]);
}
