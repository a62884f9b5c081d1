/* Writes what a program sees of the machine, for x64_singlestep: cpuid, xgetbv, and the entries of
 * the auxiliary vector, those about the CPU with their values. */
#include <cpuid.h>
#include <elf.h>
#include <stdbool.h>
#include <stdio.h>

static void leaves(unsigned from) {
  unsigned a, b, c, d, last = __get_cpuid_max(from, NULL);
  for (unsigned leaf = from; leaf <= last; leaf++)
    for (unsigned sub = 0; sub < 64; sub++) {
      __cpuid_count(leaf, sub, a, b, c, d);
      printf("cpuid %x %x %x %x %x %x\n", leaf, sub, a, b, c, d);
    }
}

/* Those whose values are the CPU's, not the process's. */
static bool is_of_cpu(unsigned long type) {
  return type == AT_HWCAP || type == AT_HWCAP2 || type == AT_MINSIGSTKSZ || type == AT_PAGESZ ||
         type == AT_CLKTCK;
}

int main(int argc, char **argv, char **envp) {
  unsigned a, b, c, d;
  (void)argc, (void)argv;
  leaves(0);
  leaves(0x80000000);
  __cpuid(1, a, b, c, d);
  if (c >> 27 & 1) {
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    printf("xgetbv %x %x\n", a, d);
  }
  while (*envp) envp++;
  for (unsigned long *aux = (unsigned long *)(envp + 1);; aux += 2) {
    if (is_of_cpu(*aux))
      printf("auxv %lu %lx\n", *aux, aux[1]);
    else
      printf("auxv %lu\n", *aux);
    if (*aux == AT_NULL) return 0;
  }
}
