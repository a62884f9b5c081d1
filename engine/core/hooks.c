/* Hooks: the registry, filters for events raised from C, and the callouts from translated code. See
 * kit/emu.h. */
#include "core/hooks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/run.h"

static const char *const event_names[KIT_EV_EVENTS] = {
    [KIT_EV_EXEC] = "exec",     [KIT_EV_INSN] = "insn",       [KIT_EV_BLOCK] = "block",
    [KIT_EV_BRANCH] = "branch", [KIT_EV_CALL] = "call",       [KIT_EV_RET] = "ret",
    [KIT_EV_JUMP] = "jump",     [KIT_EV_COND] = "cond",       [KIT_EV_LOAD] = "load",
    [KIT_EV_STORE] = "store",   [KIT_EV_ACCESS] = "access",   [KIT_EV_MAP] = "map",
    [KIT_EV_UNMAP] = "unmap",   [KIT_EV_PROTECT] = "protect", [KIT_EV_SYSCALL] = "syscall",
    [KIT_EV_SYSRET] = "sysret", [KIT_EV_SIGNAL] = "signal",   [KIT_EV_FAULT] = "fault",
    [KIT_EV_THREAD] = "thread", [KIT_EV_IMAGE] = "image",     [KIT_EV_EXIT] = "exit",
    [KIT_EV_FORK] = "fork",
};

const char *kit_event_name(KitEventKind e) { return e < KIT_EV_EVENTS ? event_names[e] : "?"; }

int kit_event_find(const char *name) {
  for (int e = 0; e < KIT_EV_EVENTS; e++)
    if (!strcmp(event_names[e], name)) return e;
  return -1;
}

CoreHooks *core_hooks_new(Emu *emu) {
  (void)emu;
  CoreHooks *h = xcalloc(1, sizeof *h);
  h->next_counter = 8 * IR_RETIRED;
  return h;
}

void core_hooks_free(CoreHooks *h) {
  for (int e = 0; e < KIT_EV_EVENTS; e++)
    for (KitHook *k = h->by_event[e], *next; k; k = next) {
      next = k->next;
      if (k->on_free) k->on_free(k);
      free(k);
    }
  free(h->woven);
  free(h->renamed);
  free(h);
}

/* ---- probes ---------------------------------------------------------------------------------- */

/* Translations that `changed` affects are dropped: those of its pc range, or all. */
static void refresh(Emu *emu, const CoreProbe *changed) {
  CoreHooks *h = emu->hooks;
  h->sites = 0;
  for (CoreProbe *p = h->probes; p; p = p->next) h->sites |= p->sites;
  if (changed->pc_len)
    core_invalidate(emu, changed->pc, changed->pc_len);
  else
    core_flush(emu);
}

void core_probe_add(Emu *emu, CoreProbe *p) {
  CoreProbe **q = &emu->hooks->probes;
  while (*q) q = &(*q)->next; /* registration order */
  *q = p;
  p->next = NULL;
  for (CoreThread *t = emu->threads; t && p->thread_start; t = t->next) p->thread_start(p, t);
  refresh(emu, p);
}

void core_probe_remove(Emu *emu, CoreProbe *p) {
  for (CoreProbe **q = &emu->hooks->probes; *q; q = &(*q)->next)
    if (*q == p) {
      *q = p->next;
      break;
    }
  refresh(emu, p);
}

CoreProbe *core_probes(const Emu *emu) { return emu->hooks->probes; }

uint64_t core_counter_alloc(Emu *emu) {
  CoreHooks *h = emu->hooks;
  if (h->next_counter + 8 > IR_NATIVE_TARGETS_AT - IR_COUNTERS_AT) return 0;
  h->next_counter += 8;
  return h->next_counter - 8;
}

