/* The signal frame as Linux/riscv64 lays it out: a handler looks at it and edits registers of all
 * kinds, which must take effect. The handler's own use of floating point must not. qemu-user 7.2
 * agrees but for the frame's size (it leaves out the room for quads). */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

static char alternate[65536] __attribute__((aligned(16)));

static void handler(int signo, siginfo_t *info, void *context) {
  ucontext_t *u = context;
  struct __riscv_mc_d_ext_state *fp = &u->uc_mcontext.__fpregs.__d;
  char *frame = (char *)info;
  printf("signal %d, code %d, at pc: %d\n", signo, info->si_code,
         info->si_addr == (void *)u->uc_mcontext.__gregs[0]);
  printf("frame of %ld bytes, ucontext at %ld, registers at %ld, floating point at %ld\n",
         (long)(alternate + sizeof alternate - frame), (long)((char *)u - frame),
         (long)((char *)u->uc_mcontext.__gregs - frame), (long)((char *)fp - frame));
  printf("flags %lx, link %p, stack at %ld, flags %d, size %zu, mask %lx\n", u->__uc_flags,
         (void *)u->uc_link, (long)((char *)u->uc_stack.ss_sp - alternate), u->uc_stack.ss_flags,
         u->uc_stack.ss_size, u->uc_sigmask.__val[0]);
  printf("a3 %lx, fa0 %llx, fa1 %llx, fcsr %x\n", u->uc_mcontext.__gregs[13], fp->__f[10],
         fp->__f[11], fp->__fcsr);
  u->uc_mcontext.__gregs[0] += 4;
  u->uc_mcontext.__gregs[13] = 0x1234;
  fp->__f[10] = 0x4008000000000000; /* 3.0 */
  fp->__fcsr = 0x61;
  __asm__ volatile("fmv.d.x fa1, zero; li a0, -1; fscsr a0" : : : "a0");
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  double fa0, fa1;
  long a3, fcsr;
  sigaddset(&action.sa_mask, SIGUSR1);
  if (sigaction(SIGTRAP, &action, NULL) || sigaltstack(&stack, NULL)) abort();
  __asm__ volatile("li a3, 77; fcvt.d.l fa0, a3; fcvt.d.l fa1, a3; li a4, 0x25; fscsr a4\n"
                   ".option push; .option norvc; ebreak; .option pop\n"
                   "fmv.d %0, fa0; fmv.d %1, fa1; mv %2, a3; frcsr %3"
                   : "=f"(fa0), "=f"(fa1), "=r"(a3), "=r"(fcsr)
                   :
                   : "a3", "a4", "fa0", "fa1");
  printf("a3 %lx, fa0 %g, fa1 %g, fcsr %lx\n", a3, fa0, fa1, fcsr);
  return 0;
}
