/* The C library's functions on memory and strings, as the heap stands in for them: the same results,
 * after a look at the plane over what they may touch (heap_check). The library's own read whole
 * words and vectors, beyond the ends of what they were given.
 *
 * Guest addresses are host addresses, and a fault in here is the guest's at the function's entry:
 * memory that is not mapped needs no check. Wide characters are the guest's wchar_t: 4 bytes. */
#include <string.h>
#include <strings.h>
#include <wchar.h>

#include "fast/heap.h"

_Static_assert(sizeof(wchar_t) == 4, "the host's wide functions do for the guest's");

#define S(i) ((char *)(uintptr_t)c->a[i])
#define W(i) ((wchar_t *)(uintptr_t)c->a[i])
#define N(i) ((size_t)c->a[i])

static uint64_t width(const HeapCall *c) { return c->fn->wide ? 4 : 1; }

static void reads(HeapCall *c, int arg, uint64_t n) {
  heap_check(c, c->a[arg], n, width(c), false);
}

/* Characters before the NUL, at most max. */
static uint64_t length(const HeapCall *c, uint64_t va, uint64_t max) {
  if (c->fn->wide)
    return max == UINT64_MAX ? wcslen((wchar_t *)(uintptr_t)va)
                             : wcsnlen((wchar_t *)(uintptr_t)va, max);
  return max == UINT64_MAX ? strlen((char *)(uintptr_t)va) : strnlen((char *)(uintptr_t)va, max);
}

/* Bytes that a function reads of a string: the NUL too, if it comes that far. */
static uint64_t extent(const HeapCall *c, uint64_t n, uint64_t max) {
  return (n < max ? n + 1 : max) * width(c);
}

/* The string that argument `arg` is, checked; its length. */
static uint64_t string(HeapCall *c, int arg, uint64_t max) {
  uint64_t n = length(c, c->a[arg], max);
  reads(c, arg, extent(c, n, max));
  return n;
}

/* said: the size that the report tells; 0: none */
static void overlap_of(HeapCall *c, uint64_t to, uint64_t wrote, uint64_t from, uint64_t read,
                       uint64_t said) {
  if (!wrote || !read || to >= from + read || from >= to + wrote) return;
  heap_report(
      c, &(KitHeapError){.kind = KIT_HEAP_OVERLAP, .addr = from, .other = c->a[0], .size = said});
}

static void overlap(HeapCall *c, uint64_t n, bool says_size) {
  overlap_of(c, c->a[0], n, c->a[1], n, says_size ? c->a[2] : 0);
}

/* ---- lengths and copies ---------------------------------------------------------------------- */

uint64_t mem_strlen(HeapCall *c) { return string(c, 0, UINT64_MAX); }
uint64_t mem_strnlen(HeapCall *c) { return string(c, 0, N(1)); }

/* Copies n characters of the source and a NUL to `to`. */
static void put_string(HeapCall *c, uint64_t to, uint64_t n) {
  uint64_t w = width(c);
  heap_check(c, to, n * w, w, true);
  c->site++;
  heap_check(c, to + n * w, w, w, true);
  memmove((void *)(uintptr_t)to, S(1), n * w);
  memset((char *)(uintptr_t)to + n * w, 0, w);
}

static uint64_t copy_string(HeapCall *c) {
  uint64_t n = string(c, 1, UINT64_MAX);
  put_string(c, c->a[0], n);
  overlap(c, (n + 1) * width(c), false);
  return n;
}

uint64_t mem_strcpy(HeapCall *c) { return copy_string(c), c->a[0]; }
uint64_t mem_stpcpy(HeapCall *c) { return c->a[0] + copy_string(c) * width(c); }

static uint64_t copy_n(HeapCall *c) {
  uint64_t n = string(c, 1, N(2)), w = width(c), max = N(2) * w;
  heap_check(c, c->a[0], n * w, w, true);
  c->site++;
  heap_check(c, c->a[0] + n * w, max - n * w, w, true);
  memmove(S(0), S(1), n * w);
  memset(S(0) + n * w, 0, max - n * w);
  overlap_of(c, c->a[0], max, c->a[1], extent(c, n, N(2)), N(2));
  return n;
}

uint64_t mem_strncpy(HeapCall *c) { return copy_n(c), c->a[0]; }
uint64_t mem_stpncpy(HeapCall *c) { return c->a[0] + copy_n(c) * width(c); }

static uint64_t append(HeapCall *c, uint64_t max) {
  uint64_t have = string(c, 0, UINT64_MAX), n = string(c, 1, max), w = width(c);
  uint64_t read = extent(c, n, max);
  put_string(c, c->a[0] + have * w, n);
  overlap_of(c, c->a[0], (have + n + 1) * w, c->a[1], read, max == UINT64_MAX ? 0 : max);
  return c->a[0];
}

