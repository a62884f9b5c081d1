/* Loaded ELF files: those the loader mapped, and those that the guest's own loader maps (recognised
 * by an executable mapping). */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

CoreImageRecord *os_image_add(Emu *emu, const char *path, const char *host_path, uint64_t low,
                              uint64_t high, uint64_t bias) {
  CoreImageRecord *r = xcalloc(1, sizeof *r);
  r->pub = (KitImage){.id = (uint32_t)emu->images.n,
                      .path = xstrdup(path),
                      .host_path = xstrdup(host_path),
                      .low = low,
                      .high = high,
                      .bias = bias,
                      .build_id = ""};
  vec_push(&emu->images, r);
  return r;
}

static void raise_image(Emu *emu, CoreThread *t, CoreImageRecord *r, bool loaded) {
  if (t)
    core_raise(t, &(KitEvent){.kind = KIT_EV_IMAGE,
                              .tid = t->tid,
                              .pc = t->state->pc,
                              .image = {.image = &r->pub, .loaded = loaded}});
  (void)emu;
}

/* Address range and bias of a file from its program headers, given that the page at file offset
 * `offset` is now at va. */
static bool image_range(const char *path, uint64_t va, uint64_t offset, uint64_t *low,
                        uint64_t *high, uint64_t *bias) {
  Elf64_Ehdr eh;
  Elf64_Phdr ph[64];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = pread(fd, &eh, sizeof eh, 0) == sizeof eh && !memcmp(eh.e_ident, ELFMAG, SELFMAG) &&
            eh.e_phentsize == sizeof *ph && eh.e_phnum && eh.e_phnum <= 64 &&
            pread(fd, ph, sizeof *ph * eh.e_phnum, (off_t)eh.e_phoff) ==
                (ssize_t)(sizeof *ph * eh.e_phnum);
  close(fd);
  bool found = false;
  *low = UINT64_MAX;
  *high = 0;
  for (int i = 0; ok && i < eh.e_phnum; i++) {
    if (ph[i].p_type != PT_LOAD) continue;
    uint64_t first = ph[i].p_vaddr & ~(CORE_PAGE - 1),
             end = (ph[i].p_vaddr + ph[i].p_memsz + CORE_PAGE - 1) & ~(CORE_PAGE - 1);
    if (first < *low) *low = first;
    if (end > *high) *high = end;
    uint64_t file = ph[i].p_offset & ~(CORE_PAGE - 1);
    if (ph[i].p_flags & PF_X && offset >= file && offset < ph[i].p_offset + ph[i].p_filesz) {
      *bias = va - (offset - file) - first;
      found = true;
    }
  }
  *low += found ? *bias : 0;
  *high += found ? *bias : 0;
  return found && *low < *high;
}

void os_image_mapped(Emu *emu, CoreThread *t, uint64_t va, uint64_t len, uint64_t offset,
                     const char *path) {
  uint64_t low, high, bias;
  (void)len;
  for (size_t i = 0; i < emu->images.n; i++)
    if (!emu->images.at[i]->unloaded && va >= emu->images.at[i]->pub.low &&
        va < emu->images.at[i]->pub.high)
      return; /* known: the loader's, or mapped again */
  if (!path[0] || !image_range(path, va, offset, &low, &high, &bias)) return;
  raise_image(emu, t, os_image_add(emu, path, path, low, high, bias), true);
}

/* An image is gone when its first page is. It stays listed (its symbols are needed for what was
 * counted), out of reach of lookups only when another image takes its range. */
void os_images_unmapped(Emu *emu, CoreThread *t, uint64_t va, uint64_t len) {
  for (size_t i = 0; i < emu->images.n; i++) {
    CoreImageRecord *r = emu->images.at[i];
    if (r->unloaded || r->pub.low < va || r->pub.low >= va + len) continue;
    r->unloaded = true;
    raise_image(emu, t, r, false);
  }
}
