/* The x86-64 guest: its state, and what its files share.
 *
 * There are no micro-operations yet: every instruction becomes a native operation (ir/native.h) or
 * a call of a helper. Registers live in the host's own while translated code runs; X64State has
 * them whenever C runs. */
#ifndef GUEST_X64_X64_H
#define GUEST_X64_X64_H

#include "guest/guest.h"
#include "ir/native.h"

typedef struct X64State {
  IrState ir;
  uint64_t gpr[16]; /* rax rcx rdx rbx rsp rbp rsi rdi r8 .. r15 */
  uint64_t rflags, fs_base, gs_base;
  uint64_t cpu; /* the model that cpuid shows (X64Cpu) */
  IrVectors vectors;
} X64State;

extern const Guest x64_guest;
#define X64_MNEMONICS 2048 /* more than Zydis has */

/* decode.c */
GuestDecode x64_decode(const uint8_t *code, size_t avail, uint64_t pc, GuestInsn *out);
void x64_lift(IrBuilder *b, const GuestInsn *insn);
uint16_t x64_dead_flags(const uint8_t *code, size_t avail, uint64_t pc);
const char *x64_insn_name(uint16_t id);
/* disasm.c */
int x64_disasm(const GuestInsn *insn, char *buf, size_t size);
/* cpu.c: cpuid, xgetbv and the models */
enum { X64_BASE_GS = 1, X64_BASE_WRITE = 2, X64_BASE_32 = 4 };
extern const IrHelper x64_cpuid, x64_xgetbv, x64_base;
bool x64_set_cpu(IrState *s, const char *model);
bool x64_shows_feature(const IrState *s, const char *name);
/* sigframe.c */
bool x64_signal_push(IrState *s, const GuestSignal *sig, const GuestMem *mem);
bool x64_signal_pop(IrState *s, GuestSignal *out, const GuestMem *mem);

#endif