void core_undo(CoreThread *t, const IrBlock *block, uint64_t pc) {
  if (!block) return;
  const IrInsn *insns = block->region->insns + block->first_insn;
  uint32_t retired = 0;
  while (retired < block->n_insns && insns[retired].pc != pc) retired++;
  if (retired == block->n_insns) return;
  uint32_t missing = block->n_insns - retired;
  if (t->emu->budget_on) t->state->budget += missing;
  if (t->emu->opt.count_insns) *ir_counter(t->state, 0) -= missing;
  for (CoreProbe *p = t->emu->hooks->probes; p; p = p->next)
    if (p->undo) p->undo(p, t, block, retired);
}

void core_hooks_fork_child(CoreThread *t) {
  for (CoreProbe *p = t->emu->hooks->probes; p; p = p->next)
    if (p->fork_child) p->fork_child(p, t);
}

void core_hooks_thread_end(CoreThread *t) {
  for (CoreProbe *p = t->emu->hooks->probes; p; p = p->next)
    if (p->thread_end) p->thread_end(p, t);
}

/* ---- raising --------------------------------------------------------------------------------- */

static KitStopReason stop_reason(const KitHook *h) {
  if (h->spec.fn) return KIT_STOP_HOOK;
  return core_event_sites(h->spec.event) & 1u << SITE_ACCESS ? KIT_STOP_WATCH : KIT_STOP_BREAKPOINT;
}

static void ask_stop(CoreThread *t, KitHook *h, const KitEvent *ev) {
  Emu *emu = t->emu;
  if (!t->stop_asked) {
    emu->stop = (KitStop){.reason = stop_reason(h), .tid = t->tid, .pc = ev->pc, .hook = h};
    if (ev->kind == KIT_EV_LOAD || ev->kind == KIT_EV_STORE || ev->kind == KIT_EV_ACCESS) {
      emu->stop.address = ev->access.addr;
      emu->stop.size = ev->access.size;
      emu->stop.is_write = ev->access.is_write;
    }
  }
  t->stop_asked = true;
  t->state->stop = t->state->interrupt = 1;
}

/* One hook that matched. */
static int call(CoreThread *t, KitHook *h, KitEvent *ev) {
  h->hits++;
  int v = h->spec.fn ? h->spec.fn(h->spec.user, t->emu, ev) : KIT_STOP;
  if (v & KIT_STOP) ask_stop(t, h, ev);
  if (h->spec.temporary && !h->dead) {
    KitHook *closing = h;
    kit_hook_close(&closing);
  }
  return v;
}

static bool overlaps(uint64_t a, uint64_t an, uint64_t b, uint64_t bn) {
  return !bn || (a < b + bn && b < a + an);
}

static bool marked(CorePlane *p, uint64_t addr, uint64_t size) {
  uint64_t where;
  uint8_t value;
  return core_plane_find(p, addr, size, &where, &value);
}

/* Filters for events raised from C. */
static bool matches(KitHook *h, const KitEvent *ev) {
  const KitFilter *f = &h->spec.filter;
  if (h->dead) return false;
  if (f->tid && f->tid != ev->tid) return false;
  if (f->pc_len && ev->pc - f->pc >= f->pc_len) return false;
  switch (ev->kind) {
  case KIT_EV_LOAD:
  case KIT_EV_STORE:
  case KIT_EV_ACCESS:
    if (!overlaps(ev->access.addr, ev->access.size, f->addr, f->addr_len)) return false;
    if (f->size_min && ev->access.size < f->size_min) return false;
    if (f->size_max && ev->access.size > f->size_max) return false;
    if (h->plane && !(h->check.unmapped && !ev->access.host) &&
        !marked(h->plane, ev->access.addr, ev->access.size))
      return false;
    break;
  case KIT_EV_MAP:
  case KIT_EV_UNMAP:
  case KIT_EV_PROTECT:
    if (!overlaps(ev->map.addr, ev->map.len, f->addr, f->addr_len)) return false;
    break;
  case KIT_EV_SYSCALL:
  case KIT_EV_SYSRET:
    if (f->has_syscall && f->syscall_nr != ev->syscall.nr) return false;
    break;
  case KIT_EV_SIGNAL:
    if (f->signo && f->signo != ev->signal.signo) return false;
    break;
  default: break;
  }
  if (f->every > 1) {
    if (--h->nth.left) return false;
    h->nth.left = f->every;
  }
  return true;
}

