// MAP_FIXED_NOREPLACE: fails where something is mapped, succeeds where nothing is.
#include <errno.h>
#include <sys/mman.h>

#include "guest.h"

int main(void) {
  char *area = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  CHECK(mmap(area, 4096, PROT_READ, flags, -1, 0) == MAP_FAILED && errno == EEXIST);
  munmap(area, 4096);
  CHECK(mmap(area, 4096, PROT_READ, flags, -1, 0) == area);
  return guest_verdict();
}
