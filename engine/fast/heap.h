/* Private to fast/: the heap that stands in for the guest's (heap.c), how its functions and those on
 * memory come to be called (intercept.c), and the search for leaks (leaks.c). */
#ifndef FAST_HEAP_H
#define FAST_HEAP_H

#include "core/probe.h"

/* Its memory: one range that nothing else is placed in. */
#define HEAP_LOW  (3ull << 44)
#define HEAP_HIGH (HEAP_LOW + (1ull << 43))

typedef struct HeapBlock HeapBlock;
struct HeapBlock {
  uint64_t addr, size;
  HeapBlock *next; /* in the quarantine, or among the free ones of its class */
  uint32_t number;
  uint32_t before; /* bytes from the chunk's start to addr */
  uint32_t alloc_stack, free_stack;
  uint32_t pages; /* HEAP_LARGE: of its piece */
  int tid;
  uint16_t cls; /* size class; HEAP_LARGE: memory of its own */
  uint8_t kind; /* KitAllocKind */
  bool freed;
};

#define HEAP_PIECE   (4ull << 20)
#define HEAP_SLAB    1024 /* records */
#define HEAP_CLASSES 192
#define HEAP_LARGE   0xffff

typedef struct HeapQueue {
  HeapBlock *first, *last;
  uint64_t bytes;
} HeapQueue;

struct KitHeap {
  Emu *emu;
  KitHeapSpec spec;
  CorePlane *plane;
  CoreProbe *probe;
  Map functions; /* entry -> HeapFunction */
  /* Which block begins at a multiple of 16, for each piece of HEAP_PIECE bytes: the record's number
   * + 1, 0: none. Freed blocks in quarantine too. */
  VEC(uint32_t *) index;
  HeapBlock *spare; /* block records without a block */
  VEC(HeapBlock *) slabs;
  HeapBlock *free[HEAP_CLASSES]; /* chunks whose quarantine is over */
  uint64_t bump, bump_end;       /* the piece that chunks are cut from */
  uint64_t top;                  /* where the next piece is mapped */
  HeapQueue quarantine, big;
  KitHeapUsage usage;
  bool is_static; /* the program has no libraries */
};

/* A function that is stood in for. */
typedef struct HeapFunction HeapFunction;
typedef struct HeapCall {
  KitHeap *heap;
  CoreThread *t;
  const HeapFunction *fn;
  uint64_t a[4]; /* arguments */
  uint32_t site; /* tells accesses of one function apart, as different instructions would be */
} HeapCall;
struct HeapFunction {
  const char *name;
  uint64_t (*run)(HeapCall *c);
  uint8_t kind;
  bool wide, touches; /* touches: works on the guest's memory, as its code would */
};

/* intercept.c: reports, from a function that is being stood in for. */
void heap_report(HeapCall *c, KitHeapError *e);
uint32_t heap_stack(const HeapCall *c);
/* Reports each `unit` of the range, from its start on, that has a marked byte. */
void heap_check(HeapCall *c, uint64_t va, uint64_t len, uint64_t unit, bool is_write);
bool heap_marked(const KitHeap *h, uint64_t va, uint64_t len);

#define ALLOC(name, function, kind) uint64_t heap_##function(HeapCall *c);
#define MEMFN(name, function, wide) uint64_t mem_##function(HeapCall *c);
#include "fast/heap.def"

/* heap.c */
/* The block that begins at va; the nearest one that begins there or below, at most `reach` below. */
HeapBlock *heap_at(const KitHeap *h, uint64_t va);
HeapBlock *heap_below(const KitHeap *h, uint64_t va, uint64_t reach);
HeapBlock **heap_live(KitHeap *h, size_t *n); /* live blocks, ascending; to be freed */
void heap_free_all(KitHeap *h);
KitBlock heap_public(const HeapBlock *b);

#endif
