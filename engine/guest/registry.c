/* The guests there are. */
#include <string.h>

#include "guest/guest.h"

extern const Guest rv64_guest, x64_guest;

static const Guest *const guests[] = {&rv64_guest, &x64_guest, NULL};

const Guest *const *guest_all(void) { return guests; }

const Guest *guest_for_machine(uint16_t elf_machine) {
  for (const Guest *const *g = guests; *g; g++)
    if ((*g)->elf_machine == elf_machine) return *g;
  return NULL;
}

int guest_find_reg(const Guest *g, const char *name) {
  for (uint32_t i = 0; i < g->n_regs; i++)
    if (!strcmp(g->regs[i].name, name) || (g->regs[i].alias && !strcmp(g->regs[i].alias, name)))
      return (int)i;
  return !strcmp(name, "fp") ? g->abi.fp : -1;
}
