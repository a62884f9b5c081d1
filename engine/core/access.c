/* The engine's own accesses to guest memory, and the write protection of translated pages. See
 * map.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/area.h"

static void *host(uint64_t va) { return (void *)(uintptr_t)va; }

/* Every page of the range is mapped with at least prot; PROT_WRITE and PROT_EXEC imply reading, as
 * on Linux. */
void *emu_addr_space_ptr(const Emu *emu, uint64_t va, uint64_t len, int prot) {
  const CoreMap *m = emu->map;
  if (va >= CORE_LINE || len > CORE_LINE - va) return NULL;
  uint64_t at = va, end = va + (len ? len : 1);
  for (size_t i = core_area_index(m, va); at < end; i++) {
    if (i == m->areas.n || m->areas.at[i].start > at) return NULL;
    int have = m->areas.at[i].prot;
    if (have & (PROT_WRITE | PROT_EXEC)) have |= PROT_READ;
    if ((have & prot) != prot) return NULL;
    at = m->areas.at[i].end;
  }
  return host(va);
}

/* ---- write protection of translated pages ---------------------------------------------------- */

static const CoreArea *area_of(const CoreMap *m, uint64_t va) {
  size_t i = core_area_index(m, va);
  return i < m->areas.n && m->areas.at[i].start <= va ? &m->areas.at[i] : NULL;
}

static void guard(CoreMap *m, uint64_t page) {
  map_put(&m->guarded, page, (void *)1);
  mprotect(host(page * CORE_PAGE), CORE_PAGE, PROT_READ);
}

/* Other shared mappings of the same file page through which the guest could write to this code. */
static void guard_aliases(CoreMap *m, const CoreArea *code, uint64_t page) {
  uint64_t offset = code->offset + (page * CORE_PAGE - code->start);
  for (size_t i = 0; i < m->areas.n; i++) {
    const CoreArea *a = &m->areas.at[i];
    if (a == code || !(a->flags & MAP_SHARED) || !(a->prot & PROT_WRITE) || a->ino != code->ino ||
        a->dev != code->dev)
      continue;
    if (offset < a->offset || offset - a->offset >= a->end - a->start) continue;
    uint64_t alias = (a->start + (offset - a->offset)) / CORE_PAGE;
    map_put(&m->aliases, alias, (void *)(uintptr_t)page);
    guard(m, alias);
  }
}

void core_protect_code(Emu *emu, uint64_t va, uint64_t len) {
  CoreMap *m = emu->map;
  for (uint64_t page = va / CORE_PAGE; page <= (va + len - 1) / CORE_PAGE; page++) {
    const CoreArea *a = area_of(m, page * CORE_PAGE);
    if (!a) continue;
    if (a->prot & PROT_WRITE) guard(m, page);
    if (a->ino) guard_aliases(m, a, page);
  }
}

bool core_unprotect_code(Emu *emu, uint64_t va) {
  CoreMap *m = emu->map;
  uint64_t page = va / CORE_PAGE;
  if (!map_remove(&m->guarded, page)) return false;
  void *code = map_remove(&m->aliases, page);
  core_invalidate(emu, (code ? (uint64_t)(uintptr_t)code : page) * CORE_PAGE, CORE_PAGE);
  const CoreArea *a = area_of(m, va);
  if (!a || !(a->prot & PROT_WRITE)) return false;
  mprotect(host(page * CORE_PAGE), CORE_PAGE, core_host_prot(a->prot));
  return true;
}

static void unprotect_range(Emu *emu, uint64_t va, uint64_t len) {
  CoreMap *m = emu->map;
  if (!m->guarded.n || !len) return;
  for (uint64_t page = va / CORE_PAGE; page <= (va + len - 1) / CORE_PAGE; page++)
    if (map_get(&m->guarded, page)) core_unprotect_code(emu, page * CORE_PAGE);
}

/* ---- system call buffers --------------------------------------------------------------------- */

