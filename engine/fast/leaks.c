/* The search for leaks. From the roots - registers, writable memory that is not the heap's - along
 * the pointers in the blocks that are found; then, among the blocks that are not, which are lost
 * only because the one that points to them is. The rules are Memcheck's (its manual, 4.2.8). */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fast/heap.h"

typedef enum Mark { LOST, INDIRECT, POSSIBLE, REACHED } Mark;

typedef struct Chunk {
  HeapBlock *b;
  uint8_t mark;
  uint32_t leader; /* index + 1 of the lost block that leads here, 0: none */
  uint64_t indirect_bytes, indirect_blocks;
} Chunk;

typedef struct Search {
  KitHeap *heap;
  uint32_t heuristics;
  Chunk *chunks; /* ascending */
  size_t n;
  VEC(uint32_t) todo; /* to be scanned */
} Search;

static uint64_t word(uint64_t va) { return *(const uint64_t *)(uintptr_t)va; }

/* The block that va is in; one of size 0 has its own address. */
static Chunk *chunk_at(const Search *s, uint64_t va) {
  size_t low = 0, high = s->n;
  if (va < HEAP_LOW || va >= s->heap->usage.high) return NULL;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (s->chunks[mid].b->addr > va)
      high = mid;
    else
      low = mid + 1;
  }
  if (!low) return NULL;
  Chunk *c = &s->chunks[low - 1];
  return va - c->b->addr < c->b->size || va == c->b->addr ? c : NULL;
}

/* ---- heuristics ------------------------------------------------------------------------------ */

/* std::string of before C++11: length, capacity, reference count, characters. */
static bool is_stdstring(const HeapBlock *b, uint64_t va) {
  if (va != b->addr + 24 || b->size < 24) return false;
  uint64_t length = word(b->addr), capacity = word(b->addr + 8);
  return length <= capacity && b->size - 24 >= capacity + 1 &&
         !(word(b->addr + 16) >> 32 != 0 && word(b->addr + 16) >> 32 != 0xffffffff);
}

static bool is_length64(const HeapBlock *b, uint64_t va) {
  return va == b->addr + 8 && b->size >= 8 && word(b->addr) == b->size - 8;
}

/* new[] of objects with destructors: their number comes first. */
static bool is_newarray(const HeapBlock *b, uint64_t va) {
  if (va != b->addr + 8 || b->size <= 8 || b->kind != KIT_ALLOC_NEW_ARRAY) return false;
  uint64_t n = word(b->addr);
  return n && (b->size - 8) % n == 0;
}

/* A virtual table lies in memory that the program cannot write, and its first entries are code. */
static bool is_vtable(const Search *s, uint64_t va) {
  Emu *emu = s->heap->emu;
  const CoreArea *a = va % 8 ? NULL : core_area(emu, va);
  if (!a || a->start > va || !(a->prot & PROT_READ) || !a->ino) return false;
  for (uint64_t at = va; at < va + 64 && at + 8 <= a->end; at += 8) {
    const CoreArea *code = core_area(emu, word(at));
    if (code && code->start <= word(at) && code->prot & PROT_EXEC) return true;
  }
  return false;
}

static bool is_multiple_inheritance(const Search *s, const HeapBlock *b, uint64_t va) {
  return va % 8 == 0 && b->size >= 16 && va + 8 <= b->addr + b->size && is_vtable(s, word(va)) &&
         is_vtable(s, word(b->addr));
}

static bool is_start(const Search *s, const HeapBlock *b, uint64_t va) {
  uint32_t h = s->heuristics;
  return va == b->addr || (h & KIT_LEAK_STDSTRING && is_stdstring(b, va)) ||
         (h & KIT_LEAK_LENGTH64 && is_length64(b, va)) ||
         (h & KIT_LEAK_NEWARRAY && is_newarray(b, va)) ||
         (h & KIT_LEAK_MULTIPLE_INHERITANCE && is_multiple_inheritance(s, b, va));
}

/* ---- from the roots -------------------------------------------------------------------------- */

static void see(Search *s, uint64_t va, Mark by) {
  Chunk *c = chunk_at(s, va);
  if (!c) return;
  Mark mark = by == REACHED && is_start(s, c->b, va) ? REACHED : POSSIBLE;
  if (c->mark >= mark) return;
  c->mark = (uint8_t)mark;
  vec_push(&s->todo, (uint32_t)(c - s->chunks));
}

static void scan(Search *s, uint64_t from, uint64_t to, Mark by) {
  for (uint64_t va = (from + 7) & ~7ull; va + 8 <= to; va += 8) see(s, word(va), by);
}

static void follow(Search *s) {
  while (s->todo.n) {
    Chunk *c = &s->chunks[vec_pop(&s->todo)];
    scan(s, c->b->addr, c->b->addr + c->b->size, c->mark);
  }
}

