// Signal handlers that read and edit the interrupted context: skip a faulting instruction and supply
// its result, see exact pc and registers at faults of each kind, change an FP register, fcsr and the mask.
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "guest.h"

static volatile unsigned long seen_pc, seen_t0;
static volatile int seen_sig, seen_code;
static void *volatile seen_addr;

static int length_at(unsigned long pc) { return (*(unsigned short *)pc & 3) == 3 ? 4 : 2; }

static void skip(int sig, siginfo_t *info, void *context) {
  mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
  seen_sig = sig;
  seen_code = info->si_code;
  seen_addr = info->si_addr;
  seen_pc = m->__gregs[REG_PC];
  seen_t0 = m->__gregs[5];
  m->__gregs[REG_PC] += (unsigned long)length_at(seen_pc);
  m->__gregs[10] = 4711; // a0
}

static void edit(int sig, siginfo_t *info, void *context) {
  ucontext_t *u = context;
  (void)sig;
  (void)info;
  u->uc_mcontext.__fpregs.__d.__f[10] = 0x4045000000000000; // fa0 = 42.0
  u->uc_mcontext.__fpregs.__d.__fcsr = 0x21;                // round towards zero, inexact
  u->uc_mcontext.__gregs[10] = 12;
  sigaddset(&u->uc_sigmask, SIGUSR2);
}

static void catch(int sig, void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  sigaction(sig, &action, NULL);
}

// Runs INSN at a known label with t0 = VALUE; gives a0 and the label.
#define AT(insn, value, result, where)                                                       \
  do {                                                                                       \
    register unsigned long t0 __asm__("t0") = (unsigned long)(value);                        \
    register unsigned long a0 __asm__("a0") = 1;                                             \
    unsigned long label_;                                                                    \
    __asm__ volatile("lla %1, 1f\n1: " insn : "+r"(a0), "=&r"(label_) : "r"(t0) : "memory"); \
    result = a0;                                                                             \
    where = label_;                                                                          \
  } while (0)

int main(void) {
  unsigned long got, where;
  catch(SIGSEGV, skip);
  catch(SIGILL, skip);
  catch(SIGTRAP, skip);
  catch(SIGUSR1, edit);

  AT("ld a0, 24(t0)", 0x1000, got, where);
  CHECK(got == 4711 && seen_sig == SIGSEGV && seen_pc == where && seen_t0 == 0x1000);
  CHECK(seen_addr == (void *)0x1018 && seen_code == SEGV_MAPERR);

  AT("sw a0, -4(t0)", 0x1000, got, where);
  CHECK(got == 4711 && seen_pc == where && seen_addr == (void *)0xffc);

  AT("amoadd.w a0, a0, (t0)", 0x1000, got, where);
  CHECK(got == 4711 && seen_pc == where && seen_addr == (void *)0x1000);

  AT("fld fa0, 8(t0)", 0x2000, got, where);
  CHECK(seen_pc == where && seen_addr == (void *)0x2008);

  AT(".4byte 0xffffffff", 7, got, where);
  CHECK(got == 4711 && seen_sig == SIGILL && seen_pc == where && seen_t0 == 7);

  AT(".2byte 0", 8, got, where);
  CHECK(got == 4711 && seen_sig == SIGILL && seen_pc == where);

  AT("ebreak", 9, got, where);
  CHECK(got == 4711 && seen_sig == SIGTRAP && seen_pc == where && seen_t0 == 9);

  long self = getpid();
  register long a0 __asm__("a0") = self;
  register long a1 __asm__("a1") = SIGUSR1;
  register double fa0 __asm__("fa0") = 1.0;
  unsigned long fcsr;
  __asm__ volatile("li a7, 129\n ecall\n frcsr %2\n fscsr zero" // kill(self, SIGUSR1)
                   : "+r"(a0), "+f"(fa0), "=&r"(fcsr) : "r"(a1) : "a7", "memory");
  CHECK(a0 == 12 && fa0 == 42.0 && fcsr == 0x21);
  sigset_t mask;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  CHECK(sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGUSR1));
  return guest_verdict();
}