static int prepare(Emu *emu, CoreThread *t, uint64_t va, uint64_t len, bool write) {
  if (!len) return 0;
  bool ok = emu_addr_space_ptr(emu, va, len, write ? PROT_WRITE : PROT_READ);
  KitEventKind kind = write ? KIT_EV_STORE : KIT_EV_LOAD;
  if (t && core_hooks_want(emu, kind)) {
    KitEvent ev = {.kind = kind,
                   .tid = t->tid,
                   .pc = t->state->pc,
                   .access = {.addr = va,
                              .size = (uint32_t)len,
                              .is_write = write,
                              .host = ok ? host(va) : NULL,
                              .is_syscall = true}};
    if (core_raise(t, &ev) & KIT_DENY) return -EFAULT;
  }
  if (!ok) return -EFAULT;
  if (write) unprotect_range(emu, va, len);
  return 0;
}

int guest_prepare_write(Emu *emu, CoreThread *t, uint64_t va, uint64_t len) {
  return prepare(emu, t, va, len, true);
}
int guest_prepare_read(Emu *emu, CoreThread *t, uint64_t va, uint64_t len) {
  return prepare(emu, t, va, len, false);
}

int guest_read(Emu *emu, CoreThread *t, uint64_t va, void *buf, uint64_t len) {
  int err = guest_prepare_read(emu, t, va, len);
  if (!err) memcpy(buf, host(va), len);
  return err;
}

int guest_write(Emu *emu, CoreThread *t, uint64_t va, const void *buf, uint64_t len) {
  int err = guest_prepare_write(emu, t, va, len);
  if (!err) memcpy(host(va), buf, len);
  return err;
}

const char *guest_string(Emu *emu, CoreThread *t, uint64_t va, size_t *len) {
  uint64_t at = va;
  for (;;) {
    const CoreArea *a = area_of(emu->map, at);
    if (at >= CORE_LINE || !a || !emu_addr_space_ptr(emu, at, 1, PROT_READ)) return NULL;
    const char *nul = memchr(host(at), 0, a->end - at);
    if (nul) {
      *len = (size_t)((uint64_t)(uintptr_t)nul - va);
      return guest_prepare_read(emu, t, va, *len + 1) ? NULL : host(va);
    }
    at = a->end;
  }
}

/* ---- debugger accesses ----------------------------------------------------------------------- */

static bool whole(ssize_t n, uint64_t len) { return n >= 0 && (uint64_t)n == len; }

/* In one area, readable, of no file that could end before it. */
static bool is_plain(const Emu *emu, uint64_t va, uint64_t len) {
  const CoreArea *a = area_of(emu->map, va);
  return a && a->prot & PROT_READ && a->flags & MAP_PRIVATE && !a->ino && a->end - va >= len;
}

int core_peek(Emu *emu, uint64_t va, void *buf, uint64_t len) {
  if (!emu_addr_space_ptr(emu, va, len, 0)) return -EFAULT;
  if (is_plain(emu, va, len)) {
    memcpy(buf, host(va), len);
    return 0;
  }
  /* Through the kernel: a page behind the end of its file is an error, not a signal. No descriptor
   * is kept that the guest could see. */
  struct iovec to = {buf, len}, from = {host(va), len};
  if (whole(process_vm_readv(getpid(), &to, 1, &from, 1, 0), len)) return 0;
  int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* where the guest itself may not read */
  bool ok = fd >= 0 && whole(pread(fd, buf, len, (off_t)va), len);
  if (fd >= 0) close(fd);
  return ok ? 0 : -EFAULT;
}

/* Makes one area's part of the range writable for a moment. */
static int poke_area(Emu *emu, const CoreArea *a, uint64_t va, const void *buf, uint64_t len) {
  uint64_t first = va & ~(CORE_PAGE - 1), last = (va + len + CORE_PAGE - 1) & ~(CORE_PAGE - 1);
  unprotect_range(emu, va, len);
  bool writable = a->prot & PROT_WRITE;
  if (!writable && mprotect(host(first), last - first, PROT_READ | PROT_WRITE)) return -EFAULT;
  memcpy(host(va), buf, len);
  if (!writable) mprotect(host(first), last - first, core_host_prot(a->prot));
  core_invalidate(emu, va, len);
  return 0;
}

int core_poke(Emu *emu, uint64_t va, const void *buf, uint64_t len) {
  if (!emu_addr_space_ptr(emu, va, len, 0)) return -EFAULT;
  for (const char *from = buf; len;) {
    const CoreArea *a = area_of(emu->map, va);
    uint64_t n = a->end - va < len ? a->end - va : len;
    int err = poke_area(emu, a, va, from, n);
    if (err) return err;
    va += n;
    from += n;
    len -= n;
  }
  return 0;
}
