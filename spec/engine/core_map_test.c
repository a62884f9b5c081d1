/* The memory map and its shadow planes against a plain model: for each page what it is, for each
 * byte its contents and its value in each plane. Random calls of every kind, valid and not; after
 * each one the areas must be exactly those that the model's pages make up, and the bytes and values
 * of a place that changed those of the model; now and then everything is compared, the host's
 * mappings too.
 *
 *   core_map_test [calls [seed]] */
#include <errno.h>
#include <unistd.h>

#include "core/core.h"

#include "core/map.h"
#include "core/run.h"
#include "ir_test.h"

enum { PAGES = 640, FIXED = 256, MOST = 12, PLANES = 3, FILE_PAGES = 64 };
/* Calls with an address use the pages from FIXED on; placement, which works downward from the top,
 * has those below as well. */
#define TOP  ((1ull << 46) - (1ull << 33))
#define BASE (TOP - PAGES * CORE_PAGE)

typedef struct Page {
  bool mapped;
  int prot, flags;
  uint64_t offset; /* in the file; anonymous: 0 */
  const char *name;
} Page;

static Page pages[PAGES];
static uint8_t bytes[PAGES * CORE_PAGE], values[PLANES][PAGES * CORE_PAGE];
static const uint32_t plane_bits[PLANES] = {1, 2, 8};
static CorePlane *planes[PLANES];
static Emu *emu;
static int file;
static uint8_t file_bytes[FILE_PAGES * CORE_PAGE];
static uint64_t seed = 88172645463325252ull, brk_now;
static const uint64_t brk_start = BASE + (FIXED + 40) * CORE_PAGE;

static uint64_t below(uint64_t n) { return (test_random(&seed) >> 20) % n; }
static uint64_t va_of(size_t page) { return BASE + page * CORE_PAGE; }
static size_t page_of(uint64_t va) { return (va - BASE) / CORE_PAGE; }
static size_t pages_in(uint64_t len) { return (len + CORE_PAGE - 1) / CORE_PAGE; }
static const char no_name[] = "", file_name[] = "file", heap_name[] = "[heap]";
static bool is_file(const Page *p) { return p->name == file_name; }

/* ---- the model ---------------------------------------------------------------------------- */

static bool all_free(size_t at, size_t n) {
  for (size_t i = at; i < at + n; i++)
    if (pages[i].mapped) return false;
  return true;
}
static bool all_mapped(size_t at, size_t n, int prot) {
  for (size_t i = at; i < at + n; i++)
    if (!pages[i].mapped || (pages[i].prot & prot) != prot) return false;
  return true;
}

/* Whether page i goes on where the one before it ends. */
static bool continues(size_t i) {
  const Page *a = &pages[i - 1], *b = &pages[i];
  return a->mapped && b->mapped && a->prot == b->prot && a->flags == b->flags &&
         a->name == b->name && (!is_file(b) || a->offset + CORE_PAGE == b->offset);
}
static bool one_area(size_t at, size_t n) {
  if (!pages[at].mapped) return false;
  for (size_t i = at + 1; i < at + n; i++)
    if (!continues(i)) return false;
  return true;
}

static void clear_values(size_t at, size_t n) {
  for (int p = 0; p < PLANES; p++) memset(values[p] + at * CORE_PAGE, 0, n * CORE_PAGE);
}
static void model_unmap(size_t at, size_t n) {
  memset(pages + at, 0, n * sizeof *pages);
  memset(bytes + at * CORE_PAGE, 0, n * CORE_PAGE);
  clear_values(at, n);
}
static void model_map(size_t at, size_t n, Page what) {
  model_unmap(at, n);
  for (size_t i = 0; i < n; i++) {
    pages[at + i] = what;
    pages[at + i].mapped = true;
    if (!is_file(&what)) continue;
    pages[at + i].offset = what.offset + i * CORE_PAGE;
    memcpy(bytes + (at + i) * CORE_PAGE, file_bytes + pages[at + i].offset, CORE_PAGE);
  }
}
static void model_move(size_t from, size_t to, size_t n) {
  Page old[MOST];
  memcpy(old, pages + from, n * sizeof *old);
  memcpy(bytes + to * CORE_PAGE, bytes + from * CORE_PAGE, n * CORE_PAGE);
  for (int p = 0; p < PLANES; p++)
    memcpy(values[p] + to * CORE_PAGE, values[p] + from * CORE_PAGE, n * CORE_PAGE);
  model_unmap(from, n);
  memcpy(pages + to, old, n * sizeof *old);
}

