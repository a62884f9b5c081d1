// Code that is written while it runs: patching an instruction of a hot loop with fence.i after it,
// a small just-in-time compiler that reuses its buffer, remapped code, code on a page with data.
#include <stdint.h>
#include <sys/mman.h>

#include "guest.h"

typedef long (*Code)(long);

static void fence_i(void) { __asm__ volatile("fence.i" ::: "memory"); }

static uint32_t addi_a0(int value) { return (uint32_t)(value & 0xfff) << 20 | 10 << 15 | 10 << 7 | 0x13; }
enum { RET = 0x8067 };

static void compile(uint32_t *code, int value, int repeat) {
  for (int i = 0; i < repeat; i++) *code++ = addi_a0(value);
  *code = RET;
  fence_i();
}

static uint32_t *map_code(void) {
  return mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// A loop whose own body is patched by the loop: the added constant grows by one every round.
static long self_patching(void) {
  uint32_t *code = map_code();
  // a0 = count. t0 accumulates; each round stores (addi t0, t0, k) over `patch` and fences.
  static const uint32_t text[] = {
      0x00000293, // 0: li   t0, 0
      0x00128313, // 4: addi t1, t0, 1       (never run twice with the same meaning below)
      0x00000317, // 8: auipc t1, 0
      0x02032383, // c: lw   t2, 32(t1)      the word at `patch` (0x28)
      0x00100e37, // 10: lui t3, 0x100       1 << 20: one in the immediate field
      0x01c383b3, // 14: add t2, t2, t3
      0x02732023, // 18: sw  t2, 32(t1)
      0x0000100f, // 1c: fence.i
      0x00000013, // 20: nop
      0x00000013, // 24: nop
      0x00028293, // 28: patch: addi t0, t0, 0
      0xfff50513, // 2c: addi a0, a0, -1
      0xfc051ee3, // 30: bnez a0, 0xc (offset -36): filled in below
      0x00028513, // 34: mv   a0, t0
      0x00008067, // 38: ret
  };
  memcpy(code, text, sizeof text);
  int32_t offset = 0xc - 0x30;
  code[12] = 0x00051063u | ((uint32_t)(offset >> 12 & 1) << 31) | ((uint32_t)(offset >> 5 & 63) << 25) |
             ((uint32_t)(offset >> 1 & 15) << 8) | ((uint32_t)(offset >> 11 & 1) << 7);
  fence_i();
  return ((Code)(void *)code)(100);
}

int main(void) {
  uint32_t *code = map_code();
  Code run = (Code)(void *)code;
  long sum = 0;
  for (int i = 0; i < 200; i++) {
    compile(code, i, 1 + i % 5);
    sum += run(i);
    CHECK(run(0) == (long)i * (1 + i % 5));
  }
  CHECK(sum == 80000);

  CHECK(self_patching() == 100 * 101 / 2);

  // The same page turns read-only-executable, back to writable, and is replaced altogether.
  mprotect(code, 8192, PROT_READ | PROT_EXEC);
  CHECK(run(1) == 1 + 199 * 5);
  mprotect(code, 8192, PROT_READ | PROT_WRITE);
  compile(code, 2, 1);
  mprotect(code, 8192, PROT_READ | PROT_EXEC);
  CHECK(run(1) == 3);
  uint32_t *other = map_code();
  compile(other, 3, 1);
  CHECK(mremap(other, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, code) == (void *)code);
  fence_i();
  CHECK(run(1) == 4);

  // Code and data on one page: many stores beside code that stays what it was.
  volatile long *data = (volatile long *)(void *)(code + 512);
  for (int i = 0; i < 2000; i++) {
    *data += run(1);
    if (i % 500 == 0) compile(code, 3, 1);
  }
  CHECK(*data == 8000);
  return guest_verdict();
}
