// die_rv64 WHAT: the riscv64 ways to die: illegal instructions, ebreak, jumps to bad places, an
// instruction that runs over the end of its mapping.
#include <stdint.h>
#include <sys/mman.h>

#include "guest.h"

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "illegal";
  puts("before");
  fflush(stdout);
  if (strcmp(what, "illegal") == 0) __asm__ volatile(".4byte 0xffffffff");
  if (strcmp(what, "zero") == 0) __asm__ volatile(".2byte 0");
  if (strcmp(what, "ebreak") == 0) __asm__ volatile("ebreak");
  if (strcmp(what, "csr") == 0) __asm__ volatile("csrr a0, mstatus" ::: "a0");
  if (strcmp(what, "edge") == 0) {
    uint16_t *area = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap((char *)area + 4096, 4096);
    area[2047] = 0x0513; // the first half of a four-byte addi
    __asm__ volatile("fence.i\n jr %0" ::"r"(area + 2047) : "memory");
  }
  puts("survived");
  return 0;
}
