/* The memory map: areas, placement, and the calls that change them. See map.h. */
#include "core/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/area.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define PIE_BASE  ((1ull << 45) + (1ull << 32))
#define HEAP_ROOM (1ull << 40) /* between PIE_BASE and the mmap area */
#define MMAP_TOP  (CORE_LINE - (1ull << 33))
#define LOW_BASE  0x10000000ull
#define LOW_FILES                                                                                  \
  (1ull << 30) /* files from here on, downwards from LOW_TOP; programs and heap below */
#define LOW_TOP  0x7fff0000ull  /* a little below 2^31: a sanitizer's shadow begins there */
#define LOW_MOST (256ull << 20) /* the largest file that is placed low */

CoreMap *core_map_new(Emu *emu) {
  CoreMap *m = xcalloc(1, sizeof *m);
  m->emu = emu;
  return m;
}

void core_map_free(CoreMap *m) {
  for (size_t i = 0; i < m->areas.n; i++)
    munmap((void *)(uintptr_t)m->areas.at[i].start, m->areas.at[i].end - m->areas.at[i].start);
  while (m->planes) core_plane_free(m->planes);
  for (size_t i = 0; i < m->names.n; i++) free(m->names.at[i]);
  vec_free(&m->names);
  vec_free(&m->areas);
  map_free(&m->guarded);
  map_free(&m->aliases);
  free(m);
}

/* ---- areas ----------------------------------------------------------------------------------- */