/* The highest gap of n pages; PAGES: there is none. */
static size_t model_place(size_t n) {
  for (size_t at = PAGES - n + 1; at-- > 0;)
    if (all_free(at, n)) return at;
  return PAGES;
}

/* ---- comparisons -------------------------------------------------------------------------- */

static void compare_areas(const char *after) {
  uint64_t va = BASE;
  for (size_t i = 0; i < PAGES;) {
    if (!pages[i].mapped) {
      i++;
      continue;
    }
    size_t n = 1;
    while (i + n < PAGES && continues(i + n)) n++;
    const CoreArea *a = core_area(emu, va);
    CHECK(a && a->start == va_of(i) && a->end == va_of(i + n) && a->prot == pages[i].prot &&
              a->flags == pages[i].flags && (!is_file(&pages[i]) || a->offset == pages[i].offset),
          "after %s: area at page %zu, %zu pages: got %zd, %zd", after, i, n,
          a ? (ssize_t)page_of(a->start) : -1, a ? (ssize_t)((a->end - a->start) / CORE_PAGE) : -1);
    i += n;
    va = va_of(i);
  }
  if (va < TOP) CHECK(!core_area(emu, va), "after %s: an area too many", after);
}

static void compare_bytes(size_t at, size_t n, const char *after) {
  static uint8_t got[PAGES * CORE_PAGE];
  for (size_t i = at; i < at + n; i++) {
    bool there = !core_peek(emu, va_of(i), got, CORE_PAGE);
    CHECK(there == pages[i].mapped, "after %s: page %zu mapped: %d", after, i, there);
    if (there)
      CHECK(!memcmp(got, bytes + i * CORE_PAGE, CORE_PAGE), "after %s: contents of page %zu", after,
            i);
  }
  int one = n < PAGES ? (int)below(PLANES) : -1; /* all three are for the full comparison */
  for (int p = 0; p < PLANES; p++) {
    if (one >= 0 && p != one) continue;
    core_plane_get(planes[p], va_of(at), got, n * CORE_PAGE);
    CHECK(!memcmp(got, values[p] + at * CORE_PAGE, n * CORE_PAGE),
          "after %s: plane of %u bits, pages %zu + %zu", after, plane_bits[p], at, n);
  }
}

/* What the host has must be what the map says. */
static void compare_host(void) {
  static int host[PAGES];
  memset(host, -1, sizeof host);
  FILE *f = fopen("/proc/self/maps", "r");
  char line[512], prot[8];
  uint64_t start, end;
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end, prot) != 3) continue;
    if (end <= BASE || start >= TOP) continue;
    for (uint64_t va = start < BASE ? BASE : start; va < end && va < TOP; va += CORE_PAGE)
      host[page_of(va)] = (prot[0] == 'r' ? PROT_READ : 0) | (prot[1] == 'w' ? PROT_WRITE : 0) |
                          (prot[2] == 'x' ? PROT_EXEC : 0);
  }
  if (f) fclose(f);
  for (size_t i = 0; i < PAGES; i++) {
    int want = !pages[i].mapped ? -1 : pages[i].prot & (PROT_READ | PROT_WRITE);
    if (want > 0 || (pages[i].mapped && pages[i].prot & PROT_EXEC)) want |= PROT_READ;
    CHECK(host[i] == want, "the host's page %zu: %d, want %d", i, host[i], want);
  }
}

