// The signal frame as the kernel makes it: where its parts are, what is in them, what the handler
// starts with, and that what the handler changes in it is what goes on.
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../guest.h"

#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u

__attribute__((used)) static struct {
  uint64_t sp, rax, flags, return_address;
  uint32_t mxcsr;
  uint16_t fcw;
  uint8_t xmm5[16];
} start; // of the handler

static void *handler_info, *handler_context;
static int handler_signo;
static volatile int handled;

extern void entry(int);
static void handler(int signo, siginfo_t *info, void *context);
__asm__(
    ".text\n.globl entry\nentry:\n"
    "  mov %rsp, start(%rip)\n  mov %rax, start+8(%rip)\n"
    "  pushf\n  popq start+16(%rip)\n"
    "  mov (%rsp), %rax\n  mov %rax, start+24(%rip)\n"
    "  stmxcsr start+32(%rip)\n  fnstcw start+36(%rip)\n  movups %xmm5, start+38(%rip)\n"
    "  jmp *handler_at(%rip)\n");
__attribute__((used)) static void (*handler_at)(int, siginfo_t *, void *) = handler;

static int what; // the handler is to do
enum { LOOK, SKIP, EDIT, NO_FP };

static void handler(int signo, siginfo_t *info, void *context) {
  ucontext_t *uc = context;
  greg_t *r = uc->uc_mcontext.gregs;
  handled++;
  handler_signo = signo;
  handler_info = info;
  handler_context = context;
  if (what == SKIP || what == EDIT || what == NO_FP) r[REG_RIP] += info->si_signo == SIGTRAP ? 0 : 2; // ud2
  if (what == EDIT) {
    r[REG_RBX] = 0x1234;
    r[REG_R15] = 0x5678;
    r[REG_EFL] |= 0x401; // DF, CF
    uc->uc_mcontext.fpregs->_xmm[7].element[1] = 0xabcd;
    uc->uc_mcontext.fpregs->mxcsr = 0x3f80;
  }
  if (what == NO_FP) uc->uc_mcontext.fpregs = NULL;
}

static void install(int signo, int flags) {
  struct sigaction a = {.sa_flags = SA_SIGINFO | flags};
  a.sa_handler = entry;
  sigaction(signo, &a, NULL);
}

