/* Signal frames as Linux/riscv64 lays them out (arch/riscv/kernel/signal.c, struct rt_sigframe):
 *
 *   sp + 0      siginfo           128 bytes
 *   sp + 128    ucontext          flags 8, link 8, stack {sp 8, flags 4, pad 4, size 8},
 *                                 sigmask 8 and padding up to 128, 8 for 16-byte alignment
 *   sp + 304    sigcontext        pc 8, x1..x31
 *   sp + 560    floating point    f0..f31, fcsr 4, padding up to 528 (room for quads)
 *
 * All registers are saved and restored; fcsr stays as it is for the handler. */
#include <string.h>

#include "guest/rv64/rv64.h"

typedef struct SignalFrame {
  uint8_t siginfo[128];
  uint64_t uc_flags, uc_link;
  uint64_t ss_sp;
  uint32_t ss_flags, ss_pad;
  uint64_t ss_size;
  uint64_t mask;
  uint8_t mask_pad[120];
  uint64_t pad;
  uint64_t pc, x[31]; /* x1..x31 */
  uint64_t f[32];
  uint32_t fcsr;
  uint8_t fp_pad[528 - 256 - 4];
} SignalFrame;
_Static_assert(offsetof(SignalFrame, pc) == 128 + 176 &&
                   offsetof(SignalFrame, f) == 128 + 176 + 256,
               "kernel's layout");

bool rv64_signal_push(IrState *st, const GuestSignal *sig, const GuestMem *mem) {
  Rv64State *s = (Rv64State *)st;
  SignalFrame f = {.ss_sp = sig->altstack_sp,
                   .ss_flags = sig->altstack_flags,
                   .ss_size = sig->altstack_size,
                   .mask = sig->mask,
                   .pc = st->pc};
  memcpy(f.siginfo, sig->siginfo, sizeof f.siginfo);
  memcpy(f.x, s->x + 1, sizeof f.x);
  memcpy(f.f, s->f, sizeof f.f);
  f.fcsr = (uint32_t)(st->fp_flags | st->fp_rm << 5);
  uint64_t sp = sig->on_altstack ? sig->altstack_sp + sig->altstack_size : s->x[2];
  sp = (sp - sizeof f) & ~15ull;
  if (!mem->write(mem->ctx, sp, &f, sizeof f)) return false;
  s->x[1] = sig->restorer ? sig->restorer : sig->trampoline;
  s->x[2] = sp;
  s->x[10] = (uint64_t)sig->signo;
  s->x[11] = sp;
  s->x[12] = sp + offsetof(SignalFrame, uc_flags);
  s->lr_addr = RV64_NO_RESERVATION;
  st->pc = sig->handler;
  return true;
}

bool rv64_signal_pop(IrState *st, GuestSignal *out, const GuestMem *mem) {
  Rv64State *s = (Rv64State *)st;
  SignalFrame f;
  if (s->x[2] & 15 || !mem->read(mem->ctx, s->x[2], &f, sizeof f)) return false;
  memcpy(s->x + 1, f.x, sizeof f.x);
  memcpy(s->f, f.f, sizeof f.f);
  st->fp_flags = f.fcsr & 31;
  st->fp_rm = f.fcsr >> 5 & 7;
  s->lr_addr = RV64_NO_RESERVATION;
  st->pc = f.pc & ~1ull;
  out->mask = f.mask;
  out->altstack_sp = f.ss_sp;
  out->altstack_size = f.ss_size;
  out->altstack_flags = f.ss_flags;
  return true;
}
