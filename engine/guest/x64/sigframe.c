/* Signal frames as Linux/x86-64 lays them out (arch/x86/kernel/signal.c, struct rt_sigframe):
 *
 *   sp + 0      return address      of the handler: sa_restorer
 *   sp + 8      ucontext            flags 8, link 8, stack {sp 8, flags 4, pad 4, size 8},
 *                                   sigcontext 256, sigmask 8
 *   sp + 312    siginfo             128 bytes
 *   aligned to 64, above it         XSAVE image, whose software-reserved bytes say how long it is,
 *                                   and FP_XSTATE_MAGIC2 behind it
 *
 * sp + 8 is a multiple of 16, as at every function's entry. 128 bytes below the interrupted stack
 * pointer belong to the interrupted function (System V ABI, 3.2.2). Handlers begin with vector and
 * x87 registers in their initial state. */
#include <signal.h>
#include <string.h>

#include "guest/x64/x64.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 };

#define RED_ZONE         128
#define IMAGE_ROOM       8192
#define SA_RESTORER_FLAG 0x04000000

/* uc_flags (asm/ucontext.h) */
enum { UC_FP_XSTATE_FLAG = 1, UC_SIGCONTEXT_SS_FLAG = 2, UC_STRICT_RESTORE_SS_FLAG = 4 };
/* Segment selectors of 64-bit user space (asm/segment.h) */
enum { USER_CS = 0x33, USER_DS = 0x2b };
/* The rest of rflags, beside IR_FLAG_* */
enum { FLAG_TF = 1 << 8, FLAG_RF = 1 << 16 };
#define RESTORED_FLAGS (IR_FLAGS_STATUS | IR_FLAG_DF | IR_FLAG_AC)

typedef struct SignalFrame {
  uint64_t return_address;
  uint64_t uc_flags, uc_link;
  uint64_t ss_sp;
  uint32_t ss_flags, ss_pad;
  uint64_t ss_size;
  uint64_t r8_r15[8], rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags;
  uint16_t cs, gs, fs, ss;
  uint64_t error_code, trap_no, old_mask, cr2;
  uint64_t fpstate;
  uint64_t reserved[8];
  uint64_t mask;
  uint8_t siginfo[128];
} SignalFrame;
_Static_assert(offsetof(SignalFrame, r8_r15) == 8 + 40 && offsetof(SignalFrame, mask) == 8 + 296 &&
                   sizeof(SignalFrame) == 440,
               "kernel's layout");

/* What the XSAVE image has at SW_AT (struct _fpx_sw_bytes, asm/sigcontext.h). */
typedef struct SoftwareBytes {
  uint32_t magic1, extended_size; /* the image with MAGIC2 */
  uint64_t xfeatures;
  uint32_t xstate_size, padding[7];
} SoftwareBytes;
enum { SW_AT = 464, LEGACY_SIZE = 512, HEADER_SIZE = 64 };
#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u
_Static_assert(SW_AT + sizeof(SoftwareBytes) == LEGACY_SIZE, "kernel's layout");

/* ---- floating point -------------------------------------------------------------------------- */

static bool push_vectors(const IrVectors *v, uint64_t va, const GuestMem *mem) {
  uint8_t image[IMAGE_ROOM];
  uint32_t size = (uint32_t)ir_xsave_size(), magic2 = MAGIC2;
  SoftwareBytes sw = {.magic1 = MAGIC1,
                      .extended_size = size + sizeof magic2,
                      .xfeatures = ir_xsave_features(),
                      .xstate_size = size};
  if (size + sizeof magic2 > sizeof image) return false;
  ir_xsave_from(v, image);
  memcpy(image + SW_AT, &sw, sizeof sw);
  memcpy(image + size, &magic2, sizeof magic2);
  return mem->write(mem->ctx, va, image, size + sizeof magic2);
}

/* An image without the marks of the extended form has only the legacy part (kernel:
 * check_xstate_in_sigframe). */
static bool pop_vectors(IrVectors *v, uint64_t va, const GuestMem *mem) {
  uint8_t image[IMAGE_ROOM];
  SoftwareBytes sw;
  uint32_t magic2, size = LEGACY_SIZE;
  if (!va) {
    ir_vectors_reset(v);
    return true;
  }
  if (!mem->read(mem->ctx, va, image, LEGACY_SIZE)) return false;
  memcpy(&sw, image + SW_AT, sizeof sw);
  if (sw.magic1 == MAGIC1 && sw.xstate_size >= LEGACY_SIZE + HEADER_SIZE &&
      sw.xstate_size <= ir_xsave_size() && sw.xstate_size <= sw.extended_size) {
    if (!mem->read(mem->ctx, va + sw.xstate_size, &magic2, sizeof magic2) ||
        !mem->read(mem->ctx, va, image, sw.xstate_size))
      return false;
    if (magic2 == MAGIC2) size = sw.xstate_size;
  }
  ir_xsave_to(v, image, size);
  return true;
}

/* ---- faults ---------------------------------------------------------------------------------- */

enum { TRAP_BREAKPOINT = 3, TRAP_INVALID_OPCODE = 6, TRAP_PAGE_FAULT = 14 };
enum { ERROR_PROTECTION = 1, ERROR_USER = 4, ERROR_FETCH = 16 }; /* Intel SDM vol. 3, 4.7 */