/* What is below a thread's stack pointer is no part of its stack. */
static uint64_t scan_start(const Emu *emu, const CoreArea *a) {
  uint64_t start = a->start;
  for (const CoreThread *t = emu->threads; t; t = t->next) {
    uint64_t sp = guest_reg(emu->guest, t->state, emu->guest->abi.sp) - emu->guest->abi.red_zone;
    if (sp > start && sp < a->end) start = sp;
  }
  return start;
}

static void scan_page(Search *s, uint64_t page, uint64_t from) {
  uint64_t words[CORE_PAGE / 8];
  if (core_peek(s->heap->emu, page, words, CORE_PAGE)) return; /* behind the end of its file */
  for (size_t i = page < from ? (from - page + 7) / 8 : 0; i < CORE_PAGE / 8; i++)
    see(s, words[i], REACHED);
}

/* Pages that were never touched (neither present nor swapped out: Documentation/admin-guide/mm/
 * pagemap.rst) hold no pointers, and there may be many. */
static void scan_area(Search *s, int pagemap, uint64_t from, uint64_t to) {
  uint64_t entries[512];
  const uint64_t there = 3ull << 62;
  for (uint64_t at = from & ~(CORE_PAGE - 1); at < to; at += sizeof entries / 8 * CORE_PAGE) {
    uint64_t n = (to - at) / CORE_PAGE < 512 ? (to - at) / CORE_PAGE : 512;
    memset(entries, 0xff, sizeof entries);
    if (pread(pagemap, entries, n * 8, (off_t)(at / CORE_PAGE * 8)) < 0) entries[0] |= there;
    for (uint64_t i = 0; i < n; i++)
      if (entries[i] & there) scan_page(s, at + i * CORE_PAGE, from);
  }
}

static void scan_roots(Search *s) {
  Emu *emu = s->heap->emu;
  for (const CoreThread *t = emu->threads; t; t = t->next)
    for (uint32_t i = 0; i < emu->guest->n_regs; i++)
      if (emu->guest->regs[i].cls == GUEST_REG_INT && emu->guest->regs[i].size == 8)
        see(s, guest_reg(emu->guest, t->state, (int)i), REACHED);
  const CoreArea *a;
  int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  for (uint64_t va = 0; (a = core_area(emu, va)); va = a->end) {
    bool data = a->prot & PROT_READ && (a->prot & PROT_WRITE || !(a->prot & PROT_EXEC));
    if (!data || /* what is read-only now may have been relocated: RELRO */
        (a->start >= HEAP_LOW && a->start < HEAP_HIGH))
      continue;
    scan_area(s, pagemap, scan_start(emu, a), a->end);
  }
  if (pagemap >= 0) close(pagemap);
  follow(s);
}

/* ---- among the lost -------------------------------------------------------------------------- */

/* A lost block's pointer: what it leads to is lost along with it. */
static void see_lost(Search *s, uint64_t va, uint32_t leader) {
  Chunk *c = chunk_at(s, va), *first = &s->chunks[leader];
  if (!c || c == first || c->mark > LOST) return;
  c->mark = INDIRECT;
  c->leader = leader + 1;
  first->indirect_bytes += c->b->size + c->indirect_bytes;
  first->indirect_blocks += 1 + c->indirect_blocks;
  if (!c->indirect_blocks) vec_push(&s->todo, (uint32_t)(c - s->chunks));
  c->indirect_bytes = c->indirect_blocks = 0;
}

static void scan_lost(Search *s, uint32_t leader, const HeapBlock *b) {
  for (uint64_t va = (b->addr + 7) & ~7ull; va + 8 <= b->addr + b->size; va += 8)
    see_lost(s, word(va), leader);
}

static void group_lost(Search *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->chunks[i].mark != LOST) continue;
    scan_lost(s, i, s->chunks[i].b);
    while (s->todo.n) scan_lost(s, i, s->chunks[vec_pop(&s->todo)].b);
  }
}

void kit_heap_leaks(KitHeap *h, uint32_t heuristics, void (*fn)(void *ctx, const KitLeak *leak),
                    void *ctx) {
  static const KitLeakState states[] = {[LOST] = KIT_LEAK_DEFINITE,
                                        [INDIRECT] = KIT_LEAK_INDIRECT,
                                        [POSSIBLE] = KIT_LEAK_POSSIBLE,
                                        [REACHED] = KIT_LEAK_REACHABLE};
  Search s = {.heap = h, .heuristics = heuristics};
  HeapBlock **live = heap_live(h, &s.n);
  s.chunks = xcalloc(s.n + 1, sizeof *s.chunks);
  for (size_t i = 0; i < s.n; i++) s.chunks[i].b = live[i];
  scan_roots(&s);
  group_lost(&s);
  for (size_t i = 0; i < s.n; i++) {
    const Chunk *c = &s.chunks[i];
    KitLeak leak = {heap_public(c->b), states[c->mark], c->indirect_bytes, c->indirect_blocks};
    fn(ctx, &leak);
  }
  free(live);
  free(s.chunks);
  vec_free(&s.todo);
}