static int raise_kind(CoreThread *t, KitEventKind kind, KitEvent *ev) {
  int verdict = 0;
  for (KitHook *h = t->emu->hooks->by_event[kind]; h; h = h->next)
    if (matches(h, ev)) verdict |= call(t, h, ev);
  return verdict;
}

bool core_hooks_want(const Emu *emu, KitEventKind kind) {
  const CoreHooks *h = emu->hooks;
  if (!h) return false;
  if (kind == KIT_EV_LOAD || kind == KIT_EV_STORE)
    return h->by_event[kind] || h->by_event[KIT_EV_ACCESS];
  return h->by_event[kind] != NULL;
}

int core_raise(CoreThread *t, KitEvent *ev) {
  if (!core_hooks_want(t->emu, ev->kind)) return 0;
  sig_atomic_t in_guest = t->in_guest;
  t->in_guest = 0;
  int verdict = raise_kind(t, ev->kind, ev);
  if (ev->kind == KIT_EV_LOAD || ev->kind == KIT_EV_STORE)
    verdict |= raise_kind(t, KIT_EV_ACCESS, ev);
  t->in_guest = in_guest;
  return verdict;
}

void core_raise_thread(CoreThread *t, bool created) {
  if (created) {
    for (CoreProbe *p = t->emu->hooks->probes; p; p = p->next)
      if (p->thread_start) p->thread_start(p, t);
  }
  CoreThread *on = t->emu->current ? t->emu->current : t;
  core_raise(on, &(KitEvent){.kind = KIT_EV_THREAD,
                             .tid = on->tid,
                             .pc = on->state->pc,
                             .thread = {.created = created, .child = t->tid}});
}

/* ---- hooks as probes ------------------------------------------------------------------------- */

static KitHook *hook_of(CoreProbe *p) { return (KitHook *)((char *)p - offsetof(KitHook, probe)); }

/* A plane's check has nothing to find here. */
static bool is_unmarked(const KitHook *h, const CoreSite *s) {
  if (h->check.not_stack && s->by_sp) return true;
  return h->check.high && s->address &&
         (s->address >= h->check.high || s->address + s->size <= h->check.low);
}

static bool hook_wants(CoreProbe *p, const CoreSite *s) {
  KitHook *h = hook_of(p);
  return core_event_site(h->spec.event, s) && core_filter_site(&h->spec.filter, s) &&
         !(h->plane && is_unmarked(h, s));
}

typedef struct HookSite {
  IrCallout out; /* first: the operation's immediate */
  uint8_t site, branch;
  bool is_write, is_read;
  uint32_t n_insns;
  const IrInsn *insn;
} HookSite;

static void fill_insn(Emu *emu, const IrInsn *i, KitInsn *out) {
  *out = (KitInsn){.pc = i->pc,
                   .target = i->target,
                   .len = i->len,
                   .branch = i->branch,
                   .name = emu->guest->insn_name(i->id)};
  memcpy(out->bytes, (const void *)(uintptr_t)i->pc,
         i->len < sizeof out->bytes ? i->len : sizeof out->bytes);
}

