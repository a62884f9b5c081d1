/* The heap that stands in for the guest's: see kit/emu.h and heap.h.
 *
 * Its memory is one range of guest addresses, cut from low to high into pieces, and these into
 * chunks:
 *
 *   | redzone | block, rounded up to 16 | redzone |
 *
 * A chunk belongs to a size class for good. A freed one waits in the quarantine (first in, first
 * out, bounded in bytes), then among the free chunks of its class. Blocks of more than LARGE bytes
 * have a piece of their own, which goes back when their quarantine is over. All bookkeeping is on
 * the host's side, where no guest store reaches it: a record for each block, found by address.
 *
 * The plane is 1 all over a fresh piece; a block's bytes are 0 while it lives. */
#include "fast/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fast/planes.h"

#define LARGE   (256ull << 10)
#define MAXIMUM (1ull << 42) /* bytes of a block */

static uint64_t up(uint64_t n, uint64_t to) { return (n + to - 1) & ~(to - 1); }

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t map_piece(HeapCall *c, uint64_t len) {
  KitHeap *h = c->heap;
  if (len > HEAP_HIGH - h->top) return 0;
  int64_t va = core_mmap(h->emu, c->t, h->top, len, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0, "");
  if (va < 0) return 0;
  h->top += len;
  h->usage.high = h->top;
  core_plane_fill(h->plane, (uint64_t)va, len, 1);
  return (uint64_t)va;
}

/* Classes are 16 bytes apart up to 1024, then eight to a doubling. */
static unsigned class_of(uint64_t chunk, uint64_t *size) {
  if (chunk <= 1024) {
    *size = chunk;
    return (unsigned)(chunk / 16);
  }
  unsigned log2 = 63 - (unsigned)__builtin_clzll(chunk - 1);
  uint64_t step = 1ull << (log2 - 3);
  *size = up(chunk, step);
  return 64 + (log2 - 10) * 8 + (unsigned)((*size - (1ull << log2)) / step);
}

static HeapBlock *new_record(KitHeap *h) {
  if (!h->spare) {
    HeapBlock *slab = xcalloc(HEAP_SLAB, sizeof *slab);
    vec_push(&h->slabs, slab);
    for (size_t i = 0; i < HEAP_SLAB; i++) {
      slab[i].number = (uint32_t)((h->slabs.n - 1) * HEAP_SLAB + i + 1);
      slab[i].next = h->spare;
      h->spare = &slab[i];
    }
  }
  HeapBlock *b = h->spare;
  h->spare = b->next;
  return b;
}

/* ---- which block is where -------------------------------------------------------------------- */

#define PER_PIECE (HEAP_PIECE / 16)

static uint32_t *cell(const KitHeap *h, uint64_t va) {
  uint64_t piece = (va - HEAP_LOW) / HEAP_PIECE;
  if (va < HEAP_LOW || piece >= h->index.n || !h->index.at[piece]) return NULL;
  return &h->index.at[piece][(va - HEAP_LOW) % HEAP_PIECE / 16];
}

static HeapBlock *numbered(const KitHeap *h, uint32_t number) {
  return &h->slabs.at[(number - 1) / HEAP_SLAB][(number - 1) % HEAP_SLAB];
}

static void put_block(KitHeap *h, HeapBlock *b) {
  uint64_t piece = (b->addr - HEAP_LOW) / HEAP_PIECE;
  while (h->index.n <= piece) vec_push(&h->index, NULL);
  if (!h->index.at[piece]) h->index.at[piece] = xcalloc(PER_PIECE, sizeof(uint32_t));
  *cell(h, b->addr) = b->number;
}

HeapBlock *heap_at(const KitHeap *h, uint64_t va) {
  const uint32_t *number = va % 16 ? NULL : cell(h, va);
  return number && *number ? numbered(h, *number) : NULL;
}