static void look(const ucontext_t *uc) {
  const char *frame = (const char *)start.sp;
  const uint8_t *fp = (const uint8_t *)uc->uc_mcontext.fpregs;
  uint32_t sw[5], magic2;
  uint64_t header;
  CHECK(start.sp % 16 == 8 && start.rax == 0 && start.return_address);
  CHECK(!(start.flags & 0x500));
  CHECK(start.mxcsr == 0x1f80 && start.fcw == 0x37f);
  for (int i = 0; i < 16; i++) CHECK(start.xmm5[i] == 0);
  CHECK((const char *)uc == frame + 8 && (char *)handler_info == frame + 312);
  CHECK((uc->uc_flags & 7) == 7 && !uc->uc_link);
  CHECK((uintptr_t)fp % 64 == 0 && fp >= (const uint8_t *)frame + 440);
  CHECK((uc->uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == 0x33 && uc->uc_mcontext.gregs[REG_CSGSFS] >> 48 == 0x2b);
  memcpy(sw, fp + 464, sizeof sw);
  CHECK(sw[0] == MAGIC1 && sw[1] == sw[4] + 4 && sw[4] >= 576);
  memcpy(&magic2, fp + sw[4], 4);
  CHECK(magic2 == MAGIC2);
  memcpy(&header, fp + 512, 8);
  CHECK((header & 3) == 3);
}

int main(void) {
  install(SIGILL, 0);
  install(SIGTRAP, 0);
  install(SIGUSR1, 0);
  install(SIGFPE, 0);
  install(SIGSEGV, 0);

  what = SKIP;
  register uint64_t r15 __asm__("r15") = 15;
  uint64_t rbx = 3, sp, flags;
  __asm__ volatile("movl $0x1fa0, -4(%%rsp)\n ldmxcsr -4(%%rsp)\n pcmpeqd %%xmm5, %%xmm5\n mov %%rsp, %0\n"
                   "movq $77, -128(%%rsp)\n std\n ud2\n pushf\n pop %1\n cld\n mov -128(%%rsp), %2"
                   : "=&r"(sp), "=&r"(flags), "+b"(rbx)
                   : "r"(r15)
                   : "xmm5", "memory", "cc");
  CHECK(handled == 1 && handler_signo == SIGILL && rbx == 77 && flags & 0x400);
  const ucontext_t *uc = handler_context;
  look(uc);
  CHECK(start.sp < sp - 128);
  CHECK(uc->uc_mcontext.gregs[REG_RSP] == (greg_t)sp && uc->uc_mcontext.gregs[REG_R15] == 15);
  CHECK(uc->uc_mcontext.gregs[REG_TRAPNO] == 6 && uc->uc_mcontext.gregs[REG_ERR] == 0);
  CHECK(uc->uc_mcontext.gregs[REG_EFL] & 0x400);
  CHECK(uc->uc_mcontext.fpregs->mxcsr == 0x1fa0 && uc->uc_mcontext.fpregs->_xmm[5].element[3] == ~0u);
  uint32_t mxcsr;
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  CHECK(mxcsr == 0x1fa0);
  const siginfo_t *info = handler_info;
  CHECK(info->si_code == ILL_ILLOPN && (uintptr_t)info->si_addr + 2 == (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);

  what = EDIT;
  uint32_t xmm7[4];
  __asm__ volatile("xor %%r15d, %%r15d\n pxor %%xmm7, %%xmm7\n ud2\n movups %%xmm7, %2\n pushf\n pop %1\n cld"
                   : "=&b"(rbx), "=&r"(flags), "=m"(xmm7), "+r"(r15)
                   :
                   : "xmm7", "memory", "cc");
  CHECK(rbx == 0x1234 && r15 == 0x5678 && (flags & 0x401) == 0x401 && xmm7[1] == 0xabcd && xmm7[0] == 0);
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  CHECK(mxcsr == 0x3f80);

  what = NO_FP; // as after a start: all zero
  __asm__ volatile("pcmpeqd %%xmm7, %%xmm7\n ud2\n movups %%xmm7, %0" : "=m"(xmm7) : : "xmm7", "memory");
  CHECK(!(xmm7[0] | xmm7[1] | xmm7[2] | xmm7[3]));
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  CHECK(mxcsr == 0x1f80);

  what = SKIP;
  __asm__ volatile("int3");
  CHECK(handler_signo == SIGTRAP && ((siginfo_t *)handler_info)->si_code == SI_KERNEL);
  CHECK(((ucontext_t *)handler_context)->uc_mcontext.gregs[REG_TRAPNO] == 3);

  uint64_t pc, rax = 1, rdx = 0;
  __asm__ volatile("lea 1f(%%rip), %1\n 1: div %%cl\n nop" : "+a"(rax), "=&S"(pc), "+d"(rdx) : "c"(0) : "cc");
  CHECK(handler_signo == SIGFPE && ((siginfo_t *)handler_info)->si_code == FPE_INTDIV);
  CHECK((uint64_t)((siginfo_t *)handler_info)->si_addr == pc);
  CHECK(((ucontext_t *)handler_context)->uc_mcontext.gregs[REG_TRAPNO] == 0);

  // Page faults: a store (2 bytes long), a load from no canonical address.
  char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  __asm__ volatile("mov %%cl, (%%rax)" : : "a"(page + 5), "c"(1) : "memory");
  uc = handler_context;
  info = handler_info;
  CHECK(handler_signo == SIGSEGV && info->si_code == SEGV_ACCERR && info->si_addr == page + 5);
  CHECK(uc->uc_mcontext.gregs[REG_TRAPNO] == 14 && uc->uc_mcontext.gregs[REG_CR2] == (greg_t)(page + 5));
  CHECK((uc->uc_mcontext.gregs[REG_ERR] & ~1) == 6); // by the user, a write; protection if the page is there
  __asm__ volatile("mov (%%rax), %%cl" : : "a"(1ull << 62) : "rcx", "memory");
  uc = handler_context;
  info = handler_info;
  CHECK(info->si_code == SI_KERNEL && !info->si_addr && uc->uc_mcontext.gregs[REG_TRAPNO] == 13);

  // A jump to where no code is: the handler comes back to what follows.
  what = LOOK;
  stack_t alt = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  sigaltstack(&alt, NULL);
  install(SIGUSR1, SA_ONSTACK);
  raise(SIGUSR1);
  look(handler_context);
  CHECK((char *)start.sp > (char *)alt.ss_sp && (char *)start.sp < (char *)alt.ss_sp + alt.ss_size);
  CHECK(((ucontext_t *)handler_context)->uc_stack.ss_sp == alt.ss_sp);
  memset(alt.ss_sp, 0, alt.ss_size); // the process's id in it differs from run to run, and the final state is compared
  return guest_verdict();
}
