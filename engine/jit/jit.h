/* The JIT: regions -> x86-64 code, and running it. It does what ir_interp does, with the same
 * exits.
 *
 *   Jit *jit = jit_new(&guest->convention, JIT_CODE_SIZE, 0);
 *   jit_thread_start(state);                      on each host thread that will run guest code:
 *                                                 sets its gs base
 *   if (!jit_compile(jit, region)) ...            cache full: drop all regions, jit_reset, again
 *   IrExit x = jit_run(jit, region, state, true);
 *   jit_link(jit, x.succ, next_region);           from now on that exit jumps to next_region
 *
 * What is where in translated code:
 *   gs:                              the state (IrState): all guest registers, values that found no
 *                                    register, counters, the target table
 *   rbx rbp rdi r8-r15, xmm4-xmm15   pinned guest registers (IrConvention), from region to region
 *   rax rcx rdx rsi, xmm0-xmm3       scratch: values of the current block
 *   rsp                              the host stack, as jit_run's caller left it
 *   MXCSR                            rounding mode and accrued exception flags of the guest
 *
 * Every way out of a region is a *site*: a rel32 jump that leads to its stub (which leaves with the
 * site's number) or, once linked, to another region. Back-edges inside regions are sites too: they
 * lead to their block. To break a region is to point all its sites at their stubs: that is how
 * asynchronous signals interrupt code that polls nothing (jit_interrupt), and how regions die.
 * Sites of a broken region are restored by the next jit_run.
 *
 * The code is mapped twice, writable and executable, never both. Memory is reused only after
 * jit_reset. */
#ifndef JIT_JIT_H
#define JIT_JIT_H

#include <stdbool.h>
#include <stddef.h>

#include "ir/ir.h"

typedef struct Jit Jit;

#define JIT_CODE_SIZE (64u << 20)
#define JIT_MIN_SIZE  (256u << 10)

/* Host features to leave alone although the host has them (for tests of the others). JIT_EXACT:
 * native operations find the guest's flags at every fault, also those that nobody else will read. */
enum { JIT_NO_BMI = 1, JIT_NO_FMA = 2, JIT_EXACT = 4 };

/* NULL: no memory for the code (message in errno). */
Jit *jit_new(const IrConvention *convention, size_t code_size, unsigned without);
void jit_free(Jit *j);
/* false: the code cache is full. */
bool jit_compile(Jit *j, IrRegion *r);
/* From the next jit_reset on, the retired-instruction count (counter 0) is kept in a register. */
void jit_count_retired(Jit *j);
/* All regions are gone; no thread is inside translated code. */
void jit_reset(Jit *j);
/* The region is never entered again, and left at the next chance by who is inside. */
void jit_drop(Jit *j, IrRegion *r);
/* The region is about to be freed. */
void jit_forget(Jit *j, IrRegion *r);
/* Runs from the region's entry until somebody has to decide; chain: through linked regions and
 * known targets. */
IrExit jit_run(Jit *j, IrRegion *r, IrState *s, bool chain);
void jit_link(Jit *j, IrSucc *succ, IrRegion *r);
/* Forgets the thread's indirect targets. */
void jit_forget_targets(Jit *j, IrState *s);
void jit_thread_start(IrState *s);
/* Called with all signals blocked, before and after fork; the child gets code memory of its own.
 * false: no memory. */
bool jit_before_fork(Jit *j);
void jit_after_fork(Jit *j, bool child);
/* A host fault with this context (ucontext_t). If the guest's instruction made it in translated
 * code, completes the state: registers, pc, block. true: it was not the guest's, and the context
 * goes on behind it. */
bool jit_host_fault(Jit *j, IrState *s, void *ucontext);
/* The context is in the code of a region that was dropped. */
bool jit_in_dropped(const Jit *j, const void *ucontext);
/* In a signal handler on the thread of s, once s->interrupt is set: translated code leaves at its
 * next site. */
void jit_interrupt(Jit *j, IrState *s, void *ucontext);
/* jit_reset is wanted before the next region is made. */
bool jit_wants_reset(const Jit *j);
/* Bytes of code in use. */
size_t jit_code_used(const Jit *j);
/* For tests and dumps: where a region's code is, how long, and how much of that is not put aside as
 * unlikely. */
const uint8_t *jit_code(const Jit *j, const IrRegion *r, size_t *size, size_t *hot);

#endif