HeapBlock *heap_below(const KitHeap *h, uint64_t va, uint64_t reach) {
  uint64_t at = va & ~15ull, low = va - HEAP_LOW > reach ? va - reach : HEAP_LOW;
  for (HeapBlock *b; at >= low; at -= 16) {
    if ((b = heap_at(h, at))) return b;
    if (!cell(h, at)) at = at & ~(HEAP_PIECE - 1); /* a piece in which none begins */
  }
  return NULL;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static HeapBlock *large_chunk(HeapCall *c, uint64_t want) {
  uint64_t room = up(want, CORE_PAGE), piece = map_piece(c, room);
  if (!piece) return NULL;
  HeapBlock *b = new_record(c->heap);
  b->addr = piece;
  b->pages = (uint32_t)(room / CORE_PAGE);
  b->cls = HEAP_LARGE;
  return b;
}

/* One that was used before, or a new one. */
static HeapBlock *small_chunk(HeapCall *c, uint64_t want) {
  KitHeap *h = c->heap;
  uint64_t room;
  unsigned cls = class_of(want, &room);
  HeapBlock *b = h->free[cls];
  if (b) {
    h->free[cls] = b->next;
    b->addr -= b->before;
    return b;
  }
  if (room > h->bump_end - h->bump) {
    uint64_t piece = map_piece(c, HEAP_PIECE);
    if (!piece) return NULL;
    h->bump = piece;
    h->bump_end = piece + HEAP_PIECE;
  }
  b = new_record(h);
  b->addr = h->bump;
  b->cls = (uint16_t)cls;
  h->bump += room;
  return b;
}

/* A chunk for `size` bytes at a multiple of `align` behind a redzone; NULL: no memory. */
static HeapBlock *chunk_for(HeapCall *c, uint64_t size, uint64_t align) {
  uint64_t redzone = c->heap->spec.redzone;
  uint64_t want = 2 * redzone + up(size ? size : 1, 16) + (align > 16 ? align : 0);
  HeapBlock *b = want > LARGE ? large_chunk(c, want) : small_chunk(c, want);
  if (!b) return NULL;
  b->before = (uint32_t)(up(b->addr + redzone, align) - b->addr);
  b->addr += b->before;
  return b;
}

/* The quarantine is over. */
static void recycle(HeapCall *c, HeapBlock *b) {
  KitHeap *h = c->heap;
  *cell(h, b->addr) = 0;
  HeapBlock **to = &h->spare;
  if (b->cls == HEAP_LARGE)
    core_munmap(h->emu, c->t, b->addr - b->before, b->pages * CORE_PAGE);
  else
    to = &h->free[b->cls];
  b->next = *to;
  *to = b;
}

static void enqueue(HeapQueue *q, HeapBlock *b) {
  b->next = NULL;
  if (q->last)
    q->last->next = b;
  else
    q->first = b;
  q->last = b;
  q->bytes += b->size;
}

static HeapBlock *dequeue(HeapQueue *q) {
  HeapBlock *b = q->first;
  q->first = b->next;
  if (!q->first) q->last = NULL;
  q->bytes -= b->size;
  return b;
}

/* Whose quarantine is over next has not been looked at for long: fetched while there is time. */
static void fetch_next(const KitHeap *h, const HeapBlock *b) {
  if (!b) return;
  __builtin_prefetch(b->next);
  __builtin_prefetch(cell(h, b->addr));
  const IrPlane *plane = core_plane_ir(h->plane);
  if (plane->window) __builtin_prefetch(plane->window + (b->addr >> 3));
  __builtin_prefetch((const void *)(uintptr_t)b->addr);
}

/* Before a new block is made, not when one is freed: the block freed last is always there. */
static void end_quarantine(HeapCall *c) {
  KitHeap *h = c->heap;
  while (h->big.bytes + h->quarantine.bytes > h->spec.freelist)
    recycle(c, dequeue(h->big.first ? &h->big : &h->quarantine));
  fetch_next(h, h->quarantine.first);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

KitBlock heap_public(const HeapBlock *b) {
  return (KitBlock){.addr = b->addr,
                    .size = b->size,
                    .kind = b->kind,
                    .freed = b->freed,
                    .alloc_stack = b->alloc_stack,
                    .free_stack = b->free_stack,
                    .tid = b->tid};
}

static void fill_bytes(uint64_t va, int byte, uint64_t len) {
  memset((void *)(uintptr_t)va, byte, len); /* the heap's own memory */
}

static uint64_t allocate(HeapCall *c, uint64_t size, uint64_t align, bool zero) {
  KitHeap *h = c->heap;
  end_quarantine(c);
  HeapBlock *b = size <= MAXIMUM ? chunk_for(c, size, align) : NULL;
  if (!b) return 0;
  b->size = size;
  b->kind = c->fn->kind;
  b->freed = false;
  b->tid = c->t->tid;
  b->alloc_stack = heap_stack(c);
  b->free_stack = 0;
  put_block(h, b);
  core_plane_fill(h->plane, b->addr, size, 0);
  if (zero)
    fill_bytes(b->addr, 0, size);
  else if (h->spec.malloc_fill >= 0)
    fill_bytes(b->addr, h->spec.malloc_fill, size);
  h->usage.bytes += size;
  h->usage.allocated += size;
  h->usage.blocks++;
  h->usage.allocs++;
  return b->addr;
}

static HeapBlock *live_block(HeapCall *c, uint64_t va) {
  HeapBlock *b = heap_at(c->heap, va);
  return b && !b->freed ? b : NULL;
}

static void bad_free(HeapCall *c, uint64_t va) {
  KitHeapError e = {.kind = KIT_HEAP_BAD_FREE, .addr = va};
  HeapBlock *b = heap_at(c->heap, va);
  if (b) e.block = heap_public(b);
  heap_report(c, &e);
}

static void check_kind(HeapCall *c, HeapBlock *b) {
  KitHeapError e = {.kind = KIT_HEAP_MISMATCH, .addr = b->addr, .block = heap_public(b)};
  if (b->kind != c->fn->kind && !c->heap->spec.ignore_mismatch) heap_report(c, &e);
}

static void release(HeapCall *c, HeapBlock *b) {
  KitHeap *h = c->heap;
  b->freed = true;
  b->free_stack = heap_stack(c);
  core_plane_fill(h->plane, b->addr, b->size, 1);
  if (h->spec.free_fill >= 0) fill_bytes(b->addr, h->spec.free_fill, b->size);
  h->usage.bytes -= b->size;
  h->usage.blocks--;
  enqueue(b->size >= h->spec.big ? &h->big : &h->quarantine, b);
}

static bool is_fishy(HeapCall *c, const char *argument, uint64_t n) {
  if ((int64_t)n >= 0) return false;
  heap_report(c, &(KitHeapError){.kind = KIT_HEAP_FISHY, .argument = argument, .size = n});
  return true;
}

static bool is_alignment(uint64_t n) { return n && !(n & (n - 1)) && n <= MAXIMUM; }

/* ---- the functions --------------------------------------------------------------------------- */

uint64_t heap_malloc(HeapCall *c) {
  return is_fishy(c, "size", c->a[0]) ? 0 : allocate(c, c->a[0], 16, false);
}

uint64_t heap_calloc(HeapCall *c) {
  uint64_t size;
  if (__builtin_mul_overflow(c->a[0], c->a[1], &size)) return 0;
  if (is_fishy(c, "nmemb", c->a[0]) || is_fishy(c, "size", c->a[1])) return 0;
  return allocate(c, size, 16, true);
}

/* Always another block: what still points to the old one is found. */
static uint64_t reallocate(HeapCall *c, uint64_t va, uint64_t size) {
  if (!va) return allocate(c, size, 16, false);
  if (is_fishy(c, "size", size)) return 0;
  HeapBlock *b = live_block(c, va);
  if (!b) { /* counted as Valgrind does */
    c->heap->usage.frees++;
    c->heap->usage.allocs++;
    c->heap->usage.allocated += size;
    bad_free(c, va);
    return 0;
  }
  check_kind(c, b);
  uint64_t to = size ? allocate(c, size, 16, false) : 0;
  if (size && !to) return 0;
  if (to)
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)va, b->size < size ? b->size : size);
  c->heap->usage.frees++;
  release(c, b);
  return to;
}