static void compare_everything(void) {
  compare_bytes(0, PAGES, "everything");
  compare_host();
}

/* ---- calls -------------------------------------------------------------------------------- */

typedef struct Range {
  size_t at, n;
  uint64_t len; /* n pages, perhaps not quite */
} Range;

static Range some_range(void) {
  Range r = {.n = 1 + below(MOST)};
  r.at = FIXED + below(PAGES - FIXED - r.n + 1);
  r.len = r.n * CORE_PAGE - (below(3) ? 0 : below(CORE_PAGE));
  return r;
}
static int some_prot(void) {
  static const int prots[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC,
                              PROT_READ | PROT_WRITE | PROT_EXEC};
  return prots[below(5)];
}

static void call_mmap(void) {
  Range r = some_range();
  Page what = {.prot = some_prot(), .flags = below(4) ? MAP_PRIVATE : MAP_SHARED, .name = no_name};
  int flags = what.flags | MAP_ANONYMOUS, fd = -1;
  if (!below(4)) {
    what = (Page){.prot = what.prot,
                  .flags = MAP_PRIVATE,
                  .name = file_name,
                  .offset = below(FILE_PAGES - r.n) * CORE_PAGE};
    flags = MAP_PRIVATE, fd = file;
  }
  int kind = (int)below(4); /* fixed, fixed but not over anything, a hint, anywhere */
  uint64_t va = kind == 3 ? 0 : va_of(r.at) + (kind == 2 ? below(CORE_PAGE) : 0);
  flags |= kind == 0 ? MAP_FIXED : kind == 1 ? 0x100000 : 0;
  bool taken = !all_free(r.at, r.n);
  if (kind == 3 || (kind == 2 && taken)) r.at = model_place(r.n);
  if (r.at == PAGES) return;
  int64_t got =
      core_mmap(emu, NULL, va, r.len, what.prot, flags, fd, what.offset, fd < 0 ? "" : "file");
  if (kind == 1 && taken) {
    CHECK_EQ(got, -EEXIST, "mmap over something");
    return;
  }
  CHECK_EQ(got, va_of(r.at), "mmap");
  model_map(r.at, r.n, what);
  compare_bytes(r.at, r.n, "mmap");
}

static void call_munmap(void) {
  Range r = some_range();
  CHECK_EQ(core_munmap(emu, NULL, va_of(r.at), r.len), 0, "munmap");
  model_unmap(r.at, r.n);
  compare_bytes(r.at, r.n, "munmap");
}

static void call_mprotect(void) {
  Range r = some_range();
  int prot = some_prot(), got = core_mprotect(emu, NULL, va_of(r.at), r.len, prot);
  size_t n = 0;
  for (; n < r.n && pages[r.at + n].mapped; n++) pages[r.at + n].prot = prot;
  CHECK_EQ(got, n == r.n ? 0 : -ENOMEM, "mprotect");
}

/* Where mremap will put what is at r, and n pages of it; PAGES: nowhere. */
static size_t remap_target(Range r, size_t n, int flags, size_t to) {
  bool end = r.at + r.n == PAGES || !continues(r.at + r.n);
  if (flags & MREMAP_FIXED) return to;
  if (n <= r.n) return r.at;
  if (end && r.at + n <= PAGES && all_free(r.at + r.n, n - r.n)) return r.at;
  return flags & MREMAP_MAYMOVE ? model_place(n) : PAGES;
}

/* Growing needs private anonymous memory: a file or an object ends somewhere. */
static bool may_remap(Range r, size_t n) {
  return n <= r.n || (pages[r.at].flags == MAP_PRIVATE && !is_file(&pages[r.at]));
}

