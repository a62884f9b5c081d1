/* See callstack.h. The tree is in the first part, the stack in the second.
 *
 * The Makefile compiles this file for general registers only: translated code calls the quick
 * functions without saving vector registers or anything else that C would change, and so they call
 * nothing (and have no string instructions: the guest's direction flag may be set). */
#include "ir/callstack.h"

#include <stdlib.h>

#define FRAMES 64 /* to begin with */

static IrCallNode no_child = {.site = UINT64_MAX, .callee = UINT64_MAX}; /* no call is like this */

/* ---- the tree -------------------------------------------------------------------------------- */

static size_t hash_of(const IrCallNode *parent, uint64_t site, uint64_t callee) {
  uint64_t x = (parent->id * 0x9e3779b97f4a7c15ull) ^ (site + callee * 3);
  return (size_t)(x * 0xbf58476d1ce4e5b9ull >>
                  32); /* multiplicative hashing: the upper half is well mixed */
}

static void table_insert(IrCallStack *cs, IrCallNode *n) {
  size_t i = hash_of(n->parent, n->site, n->callee) & (cs->table_size - 1);
  while (cs->table[i]) i = (i + 1) & (cs->table_size - 1);
  cs->table[i] = n;
}

static void table_grow(IrCallStack *cs) {
  free(cs->table);
  cs->table_size = cs->table_size ? cs->table_size * 2 : 256;
  cs->table = xcalloc(cs->table_size, sizeof *cs->table);
  for (size_t i = 1; i < cs->nodes.n; i++) table_insert(cs, cs->nodes.at[i]);
}

static IrCallNode *table_find(const IrCallStack *cs, const IrCallNode *parent, uint64_t site,
                              uint64_t callee) {
  for (size_t i = hash_of(parent, site, callee) & (cs->table_size - 1); cs->table[i];
       i = (i + 1) & (cs->table_size - 1)) {
    IrCallNode *n = cs->table[i];
    if (n->parent == parent && n->site == site && n->callee == callee) return n;
  }
  return NULL;
}

static IrCallFunction *function_at(IrCallStack *cs, uint64_t pc) {
  IrCallFunction *f = map_get(&cs->by_pc, pc);
  if (f) return f;
  f = arena_alloc(cs->arena, sizeof *f);
  f->pc = pc;
  map_put(&cs->by_pc, pc, f);
  vec_push(&cs->functions, f);
  return f;
}

static IrCallNode *new_node(IrCallStack *cs, IrCallNode *parent, uint64_t site, uint64_t callee,
                            IrCallKind kind) {
  IrCallNode *n = arena_alloc(cs->arena, sizeof *n);
  *n = (IrCallNode){.id = (uint32_t)cs->nodes.n,
                    .level = 1,
                    .kind = (uint8_t)kind,
                    .callee = callee,
                    .site = site,
                    .parent = parent,
                    .last = &no_child};
  n->node = n;
  n->function = function_at(cs, callee);
  vec_push(&cs->nodes, n);
  if (!parent) return n;
  n->next = parent->children;
  parent->children = n;
  if (cs->nodes.n * 2 > cs->table_size)
    table_grow(cs);
  else
    table_insert(cs, n);
  return n;
}

/* Decides whether a new node is a folded link. */
static void set_level(IrCallStack *cs, IrCallNode *n) {
  uint32_t limit = cs->nodes.n > IR_CALLSTACK_LARGE ? 1 : cs->config.fold;
  IrCallNode *up = n->parent;
  while (up && up->callee != n->callee) up = up->parent;
  if (!up || up->kind == IR_CALL_ROOT) return;
  n->level = (uint16_t)(up->level + 1);
  if (up->level >= limit) n->node = n->fold = up;
}

static IrCallNode *child(IrCallStack *cs, IrCallNode *parent, uint64_t site, uint64_t callee,
                         IrCallKind kind, bool quick) {
  IrCallNode *n = parent->last;
  if (n->site == site && n->callee == callee) return n;
  n = table_find(cs, parent, site, callee);
  if (!n && quick) return NULL;
  if (!n) {
    n = new_node(cs, parent, site, callee, kind);
    set_level(cs, n);
  }
  return parent->last = n;
}

static uint64_t clock_of(const IrState *s) { return ir_retired(s); }