size_t core_area_index(const CoreMap *m, uint64_t va) {
  size_t low = 0, high = m->areas.n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (m->areas.at[mid].end > va)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

const CoreArea *core_area(const Emu *emu, uint64_t va) {
  size_t i = core_area_index(emu->map, va);
  return i < emu->map->areas.n ? &emu->map->areas.at[i] : NULL;
}

const char *core_intern(CoreMap *m, const char *name) {
  for (size_t i = m->names.n; i-- > 0;)
    if (!strcmp(m->names.at[i], name)) return m->names.at[i];
  vec_push(&m->names, xstrdup(name));
  return vec_last(&m->names);
}

static void insert_at(CoreMap *m, size_t i, CoreArea a) {
  vec_push(&m->areas, a);
  memmove(&m->areas.at[i + 1], &m->areas.at[i], (m->areas.n - 1 - i) * sizeof a);
  m->areas.at[i] = a;
}

static void remove_at(CoreMap *m, size_t i, size_t n) {
  if (n) memmove(&m->areas.at[i], &m->areas.at[i + n], (m->areas.n - i - n) * sizeof *m->areas.at);
  m->areas.n -= n;
}

/* Makes va an area boundary, if it lies inside one. */
static void split(CoreMap *m, uint64_t va) {
  size_t i = core_area_index(m, va);
  if (i == m->areas.n || m->areas.at[i].start >= va) return;
  CoreArea upper = m->areas.at[i];
  upper.offset += upper.ino ? va - upper.start : 0;
  upper.start = va;
  m->areas.at[i].end = va;
  insert_at(m, i + 1, upper);
}

static bool joins(const CoreArea *a, const CoreArea *b) {
  return a->end == b->start && a->prot == b->prot && a->flags == b->flags && a->name == b->name &&
         a->dev == b->dev && a->ino == b->ino &&
         (!a->ino || a->offset + (a->end - a->start) == b->offset);
}

static void merge_around(CoreMap *m, uint64_t start, uint64_t end) {
  size_t i = core_area_index(m, start ? start - 1 : 0);
  while (i + 1 < m->areas.n && m->areas.at[i].start <= end) {
    if (joins(&m->areas.at[i], &m->areas.at[i + 1])) {
      m->areas.at[i].end = m->areas.at[i + 1].end;
      remove_at(m, i + 1, 1);
    } else {
      i++;
    }
  }
}

/* Takes [va, va+len) off the list. */
static void carve(CoreMap *m, uint64_t va, uint64_t len) {
  split(m, va);
  split(m, va + len);
  size_t i = core_area_index(m, va), n = 0;
  while (i + n < m->areas.n && m->areas.at[i + n].start < va + len) n++;
  remove_at(m, i, n);
}

static bool is_free(const CoreMap *m, uint64_t va, uint64_t len) {
  size_t i = core_area_index(m, va);
  return i == m->areas.n || m->areas.at[i].start >= va + len;
}

static bool is_covered(const CoreMap *m, uint64_t va, uint64_t len) {
  uint64_t end = va + len;
  for (size_t i = core_area_index(m, va); i < m->areas.n && m->areas.at[i].start <= va; i++) {
    va = m->areas.at[i].end;
    if (va >= end) return true;
  }
  return false;
}

/* ---- placement ------------------------------------------------------------------------------- */

static uint64_t free_below(const CoreMap *m, uint64_t top, uint64_t bottom, uint64_t len) {
  for (size_t i = core_area_index(m, top);; i--) {
    if (i < m->areas.n && m->areas.at[i].start < top) top = m->areas.at[i].start;
    uint64_t floor = i > 0 && m->areas.at[i - 1].end > bottom ? m->areas.at[i - 1].end : bottom;
    if (top >= floor && top - floor >= len) return top - len;
    if (i == 0 || m->areas.at[i - 1].start <= bottom) return 0;
    top = m->areas.at[i - 1].start;
  }
}

static uint64_t free_above(const CoreMap *m, uint64_t bottom, uint64_t top, uint64_t len) {
  for (size_t i = core_area_index(m, bottom);; i++) {
    uint64_t ceiling = i < m->areas.n && m->areas.at[i].start < top ? m->areas.at[i].start : top;
    if (ceiling >= bottom && ceiling - bottom >= len) return bottom;
    if (i >= m->areas.n || m->areas.at[i].start >= top) return 0;
    bottom = m->areas.at[i].end;
  }
}

uint64_t core_place(Emu *emu, uint64_t len, bool low) {
  uint64_t va = low ? free_above(emu->map, LOW_BASE, LOW_TOP, len) : 0;
  return va ? va : free_above(emu->map, PIE_BASE, PIE_BASE + HEAP_ROOM, len);
}

/* Where the kernel would choose: high, top down. Code of native operations reaches what is below
 * 2^31 by absolute addresses, so libraries go there as long as there is room. */
static uint64_t choose(const CoreMap *m, uint64_t len, int flags, bool native) {
  bool file = native && flags & MAP_PRIVATE && !(flags & MAP_ANONYMOUS) && len <= LOW_MOST;
  if (file || flags & MAP_32BIT) {
    uint64_t va = free_below(m, LOW_TOP, LOW_FILES, len);
    if (va || flags & MAP_32BIT) return va;
  }
  return free_below(m, MMAP_TOP, PIE_BASE + HEAP_ROOM, len);
}

static bool valid_range(uint64_t va, uint64_t len) {
  return va >= CORE_LOW && len <= CORE_LINE && va <= CORE_LINE - len;
}
static uint64_t page_up(uint64_t n) { return (n + CORE_PAGE - 1) & ~(CORE_PAGE - 1); }

/* ---- the host's side ------------------------------------------------------------------------- */

/* Guest code is data for us: it is never executable on the host, but must be readable. Linux has no
 * write-only pages. */
int core_host_prot(int prot) {
  int host = prot & (PROT_READ | PROT_WRITE);
  return prot & (PROT_EXEC | PROT_WRITE) ? host | PROT_READ : host;
}

static void *host(uint64_t va) { return (void *)(uintptr_t)va; }

static void forget_guards(CoreMap *m, uint64_t va, uint64_t len) {
  if (!m->guarded.n) return;
  if (len / CORE_PAGE > m->guarded.cap) { /* few guards in a huge range */
    VEC(uint64_t) pages = {0};
    uint64_t page;
    void *v;
    for (size_t i = 0; map_next(&m->guarded, &i, &page, &v);)
      if (page >= va / CORE_PAGE && page < (va + len) / CORE_PAGE) vec_push(&pages, page);
    for (size_t i = 0; i < pages.n; i++)
      map_remove(&m->guarded, pages.at[i]), map_remove(&m->aliases, pages.at[i]);
    vec_free(&pages);
    return;
  }
  for (uint64_t page = va / CORE_PAGE; page < (va + len) / CORE_PAGE; page++) {
    map_remove(&m->guarded, page);
    map_remove(&m->aliases, page);
  }
}

/* What was in the range is going away or changes: translations, guards, planes. */
static void drop_contents(CoreMap *m, uint64_t va, uint64_t len) {
  core_invalidate(m->emu, va, len);
  forget_guards(m, va, len);
  core_planes_drop(m, va, len);
}

static void raise_map(Emu *emu, CoreThread *t, KitEventKind kind, uint64_t va, uint64_t len,
                      int prot, int flags, int fd, uint64_t off, const char *path) {
  if (!t || !core_hooks_want(emu, kind)) return;
  core_raise(t, &(KitEvent){.kind = kind,
                            .tid = t->tid,
                            .pc = t->state->pc,
                            .map = {.addr = va,
                                    .len = len,
                                    .prot = prot,
                                    .flags = flags,
                                    .fd = fd,
                                    .offset = off,
                                    .path = path}});
}

/* ---- mmap ------------------------------------------------------------------------------------ */

/* Puts the host mapping at va. Over guest memory only, or where the host has nothing. */
static int64_t map_host(CoreMap *m, uint64_t va, uint64_t len, int prot, int flags, int fd,
                        uint64_t off) {
  flags &= ~(MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN | MAP_32BIT);
  int hprot = core_host_prot(prot);
  bool over = is_covered(m, va, len);
  if (!over && !is_free(m, va, len)) {
    size_t i = core_area_index(m, va); /* partly mapped: take the old pieces away first */
    for (; i < m->areas.n && m->areas.at[i].start < va + len; i++) {
      uint64_t from = m->areas.at[i].start > va ? m->areas.at[i].start : va,
               to = m->areas.at[i].end < va + len ? m->areas.at[i].end : va + len;
      munmap(host(from), to - from);
    }
  }
  void *p =
      mmap(host(va), len, hprot, flags | (over ? MAP_FIXED : MAP_FIXED_NOREPLACE), fd, (off_t)off);
  if (p == MAP_FAILED) return errno == EEXIST ? -ENOMEM : -errno;
  if (p != host(va)) { /* an old kernel took it as a hint */
    munmap(p, len);
    return -ENOMEM;
  }
  return 0;
}

static CoreArea describe(CoreMap *m, uint64_t va, uint64_t len, int prot, int flags, int fd,
                         uint64_t off, const char *name) {
  CoreArea a = {.start = va,
                .end = va + len,
                .prot = prot,
                .flags = flags & (MAP_SHARED | MAP_PRIVATE | MAP_GROWSDOWN)};
  struct stat st;
  char link[64], path[4096] = "";
  if (!(flags & MAP_ANONYMOUS) && fd >= 0 && !fstat(fd, &st)) {
    a.dev = st.st_dev;
    a.ino = st.st_ino;
    a.offset = off;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = name ? -1 : readlink(link, path, sizeof path - 1);
    if (n > 0) path[n] = 0;
  }
  a.name = core_intern(m, name ? name : path);
  return a;
}

int64_t core_mmap(Emu *emu, CoreThread *t, uint64_t va, uint64_t len, int prot, int flags, int fd,
                  uint64_t off, const char *name) {
  CoreMap *m = emu->map;
  int type = flags & (MAP_SHARED | MAP_PRIVATE);
  if (!len || off % CORE_PAGE || !type) return -EINVAL;
  if (len > CORE_LINE) return -ENOMEM;
  len = page_up(len);
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
    if (va % CORE_PAGE) return -EINVAL;
    if (va < CORE_LOW) return -EPERM;
    if (!valid_range(va, len)) return -ENOMEM;
    if (flags & MAP_FIXED_NOREPLACE && !is_free(m, va, len)) return -EEXIST;
  } else {
    va &= ~(CORE_PAGE - 1);
    bool low = flags & MAP_32BIT && va > LOW_TOP - len;
    if (!va || low || !valid_range(va, len) || !is_free(m, va, len))
      va = choose(m, len, flags, emu->guest && emu->guest->convention.native);
    if (!va) return -ENOMEM;
  }
  bool replaces = !is_free(m, va, len);
  int64_t err = map_host(m, va, len, prot, flags, fd, off);
  if (err == -ENOMEM && !(flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))) {
    /* the host had something there: once more, below */
    va = free_below(m, va, va < PIE_BASE ? LOW_BASE : PIE_BASE + HEAP_ROOM, len);
    err = va ? map_host(m, va, len, prot, flags, fd, off) : -ENOMEM;
  }
  if (err) {
    if (replaces && !is_covered(m, va, len))
      carve(m, va, len); /* map_host took the old pieces away */
    return err;
  }
  if (replaces) drop_contents(m, va, len);
  carve(m, va, len);
  CoreArea a = describe(m, va, len, prot, flags, fd, off, name);
  insert_at(m, core_area_index(m, va), a);
  const char *path = a.name;
  merge_around(m, va, va + len);
  raise_map(emu, t, KIT_EV_MAP, va, len, prot, flags, flags & MAP_ANONYMOUS ? -1 : fd, off, path);
  return (int64_t)va;
}