static void call_mremap(void) {
  Range r = some_range();
  size_t n = below(3) ? 1 + below(MOST) : r.n, to = FIXED + below(PAGES - FIXED - n + 1);
  int flags = below(4) ? MREMAP_MAYMOVE : 0;
  if (flags && !below(3)) flags |= MREMAP_FIXED;
  bool overlap = to < r.at + r.n && r.at < to + n, single = one_area(r.at, r.n);
  if (single && (!may_remap(r, n) || r.at + n > PAGES)) return; /* (there is room behind TOP) */
  size_t target = single ? remap_target(r, n, flags, to) : PAGES;
  bool nowhere = target == PAGES;
  if (single && nowhere && flags & MREMAP_MAYMOVE) return;
  Page grown = pages[r.at];
  int64_t got =
      core_mremap(emu, NULL, va_of(r.at), r.n * CORE_PAGE, n * CORE_PAGE, flags, va_of(to));
  if (!single) {
    CHECK_EQ(got, -EFAULT, "mremap of several areas, or none");
  } else if (flags & MREMAP_FIXED && overlap) {
    CHECK_EQ(got, -EINVAL, "mremap onto itself");
  } else if (got == -EFAULT) { /* the host has it in pieces, as it would a native program's */
    if (flags & MREMAP_FIXED) model_unmap(to, n);
  } else if (nowhere) {
    CHECK_EQ(got, -ENOMEM, "mremap without room");
  } else {
    CHECK_EQ(got, va_of(target), "mremap");
    if (n < r.n) model_unmap(r.at + n, r.n - n);
    size_t kept = n < r.n ? n : r.n;
    if (target != r.at) {
      model_unmap(target, n);
      model_move(r.at, target, kept);
    }
    if (n > r.n) model_map(target + r.n, n - r.n, grown);
    compare_bytes(target, n, "mremap");
  }
  compare_bytes(r.at, r.n, "mremap, the old place");
}

/* The contents and the values move; what is left is mapped and empty. */
static void call_mremap_dontunmap(void) {
  Range r = some_range();
  if (!one_area(r.at, r.n) || pages[r.at].flags != MAP_PRIVATE || is_file(&pages[r.at])) return;
  size_t target = model_place(r.n);
  if (target == PAGES) return;
  Page what = pages[r.at];
  int64_t got =
      core_mremap(emu, NULL, va_of(r.at), r.n * CORE_PAGE, r.n * CORE_PAGE, MREMAP_MAYMOVE | 4, 0);
  if (got == -EFAULT) return;
  CHECK_EQ(got, va_of(target), "mremap that keeps the old place");
  model_move(r.at, target, r.n);
  model_map(r.at, r.n, what);
  compare_bytes(target, r.n, "mremap that keeps the old place");
  compare_bytes(r.at, r.n, "mremap that kept the old place");
}

static void call_brk(void) {
  uint64_t want = brk_start + below(30 * CORE_PAGE);
  size_t have = page_of(brk_now + CORE_PAGE - 1), end = page_of(want + CORE_PAGE - 1);
  bool fits = end <= have || all_free(have, end - have);
  CHECK_EQ(core_brk(emu, NULL, want), fits ? want : brk_now, "brk");
  if (!fits) return;
  if (end > have)
    model_map(have, end - have,
              (Page){.prot = PROT_READ | PROT_WRITE, .flags = MAP_PRIVATE, .name = heap_name});
  else
    model_unmap(end, have - end);
  brk_now = want;
  CHECK_EQ(core_brk(emu, NULL, brk_start - 1), brk_now, "brk below its start");
}

static void call_poke(void) {
  uint8_t data[300];
  size_t at = FIXED * CORE_PAGE + below((PAGES - FIXED) * CORE_PAGE - sizeof data),
         n = 1 + below(sizeof data);
  for (size_t i = 0; i < n; i++) data[i] = (uint8_t)below(256);
  bool there = all_mapped(at / CORE_PAGE, (at + n - 1) / CORE_PAGE - at / CORE_PAGE + 1, 0);
  CHECK_EQ(core_poke(emu, BASE + at, data, n), there ? 0 : -EFAULT, "poke");
  if (there) memcpy(bytes + at, data, n);
}