IrCallStack *ir_callstack_new(const IrState *s, uint64_t entry, const IrCallConfig *config) {
  IrCallStack *cs = xcalloc(1, sizeof *cs);
  if (config) cs->config = *config;
  if (!cs->config.fold) cs->config.fold = IR_CALLSTACK_FOLD;
  if (cs->config.fold > UINT16_MAX - 1) cs->config.fold = UINT16_MAX - 1;
  cs->arena = arena_new();
  table_grow(cs);
  cs->root = new_node(cs, NULL, 0, entry, IR_CALL_ROOT);
  cs->root->calls = 1;
  cs->root->active = cs->root->function->active = 1;
  cs->base = cs->top = xcalloc(FRAMES, sizeof *cs->base);
  cs->end = cs->base + FRAMES - 2;
  *cs->base = (IrCallFrame){
      .link = cs->root, .node = cs->root, .sp = UINT64_MAX, .start = s ? clock_of(s) : 0};
  return cs;
}

void ir_callstack_free(IrCallStack *cs) {
  if (!cs) return;
  vec_free(&cs->nodes);
  vec_free(&cs->functions);
  vec_free(&cs->signals);
  map_free(&cs->by_pc);
  map_free(&cs->entries);
  free(cs->base);
  free(cs->table);
  arena_free(cs->arena);
  free(cs);
}

/* ---- the stack ------------------------------------------------------------------------------- */

IrCallNode *ir_callstack_top(const IrCallStack *cs) { return cs->top->node; }

void ir_callstack_room(IrCallStack *cs) {
  if (cs->top < cs->end) return;
  size_t n = (size_t)(cs->top - cs->base), size = 2 * (n + 2);
  cs->base = xrealloc(cs->base, size * sizeof *cs->base);
  cs->top = cs->base + n;
  cs->end = cs->base + size - 2;
}

static void push(IrCallStack *cs, IrCallNode *link, uint64_t sp, uint64_t ret_pc, bool tail,
                 uint64_t clock) {
  *++cs->top = (IrCallFrame){.link = link,
                             .node = link->node,
                             .sp = sp,
                             .ret_pc = ret_pc,
                             .start = clock,
                             .tail = tail,
                             .inner_link = link->active,
                             .inner_function = link->function->active};
  link->active = link->function->active = 1;
  link->calls++;
  ir_callstack_room(cs);
}

/* Activates or not what the frame is the outermost activation of. */
static void activate(const IrCallFrame *f, bool on) {
  if (!f->inner_link) f->link->active = on;
  if (!f->inner_function) f->link->function->active = on;
}

static void charge(const IrCallFrame *f, uint64_t cost) {
  f->link->total += cost;
  if (!f->inner_link) f->link->inclusive += cost;
  if (!f->inner_function) f->link->function->inclusive += cost;
}

static void pop(IrCallStack *cs, uint64_t clock) {
  const IrCallFrame *f = cs->top--;
  charge(f, clock - f->start);
  activate(f, false);
}

/* Frames from here on are above the innermost signal handler's own. */
static IrCallFrame *floor_of(const IrCallStack *cs) {
  return cs->base + (cs->signals.n ? vec_last(&cs->signals).frame + 1 : 1);
}

/* The first frame of the current signal context. */
static IrCallFrame *context_of(const IrCallStack *cs) {
  return cs->base + (cs->signals.n ? vec_last(&cs->signals).frame : 0);
}

/* The activations of the current context count again, or do not for now. */
static void activate_context(IrCallStack *cs, bool on) {
  for (IrCallFrame *f = context_of(cs); f <= cs->top; f++) activate(f, on);
}

/* The innermost handler is over: the interrupted frames (but the root, which has all) go on as if
 * it had taken no time. */
static void end_signal(IrCallStack *cs, uint64_t clock) {
  while (cs->top >= cs->base + vec_last(&cs->signals).frame) pop(cs, clock);
  IrCallSignal sig = vec_pop(&cs->signals);
  for (IrCallFrame *f = context_of(cs); f <= cs->top; f++)
    if (f != cs->base) f->start += clock - sig.clock;
  activate_context(cs, true);
}

/* Ends handlers in which the stack pointer cannot be. */
static void leave_handlers(IrCallStack *cs, uint64_t sp, uint64_t clock) {
  while (cs->signals.n) {
    const IrCallSignal *sig = &vec_last(&cs->signals);
    if (sp - sig->low < sig->high - sig->low) break;
    end_signal(cs, clock);
  }
}

/* Quick: nothing is allocated, no handler is left. */
static bool has_room(const IrCallStack *cs) { return !cs->signals.n && cs->top + 1 < cs->end; }