/* From translated code: a is the address, or where a branch goes; b: whether it is taken. */
static uint64_t callout(IrState *s, const IrCallout *out, uint64_t a, uint64_t b, uint32_t size) {
  const HookSite *site = (const HookSite *)out;
  KitHook *h = out->owner;
  CoreThread *t = s->thread;
  if (h->dead || (t->skip_exec_pc == out->pc && t->skip_sites >> site->site & 1)) return 0;
  if (h->plane && !core_plane_ir(h->plane)->window && !marked(h->plane, a, size)) return 0;
  KitEvent ev = {.kind = h->spec.event, .tid = t->tid, .pc = out->pc};
  KitInsn insn;
  switch ((CoreSiteKind)site->site) {
  case SITE_EXEC:
  case SITE_REPEAT: break;
  case SITE_BLOCK: ev.block.n_insns = site->n_insns; break;
  case SITE_ACCESS:
    ev.access.addr = a;
    ev.access.size = size;
    ev.access.is_write = site->is_write;
    ev.access.host = emu_addr_space_ptr(t->emu, a, size, site->is_write ? PROT_WRITE : PROT_READ);
    break;
  case SITE_BRANCH:
    ev.branch.from = out->pc;
    ev.branch.to = a;
    ev.branch.kind = (KitBranchKind)site->branch;
    ev.branch.taken = b;
    break;
  case SITE_RETIRE:
    fill_insn(t->emu, site->insn, &insn);
    ev.insn.insn = &insn;
    break;
  }
  t->in_guest = 0;
  int v = call(t, h, &ev);
  if (v & KIT_STOP && (site->site == SITE_EXEC || site->site == SITE_BLOCK))
    t->stop_sites |= 1u << site->site;
  t->in_guest = 1;
  return v & KIT_DENY;
}

static void hook_emit(CoreProbe *p, CoreWeaver *w, const CoreSite *s) {
  KitHook *h = hook_of(p);
  HookSite *site = core_weaver_alloc(w, sizeof *site);
  *site = (HookSite){.site = s->kind,
                     .branch = s->insn ? s->insn->branch : 0,
                     .is_write = s->is_write,
                     .is_read = s->is_read,
                     .n_insns = s->block->n_insns,
                     .insn = s->insn};
  site->out = (IrCallout){.fn = callout, .pc = s->pc, .kind = h->spec.event, .owner = h};
  IrRef a = s->kind == SITE_ACCESS ? s->addr : s->kind == SITE_BRANCH ? s->to : 0;
  IrRef b = s->kind == SITE_BRANCH ? (s->taken ? s->taken : core_emit_imm(w, 1)) : 0;
  IrRef zero = !a || !b ? core_emit_imm(w, 0) : 0;
  IrRef cond = core_emit_filter(w, &h->spec.filter, s, &h->nth);
  if (h->plane && core_plane_ir(h->plane)->window) /* else the callout looks itself */
    cond = core_emit(w, IR_plane_test, s->addr, (IrRef)s->size, 0,
                     (uint64_t)(uintptr_t)core_plane_ir(h->plane));
  uint32_t g = core_guard_begin(w, cond);
  IrRef v = core_emit(w, IR_callout, a ? a : zero, b ? b : zero, (IrRef)s->size,
                      (uint64_t)(uintptr_t)&site->out);
  if (s->kind == SITE_ACCESS) core_emit(w, IR_trap_if, v, IR_FAULT_DENIED, a, 0);
  core_guard_end(w, g);
}

static IrRef hook_near(CoreProbe *p, CoreWeaver *w, IrRef addr, uint32_t size) {
  return core_emit(w, IR_plane_test, addr, (IrRef)size, 0,
                   (uint64_t)(uintptr_t)core_plane_ir(hook_of(p)->plane));
}

KitStatus kit_hook_add(KitEmu *emu, const KitHookSpec *spec, KitHook **out) {
  return core_hook_add_plane(emu, spec, NULL, &(KitPlaneCheck){0}, out);
}

KitStatus core_hook_add_plane(Emu *emu, const KitHookSpec *spec, CorePlane *plane,
                              const KitPlaneCheck *check, KitHook **out) {
  if (spec->event >= KIT_EV_EVENTS)
    return core_fail(emu, KIT_E_ARGUMENT, "no such event: %d", (int)spec->event);
  KitHook *h = xcalloc(1, sizeof *h);
  h->emu = emu;
  h->spec = *spec;
  h->plane = plane;
  h->check = *check;
  h->nth = (IrNth){.every = spec->filter.every, .left = spec->filter.every};
  uint32_t sites = core_event_sites(spec->event);
  h->probe = (CoreProbe){.sites = sites,
                         .may_stop = !check->loose_stop,
                         .wants = hook_wants,
                         .emit = hook_emit,
                         .near = plane && core_plane_ir(plane)->window ? hook_near : NULL,
                         .pc = spec->filter.pc,
                         .pc_len = spec->filter.pc_len};
  KitHook **q = &emu->hooks->by_event[spec->event];
  while (*q) q = &(*q)->next;
  *q = h;
  if (sites) {
    h->woven = true;
    core_probe_add(emu, &h->probe);
  }
  *out = h;
  return KIT_OK;
}