static void call_accessor(void) {
  Range r = some_range();
  static const int prots[] = {PROT_READ, PROT_WRITE, PROT_READ | PROT_WRITE};
  uint64_t from = below(CORE_PAGE), len = 1 + below(r.n * CORE_PAGE - from);
  int prot = prots[below(3)];
  size_t n = pages_in(from + len);
  bool got = emu_addr_space_ptr(emu, va_of(r.at) + from, len, prot) != NULL;
  CHECK(got == all_mapped(r.at, n, prot), "accessor: pages %zu + %zu, %d: %d", r.at, n, prot, got);
}

/* Planes are for memory that is mapped: a range of it around some place. */
static uint64_t some_bytes(uint64_t *len) {
  uint64_t at = below(PAGES * CORE_PAGE), n = 0,
           most = 1 + below(below(8) ? 200 : MOST * CORE_PAGE);
  while (n < most && at + n < PAGES * CORE_PAGE && pages[(at + n) / CORE_PAGE].mapped)
    n += n + CORE_PAGE - (at + n) % CORE_PAGE < most ? CORE_PAGE - (at + n) % CORE_PAGE : most - n;
  *len = n;
  return at;
}

static void call_plane_write(void) {
  int p = (int)below(PLANES);
  uint64_t len, at = some_bytes(&len);
  uint8_t mask = (uint8_t)((1u << plane_bits[p]) - 1), some[200];
  if (!len) return;
  if (len <= sizeof some && below(2)) {
    for (size_t i = 0; i < len; i++) values[p][at + i] = some[i] = (uint8_t)below(256) & mask;
    core_plane_set(planes[p], BASE + at, some, len);
  } else {
    uint8_t v = (uint8_t)below(256) & mask;
    core_plane_fill(planes[p], BASE + at, len, v);
    memset(values[p] + at, v, len);
  }
}

static void call_plane_find(void) {
  int p = (int)below(PLANES);
  uint64_t at = below(PAGES * CORE_PAGE), left = PAGES * CORE_PAGE - at;
  uint64_t len = 1 + below(below(8) && left > 9000 ? 9000 : left), want = at, where = 0;
  uint8_t value = 0;
  while (want < at + len && !values[p][want]) want++;
  bool found = core_plane_find(planes[p], BASE + at, len, &where, &value);
  CHECK(found == (want < at + len), "find: %d", found);
  if (found && want < at + len)
    CHECK(where == BASE + want && value == values[p][want], "found at %" PRIx64, where);
}

/* Nothing may change. */
static void call_wrong(void) {
  Range r = some_range();
  uint64_t va = va_of(r.at), len = r.n * CORE_PAGE;
  const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  CHECK_EQ(core_mmap(emu, NULL, va, 0, 3, anonymous, -1, 0, ""), -EINVAL, "mmap of nothing");
  CHECK_EQ(core_mmap(emu, NULL, va + 1, len, 3, anonymous | MAP_FIXED, -1, 0, ""), -EINVAL,
           "mmap, misaligned");
  CHECK_EQ(core_mmap(emu, NULL, va, len, 3, MAP_PRIVATE, file, 1, "file"), -EINVAL, "mmap, offset");
  CHECK_EQ(core_mmap(emu, NULL, va, len, 3, MAP_ANONYMOUS, -1, 0, ""), -EINVAL,
           "mmap, neither shared nor private");
  CHECK_EQ(core_mmap(emu, NULL, 0, 1ull << 47, 3, anonymous, -1, 0, ""), -ENOMEM, "mmap, too much");
  CHECK_EQ(core_mmap(emu, NULL, CORE_LINE - CORE_PAGE, len + CORE_PAGE, 3, anonymous | MAP_FIXED,
                     -1, 0, ""),
           -ENOMEM, "mmap over the line");
  CHECK_EQ(core_mmap(emu, NULL, 0, len, 3, anonymous | MAP_FIXED, -1, 0, ""), -EPERM, "mmap at 0");
  CHECK_EQ(core_munmap(emu, NULL, va + 8, len), -EINVAL, "munmap, misaligned");
  CHECK_EQ(core_munmap(emu, NULL, va, 0), -EINVAL, "munmap of nothing");
  CHECK_EQ(core_munmap(emu, NULL, CORE_LINE - CORE_PAGE, 2 * CORE_PAGE), -EINVAL,
           "munmap over the line");
  CHECK_EQ(core_mprotect(emu, NULL, va + 8, len, 3), -EINVAL, "mprotect, misaligned");
  CHECK_EQ(core_mprotect(emu, NULL, va, 0, 3), 0, "mprotect of nothing");
  CHECK_EQ(core_mremap(emu, NULL, va + 8, len, len, 0, 0), -EINVAL, "mremap, misaligned");
  CHECK_EQ(core_mremap(emu, NULL, va, len, 0, 0, 0), -EINVAL, "mremap to nothing");
  CHECK_EQ(core_mremap(emu, NULL, va, len, len, MREMAP_FIXED, va), -EINVAL,
           "mremap, fixed but not to move");
}

