/* Shadow planes; see map.h. One or two bits a byte live in a reserved window, eight bits (and,
 * where the window was refused, all) in pages by guest page number. Both pack values alike, lowest
 * address in the lowest bits, so the range code is shared: it works on the packed bytes of one
 * guest page, or of any range of the window, at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/area.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define GIVE_BACK (1u << 20) /* guest bytes: clearing more than this returns the pages */

/* At the line, if nothing is there: translated code can make most of a power of two. */
static uint8_t *reserve(uint64_t size) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *line = (void *)(uintptr_t)CORE_LINE;
  void *w = mmap(line, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (w != MAP_FAILED && w != line) munmap(w, size); /* a kernel that takes it for a hint */
  if (w != line) w = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  return w == MAP_FAILED ? NULL : w;
}

CorePlane *core_plane_new(Emu *emu, const char *name, uint32_t bits) {
  CorePlane *p = xcalloc(1, sizeof *p);
  p->emu = emu;
  p->name = xstrdup(name);
  p->ir.bits = bits;
  p->ir.shift = bits == 1 ? 3 : bits == 2 ? 2 : 0;
  if (bits <= 2) {
    p->ir.window = reserve(CORE_LINE >> p->ir.shift);
    p->ir.limit = CORE_LINE;
    if (p->ir.window) madvise(p->ir.window, CORE_LINE >> p->ir.shift, MADV_DONTDUMP);
  }
  p->next = emu->map->planes;
  emu->map->planes = p;
  return p;
}

static void free_pages(CorePlane *p) {
  uint64_t page;
  void *values;
  for (size_t i = 0; map_next(&p->pages, &i, &page, &values);) free(values);
  map_free(&p->pages);
}

void core_plane_free(CorePlane *p) {
  for (CorePlane **q = &p->emu->map->planes; *q; q = &(*q)->next)
    if (*q == p) {
      *q = p->next;
      break;
    }
  if (p->ir.window) munmap(p->ir.window, CORE_LINE >> p->ir.shift);
  free_pages(p);
  free(p->name);
  free(p);
}

const IrPlane *core_plane_ir(const CorePlane *p) { return &p->ir; }

/* ---- packed values: bit offset and count ----------------------------------------------------- */

static uint8_t get_value(const CorePlane *p, const uint8_t *base, uint64_t i) {
  uint64_t bit = i * p->ir.bits;
  return (uint8_t)(base[bit / 8] >> (bit & 7) & ((1u << p->ir.bits) - 1));
}

static void set_value(const CorePlane *p, uint8_t *base, uint64_t i, uint8_t v) {
  uint64_t bit = i * p->ir.bits;
  uint8_t mask = (uint8_t)(((1u << p->ir.bits) - 1) << (bit & 7));
  base[bit / 8] = (uint8_t)((base[bit / 8] & ~mask) | (v << (bit & 7) & mask));
}

/* Bits [from, to) of a byte become those of the pattern. */
static void fill_part(uint8_t *byte, unsigned from, unsigned to, uint8_t pattern) {
  uint8_t mask = (uint8_t)((1u << to) - (1u << from));
  *byte = (uint8_t)((*byte & ~mask) | (pattern & mask));
}

static void fill_values(const CorePlane *p, uint8_t *base, uint64_t from, uint64_t n, uint8_t v) {
  static const uint8_t repeat[9] = {[1] = 0xff, [2] = 0x55, [8] = 1};
  uint64_t bits = p->ir.bits, first = from * bits, end = (from + n) * bits;
  uint8_t pattern = (uint8_t)(repeat[bits] * v);
  if (!n) return;
  if (first / 8 == end / 8) {
    fill_part(base + first / 8, first & 7, end & 7, pattern);
    return;
  }
  if (first & 7) fill_part(base + first / 8, first & 7, 8, pattern);
  if (end & 7) fill_part(base + end / 8, 0, end & 7, pattern);
  memset(base + (first + 7) / 8, pattern, end / 8 - (first + 7) / 8);
}

/* First non-zero value in [from, from+n); n if there is none. */
static uint64_t find_value(const CorePlane *p, const uint8_t *base, uint64_t from, uint64_t n) {
  uint64_t per = 8 / p->ir.bits;
  for (uint64_t i = 0; i < n;) {
    uint64_t at = from + i;
    const uint8_t *byte = base + at / per;
    if (at % per == 0 && ((uintptr_t)byte & 7) == 0 && n - i >= 8 * per &&
        *(const uint64_t *)(const void *)byte == 0)
      i += 8 * per;
    else if (at % per == 0 && n - i >= per && *byte == 0)
      i += per;
    else if (get_value(p, base, at))
      return i;
    else
      i++;
  }
  return n;
}

