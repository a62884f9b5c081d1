/* Probes: how observers put operations into translated code.
 *
 * The instrumentation pass (instrument.c) walks every region once and offers each *site* to each
 * probe whose mask names its kind; a probe that wants it emits IR operations there, through the
 * weaver. Hooks are probes (hooks.c), and so are the fast paths: counters, call graphs, rings,
 * plane checks (fast/). Nothing else ever adds operations to a region, so what nobody asked for is
 * not in the code.
 *
 *   block:  [budget] [retired count] SITE_BLOCK
 *   insn:   SITE_EXEC, then for each memory access SITE_ACCESS before it, then SITE_BRANCH (a
 *           branch's decision is known), SITE_RETIRE
 *
 * Example, a counter of loads: sites = 1 << SITE_ACCESS, wants = site->is_read,
 * emit = core_emit(w, IR_count, 1, 0, 0, slot).
 */
#ifndef CORE_PROBE_H
#define CORE_PROBE_H

#include "core/core.h"

typedef enum CoreSiteKind {
  SITE_BLOCK,
  SITE_EXEC,
  SITE_ACCESS,
  SITE_BRANCH,
  SITE_REPEAT, /* a repeated string instruction was done, `extra` times beyond the first */
  SITE_RETIRE
} CoreSiteKind;

typedef struct CoreSite {
  CoreSiteKind kind;
  const IrRegion *region;
  const IrBlock *block;
  const IrInsn *insn; /* NULL for SITE_BLOCK */
  uint64_t pc;        /* of insn or block */
  /* SITE_ACCESS: */
  IrRef addr, value; /* effective address; stored value, 0 for loads */
  uint32_t size;
  bool is_read, is_write;
  bool by_sp;       /* relative to the stack pointer, in the function's frame or its caller's */
  uint64_t address; /* where it is always the same; else 0 */
  /* SITE_BRANCH: insn->branch says the kind */
  IrRef to;      /* where it goes, as a value */
  IrRef taken;   /* COND: non-zero if taken; else 0 */
  uint32_t pops; /* RET: bytes it takes off the stack */
  IrRef extra;   /* SITE_REPEAT */
} CoreSite;

typedef struct CoreWeaver CoreWeaver;
typedef struct CoreProbe CoreProbe;

struct CoreProbe {
  uint32_t sites;      /* 1 << CoreSiteKind */
  uint64_t pc, pc_len; /* wants sites in this range only; pc_len 0: anywhere */
  bool may_stop; /* may set the state's stop flag: the pass adds stop_if_asked behind its sites */
  bool (*wants)(CoreProbe *p, const CoreSite *site); /* NULL: all of its kinds */
  void (*emit)(CoreProbe *p, CoreWeaver *w, const CoreSite *site);
  /* SITE_ACCESS: a value that is 0 if no access within these bytes would matter. May be NULL. */
  IrRef (*near)(CoreProbe *p, CoreWeaver *w, IrRef addr, uint32_t size);
  /* The block was entered (its SITE_BLOCK operations ran) but only its first `retired` instructions
   * were. May be NULL. */
  void (*undo)(CoreProbe *p, CoreThread *t, const IrBlock *block, uint32_t retired);
  void (*thread_start)(
      CoreProbe *p,
      CoreThread *t); /* may be NULL; also called for threads that live when the probe is added */
  void (*thread_end)(CoreProbe *p, CoreThread *t); /* merge per-thread results; may be NULL */
  void (*fork_child)(CoreProbe *p,
                     CoreThread *t); /* t is the one thread of the child; may be NULL */
  CoreProbe *next;
};

/* Both flush the translations, also mid-run. */
void core_probe_add(Emu *emu, CoreProbe *p);
void core_probe_remove(Emu *emu, CoreProbe *p);

CoreProbe *core_probes(const Emu *emu);

IrRef core_emit(CoreWeaver *w, IrOpcode code, IrRef a, IrRef b, IrRef c, uint64_t imm);
IrRef core_emit_imm(CoreWeaver *w, uint64_t value);
/* Memory that lives as long as the region (sites, callouts). */
void *core_weaver_alloc(CoreWeaver *w, size_t size);
/* Conditions of a filter that are not decided statically at this site, ANDed: 0 if there are none.
 * `nth` is the filter's own countdown, used if filter->every > 1. */
IrRef core_emit_filter(CoreWeaver *w, const KitFilter *f, const CoreSite *site, IrNth *nth);
/* The static part: false if the filter cannot match here. */
bool core_filter_site(const KitFilter *f, const CoreSite *site);
/* The event kind (KIT_EV_LOAD ... KIT_EV_COND) matches this site. */
bool core_event_site(KitEventKind event, const CoreSite *site);
/* Sites (mask) at which an event kind happens; 0 if it does not happen in translated code. */
uint32_t core_event_sites(KitEventKind event);
/* guard: operations emitted between begin and end run only if cond (0: always) is not zero. */
uint32_t core_guard_begin(CoreWeaver *w, IrRef cond);
void core_guard_end(CoreWeaver *w, uint32_t guard);

/* A free 8-byte counter in every thread's counter area: its byte offset, for IR_count. 0: none
 * left. */
uint64_t core_counter_alloc(Emu *emu);

#endif
