// Call-heavy: malloc and free of mixed sizes, most of them short-lived; every block is written to.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4096 };
static unsigned char *slots[SLOTS];

int main(int argc, char **argv) {
  long pairs = argc > 1 ? atol(argv[1]) : 10000;
  uint64_t seed = 1, sum = 0;
  for (long i = 0; i < pairs; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    unsigned random = (unsigned)(seed >> 33), at = random % 4 ? random % 64 : random % SLOTS;
    size_t size = 8 + (random >> 12) % (random % 16 ? 120 : 2000);
    if (slots[at]) sum += slots[at][0] + slots[at][7];
    free(slots[at]);
    slots[at] = malloc(size);
    memset(slots[at], (int)(i & 255), 8);
  }
  printf("%llu\n", (unsigned long long)sum);
}
