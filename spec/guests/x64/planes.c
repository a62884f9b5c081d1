/* Loads of 1 to 64 bytes at every offset of a buffer, for a script that marks some of its bytes: it
 * finds them at `marked`. Prints how many loads of each size there were. */
#include "guest.h"
#include <stdint.h>
#include <stdio.h>

__attribute__((aligned(64))) unsigned char marked[256];

#define LOADS 128

#define LOAD(name, insn)                                                                           \
  static void name(void) {                                                                         \
    for (int i = 0; i < LOADS; i++)                                                                \
      __asm__ volatile(insn : : "r"(marked + i) : "rax", "xmm0", "memory");                        \
  }
LOAD(load1, "movb (%0), %%al")
LOAD(load2, "movw (%0), %%ax")
LOAD(load4, "movl (%0), %%eax")
LOAD(load8, "movq (%0), %%rax")
LOAD(load16, "movdqu (%0), %%xmm0")
LOAD(load32, "vmovdqu (%0), %%ymm0")
LOAD(load64, "vmovdqu64 (%0), %%zmm0")

int main(void) {
  load1(), load2(), load4(), load8(), load16();
  __builtin_cpu_init();
  int widest = 16;
  if (__builtin_cpu_supports("avx2")) load32(), widest = 32;
  if (__builtin_cpu_supports("avx512f")) load64(), widest = 64;
  printf("%d\n", widest);
  return 0;
}