/* ---- munmap, mprotect ------------------------------------------------------------------------ */

int core_munmap(Emu *emu, CoreThread *t, uint64_t va, uint64_t len) {
  CoreMap *m = emu->map;
  if (va % CORE_PAGE || !len || len > CORE_LINE || va > CORE_LINE - len) return -EINVAL;
  len = page_up(len);
  if (is_free(m, va, len)) return 0;
  raise_map(emu, t, KIT_EV_UNMAP, va, len, 0, 0, -1, 0, "");
  split(m, va);
  split(m, va + len);
  for (size_t i = core_area_index(m, va); i < m->areas.n && m->areas.at[i].start < va + len; i++)
    munmap(host(m->areas.at[i].start), m->areas.at[i].end - m->areas.at[i].start);
  drop_contents(m, va, len);
  carve(m, va, len);
  return 0;
}

int core_mprotect(Emu *emu, CoreThread *t, uint64_t va, uint64_t len, int prot) {
  CoreMap *m = emu->map;
  if (va % CORE_PAGE || prot & ~(PROT_READ | PROT_WRITE | PROT_EXEC)) return -EINVAL;
  if (!len) return 0;
  if (len > CORE_LINE || va > CORE_LINE - len) return -ENOMEM;
  len = page_up(len);
  raise_map(emu, t, KIT_EV_PROTECT, va, len, prot, 0, -1, 0, "");
  split(m, va);
  split(m, va + len);
  uint64_t at = va;
  int err = 0;
  for (size_t i = core_area_index(m, va); at < va + len; i++) {
    if (i == m->areas.n ||
        m->areas.at[i].start != at) { /* a hole: what came before stays changed, as in the kernel */
      err = -ENOMEM;
      break;
    }
    CoreArea *a = &m->areas.at[i];
    core_invalidate(emu, at, a->end - at);
    forget_guards(m, at, a->end - at);
    if (mprotect(host(at), a->end - at, core_host_prot(prot))) {
      err = -errno;
      break;
    }
    a->prot = prot;
    at = a->end;
  }
  merge_around(m, va, va + len);
  return err;
}