/* Takes a closed hook off its list and frees it: no region that calls it can be running, no event
 * is being raised. */
static void free_hook(void *p) {
  KitHook *h = p;
  for (KitHook **q = &h->emu->hooks->by_event[h->spec.event]; *q; q = &(*q)->next)
    if (*q == h) {
      *q = h->next;
      break;
    }
  if (h->on_free) h->on_free(h);
  free(h);
}

void kit_hook_close(KitHook **hook) {
  KitHook *h = *hook;
  *hook = NULL;
  if (!h || h->dead) return;
  h->dead = true;
  if (h->on_close) h->on_close(h);
  if (h->woven)
    core_probe_remove(h->emu,
                      &h->probe); /* flushes: no new region calls it, a running one sees `dead` */
  core_defer(h->emu, free_hook, h);
}

void core_hook_drop_plane(Emu *emu, const CorePlane *plane) {
  for (int e = KIT_EV_LOAD; e <= KIT_EV_ACCESS; e++)
    for (KitHook *h = emu->hooks->by_event[e]; h; h = h->next)
      if (h->plane == plane && !h->dead) {
        KitHook *closing = h;
        kit_hook_close(&closing);
        break; /* it may be gone already: the caller comes again for the next */
      }
}

uint64_t kit_hook_hits(const KitHook *hook) { return hook->hits; }

/* ---- tools: hooks without filters ------------------------------------------------------------ */

struct KitTool {
  Emu *emu;
  KitHook *hooks[KIT_EV_EVENTS];
  bool dispatch;
};

KitStatus kit_tool_add(KitEmu *emu, const KitEmuToolHooks *hooks, void *user, KitTool **out) {
  const struct {
    KitEventKind event;
    KitHookFn fn;
  } rows[] = {{KIT_EV_EXEC, hooks->on_exec},
              {KIT_EV_BLOCK, hooks->on_block_entry},
              {KIT_EV_INSN, hooks->on_insn_retire},
              {KIT_EV_BRANCH, hooks->on_branch},
              {KIT_EV_ACCESS, hooks->on_mem_access},
              {KIT_EV_MAP, hooks->on_map},
              {KIT_EV_UNMAP, hooks->on_unmap},
              {KIT_EV_PROTECT, hooks->on_protect},
              {KIT_EV_SYSCALL, hooks->on_syscall_entry},
              {KIT_EV_SYSRET, hooks->on_syscall_exit},
              {KIT_EV_SIGNAL, hooks->on_signal},
              {KIT_EV_FAULT, hooks->on_fault},
              {KIT_EV_THREAD, hooks->on_thread},
              {KIT_EV_IMAGE, hooks->on_image},
              {KIT_EV_EXIT, hooks->on_exit},
              {KIT_EV_FORK, hooks->on_fork}};
  KitTool *tool = xcalloc(1, sizeof *tool);
  tool->emu = emu;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].fn)
      kit_hook_add(emu, &(KitHookSpec){.event = rows[i].event, .fn = rows[i].fn, .user = user},
                   &tool->hooks[rows[i].event]);
  if (hooks->requires_dispatch) {
    tool->dispatch = true;
    emu->dispatchers++;
    core_flush(emu);
  }
  core_own(emu, free, tool);
  *out = tool;
  return KIT_OK;
}

void kit_tool_close(KitTool **tool) {
  KitTool *t = *tool;
  *tool = NULL;
  if (!t) return;
  for (int e = 0; e < KIT_EV_EVENTS; e++) kit_hook_close(&t->hooks[e]);
  t->emu->dispatchers -= t->dispatch;
  core_disown(t->emu, free, t);
}
