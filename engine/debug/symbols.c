/* ELF files: sections, symbols, PLT entries, build id. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debug/image.h"

/* ---- the file, bounds-checked ---------------------------------------------------------------- */

static const void *at(const DebugImage *d, uint64_t off, uint64_t n) {
  return off <= d->size && n <= d->size - off ? d->map + off : NULL;
}

/* A string of a string table section that ends inside it. */
static const char *string_at(const DebugImage *d, const Elf64_Shdr *table, uint64_t off) {
  if (off >= table->sh_size) return NULL;
  const char *s = at(d, table->sh_offset + off, table->sh_size - off);
  return s && memchr(s, 0, table->sh_size - off) ? s : NULL;
}

static const char *section_name(const DebugImage *d, const Elf64_Shdr *s) {
  const Elf64_Ehdr *eh = (const void *)d->map;
  if (eh->e_shstrndx >= d->n_sections) return "";
  const char *name = string_at(d, &d->sections[eh->e_shstrndx], s->sh_name);
  return name ? name : "";
}

const uint8_t *debug_section(const DebugImage *d, const char *name, size_t *size,
                             const Elf64_Shdr **header) {
  for (uint32_t i = 0; i < d->n_sections; i++) {
    const Elf64_Shdr *s = &d->sections[i];
    if (s->sh_type == SHT_NOBITS || strcmp(section_name(d, s), name)) continue;
    if (header) *header = s;
    *size = s->sh_size;
    return at(d, s->sh_offset, s->sh_size);
  }
  return NULL;
}

static bool map_file(DebugImage *d, const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(Elf64_Ehdr)) {
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    d->map = p == MAP_FAILED ? NULL : p;
    d->size = (size_t)st.st_size;
  }
  close(fd);
  return d->map != NULL;
}

DebugImage *debug_open(const char *path, const char *sysroot) {
  DebugImage *d = xcalloc(1, sizeof *d);
  d->path = xstrdup(path);
  d->sysroot = sysroot ? xstrdup(sysroot) : NULL;
  d->arena = arena_new();
  const Elf64_Ehdr *eh = map_file(d, path) ? (const void *)d->map : NULL;
  if (!eh || memcmp(eh->e_ident, ELFMAG, SELFMAG) || eh->e_ident[EI_CLASS] != ELFCLASS64 ||
      eh->e_ident[EI_DATA] != ELFDATA2LSB) {
    debug_close(d);
    return NULL;
  }
  if (eh->e_shentsize == sizeof(Elf64_Shdr) && eh->e_shoff % 8 == 0 &&
      (d->sections = at(d, eh->e_shoff, (uint64_t)eh->e_shnum * sizeof(Elf64_Shdr))))
    d->n_sections = eh->e_shnum;
  return d;
}

const char *debug_intern(DebugImage *d, const char *s) {
  uint64_t hash = 14695981039346656037ull;
  for (const char *p = s; *p; p++) hash = (hash ^ (uint8_t)*p) * 1099511628211ull;
  for (const char *have; (have = map_get(&d->strings, hash)); hash++)
    if (!strcmp(have, s)) return have;
  char *copy = arena_strdup(d->arena, s);
  map_put(&d->strings, hash, copy);
  return copy;
}

const char *debug_build_id(DebugImage *d) {
  size_t size;
  const uint8_t *note = debug_section(d, ".note.gnu.build-id", &size, NULL);
  if (d->build_id[0] || !note || size < 16) return d->build_id;
  uint32_t n;
  memcpy(&n, note + 4, 4);
  for (uint32_t i = 0; i < n && i < 36 && 16 + i < size; i++)
    snprintf(d->build_id + 2 * i, 3, "%02x", note[16 + i]);
  return d->build_id;
}

/* ---- symbols --------------------------------------------------------------------------------- */

typedef struct Entry {
  DebugSymbol s;
  int rank; /* among symbols at one address: larger is shown */
} Entry;

typedef VEC(Entry) Entries;

/* Which of several names at one address is shown: functions before data, global before weak before
 * local, then fewer leading underscores. */
static int rank_of(const Elf64_Sym *sym, const char *name) {
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
  if (type == STT_NOTYPE)
    return d->sections[sym->st_shndx].sh_flags & SHF_EXECINSTR &&
           ELF64_ST_BIND(sym->st_info) != STB_LOCAL;
  return type == STT_FUNC || type == STT_OBJECT || type == STT_GNU_IFUNC;
}

