// A SIGSEGV handler repairs the cause (mprotect, or mapping the page) and returns: the access is
// made again and succeeds. The fault's address and code are exact.
#include <signal.h>
#include <sys/mman.h>

#include "guest.h"

static volatile sig_atomic_t faults;
static void *volatile fault_addr;
static volatile int fault_code;

static void repair(int sig, siginfo_t *info, void *context) {
  (void)context;
  (void)sig;
  faults++;
  fault_addr = info->si_addr;
  fault_code = info->si_code;
  char *page = (char *)((unsigned long)info->si_addr & ~4095ul);
  if (info->si_code == SEGV_ACCERR) mprotect(page, 4096, PROT_READ | PROT_WRITE);
  else mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

int main(void) {
  struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  char *area = mmap(NULL, 4 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  *(volatile int *)(area + 100) = 5;
  CHECK(faults == 1 && fault_addr == area + 100 && fault_code == SEGV_ACCERR);
  CHECK(*(volatile int *)(area + 100) == 5);

  munmap(area + 4096, 4096);
  CHECK(*(volatile char *)(area + 4096 + 7) == 0);
  CHECK(faults == 2 && fault_addr == area + 4096 + 7 && fault_code == SEGV_MAPERR);

  mprotect(area + 8192, 4096, PROT_NONE);
  CHECK(*(volatile long *)(area + 8192 + 8) == 0);
  CHECK(faults == 3 && fault_addr == area + 8192 + 8 && fault_code == SEGV_ACCERR);

  mprotect(area + 8192, 4096, PROT_READ);
  CHECK(*(volatile long *)(area + 8192 + 8) == 0);
  CHECK(faults == 3);
  __atomic_fetch_add((long *)(area + 8192 + 16), 3, __ATOMIC_SEQ_CST);
  CHECK(faults == 4 && *(long *)(area + 8192 + 16) == 3);
  return guest_verdict();
}
