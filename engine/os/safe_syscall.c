/* Host calls that may block, and how a signal interrupts them.
 *
 * A signal that comes after the last look at `interrupt` but before the kernel has the call would
 * be lost until the call returns. So the host's handler asks os_safe_interrupted where it found the
 * thread:
 *
 *   os_safe_start     cmpl $0, (interrupt)        before the call: it is not made (OS_ENOTRUN)
 *                     jne os_safe_abort
 *   os_safe_insn      syscall                     rcx = 0: before the call; rcx = os_safe_end: the
 *                                                 kernel was in it, stepped back to this
 *   os_safe_end       ret                         instruction because SA_RESTART would make it
 *                                                 again (OS_ERESTART)
 *
 * The handlers have SA_RESTART, so the kernel itself says which interrupted calls are of the kind
 * that the guest's own SA_RESTART restarts; those that never are give -EINTR. (`syscall` leaves the
 * address behind it in rcx: AMD64 manual, vol. 3.) It also keeps the engine's own calls and those
 * of hooks, made by libc, from failing with EINTR. */
#include <errno.h>
#include <ucontext.h>

#include "os/os.h"

extern char os_safe_start[] __attribute__((visibility("hidden"))),
    os_safe_insn[] __attribute__((visibility("hidden"))),
    os_safe_end[] __attribute__((visibility("hidden"))),
    os_safe_abort[] __attribute__((visibility("hidden"))),
    os_safe_restart[] __attribute__((visibility("hidden")));

_Static_assert(OS_ERESTART == -512 && OS_ENOTRUN == -513, "as the assembly below has them");
__asm__(".text\n"
        ".globl os_safe_call, os_safe_start, os_safe_insn, os_safe_end, os_safe_abort, "
        "os_safe_restart\n"
        ".hidden os_safe_call, os_safe_start, os_safe_insn, os_safe_end, os_safe_abort, "
        "os_safe_restart\n"
        ".type os_safe_call, @function\n"
        "os_safe_call:\n" /* rdi: &interrupt, rsi: number, rdx: arguments */
        "  mov %rdx, %rcx\n"
        "  mov %rdi, %r11\n"
        "  mov %rsi, %rax\n"
        "  mov 0(%rcx), %rdi\n"
        "  mov 8(%rcx), %rsi\n"
        "  mov 16(%rcx), %rdx\n"
        "  mov 24(%rcx), %r10\n"
        "  mov 32(%rcx), %r8\n"
        "  mov 40(%rcx), %r9\n"
        "  xor %ecx, %ecx\n"
        "os_safe_start:\n"
        "  cmpl $0, (%r11)\n"
        "  jne os_safe_abort\n"
        "os_safe_insn:\n"
        "  syscall\n"
        "os_safe_end:\n"
        "  ret\n"
        "os_safe_abort:\n"
        "  mov $-513, %rax\n"
        "  ret\n"
        "os_safe_restart:\n"
        "  mov $-512, %rax\n"
        "  ret\n"
        ".size os_safe_call, . - os_safe_call\n");

void os_safe_interrupted(void *context) {
  greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
  const char *pc = (const char *)(uintptr_t)regs[REG_RIP];
  if (pc < os_safe_start || pc > os_safe_insn) return;
  bool was_made = pc == os_safe_insn && regs[REG_RCX] == (greg_t)(uintptr_t)os_safe_end;
  regs[REG_RIP] = (greg_t)(uintptr_t)(was_made ? os_safe_restart : os_safe_abort);
}

int64_t os_blocking(CoreThread *t, long nr, const long args[6]) {
  bool shared = t->emu->n_threads > 1 || !t->emu->is_child; /* the controller may want to stop us */
  if (shared) core_block_begin(t);
  int64_t r = os_safe_call(&t->state->interrupt, nr, args);
  if (shared) core_block_end(t);
  return r;
}

/* Waiting in the scheduler, with the same results. The deadline of a wait that is made again
 * without a handler in between is the first one's. */
uint64_t os_deadline(CoreThread *t, uint64_t ns) {
  OsThread *o = os_thread(t);
  if (!o->deadline) o->deadline = core_clock(t->emu) + ns;
  return o->deadline;
}

int64_t os_wait(CoreThread *t, uint64_t key, uint32_t mask, uint64_t deadline) {
  int r = core_wait(t, key, mask, deadline);
  if (r != -EINTR) return r;
  if (!os_thread(t)->pending) return OS_ENOTRUN; /* the world was stopped, nothing else */
  return deadline == UINT64_MAX ? OS_ERESTART : -EINTR;
}
