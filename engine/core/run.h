/* Private to core/: what sched.c, run.c, translate.c and instrument.c share beyond core.h. */
#ifndef CORE_RUN_H
#define CORE_RUN_H

#include "core/core.h"

#define CORE_QUANTUM 100000 /* instructions of one turn, if another thread is ready */

void core_sched_enter(CoreThread *t, bool first);         /* waits for the baton */
void core_sched_leave(CoreThread *t, CoreThreadState to); /* gives it up */
void core_sched_forget(CoreThread *t);
void core_controller_run(Emu *emu); /* until the world stops */
void core_controller_wake(Emu *emu);
_Noreturn void core_thread_vanish(CoreThread *t); /* ends the host thread, whatever it was doing */

/* Region of exactly one instruction (stepping up to an exact count). */
IrRegion *core_region_single(Emu *emu, uint64_t pc);
/* The first byte at or behind pc that keeps an instruction there from being fetched; why: si_code. */
uint64_t core_unfetchable(Emu *emu, uint64_t pc, int *code);
/* The same, to be executed once, now. */
IrRegion *core_region_once(Emu *emu, uint64_t pc);
IrLinks *core_links(const Emu *emu);
/* Frees regions that were dropped (true: there were some); only when no thread is inside one. */
bool core_reap(Emu *emu);
/* The block was left before its instruction at pc: takes back what its entry counted for the rest.
 */
void core_undo(CoreThread *t, const IrBlock *block, uint64_t pc);
/* lockstep.c: the copy of the state to run the interpreter on, NULL if the region cannot be
 * executed twice; and that run. */
IrState *core_lockstep_before(CoreThread *t, const IrRegion *r);
void core_lockstep_after(CoreThread *t, IrRegion *r, IrState *copy, const IrExit *x);
/* Turns the budget operation on (second thread, step, limit); stays on. */
void core_budget_on(Emu *emu);

void core_join_finished(Emu *emu);
void core_free_owned(Emu *emu); /* kit_close: what core_own registered */

/* hooks.c */
CoreHooks *core_hooks_new(Emu *emu);
void core_hooks_free(CoreHooks *h);
void core_hooks_fork_child(CoreThread *t); /* what is counted from now on is the child's own */
void core_hooks_thread_end(CoreThread *t); /* per-thread results are merged */
void core_raise_thread(CoreThread *t, bool created);
/* instrument.c: weaves what hooks and fast paths ask for into a region. */
void core_instrument(Emu *emu, IrRegion *r);
bool core_instruments(const Emu *emu); /* there is something to weave */
/* Somebody wants exact registers inside the region's blocks: no dead register writes may be
 * dropped. */
bool core_observes_insns(Emu *emu, const IrRegion *r);

#endif
