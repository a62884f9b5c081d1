// Misaligned loads and stores of each width, within and across pages and up to the edge of a mapping.
#include <stdint.h>
#include <sys/mman.h>

#include "guest.h"

static NOINLINE uint64_t load(const void *p, int width) {
  uint64_t x;
  if (width == 2) __asm__ volatile("lhu %0, 0(%1)" : "=r"(x) : "r"(p) : "memory");
  else if (width == 4) __asm__ volatile("lwu %0, 0(%1)" : "=r"(x) : "r"(p) : "memory");
  else __asm__ volatile("ld %0, 0(%1)" : "=r"(x) : "r"(p) : "memory");
  return x;
}

static NOINLINE void store(void *p, int width, uint64_t x) {
  if (width == 2) __asm__ volatile("sh %0, 0(%1)" ::"r"(x), "r"(p) : "memory");
  else if (width == 4) __asm__ volatile("sw %0, 0(%1)" ::"r"(x), "r"(p) : "memory");
  else __asm__ volatile("sd %0, 0(%1)" ::"r"(x), "r"(p) : "memory");
}

int main(void) {
  unsigned char *area = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(area + 8192, 4096);
  for (int at = 4096 - 9; at <= 4096 + 9; at++) {
    for (int width = 2; width <= 8; width *= 2) {
      uint64_t value = 0x8182838485868788 + (uint64_t)at, expect = 0;
      store(area + at, width, value);
      for (int i = width - 1; i >= 0; i--) expect = expect << 8 | area[at + i];
      CHECK(load(area + at, width) == expect);
      CHECK((value ^ expect) << (64 - 8 * width) == 0);
    }
  }
  store(area + 8192 - 8, 8, 1);
  CHECK(load(area + 8192 - 8, 8) == 1);
  double d, e = 2.5;
  __asm__ volatile("fsd %1, 3(%2)\n fld %0, 3(%2)" : "=&f"(d) : "f"(e), "r"(area) : "memory");
  CHECK(d == 2.5);
  return guest_verdict();
}
