/* Hash map from 64-bit keys to pointers or integers; open addressing, linear probing, no
 * tombstones.
 *
 *   Map m = {0};
 *   map_put(&m, pc, region);          // replaces
 *   IrRegion *r = map_get(&m, pc);    // NULL if absent
 *   for (size_t i = 0; map_next(&m, &i, &key, &value);) ...
 *   map_free(&m);
 *
 * Values must not be NULL.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct MapSlot {
  uint64_t key;
  void *value; /* NULL: free */
} MapSlot;

typedef struct Map {
  MapSlot *slots;
  size_t n, cap; /* cap is a power of two */
} Map;

static inline uint64_t map_hash(uint64_t key) {
  key *= 0x9e3779b97f4a7c15ull;
  return key ^ key >> 32;
}

static inline void *map_get(const Map *m, uint64_t key) {
  if (!m->cap) return NULL;
  for (size_t i = map_hash(key) & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
    if (!m->slots[i].value) return NULL;
    if (m->slots[i].key == key) return m->slots[i].value;
  }
}
void map_put(Map *m, uint64_t key, void *value);
void *map_remove(Map *m, uint64_t key); /* the old value or NULL */
bool map_next(const Map *m, size_t *iter, uint64_t *key, void **value);
void map_clear(Map *m);
void map_free(Map *m);

#endif