uint64_t mem_strcat(HeapCall *c) { return append(c, UINT64_MAX); }
uint64_t mem_strncat(HeapCall *c) { return append(c, N(2)); }

/* How a plain copy goes about it, for its reports: words where both are aligned alike, then pairs
 * of bytes, then bytes; from the end if the destination is behind the source. */
static uint64_t piece(uint64_t to, uint64_t from, uint64_t n, bool backward, bool *words) {
  uint64_t at = backward ? from + n : from, other = backward ? to + n : to;
  if (((at ^ other) & 7) == 0 && *words) {
    if (at & 7) return 1;
    if (n >= 8) return 8;
  }
  *words = false;
  return ((at | other) & 1) == 0 && n >= 2 ? 2 : 1;
}

static void check_copy(HeapCall *c, uint64_t to, uint64_t from, uint64_t n) {
  bool backward = to > from, words = true;
  if (to == from || (!heap_marked(c->heap, to, n) && !heap_marked(c->heap, from, n))) return;
  for (unsigned i = 0; n && i < 100000; i++) {
    uint64_t size = piece(to, from, n, backward, &words), at = backward ? n - size : 0;
    c->site = (uint32_t)size;
    heap_check(c, from + at, size, size, false);
    heap_check(c, to + at, size, size, true);
    n -= size;
    if (!backward) to += size, from += size;
  }
}

static uint64_t copy_bytes(HeapCall *c, bool may_overlap) {
  uint64_t n = N(2) * width(c);
  if (!may_overlap) overlap(c, n, true);
  check_copy(c, c->a[0], c->a[1], n);
  memmove(S(0), S(1), n);
  return n;
}

static void check_fill(HeapCall *c, uint64_t to, uint64_t n) {
  if (!heap_marked(c->heap, to, n)) return;
  uint64_t head = (0 - to) & 7, tail;
  head = head < n ? head : n;
  tail = (n - head) & 7;
  heap_check(c, to, head, 1, true);
  heap_check(c, to + head, n - head - tail, 8, true);
  heap_check(c, to + n - tail, tail, 1, true);
}

uint64_t mem_memcpy(HeapCall *c) { return copy_bytes(c, false), c->a[0]; }
uint64_t mem_memmove(HeapCall *c) { return copy_bytes(c, true), c->a[0]; }
uint64_t mem_mempcpy(HeapCall *c) { return c->a[0] + copy_bytes(c, false); }

uint64_t mem_bcopy(HeapCall *c) {
  uint64_t from = c->a[0];
  c->a[0] = c->a[1];
  c->a[1] = from;
  return copy_bytes(c, true), 0;
}

uint64_t mem_memset(HeapCall *c) {
  check_fill(c, c->a[0], N(2) * width(c));
  if (c->fn->wide)
    wmemset(W(0), (wchar_t)c->a[1], N(2));
  else
    memset(S(0), (int)c->a[1], N(2));
  return c->a[0];
}

