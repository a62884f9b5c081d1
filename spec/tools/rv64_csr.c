/* Which control and status registers user mode may read and write, and fences of all forms: prints
 * a line each, for comparison with qemu-user. The counters' values cannot be compared: they must
 * not run backwards. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static sigjmp_buf trapped;
static void on_trap(int signo) { siglongjmp(trapped, signo); }

#define TRY(what, ...)                                                                             \
  do {                                                                                             \
    int signo = sigsetjmp(trapped, 1);                                                             \
    if (!signo) {                                                                                  \
      __VA_ARGS__;                                                                                 \
      puts(what " works");                                                                         \
    } else {                                                                                       \
      printf(what " gives signal %d\n", signo);                                                    \
    }                                                                                              \
  } while (0)
#define RUN(text) TRY(text, __asm__ volatile(text : : : "a0"))
#define COUNTER(csr)                                                                               \
  do {                                                                                             \
    unsigned long first, second;                                                                   \
    __asm__ volatile("csrr %0, " csr "\n csrr %1, " csr : "=&r"(first), "=&r"(second));            \
    printf(csr ": %s\n", first &&first <= second ? "runs" : "does not run");                       \
  } while (0)

int main(void) {
  signal(SIGILL, on_trap);
  COUNTER("cycle");
  COUNTER("time");
  COUNTER("instret");
  RUN("csrr a0, hpmcounter3");
  RUN("csrr a0, hpmcounter31");
  RUN("csrr a0, mstatus");
  RUN("csrr a0, sstatus");
  RUN("csrr a0, 0x008");
  RUN("csrr a0, 0x015");
  RUN("csrr a0, 0x800");
  RUN("csrr a0, 0xc20");
  RUN("csrr a0, 0xf14");
  RUN("csrw cycle, zero");
  RUN("csrs time, zero");
  RUN("csrsi time, 0");
  RUN("csrsi time, 1");
  RUN("li a0, 1; csrc instret, a0");
  RUN("fence rw, w");
  RUN("fence.tso");
  RUN("fence.i");
  RUN(".4byte 0x0100000f"); /* pause */
  RUN(".4byte 0x0000000f"); /* fence of nothing */
  return 0;
}
