/* Entries of procedure linkage tables, which have no symbols: name@plt, as gdb and objdump have it.
 *
 * x86-64: any section .plt, .plt.got, .plt.sec; an entry jumps through the GOT slot that a
 * relocation fills (System V psABI for AMD64, section 5.2). Elsewhere .plt has a header and then
 * entries in the order of .rela.plt. An entry whose slot takes an address and no symbol (an ifunc
 * of the object itself) is named for the resolver at that address. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug/image.h"

#define RISCV_HEADER 32
#define ENTRY        16

static const char *resolver_name(const DebugEntries *all, size_t n, uint64_t addr) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (all->at[mid].s.addr < addr)
      low = mid + 1;
    else
      high = mid;
  }
  return low < n && all->at[low].s.addr == addr ? all->at[low].s.name : NULL;
}

typedef struct Plt {
  DebugImage *d;
  DebugEntries *all;
  size_t n;  /* of all: the symbols, sorted */
  Map slots; /* x86-64: address of a GOT slot + 1 -> Elf64_Rela that fills it */
} Plt;

static const char *symbol_of(const Plt *p, const Elf64_Shdr *rela_section, const Elf64_Rela *rela) {
  const DebugImage *d = p->d;
  uint64_t index = ELF64_R_SYM(rela->r_info);
  if (!index) return resolver_name(p->all, p->n, (uint64_t)rela->r_addend);
  if (rela_section->sh_link >= d->n_sections) return NULL;
  const Elf64_Shdr *table = &d->sections[rela_section->sh_link];
  if (table->sh_link >= d->n_sections || index >= table->sh_size / sizeof(Elf64_Sym)) return NULL;
  const Elf64_Sym *syms = debug_at(d, table->sh_offset, table->sh_size);
  return syms ? debug_string(d, &d->sections[table->sh_link], syms[index].st_name) : NULL;
}

static void add(Plt *p, const char *name, uint64_t addr, uint64_t size) {
  char buf[512];
  if (!name || !name[0]) return;
  snprintf(buf, sizeof buf, "%s@plt", name);
  DebugEntry e = {{debug_intern(p->d, buf), addr, size, true}, 0};
  vec_push(p->all, e);
}

static const Elf64_Rela *relocations(const DebugImage *d, const char *section,
                                     const Elf64_Shdr **header, size_t *n) {
  const uint8_t *at = debug_section(d, section, n, header);
  *n /= sizeof(Elf64_Rela);
  return at && (*header)->sh_offset % 8 == 0 ? (const Elf64_Rela *)(const void *)at : NULL;
}

static void by_order(Plt *p) {
  const Elf64_Shdr *plt, *section;
  size_t size, n;
  if (!debug_section(p->d, ".plt", &size, &plt)) return;
  const Elf64_Rela *rela = relocations(p->d, ".rela.plt", &section, &n);
  for (size_t i = 0; rela && i < n && RISCV_HEADER + ENTRY * i < size; i++)
    add(p, symbol_of(p, section, &rela[i]), plt->sh_addr + RISCV_HEADER + ENTRY * i, ENTRY);
}

/* The slot that an entry jumps through: [endbr64] [bnd] jmp *disp(%rip); 0: it does not. */
static uint64_t slot_of(const uint8_t *code, size_t n, uint64_t addr) {
  static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
  size_t at = n > 4 && !memcmp(code, endbr64, 4) ? 4 : 0;
  int32_t disp;
  if (at < n && code[at] == 0xf2) at++;
  if (at + 6 > n || code[at] != 0xff || code[at + 1] != 0x25) return 0;
  memcpy(&disp, code + at + 2, 4);
  return addr + at + 6 + (uint64_t)(int64_t)disp;
}

static void by_slot(Plt *p, const char *section, const char *const *rela_sections) {
  const Elf64_Shdr *header;
  size_t size;
  const uint8_t *code = debug_section(p->d, section, &size, &header);
  size_t step = header && !strcmp(section, ".plt.got") && code && size % 16 ? 8 : ENTRY;
  if (code && !strcmp(section, ".plt.got") && size >= 2 && code[0] == 0xff) step = 8;
  for (size_t at = 0; code && at + 6 <= size; at += step) {
    uint64_t slot = slot_of(code + at, size - at < step ? size - at : step, header->sh_addr + at);
    const Elf64_Rela *rela = slot ? map_get(&p->slots, slot + 1) : NULL;
    for (int i = 0; rela && i < 2; i++) {
      const Elf64_Shdr *from;
      size_t n;
      const Elf64_Rela *first = relocations(p->d, rela_sections[i], &from, &n);
      if (!first || rela < first || rela >= first + n) continue;
      add(p, symbol_of(p, from, rela), header->sh_addr + at, step);
      break;
    }
  }
}

static void by_slots(Plt *p) {
  static const char *const sections[] = {".plt", ".plt.sec", ".plt.got"}, *const rela_sections[] = {
                                                                              ".rela.plt",
                                                                              ".rela.dyn"};
  for (int i = 0; i < 2; i++) {
    const Elf64_Shdr *header;
    size_t n;
    const Elf64_Rela *rela = relocations(p->d, rela_sections[i], &header, &n);
    for (size_t k = 0; rela && k < n; k++) {
      uint32_t type = ELF64_R_TYPE(rela[k].r_info);
      if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_IRELATIVE)
        map_put(&p->slots, rela[k].r_offset + 1, (void *)(uintptr_t)&rela[k]);
    }
  }
  for (int i = 0; i < 3; i++) by_slot(p, sections[i], rela_sections);
  map_free(&p->slots);
}

void debug_plt(DebugImage *d, DebugEntries *all) {
  Plt p = {.d = d, .all = all, .n = all->n};
  if (((const Elf64_Ehdr *)(const void *)d->map)->e_machine == EM_X86_64)
    by_slots(&p);
  else
    by_order(&p);
  if (all->n > p.n) qsort(all->at, all->n, sizeof *all->at, debug_by_address);
}
