/* Hash map from 64-bit keys; see map.h. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static void insert(Map *m, uint64_t key, void *value) {
  size_t i = map_hash(key) & (m->cap - 1);
  while (m->slots[i].value && m->slots[i].key != key) i = (i + 1) & (m->cap - 1);
  if (!m->slots[i].value) m->n++;
  m->slots[i] = (MapSlot){key, value};
}

static void grow(Map *m) {
  Map old = *m;
  m->cap = old.cap ? old.cap * 2 : 16;
  m->n = 0;
  m->slots = xcalloc(m->cap, sizeof(MapSlot));
  for (size_t i = 0; i < old.cap; i++)
    if (old.slots[i].value) insert(m, old.slots[i].key, old.slots[i].value);
  free(old.slots);
}

void map_put(Map *m, uint64_t key, void *value) {
  if (m->n * 2 >= m->cap) grow(m);
  insert(m, key, value);
}

void *map_remove(Map *m, uint64_t key) {
  if (!m->cap) return NULL;
  size_t mask = m->cap - 1, i = map_hash(key) & mask;
  while (m->slots[i].value && m->slots[i].key != key) i = (i + 1) & mask;
  void *old = m->slots[i].value;
  if (!old) return NULL;
  m->n--;
  /* Close the gap: move back every later entry of the run whose home is not after the gap. */
  for (size_t j = (i + 1) & mask; m->slots[j].value; j = (j + 1) & mask) {
    size_t home = map_hash(m->slots[j].key) & mask;
    if (((j - home) & mask) >= ((j - i) & mask)) {
      m->slots[i] = m->slots[j];
      i = j;
    }
  }
  m->slots[i].value = NULL;
  return old;
}

bool map_next(const Map *m, size_t *iter, uint64_t *key, void **value) {
  for (; *iter < m->cap; ++*iter)
    if (m->slots[*iter].value) {
      *key = m->slots[*iter].key;
      *value = m->slots[*iter].value;
      ++*iter;
      return true;
    }
  return false;
}

void map_clear(Map *m) {
  if (m->slots) memset(m->slots, 0, m->cap * sizeof(MapSlot));
  m->n = 0;
}

void map_free(Map *m) {
  free(m->slots);
  *m = (Map){0};
}