uint64_t mem_bzero(HeapCall *c) {
  check_fill(c, c->a[0], N(1));
  memset(S(0), 0, N(1));
  return 0;
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static uint64_t sign(int64_t n) { return (uint64_t)n; }

typedef int64_t Difference(const HeapCall *c, uint64_t i);

static int64_t by_char(const HeapCall *c, uint64_t i) {
  if (c->fn->wide) return W(0)[i] < W(1)[i] ? -1 : W(0)[i] > W(1)[i];
  return (int64_t)(uint8_t)S(0)[i] - (uint8_t)S(1)[i];
}

static int lower(int ch) { return ch >= 'A' && ch <= 'Z' ? ch + 32 : ch; }

static int64_t by_letter(const HeapCall *c, uint64_t i) {
  return lower((uint8_t)S(0)[i]) - lower((uint8_t)S(1)[i]);
}

static bool is_end(const HeapCall *c, uint64_t i) { return c->fn->wide ? !W(0)[i] : !S(0)[i]; }

/* Up to the first difference, or the end of both. */
static uint64_t compare_strings(HeapCall *c, uint64_t max, Difference *difference) {
  int64_t d = 0;
  uint64_t i = 0;
  while (i < max && !(d = difference(c, i)) && !is_end(c, i)) i++;
  uint64_t n = (i < max ? i + 1 : max) * width(c);
  reads(c, 0, n);
  reads(c, 1, n);
  return sign(d);
}

uint64_t mem_strcmp(HeapCall *c) { return compare_strings(c, UINT64_MAX, by_char); }
uint64_t mem_strncmp(HeapCall *c) { return compare_strings(c, N(2), by_char); }
uint64_t mem_strcasecmp(HeapCall *c) { return compare_strings(c, UINT64_MAX, by_letter); }
uint64_t mem_strncasecmp(HeapCall *c) { return compare_strings(c, N(2), by_letter); }

uint64_t mem_memcmp(HeapCall *c) {
  uint64_t i = 0, n = N(2);
  if (!c->fn->wide)
    while (n - i >= 8 && !memcmp(S(0) + i, S(1) + i, 8)) i += 8;
  while (i < n && !by_char(c, i)) i++;
  uint64_t read = (i < n ? i + 1 : n) * width(c);
  reads(c, 0, read);
  reads(c, 1, read);
  return i < n ? sign(by_char(c, i)) : 0;
}

/* ---- searches -------------------------------------------------------------------------------- */

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

/* Found at p, or the range ends: what was read on the way there. */
static uint64_t found(HeapCall *c, const void *p, uint64_t bytes) {
  reads(c, 0, p ? address(p) - c->a[0] + width(c) : bytes);
  return address(p);
}

uint64_t mem_strchr(HeapCall *c) {
  uint64_t end = (length(c, c->a[0], UINT64_MAX) + 1) * width(c);
  const void *p = c->fn->wide ? (const void *)wcschr(W(0), (wchar_t)c->a[1])
                              : (const void *)strchr(S(0), (int)c->a[1]);
  return found(c, p, end);
}

uint64_t mem_strchrnul(HeapCall *c) { return found(c, strchrnul(S(0), (int)c->a[1]), 0); }

uint64_t mem_strrchr(HeapCall *c) {
  string(c, 0, UINT64_MAX);
  return c->fn->wide ? address(wcsrchr(W(0), (wchar_t)c->a[1]))
                     : address(strrchr(S(0), (int)c->a[1]));
}

uint64_t mem_memchr(HeapCall *c) {
  const void *p = c->fn->wide ? (const void *)wmemchr(W(0), (wchar_t)c->a[1], N(2))
                              : memchr(S(0), (int)c->a[1], N(2));
  return found(c, p, N(2) * width(c));
}

uint64_t mem_memrchr(HeapCall *c) {
  const void *p = memrchr(S(0), (int)c->a[1], N(2));
  uint64_t from = p ? address(p) - c->a[0] : 0;
  heap_check(c, c->a[0] + from, N(2) - from, 1, false);
  return address(p);
}

uint64_t mem_rawmemchr(HeapCall *c) { return found(c, rawmemchr(S(0), (int)c->a[1]), 0); }

static uint64_t span(HeapCall *c, uint64_t n) {
  string(c, 1, UINT64_MAX);
  reads(c, 0, n + 1);
  return n;
}

uint64_t mem_strspn(HeapCall *c) { return span(c, strspn(S(0), S(1))); }
uint64_t mem_strcspn(HeapCall *c) { return span(c, strcspn(S(0), S(1))); }

uint64_t mem_strpbrk(HeapCall *c) {
  uint64_t n = span(c, strcspn(S(0), S(1)));
  return S(0)[n] ? c->a[0] + n : 0;
}

uint64_t mem_strstr(HeapCall *c) {
  string(c, 0, UINT64_MAX);
  string(c, 1, UINT64_MAX);
  return address(strstr(S(0), S(1)));
}

uint64_t mem_strcasestr(HeapCall *c) {
  string(c, 0, UINT64_MAX);
  string(c, 1, UINT64_MAX);
  return address(strcasestr(S(0), S(1)));
}

/* ---- with the size of the destination, which the compiler knew ------------------------------- */

/* The library's function ends the program; so does the store behind the object that was to be
 * caught, in its way: it is reported. */
uint64_t mem_memcpy_chk(HeapCall *c) { return mem_memcpy(c); }
uint64_t mem_memmove_chk(HeapCall *c) { return mem_memmove(c); }
uint64_t mem_memset_chk(HeapCall *c) { return mem_memset(c); }
uint64_t mem_mempcpy_chk(HeapCall *c) { return mem_mempcpy(c); }
uint64_t mem_strcpy_chk(HeapCall *c) { return mem_strcpy(c); }
uint64_t mem_stpcpy_chk(HeapCall *c) { return mem_stpcpy(c); }
uint64_t mem_strncpy_chk(HeapCall *c) { return mem_strncpy(c); }
uint64_t mem_strcat_chk(HeapCall *c) { return mem_strcat(c); }
uint64_t mem_strncat_chk(HeapCall *c) { return mem_strncat(c); }