static inline bool enter_call(IrCallStack *cs, IrState *s, IrCallSite *site, uint64_t callee,
                              uint64_t sp, bool quick) {
  uint64_t clock = clock_of(s);
  if (quick && !has_room(cs)) return false;
  if (cs->signals.n) leave_handlers(cs, sp, clock);
  const IrCallFrame *floor = floor_of(cs);
  while (cs->top >= floor && cs->top->sp < sp) pop(cs, clock); /* those calls are over */
  /* The same call again, from the same stack depth, with no return: it was a way to read the pc. */
  const IrCallFrame *top = cs->top;
  if (top >= floor && top->sp == sp && !top->tail && top->ret_pc == site->ret_pc &&
      top->link->callee == callee)
    pop(cs, clock);
  IrCallNode *parent = cs->top->node,
             *link = child(cs, parent, site->pc, callee, IR_CALL_CALL, quick);
  if (!link) return false;
  site->parent = parent;
  site->link = link;
  push(cs, link, sp, site->ret_pc, false, clock);
  return true;
}

void ir_callstack_call(IrCallStack *cs, IrState *s, IrCallSite *site, uint64_t callee,
                       uint64_t sp) {
  enter_call(cs, s, site, callee, sp, false);
}

/* Pops the frame f, those above it, and those below whose return it shares. */
static void pop_through(IrCallStack *cs, const IrCallFrame *f, uint64_t clock) {
  while (f->tail) f--;
  while (cs->top >= f) pop(cs, clock);
}

void ir_callstack_ret(IrCallStack *cs, IrState *s, uint64_t ret_pc, uint64_t sp) {
  uint64_t clock = clock_of(s);
  if (cs->signals.n) leave_handlers(cs, sp, clock);
  const IrCallFrame *floor = floor_of(cs);
  for (const IrCallFrame *f = cs->top; f >= floor && f->sp <= sp; f--)
    if (f->ret_pc == ret_pc && f->sp == sp) {
      pop_through(cs, f, clock);
      return;
    }
  /* A callee that moved the stack pointer for its caller (x86 `ret n`, register-saving routines).
   */
  if (cs->top >= floor && cs->top->ret_pc == ret_pc)
    pop_through(cs, cs->top, clock);
  else
    while (cs->top >= floor && cs->top->sp <= sp) pop(cs, clock);
}

static bool knows_entry(const IrCallStack *cs, uint64_t pc) {
  return !cs->config.is_entry || map_get(&cs->entries, pc);
}

static bool is_entry(IrCallStack *cs, uint64_t pc) {
  if (!cs->config.is_entry) return false;
  uintptr_t known = (uintptr_t)map_get(&cs->entries, pc);
  if (!known) {
    known = cs->config.is_entry(cs->config.owner, pc) ? 2 : 1;
    map_put(&cs->entries, pc, (void *)known);
  }
  return known == 2;
}

/* The frame of the current chain of tail calls that is in the node already, or NULL. */
static IrCallFrame *in_chain(const IrCallStack *cs, const IrCallNode *link) {
  for (IrCallFrame *f = cs->top, *floor = floor_of(cs); f >= floor; f--) {
    if (f->node == link->node) return f;
    if (!f->tail) break;
  }
  return NULL;
}

static inline bool enter_tail(IrCallStack *cs, IrState *s, IrCallSite *site, uint64_t target,
                              uint64_t sp, bool quick) {
  IrCallNode *top = cs->top->node;
  if (quick && (!has_room(cs) || !knows_entry(cs, target))) return false;
  if (!is_entry(cs, target)) {
    *ir_not_entry(s, target) = target; /* seen there first, next time */
    return true;
  }
  if (target == top->callee) return true; /* a loop to the own entry is no call */
  uint64_t clock = clock_of(s);
  IrCallNode *link = child(cs, top, site->pc, target, IR_CALL_TAIL, quick);
  if (!link) return false;
  IrCallFrame *seen = in_chain(cs, link);
  if (seen) {
    while (cs->top > seen) pop(cs, clock);
    link->calls++;
    return true;
  }
  /* At the bottom of a stack (or handler) there is no return to share. */
  bool bottom = cs->top < floor_of(cs);
  push(cs, link, bottom ? sp : cs->top->sp, bottom ? 0 : cs->top->ret_pc, !bottom, clock);
  return true;
}

void ir_callstack_jump(IrCallStack *cs, IrState *s, IrCallSite *site, uint64_t target,
                       uint64_t sp) {
  enter_tail(cs, s, site, target, sp, false);
}

