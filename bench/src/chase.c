// Memory-bound: a chain of pointers in random order over more than the caches hold.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Cell {
  struct Cell *next;
  uint64_t value[7]; // a cache line
} Cell;

enum { CELLS = 1 << 19 }; // 32 MiB
static Cell cells[CELLS];
static uint32_t order[CELLS];

int main(int argc, char **argv) {
  long steps = argc > 1 ? atol(argv[1]) : 1000;
  uint64_t seed = 1, sum = 0;
  for (uint32_t i = 0; i < CELLS; i++) order[i] = i;
  for (uint32_t i = CELLS - 1; i > 0; i--) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t j = (uint32_t)(seed >> 33) % (i + 1), t = order[i];
    order[i] = order[j], order[j] = t;
  }
  for (uint32_t i = 0; i < CELLS; i++) {
    cells[order[i]].next = &cells[order[(i + 1) % CELLS]];
    cells[order[i]].value[3] = i;
  }
  Cell *at = &cells[order[0]];
  for (long i = 0; i < steps; i++, at = at->next) sum = sum * 3 + at->value[3];
  printf("%llu\n", (unsigned long long)sum);
}
