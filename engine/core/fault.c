/* Host faults on guest accesses. The guest's loads and stores are plain host accesses, so a bad one
 * arrives as a host SIGSEGV or SIGBUS on the thread that made it, while t->in_guest is set. A store
 * to a page that is write-protected only because translations were made from it is let through (the
 * translations are dropped); anything else unwinds to guest_loop, which makes a guest fault of it:
 * state->pc names the instruction exactly.
 *
 * os/signal.c owns the dispositions and calls core_host_fault first. */
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "core/run.h"
#include "jit/jit.h"

#define SIGSTACK_SIZE    (64u << 10)
#define PAGE_FAULT_WRITE 2 /* error code bit of the x86 page fault: Intel SDM vol. 3, 4.7 */

void core_fault_thread(CoreThread *t) {
  t->sigstack =
      mmap(NULL, SIGSTACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (t->sigstack == MAP_FAILED) base_oom(SIGSTACK_SIZE);
  stack_t ss = {.ss_sp = t->sigstack, .ss_size = SIGSTACK_SIZE};
  sigaltstack(&ss, NULL);
}

void core_fault_thread_end(CoreThread *t) {
  sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
  munmap(t->sigstack, SIGSTACK_SIZE);
}

bool core_host_fault(int signo, siginfo_t *info, void *ucontext) {
  CoreThread *t = core_self();
  if (!t || !t->in_guest || info->si_code <= 0) return false; /* not ours, or sent by kill */
  uint64_t va = (uint64_t)(uintptr_t)info->si_addr;
  const ucontext_t *uc = ucontext;
  bool is_write = uc->uc_mcontext.gregs[REG_ERR] & PAGE_FAULT_WRITE;
  if (signo == SIGSEGV && is_write && core_unprotect_code(t->emu, va)) {
    if (!t->emu->guest->coherent_code || !jit_in_dropped(t->emu->jit, uc)) return true;
    t->store_again = true; /* what comes next may have changed: leave the region */
  }
  if (t->emu->jit && jit_host_fault(t->emu->jit, t->state, ucontext)) return true;
  t->host_fault.signo = signo;
  t->host_fault.code = info->si_code;
  t->host_fault.address = va;
  t->host_fault.is_write = is_write;
  if (!t->store_again) { /* a fault of the guest's */
    t->host_fault.trap_no = (uint64_t)uc->uc_mcontext.gregs[REG_TRAPNO];
    t->host_fault.error_code = (uint64_t)uc->uc_mcontext.gregs[REG_ERR];
  }
  siglongjmp(t->fault_env, 1);
}