/* ---- pieces: the window whole, or page by page ----------------------------------------------- */

typedef struct Piece {
  uint8_t *base;    /* NULL: an untouched page */
  uint64_t from, n; /* index into base, and count */
} Piece;

static Piece piece_at(CorePlane *p, uint64_t va, uint64_t len, bool make) {
  if (p->ir.window) return (Piece){p->ir.window, va, len};
  uint64_t page = va / CORE_PAGE, from = va % CORE_PAGE,
           n = CORE_PAGE - from < len ? CORE_PAGE - from : len;
  uint8_t *values = map_get(&p->pages, page);
  if (!values && make) {
    values = xcalloc(1, CORE_PAGE * p->ir.bits / 8);
    map_put(&p->pages, page, values);
  }
  return (Piece){values, from, n};
}

static void clear_window(CorePlane *p, uint64_t va, uint64_t len) {
  uint64_t unit = CORE_PAGE << p->ir.shift; /* guest bytes per shadow page */
  uint64_t first = (va + unit - 1) / unit * unit, last = (va + len) / unit * unit;
  if (len < GIVE_BACK || last <= first) {
    fill_values(p, p->ir.window, va, len, 0);
    return;
  }
  fill_values(p, p->ir.window, va, first - va, 0);
  madvise(p->ir.window + (first >> p->ir.shift), (last - first) >> p->ir.shift, MADV_DONTNEED);
  fill_values(p, p->ir.window, last, va + len - last, 0);
}

/* Clearing a huge range of a paged plane visits the pages there are. */
static void clear_pages(CorePlane *p, uint64_t va, uint64_t len) {
  uint64_t page;
  void *values;
  for (size_t i = 0; map_next(&p->pages, &i, &page, &values);) {
    uint64_t start = page * CORE_PAGE, end = start + CORE_PAGE;
    uint64_t from = start > va ? start : va, to = end < va + len ? end : va + len;
    if (from < to) fill_values(p, values, from - start, to - from, 0);
  }
}

void core_plane_fill(CorePlane *p, uint64_t va, uint64_t len, uint8_t value) {
  if (!value && p->ir.window) {
    clear_window(p, va, len);
  } else if (!value && len / CORE_PAGE > p->pages.cap) {
    clear_pages(p, va, len);
  } else {
    while (len) {
      Piece q = piece_at(p, va, len, value != 0);
      if (q.base) fill_values(p, q.base, q.from, q.n, value);
      va += q.n;
      len -= q.n;
    }
  }
}

void core_plane_get(CorePlane *p, uint64_t va, uint8_t *values, size_t n) {
  while (n) {
    Piece q = piece_at(p, va, n, false);
    for (uint64_t i = 0; i < q.n; i++) values[i] = q.base ? get_value(p, q.base, q.from + i) : 0;
    values += q.n;
    va += q.n;
    n -= q.n;
  }
}

void core_plane_set(CorePlane *p, uint64_t va, const uint8_t *values, size_t n) {
  while (n) {
    Piece q = piece_at(p, va, n, true);
    for (uint64_t i = 0; i < q.n; i++) set_value(p, q.base, q.from + i, values[i]);
    values += q.n;
    va += q.n;
    n -= q.n;
  }
}

/* Only mapped memory has a shadow, so only the areas in the range are looked at. */
bool core_plane_find(CorePlane *p, uint64_t va, uint64_t len, uint64_t *where, uint8_t *value) {
  uint64_t end = va + len;
  for (const CoreArea *a; va < end && (a = core_area(p->emu, va)) && a->start < end;) {
    if (va < a->start) va = a->start;
    uint64_t stop = a->end < end ? a->end : end;
    while (va < stop) {
      Piece q = piece_at(p, va, stop - va, false);
      uint64_t i = q.base ? find_value(p, q.base, q.from, q.n) : q.n;
      if (i < q.n) {
        *where = va + i;
        *value = get_value(p, q.base, q.from + i);
        return true;
      }
      va += q.n;
    }
  }
  return false;
}

/* ---- in lockstep with the map ---------------------------------------------------------------- */

void core_planes_drop(CoreMap *m, uint64_t va, uint64_t len) {
  for (CorePlane *p = m->planes; p; p = p->next) core_plane_fill(p, va, len, 0);
}

void core_planes_move(CoreMap *m, uint64_t from, uint64_t to, uint64_t len) {
  uint8_t values[CORE_PAGE];
  for (CorePlane *p = m->planes; p; p = p->next)
    for (uint64_t i = 0; i < len; i += CORE_PAGE) {
      core_plane_get(p, from + i, values, CORE_PAGE);
      core_plane_set(p, to + i, values, CORE_PAGE);
    }
}
