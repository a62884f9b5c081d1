// Calls through pointers: a dispatch table, qsort's callback, a pointer returned by a function.
#include "guest.h"

typedef long (*Op)(long, long);

static NOINLINE long add(long a, long b) { return a + b; }
static NOINLINE long sub(long a, long b) { return a - b; }
static NOINLINE long mul(long a, long b) { return a * b; }

static const Op ops[] = {add, sub, mul};

static NOINLINE Op pick(unsigned i) { return ops[i % 3]; }

static int compare(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

int main(void) {
  long acc = 1;
  for (unsigned i = 0; i < 3000; i++) acc = pick(i)(acc, (long)i) % 1000003;
  int keys[64];
  for (int i = 0; i < 64; i++) keys[i] = (i * 37) % 64;
  qsort(keys, 64, sizeof keys[0], compare);
  for (int i = 0; i < 64; i++) CHECK(keys[i] == i);
  printf("acc = %ld\n", acc);
  return guest_verdict();
}
