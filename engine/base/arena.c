/* Arena and never-failing allocation. */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Chunk {
  struct Chunk *next;
  size_t used, size;
  _Alignas(16) char data[];
} Chunk;

struct Arena {
  Chunk *chunks;
  size_t chunk_bytes;
};

#define CHUNK_BYTES 8192
#define MORE_BYTES  1024 /* of an arena whose size was foretold */

void base_oom(size_t size) {
  fprintf(stderr, "kitlua: out of memory (asked for %zu bytes)\n", size);
  _exit(125);
}

static void *or_oom(void *p, size_t size) {
  if (!p) base_oom(size);
  return p;
}

void *xmalloc(size_t size) { return or_oom(malloc(size ? size : 1), size); }
void *xcalloc(size_t n, size_t size) {
  return or_oom(calloc(n ? n : 1, size ? size : 1), n * size);
}
void *xrealloc(void *p, size_t size) { return or_oom(realloc(p, size ? size : 1), size); }
char *xstrdup(const char *s) { return or_oom(strdup(s), strlen(s)); }

static Chunk *add_chunk(Arena *a, size_t size) {
  size_t bytes = size > a->chunk_bytes ? size : a->chunk_bytes;
  Chunk *c = xcalloc(1, sizeof(Chunk) + bytes);
  c->size = bytes;
  c->next = a->chunks;
  a->chunks = c;
  return c;
}

Arena *arena_new(void) {
  Arena *a = xcalloc(1, sizeof *a);
  a->chunk_bytes = CHUNK_BYTES;
  return a;
}

Arena *arena_new_sized(size_t bytes) {
  Arena *a = xcalloc(1, sizeof *a);
  a->chunk_bytes = MORE_BYTES;
  add_chunk(a, bytes);
  return a;
}

void arena_free(Arena *a) {
  if (!a) return;
  for (Chunk *c = a->chunks; c;) {
    Chunk *next = c->next;
    free(c);
    c = next;
  }
  free(a);
}

void *arena_alloc(Arena *a, size_t size) {
  size = (size + 15) & ~(size_t)15;
  Chunk *c = a->chunks;
  if (!c || c->size - c->used < size) c = add_chunk(a, size);
  void *p = c->data + c->used;
  c->used += size;
  return p;
}

char *arena_strdup(Arena *a, const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(arena_alloc(a, n), s, n);
}