static void call_madvise(void) {
  Range r = some_range();
  bool there = all_mapped(r.at, r.n, 0);
  for (size_t i = r.at; there && i < r.at + r.n; i++)
    there = pages[i].flags == MAP_PRIVATE && !is_file(&pages[i]);
  if (!there) return;
  CHECK_EQ(core_madvise(emu, NULL, va_of(r.at), r.len, MADV_DONTNEED), 0, "madvise");
  memset(bytes + r.at * CORE_PAGE, 0, r.n * CORE_PAGE); /* the planes stay as they are */
}

static const struct {
  const char *name;
  void (*call)(void);
  int weight;
} calls[] = {{"mmap", call_mmap, 20},
             {"munmap", call_munmap, 7},
             {"mprotect", call_mprotect, 12},
             {"mremap", call_mremap, 12},
             {"keeping mremap", call_mremap_dontunmap, 3},
             {"brk", call_brk, 3},
             {"poke", call_poke, 20},
             {"accessor", call_accessor, 10},
             {"plane write", call_plane_write, 20},
             {"plane find", call_plane_find, 3},
             {"wrong calls", call_wrong, 1},
             {"madvise", call_madvise, 2}};

static void one_call(void) {
  int total = 0;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) total += calls[i].weight;
  int pick = (int)below((uint64_t)total);
  size_t i = 0;
  while (pick >= calls[i].weight) pick -= calls[i++].weight;
  calls[i].call();
  compare_areas(calls[i].name);
}

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 200000;
  if (argc > 2) seed = strtoull(argv[2], NULL, 0) | 1;
  emu = calloc(1, sizeof *emu);
  emu->hooks = core_hooks_new(emu);
  emu->map = core_map_new(emu);
  emu->cache = core_cache_new(emu);
  for (int p = 0; p < PLANES; p++) planes[p] = core_plane_new(emu, "test", plane_bits[p]);
  for (size_t i = 0; i < sizeof file_bytes; i++) file_bytes[i] = (uint8_t)below(256);
  file = memfd_create("file", 0);
  if (write(file, file_bytes, sizeof file_bytes) != sizeof file_bytes) return 2;
  core_set_brk(emu, brk_now = brk_start);
  for (long i = 0; i < n && !test_failed; i++) {
    one_call();
    if (i % 4096 == 0) compare_everything();
    if (i % 2000 == 1999) { /* from an empty map again, but for the heap */
      CHECK_EQ(core_munmap(emu, NULL, BASE, PAGES * CORE_PAGE), 0, "munmap of all");
      model_unmap(0, PAGES);
    }
  }
  compare_everything();
  core_cache_free(emu->cache);
  core_hooks_free(emu->hooks);
  core_map_free(emu->map);
  free(emu);
  memset(pages, 0, sizeof pages);
  compare_host();
  return test_end();
}
