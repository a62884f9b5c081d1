/* Reading DWARF's encodings from bytes that are not trusted: past the end everything is 0 and the
 * cursor is bad.
 *
 *   Cursor c = {at, at + size, false};
 *   uint64_t n = cursor_uleb(&c);
 *   if (c.bad) return; */
#ifndef DEBUG_CURSOR_H
#define DEBUG_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Cursor {
  const uint8_t *at, *end;
  bool bad;
} Cursor;

static inline const uint8_t *cursor_take(Cursor *c, uint64_t n) {
  if (n > (uint64_t)(c->end - c->at)) {
    c->bad = true;
    c->at = c->end;
    return NULL;
  }
  const uint8_t *p = c->at;
  c->at += n;
  return p;
}

static inline void cursor_skip(Cursor *c, uint64_t n) { cursor_take(c, n); }

static inline uint64_t cursor_fixed(Cursor *c, unsigned n) {
  uint64_t v = 0;
  const uint8_t *p = cursor_take(c, n);
  if (p) memcpy(&v, p, n);
  return v;
}

static inline uint8_t cursor_u8(Cursor *c) { return (uint8_t)cursor_fixed(c, 1); }
static inline uint16_t cursor_u16(Cursor *c) { return (uint16_t)cursor_fixed(c, 2); }
static inline uint32_t cursor_u32(Cursor *c) { return (uint32_t)cursor_fixed(c, 4); }
static inline uint64_t cursor_u64(Cursor *c) { return cursor_fixed(c, 8); }
static inline uint64_t cursor_offset(Cursor *c, unsigned size) { return cursor_fixed(c, size); }

static inline uint64_t cursor_uleb(Cursor *c) {
  uint64_t v = 0;
  for (unsigned shift = 0; c->at < c->end; shift += 7) {
    uint8_t b = *c->at++;
    if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
    if (!(b & 0x80)) return v;
  }
  c->bad = true;
  return 0;
}

static inline int64_t cursor_sleb(Cursor *c) {
  uint64_t v = 0;
  unsigned shift = 0;
  while (c->at < c->end) {
    uint8_t b = *c->at++;
    if (shift < 64) v |= (uint64_t)(b & 0x7f) << shift;
    shift += 7;
    if (b & 0x80) continue;
    if (shift < 64 && b & 0x40) v |= ~0ull << shift;
    return (int64_t)v;
  }
  c->bad = true;
  return 0;
}

/* A string that ends before the bytes do; NULL: none. */
static inline const char *cursor_string(Cursor *c) {
  const uint8_t *s = c->at, *zero = memchr(s, 0, (size_t)(c->end - c->at));
  if (!zero) {
    c->bad = true;
    return NULL;
  }
  c->at = zero + 1;
  return (const char *)s;
}

#endif