#define SITE(imm) ((IrCallSite *)(uintptr_t)(imm))

uint64_t ir_callstack_quick_call(IrState *s, uint64_t site, uint64_t callee, uint64_t sp,
                                 uint64_t unused) {
  (void)unused;
  return enter_call(s->callstack, s, SITE(site), callee, sp, true);
}

uint64_t ir_callstack_quick_ret(IrState *s, uint64_t site, uint64_t ret_pc, uint64_t sp,
                                uint64_t unused) {
  (void)site, (void)unused;
  if (s->callstack->signals.n) return false;
  ir_callstack_ret(s->callstack, s, ret_pc, sp);
  return true;
}

uint64_t ir_callstack_quick_jump(IrState *s, uint64_t site, uint64_t target, uint64_t sp,
                                 uint64_t unused) {
  (void)unused;
  return enter_tail(s->callstack, s, SITE(site), target, sp, true);
}

void ir_callstack_enter_signal(IrCallStack *cs, IrState *s, uint64_t handler, uint64_t low,
                               uint64_t high) {
  uint64_t clock = clock_of(s);
  IrCallSignal sig = {
      .frame = (size_t)(cs->top - cs->base) + 1, .low = low, .high = high, .clock = clock};
  activate_context(cs, false);
  vec_push(&cs->signals, sig);
  push(cs, child(cs, cs->root, 0, handler, IR_CALL_SIGNAL, false), high, 0, false, clock);
}

void ir_callstack_leave_signal(IrCallStack *cs, IrState *s) {
  if (cs->signals.n) end_signal(cs, clock_of(s));
}

/* ---- reading --------------------------------------------------------------------------------- */

/* What the frames on the stack have cost up to now goes to their nodes. Frames of interrupted
 * contexts stand still since the handler's entry. */
static void settle(IrCallStack *cs, uint64_t now) {
  size_t handler = 0;
  for (IrCallFrame *f = cs->base; f <= cs->top; f++) {
    while (handler < cs->signals.n && cs->signals.at[handler].frame <= (size_t)(f - cs->base))
      handler++;
    bool stands = f != cs->base && handler < cs->signals.n;
    uint64_t clock = stands ? cs->signals.at[handler].clock : now;
    charge(f, clock - f->start);
    f->start = clock;
  }
}

void ir_callstack_sync(IrCallStack *cs, const IrState *s) {
  settle(cs, clock_of(s));
  for (size_t i = 0; i < cs->nodes.n; i++) cs->nodes.at[i]->self = 0;
  for (size_t i = 0; i < cs->nodes.n; i++) {
    IrCallNode *n = cs->nodes.at[i];
    n->node->self += n->total;
    if (n->parent) n->parent->self -= n->total;
  }
}

void ir_callstack_zero(IrCallStack *cs, const IrState *s) {
  settle(cs, clock_of(s));
  for (size_t i = 0; i < cs->nodes.n; i++)
    cs->nodes.at[i]->calls = cs->nodes.at[i]->self = cs->nodes.at[i]->inclusive =
        cs->nodes.at[i]->total = 0;
  for (size_t i = 0; i < cs->functions.n; i++) cs->functions.at[i]->inclusive = 0;
}

static void add_costs(IrCallNode *to, const IrCallNode *from) {
  to->calls += from->calls;
  to->self += from->self;
  to->inclusive += from->inclusive;
  to->total += from->total;
}

void ir_callstack_merge(IrCallStack *into, const IrCallStack *from) {
  IrCallNode **copy = xcalloc(from->nodes.n, sizeof *copy);
  for (size_t i = 0; i < from->nodes.n; i++) {
    const IrCallNode *n = from->nodes.at[i];
    IrCallNode *parent = n->parent ? copy[n->parent->id] : into->root;
    IrCallNode *to = table_find(into, parent, n->site, n->callee);
    if (!to) {
      to = new_node(into, parent, n->site, n->callee, (IrCallKind)n->kind);
      to->level = n->level;
      to->fold = n->fold ? copy[n->fold->id] : NULL;
      to->node = to->fold ? to->fold : to;
    }
    copy[i] = to;
    add_costs(to, n);
  }
  for (size_t i = 0; i < from->functions.n; i++)
    function_at(into, from->functions.at[i]->pc)->inclusive += from->functions.at[i]->inclusive;
  into->root->inclusive += from->root->inclusive;
  free(copy);
}