/* ---- mremap, madvise, brk -------------------------------------------------------------------- */

static int64_t move(Emu *emu, CoreThread *t, CoreArea a, uint64_t old, uint64_t old_len,
                    uint64_t new_len, int flags, uint64_t to) {
  CoreMap *m = emu->map;
  if (!is_free(m, to, new_len)) core_munmap(emu, t, to, new_len);
  core_invalidate(emu, old, old_len ? old_len : new_len);
  forget_guards(m, old, old_len);
  /* The target is free in the guest's map; reserve it on the host so that nothing of the host's can
   * be overwritten. */
  void *room = mmap(host(to), new_len, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (room != host(to)) {
    if (room != MAP_FAILED) munmap(room, new_len);
    return -ENOMEM;
  }
  if (mremap(host(old), old_len, new_len,
             MREMAP_MAYMOVE | MREMAP_FIXED | (flags & MREMAP_DONTUNMAP), host(to)) == MAP_FAILED) {
    int err = errno;
    munmap(room, new_len);
    return -err;
  }
  mprotect(host(to), new_len, core_host_prot(a.prot));
  a.offset += a.ino ? old - a.start : 0;
  a.start = to;
  a.end = to + new_len;
  if (old_len) { /* values go where the contents go */
    core_planes_move(m, old, to, old_len < new_len ? old_len : new_len);
    core_planes_drop(m, old, old_len);
  }
  if (old_len && !(flags & MREMAP_DONTUNMAP)) {
    raise_map(emu, t, KIT_EV_UNMAP, old, old_len, 0, 0, -1, 0, "");
    carve(m, old, old_len);
  }
  insert_at(m, core_area_index(m, to), a);
  merge_around(m, to, to + new_len);
  raise_map(emu, t, KIT_EV_MAP, to, new_len, a.prot, a.flags, -1, a.offset, a.name);
  return (int64_t)to;
}

static int64_t grow_in_place(Emu *emu, CoreThread *t, uint64_t old, uint64_t old_len,
                             uint64_t new_len) {
  CoreMap *m = emu->map;
  CoreArea a = m->areas.at[core_area_index(m, old)];
  if (a.end != old + old_len || !valid_range(old, new_len) ||
      !is_free(m, old + old_len, new_len - old_len))
    return -ENOMEM;
  if (mremap(host(old), old_len, new_len, 0) == MAP_FAILED) return -errno;
  CoreArea more = a;
  more.start = a.end;
  more.end = old + new_len;
  more.offset += a.ino ? a.end - a.start : 0;
  insert_at(m, core_area_index(m, more.start), more);
  merge_around(m, old, old + new_len);
  raise_map(emu, t, KIT_EV_MAP, more.start, more.end - more.start, a.prot, a.flags, -1, more.offset,
            a.name);
  return (int64_t)old;
}

int64_t core_mremap(Emu *emu, CoreThread *t, uint64_t old, uint64_t old_len, uint64_t new_len,
                    int flags, uint64_t new_va) {
  CoreMap *m = emu->map;
  if (old % CORE_PAGE || flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) || !new_len)
    return -EINVAL;
  if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) && !(flags & MREMAP_MAYMOVE)) return -EINVAL;
  if (new_len > CORE_LINE || old_len > CORE_LINE) return -EINVAL;
  old_len = page_up(old_len);
  new_len = page_up(new_len);
  size_t i = core_area_index(m, old);
  if (i == m->areas.n || m->areas.at[i].start > old || m->areas.at[i].end < old + old_len)
    return -EFAULT;
  CoreArea a = m->areas.at[i];
  if (!old_len && !(a.flags & MAP_SHARED)) return -EINVAL;
  if (flags & MREMAP_DONTUNMAP && old_len != new_len) return -EINVAL;
  if (flags & MREMAP_FIXED) {
    if (new_va % CORE_PAGE || !valid_range(new_va, new_len) ||
        (new_va < old + old_len && old < new_va + new_len))
      return -EINVAL;
    return move(emu, t, a, old, old_len, new_len, flags, new_va);
  }
  int64_t in_place = -ENOMEM;
  if (!(flags & MREMAP_DONTUNMAP) && old_len) {
    if (new_len <= old_len) {
      if (new_len < old_len) core_munmap(emu, t, old + new_len, old_len - new_len);
      return (int64_t)old;
    }
    in_place = grow_in_place(emu, t, old, old_len, new_len);
  }
  if (in_place > 0 || !(flags & MREMAP_MAYMOVE)) return in_place;
  uint64_t to = free_below(m, MMAP_TOP, PIE_BASE + HEAP_ROOM, new_len);
  return to ? move(emu, t, a, old, old_len, new_len, flags, to) : -ENOMEM;
}

