/* Memory calls: all through the one door in core/map.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/os.h"

int64_t os_mmap(CoreThread *t, uint64_t a[6]) {
  int prot = (int)a[2], flags = (int)a[3], fd = (int)a[4];
  bool file = !(flags & MAP_ANONYMOUS);
  if (t->emu->guest->generic_syscalls) flags &= ~MAP_32BIT; /* only x86 has it */
  if (file && os_is_engine_fd(t->emu, fd)) return -EBADF;
  if (file && fcntl(fd, F_GETFD) < 0) return -EBADF;
  int64_t va = core_mmap(t->emu, t, a[0], a[1], prot, flags, fd, a[5], NULL);
  if (va > 0 && file && prot & PROT_EXEC)
    os_image_mapped(t->emu, t, (uint64_t)va, a[1], a[5], core_area(t->emu, (uint64_t)va)->name);
  return va;
}

int64_t os_munmap(CoreThread *t, uint64_t a[6]) {
  int64_t r = core_munmap(t->emu, t, a[0], a[1]);
  if (!r) os_images_unmapped(t->emu, t, a[0], a[1]);
  return r;
}

/* PROT_GROWSDOWN means all of the stack, from the range's end down. */
int64_t os_mprotect(CoreThread *t, uint64_t a[6]) {
  uint64_t va = a[0], len = a[1];
  int prot = (int)a[2];
  const CoreArea *area = prot & PROT_GROWSDOWN ? core_area(t->emu, va) : NULL;
  if (area && area->start <= va && !strcmp(area->name, "[stack]")) {
    len += va - area->start;
    va = area->start;
    prot &= ~PROT_GROWSDOWN;
  }
  return core_mprotect(t->emu, t, va, len, prot);
}
int64_t os_mremap(CoreThread *t, uint64_t a[6]) {
  return core_mremap(t->emu, t, a[0], a[1], a[2], (int)a[3], a[4]);
}
int64_t os_madvise(CoreThread *t, uint64_t a[6]) {
  return core_madvise(t->emu, t, a[0], a[1], (int)a[2]);
}
int64_t os_brk(CoreThread *t, uint64_t a[6]) { return core_brk(t->emu, t, a[0]); }

int64_t os_flush_icache(CoreThread *t, uint64_t a[6]) {
  if (a[1] > a[0]) core_invalidate(t->emu, a[0], a[1] - a[0]);
  return 0;
}