/* Vector, error code and CR2 of a fault: the host's, or what the host would have had for one that
 * was found in translating. */
static void describe_fault(SignalFrame *f, const GuestSignal *sig) {
  siginfo_t info;
  memcpy(&info, sig->siginfo, sizeof info);
  f->trap_no = sig->trap_no;
  f->error_code = sig->error_code;
  if (info.si_code <= 0) return;
  if (sig->signo == SIGILL) f->trap_no = TRAP_INVALID_OPCODE;
  if (sig->signo == SIGTRAP && !f->trap_no) f->trap_no = TRAP_BREAKPOINT;
  if (sig->signo == SIGSEGV && info.si_code != SI_KERNEL && !f->trap_no) {
    f->trap_no = TRAP_PAGE_FAULT;
    f->error_code = ERROR_USER | ERROR_FETCH | (info.si_code == SEGV_ACCERR ? ERROR_PROTECTION : 0);
  }
  if (f->trap_no == TRAP_PAGE_FAULT) f->cr2 = sig->fault_address;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void save_registers(SignalFrame *f, const X64State *s) {
  memcpy(f->r8_r15, s->gpr + R8, sizeof f->r8_r15);
  f->rdi = s->gpr[RDI];
  f->rsi = s->gpr[RSI];
  f->rbp = s->gpr[RBP];
  f->rbx = s->gpr[RBX];
  f->rdx = s->gpr[RDX];
  f->rax = s->gpr[RAX];
  f->rcx = s->gpr[RCX];
  f->rsp = s->gpr[RSP];
  f->rip = s->ir.pc;
  f->rflags = s->rflags;
}

static void restore_registers(X64State *s, const SignalFrame *f) {
  memcpy(s->gpr + R8, f->r8_r15, sizeof f->r8_r15);
  s->gpr[RDI] = f->rdi;
  s->gpr[RSI] = f->rsi;
  s->gpr[RBP] = f->rbp;
  s->gpr[RBX] = f->rbx;
  s->gpr[RDX] = f->rdx;
  s->gpr[RAX] = f->rax;
  s->gpr[RCX] = f->rcx;
  s->gpr[RSP] = f->rsp;
  s->ir.pc = f->rip;
  s->rflags = (s->rflags & ~(uint64_t)RESTORED_FLAGS) | (f->rflags & RESTORED_FLAGS);
}

static bool on_altstack(const GuestSignal *sig, uint64_t sp) {
  return sp > sig->altstack_sp && sp - sig->altstack_sp <= sig->altstack_size;
}

bool x64_signal_push(IrState *st, const GuestSignal *sig, const GuestMem *mem) {
  X64State *s = (X64State *)st;
  uint64_t sp = s->gpr[RSP];
  bool alternate = sig->on_altstack || on_altstack(sig, sp);
  if (!(sig->flags & SA_RESTORER_FLAG)) return false; /* kernel: x64_setup_rt_frame */
  sp = sig->on_altstack ? sig->altstack_sp + sig->altstack_size : sp - RED_ZONE;
  uint64_t fpstate = (sp - (ir_xsave_size() + sizeof(uint32_t))) & ~63ull;
  sp = ((fpstate - sizeof(SignalFrame)) & ~15ull) - 8;
  if (alternate && !on_altstack(sig, sp)) return false; /* overflows it */
  SignalFrame f = {.return_address = sig->restorer,
                   .uc_flags =
                       UC_FP_XSTATE_FLAG | UC_SIGCONTEXT_SS_FLAG | UC_STRICT_RESTORE_SS_FLAG,
                   .ss_sp = sig->altstack_sp,
                   .ss_flags = sig->altstack_flags,
                   .ss_size = sig->altstack_size,
                   .cs = USER_CS,
                   .ss = USER_DS,
                   .old_mask = sig->mask,
                   .fpstate = fpstate,
                   .mask = sig->mask};
  save_registers(&f, s);
  describe_fault(&f, sig);
  memcpy(f.siginfo, sig->siginfo, sizeof f.siginfo);
  if (!push_vectors(&s->vectors, fpstate, mem) || !mem->write(mem->ctx, sp, &f, sizeof f))
    return false;
  s->gpr[RDI] = (uint64_t)sig->signo;
  s->gpr[RSI] = sp + offsetof(SignalFrame, siginfo);
  s->gpr[RDX] = sp + offsetof(SignalFrame, uc_flags);
  s->gpr[RAX] = 0;
  s->gpr[RSP] = sp;
  s->rflags &= ~(uint64_t)(IR_FLAG_DF | FLAG_TF | FLAG_RF);
  ir_vectors_reset(&s->vectors);
  st->pc = sig->handler;
  return true;
}

/* The handler's `ret` has popped the return address; what the signal interrupted goes on. */
bool x64_signal_pop(IrState *st, GuestSignal *out, const GuestMem *mem) {
  X64State *s = (X64State *)st;
  SignalFrame f;
  if (!mem->read(mem->ctx, s->gpr[RSP] - sizeof f.return_address, &f, sizeof f) ||
      !pop_vectors(&s->vectors, f.fpstate, mem))
    return false;
  restore_registers(s, &f);
  out->mask = f.mask;
  out->altstack_sp = f.ss_sp;
  out->altstack_size = f.ss_size;
  out->altstack_flags = f.ss_flags;
  return true;
}