static void read_table(DebugImage *d, const Elf64_Shdr *table, Entries *out) {
  if (table->sh_link >= d->n_sections || table->sh_entsize != sizeof(Elf64_Sym)) return;
  const Elf64_Shdr *strings = &d->sections[table->sh_link];
  const Elf64_Sym *syms = at(d, table->sh_offset, table->sh_size);
  if (!syms || table->sh_offset % 8) return;
  for (uint64_t i = 0; i < table->sh_size / sizeof *syms; i++) {
    const char *name = string_at(d, strings, syms[i].st_name);
    if (!wanted(d, &syms[i], name)) continue;
    bool code = d->sections[syms[i].st_shndx].sh_flags & SHF_EXECINSTR;
    Entry e = {{name, syms[i].st_value, syms[i].st_size, code}, rank_of(&syms[i], name)};
    vec_push(out, e);
  }
}

/* PLT entries by their relocations, in order: a header, then entries of equal size. */
static void read_plt(DebugImage *d, Entries *out) {
  const Elf64_Shdr *plt, *rela;
  size_t plt_size, rela_size;
  const uint8_t *p = debug_section(d, ".plt", &plt_size, &plt),
                *r = debug_section(d, ".rela.plt", &rela_size, &rela);
  uint16_t machine = ((const Elf64_Ehdr *)(const void *)d->map)->e_machine;
  uint64_t header = machine == EM_X86_64 ? 16 : 32;
  if (!p || !r || rela->sh_link >= d->n_sections || rela->sh_offset % 8) return;
  const Elf64_Shdr *table = &d->sections[rela->sh_link];
  const Elf64_Sym *syms =
      table->sh_link < d->n_sections ? at(d, table->sh_offset, table->sh_size) : NULL;
  for (uint64_t i = 0; syms && i < rela_size / sizeof(Elf64_Rela) && header + 16 * i < plt_size;
       i++) {
    uint64_t sym = ELF64_R_SYM(((const Elf64_Rela *)(const void *)r)[i].r_info);
    const char *name = sym < table->sh_size / sizeof *syms
                           ? string_at(d, &d->sections[table->sh_link], syms[sym].st_name)
                           : NULL;
    if (!name || !name[0]) continue;
    char buf[256];
    snprintf(buf, sizeof buf, "%s@plt", name);
    vec_push(out, ((Entry){{debug_intern(d, buf), plt->sh_addr + header + 16 * i, 16, true}, 0}));
  }
}

static int by_address(const void *a, const void *b) {
  const Entry *x = a, *y = b;
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

/* Where the section that holds addr ends. */
static uint64_t section_end(const DebugImage *d, uint64_t addr) {
  for (uint32_t i = 0; i < d->n_sections; i++) {
    const Elf64_Shdr *s = &d->sections[i];
    if (s->sh_flags & SHF_ALLOC && addr >= s->sh_addr && addr - s->sh_addr < s->sh_size)
      return s->sh_addr + s->sh_size;
  }
  return addr + 1;
}

static void load(DebugImage *d) {
  if (d->have_symbols) return;
  d->have_symbols = true;
  Entries all = {0};
  for (int type = SHT_SYMTAB;; type = SHT_DYNSYM) {
    for (uint32_t i = 0; i < d->n_sections; i++)
      if (d->sections[i].sh_type == (uint32_t)type) read_table(d, &d->sections[i], &all);
    if (all.n || type == SHT_DYNSYM) break;
  }
  read_plt(d, &all);
  if (all.n) qsort(all.at, all.n, sizeof *all.at, by_address);
  for (size_t i = 0; i < all.n; i++) {
    bool first = i == 0 || all.at[i].s.addr != all.at[i - 1].s.addr;
    if (first) vec_push(&d->symbols, all.at[i].s);
    DebugSymbol *shown = &vec_last(&d->symbols);
    if (all.at[i].s.size > shown->size) shown->size = all.at[i].s.size;
    vec_push(&d->names, ((DebugName){all.at[i].s.name, d->symbols.n - 1}));
  }
  for (size_t i = 0; i < d->symbols.n; i++) {
    DebugSymbol *s = &d->symbols.at[i];
    uint64_t end = section_end(d, s->addr),
             next = i + 1 < d->symbols.n && d->symbols.at[i + 1].addr < end
                        ? d->symbols.at[i + 1].addr
                        : end;
    if (!s->size) s->size = next - s->addr;
  }
  vec_free(&all);
}

bool debug_symbol_at(DebugImage *d, uint64_t addr, DebugSymbol *out) {
  load(d);
  size_t low = 0, high = d->symbols.n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (d->symbols.at[mid].addr > addr)
      high = mid;
    else
      low = mid + 1;
  }
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
  return debug_symbol_at(d, addr, &s) && s.addr == addr && s.is_function;
}

void debug_symbols(DebugImage *d, void (*fn)(void *ctx, const DebugSymbol *s), void *ctx) {
  load(d);
  for (size_t i = 0; i < d->symbols.n; i++) fn(ctx, &d->symbols.at[i]);
}
