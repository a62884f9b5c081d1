// malloc and its kin under load: sizes from bytes to megabytes, realloc, alignment, threads' arenas.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>

#include "guest.h"

enum { SLOTS = 256 };

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

static void *churn(void *arg) {
  uint32_t state = (uint32_t)(uintptr_t)arg;
  unsigned char *slot[SLOTS] = {0};
  size_t size[SLOTS] = {0};
  for (int i = 0; i < 20000; i++) {
    unsigned k = next(&state) >> 24;
    if (slot[k]) CHECK(slot[k][0] == (unsigned char)k && slot[k][size[k] - 1] == (unsigned char)k);
    size_t want = 1 + (next(&state) >> 8) % (i % 100 == 0 ? 300000u : 600u);
    if (next(&state) >> 31) {
      free(slot[k]);
      slot[k] = malloc(want);
    } else {
      slot[k] = realloc(slot[k], want);
    }
    size[k] = want;
    slot[k][0] = slot[k][want - 1] = (unsigned char)k;
  }
  for (int k = 0; k < SLOTS; k++) free(slot[k]);
  return NULL;
}

int main(void) {
  churn((void *)1);
  pthread_t threads[3];
  for (uintptr_t i = 0; i < 3; i++) pthread_create(&threads[i], NULL, churn, (void *)(i + 2));
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  for (size_t align = 16; align <= 65536; align *= 2) {
    void *block = aligned_alloc(align, align * 2);
    CHECK(((uintptr_t)block & (align - 1)) == 0);
    free(block);
  }
  long *zeroed = calloc(100000, sizeof(long));
  for (int i = 0; i < 100000; i++) CHECK(zeroed[i] == 0);
  free(zeroed);
  return guest_verdict();
}
