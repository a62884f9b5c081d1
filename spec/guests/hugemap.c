// Reserving a terabyte of address space is an ordinary thing to do, and must cost nothing but the pages used.
#include <sys/mman.h>

#include "guest.h"

int main(void) {
  size_t size = 1ul << 40;
  char *huge = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(huge != MAP_FAILED);
  CHECK(mprotect(huge + size / 2, 4096, PROT_READ | PROT_WRITE) == 0);
  huge[size / 2] = 1;
  CHECK(munmap(huge, size) == 0);
  return guest_verdict();
}