uint64_t heap_realloc(HeapCall *c) { return reallocate(c, c->a[0], c->a[1]); }

uint64_t heap_reallocarray(HeapCall *c) {
  uint64_t size;
  return __builtin_mul_overflow(c->a[1], c->a[2], &size) ? 0 : reallocate(c, c->a[0], size);
}

uint64_t heap_free(HeapCall *c) {
  uint64_t va = c->a[0];
  if (!va) return 0;
  HeapBlock *b = live_block(c, va);
  c->heap->usage.frees++;
  if (!b) {
    bad_free(c, va);
    return 0;
  }
  check_kind(c, b);
  release(c, b);
  return 0;
}

static uint64_t aligned(HeapCall *c, uint64_t align, uint64_t size) {
  if (is_fishy(c, "size", size)) return 0;
  return allocate(c, size, align < 16 ? 16 : align, false);
}

uint64_t heap_memalign(HeapCall *c) {
  uint64_t align = 16;
  while (align < c->a[0] && align < MAXIMUM) align *= 2;
  return aligned(c, align, c->a[1]);
}

uint64_t heap_posix_memalign(HeapCall *c) {
  if (!is_alignment(c->a[1]) || c->a[1] % 8) return 22; /* EINVAL */
  uint64_t va = aligned(c, c->a[1], c->a[2]);
  if (!va) return 12; /* ENOMEM */
  heap_check(c, c->a[0], 8, 8, true);
  bool writable = emu_addr_space_ptr(c->heap->emu, c->a[0], 8, PROT_WRITE);
  return writable && !core_poke(c->heap->emu, c->a[0], &va, 8) ? 0 : 22;
}