int core_madvise(Emu *emu, CoreThread *t, uint64_t va, uint64_t len, int advice) {
  (void)t;
  if (va % CORE_PAGE) return -EINVAL;
  if (advice == 100 || advice == 101) return -EPERM; /* MADV_HWPOISON, MADV_SOFT_OFFLINE */
  if (!len) return 0;
  if (len > CORE_LINE || va > CORE_LINE - len) return -ENOMEM;
  len = page_up(len);
  if (!is_covered(emu->map, va, len)) return -ENOMEM;
  if (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE)
    core_invalidate(emu, va, len); /* contents change */
  return madvise(host(va), len, advice) ? -errno : 0;
}

void core_set_brk(Emu *emu, uint64_t start) {
  emu->map->brk_start = emu->map->brk = page_up(start);
}

int64_t core_brk(Emu *emu, CoreThread *t, uint64_t va) {
  CoreMap *m = emu->map;
  if (va < m->brk_start || va > CORE_LINE) return (int64_t)m->brk;
  uint64_t have = page_up(m->brk), want = page_up(va);
  if (want > have) {
    if (!is_free(m, have, want - have)) return (int64_t)m->brk;
    int64_t r = core_mmap(emu, t, have, want - have, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0, "[heap]");
    if (r < 0) return (int64_t)m->brk;
  } else if (want < have) {
    core_munmap(emu, t, want, have - want);
  }
  m->brk = va;
  return (int64_t)va;
}
