/* What an instruction reads, writes and accesses, from Zydis's operands. */
#ifndef GUEST_X64_EFFECTS_H
#define GUEST_X64_EFFECTS_H

#include <Zydis/Zydis.h>

#include "guest/x64/x64.h"

typedef struct X64Decoded {
  ZydisDecodedInstruction insn;
  ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
} X64Decoded;

/* Fills all of n but bytes, len, pops and the fixes of branches. */
void x64_effects(const X64Decoded *d, uint64_t pc, IrNative *n);
/* elements.c: accesses that depend on vector or mask registers, or on a bit's number: sets
 * n->element where accesses[0], which is o's, is such a one. */
void x64_elements(const X64Decoded *d, const ZydisDecodedOperand *o, IrNative *n);
void x64_zeroes_line(IrNative *n); /* likewise, for clzero */

#endif