uint64_t heap_valloc(HeapCall *c) { return aligned(c, CORE_PAGE, c->a[0]); }
uint64_t heap_pvalloc(HeapCall *c) { return aligned(c, CORE_PAGE, up(c->a[0], CORE_PAGE)); }

uint64_t heap_usable_size(HeapCall *c) {
  HeapBlock *b = live_block(c, c->a[0]);
  return b ? b->size : 0;
}

uint64_t heap_nothing(HeapCall *c) { return (void)c, 0; }

static uint64_t or_end(HeapCall *c, uint64_t va, uint64_t size) {
  if (!va) heap_report(c, &(KitHeapError){.kind = KIT_HEAP_NO_MEMORY, .size = size});
  return va;
}

uint64_t heap_new(HeapCall *c) { return or_end(c, heap_malloc(c), c->a[0]); }
uint64_t heap_new_aligned_nothrow(HeapCall *c) { return aligned(c, c->a[1], c->a[0]); }
uint64_t heap_new_aligned(HeapCall *c) { return or_end(c, heap_new_aligned_nothrow(c), c->a[0]); }

/* ---- what kit/emu.h asks --------------------------------------------------------------------- */

void kit_heap_usage(const KitHeap *h, KitHeapUsage *out) { *out = h->usage; }

bool kit_heap_block(KitHeap *h, uint64_t va, uint64_t reach, KitBlock *out) {
  if (va < HEAP_LOW || va >= h->usage.high) return false;
  const HeapBlock *at = heap_below(h, va, h->usage.high - HEAP_LOW), *above = NULL;
  uint64_t redzone = h->spec.redzone, behind = at ? at->addr + up(at->size, 16) + redzone : 0;
  for (uint64_t next = (va & ~15ull) + 16; va >= behind && !above && next <= va + redzone;
       next += 16)
    above = heap_at(h, next);
  const HeapBlock *b = va < behind                              ? at
                       : above                                  ? above
                       : at && va - at->addr - at->size < reach ? at
                                                                : NULL;
  if (b) *out = heap_public(b);
  return b;
}

HeapBlock **heap_live(KitHeap *h, size_t *n) {
  VEC(HeapBlock *) list = {0};
  for (size_t piece = 0; piece < h->index.n; piece++)
    for (size_t i = 0; h->index.at[piece] && i < PER_PIECE; i++) {
      uint32_t number = h->index.at[piece][i];
      if (number && !numbered(h, number)->freed) vec_push(&list, numbered(h, number));
    }
  *n = list.n;
  return list.at;
}

void kit_heap_blocks(KitHeap *h, void (*fn)(void *ctx, const KitBlock *b), void *ctx) {
  size_t n;
  HeapBlock **list = heap_live(h, &n);
  for (size_t i = 0; i < n; i++) {
    KitBlock b = heap_public(list[i]);
    fn(ctx, &b);
  }
  free(list);
}

void heap_free_all(KitHeap *h) {
  for (size_t i = 0; i < h->slabs.n; i++) free(h->slabs.at[i]);
  vec_free(&h->slabs);
  for (size_t i = 0; i < h->index.n; i++) free(h->index.at[i]);
  vec_free(&h->index);
}
