/* Shadow call stack and calling-context tree; see below. */
#ifndef IR_CALLSTACK_H
#define IR_CALLSTACK_H

#include "ir/state.h"

void ir_callstack_call(IrCallStack *cs, IrState *s, const IrCallSite *site, uint64_t callee, uint64_t sp);
void ir_callstack_ret(IrCallStack *cs, IrState *s, uint64_t ret_pc, uint64_t sp);
void ir_callstack_jump(IrCallStack *cs, IrState *s, const IrCallSite *site, uint64_t target, uint64_t sp);

#endif
