/* See callstack.h. The tree is in the first part, the stack in the second. */
#include "ir/callstack.h"

#include <stdlib.h>

#define NOT_OUTER UINT32_MAX

/* ---- the tree -------------------------------------------------------------------------------- */

static size_t hash_of(const IrCallNode *parent, uint64_t site, uint64_t callee) {
  return map_hash(map_hash(map_hash(parent->id) ^ site) + callee);
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
                    .parent = parent};
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
  if (up->level >= limit) n->fold = up;
}

static IrCallNode *child(IrCallStack *cs, IrCallNode *parent, uint64_t site, uint64_t callee,
                         IrCallKind kind) {
  IrCallNode *n = parent->last;
  if (n && n->site == site && n->callee == callee) return n;
  n = table_find(cs, parent, site, callee);
  if (!n) {
    n = new_node(cs, parent, site, callee, kind);
    set_level(cs, n);
  }
  return parent->last = n;
}

IrCallStack *ir_callstack_new(const IrState *s, uint64_t entry, const IrCallConfig *config) {
  IrCallStack *cs = xcalloc(1, sizeof *cs);
  if (config) cs->config = *config;
  if (!cs->config.fold) cs->config.fold = IR_CALLSTACK_FOLD;
  if (cs->config.fold > UINT16_MAX - 1) cs->config.fold = UINT16_MAX - 1;
  cs->arena = arena_new();
  cs->context = cs->last_context = 1;
  table_grow(cs);
  cs->root = new_node(cs, NULL, 0, entry, IR_CALL_ROOT);
  cs->root->calls = 1;
  cs->root->context = cs->root->function->context = cs->context;
  cs->mark = cs->root_mark = s ? *ir_counter((IrState *)s, 0) : 0;
  return cs;
}

void ir_callstack_free(IrCallStack *cs) {
  if (!cs) return;
  vec_free(&cs->nodes);
  vec_free(&cs->functions);
  vec_free(&cs->frames);
  vec_free(&cs->signals);
  map_free(&cs->by_pc);
  map_free(&cs->entries);
  free(cs->table);
  arena_free(cs->arena);
  free(cs);
}

/* ---- the stack ------------------------------------------------------------------------------- */

static IrCallNode *node_of(IrCallNode *link) { return link->fold ? link->fold : link; }

IrCallNode *ir_callstack_top(const IrCallStack *cs) {
  return cs->frames.n ? node_of(vec_last(&cs->frames).link) : cs->root;
}

/* Charges the top node for what was retired since the last time; returns the clock. */
static uint64_t settle(IrCallStack *cs, const IrState *s) {
  uint64_t now = *ir_counter((IrState *)s, 0);
  ir_callstack_top(cs)->self += now - cs->mark;
  cs->mark = now;
  return now - cs->excluded;
}

static void push(IrCallStack *cs, IrCallNode *link, uint64_t sp, uint64_t ret_pc, bool tail,
                 uint64_t clock) {
  IrCallFrame f = {.link = link, .sp = sp, .ret_pc = ret_pc, .start = clock, .tail = tail};
  f.link_context = f.function_context = NOT_OUTER;
  if (link->context != cs->context) {
    f.link_context = link->context;
    link->context = cs->context;
  }
  if (link->function->context != cs->context) {
    f.function_context = link->function->context;
    link->function->context = cs->context;
  }
  link->calls++;
  vec_push(&cs->frames, f);
}

static void pop(IrCallStack *cs, uint64_t clock) {
  IrCallFrame f = vec_pop(&cs->frames);
  if (f.link_context != NOT_OUTER) {
    f.link->inclusive += clock - f.start;
    f.link->context = f.link_context;
  }
  if (f.function_context != NOT_OUTER) {
    f.link->function->inclusive += clock - f.start;
    f.link->function->context = f.function_context;
  }
}

/* Frames from here on are above the innermost signal handler's own. */
static size_t floor_of(const IrCallStack *cs) {
  return cs->signals.n ? vec_last(&cs->signals).frame + 1 : 0;
}

/* The innermost handler is over: the clock goes on from where it was interrupted. Returns that. */
static uint64_t end_signal(IrCallStack *cs, uint64_t clock) {
  IrCallSignal sig = vec_pop(&cs->signals);
  while (cs->frames.n > sig.frame) pop(cs, clock);
  cs->excluded += clock - sig.clock;
  cs->context = sig.context;
  return sig.clock;
}

/* Ends handlers in which the stack pointer cannot be. */
static uint64_t leave_handlers(IrCallStack *cs, uint64_t sp, uint64_t clock) {
  while (cs->signals.n) {
    const IrCallSignal *sig = &vec_last(&cs->signals);
    if (sp - sig->low < sig->high - sig->low) break;
    clock = end_signal(cs, clock);
  }
  return clock;
}

void ir_callstack_call(IrCallStack *cs, IrState *s, const IrCallSite *site, uint64_t callee,
                       uint64_t sp) {
  uint64_t clock = settle(cs, s);
  if (cs->signals.n) clock = leave_handlers(cs, sp, clock);
  size_t floor = floor_of(cs);
  while (cs->frames.n > floor && vec_last(&cs->frames).sp < sp)
    pop(cs, clock); /* those calls are over */
  if (cs->frames.n > floor) {
    /* The same call again, from the same stack depth, with no return: it was a way to read the pc.
     */
    const IrCallFrame *top = &vec_last(&cs->frames);
    if (top->sp == sp && !top->tail && top->ret_pc == site->ret_pc && top->link->callee == callee)
      pop(cs, clock);
  }
  push(cs, child(cs, ir_callstack_top(cs), site->pc, callee, IR_CALL_CALL), sp, site->ret_pc, false,
       clock);
}

/* Pops the frame at index i, those above it, and those below whose return it shares. */
static void pop_through(IrCallStack *cs, size_t i, uint64_t clock) {
  while (cs->frames.at[i].tail) i--;
  while (cs->frames.n > i) pop(cs, clock);
}

void ir_callstack_ret(IrCallStack *cs, IrState *s, uint64_t ret_pc, uint64_t sp) {
  uint64_t clock = settle(cs, s);
  if (cs->signals.n) clock = leave_handlers(cs, sp, clock);
  size_t floor = floor_of(cs);
  for (size_t i = cs->frames.n; i-- > floor && cs->frames.at[i].sp <= sp;)
    if (cs->frames.at[i].ret_pc == ret_pc && cs->frames.at[i].sp == sp) {
      pop_through(cs, i, clock);
      return;
    }
  /* A callee that moved the stack pointer for its caller (x86 `ret n`, register-saving routines).
   */
  if (cs->frames.n > floor && vec_last(&cs->frames).ret_pc == ret_pc)
    pop_through(cs, cs->frames.n - 1, clock);
  else
    while (cs->frames.n > floor && vec_last(&cs->frames).sp <= sp) pop(cs, clock);
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

/* The frame of the current chain of tail calls that is in the node already; NOT_OUTER: none. */
static size_t in_chain(const IrCallStack *cs, const IrCallNode *link) {
  for (size_t i = cs->frames.n, floor = floor_of(cs); i-- > floor;) {
    if (node_of(cs->frames.at[i].link) == node_of((IrCallNode *)link)) return i;
    if (!cs->frames.at[i].tail) break;
  }
  return SIZE_MAX;
}

void ir_callstack_jump(IrCallStack *cs, IrState *s, const IrCallSite *site, uint64_t target,
                       uint64_t sp) {
  IrCallNode *top = ir_callstack_top(cs);
  if (target == top->callee || !is_entry(cs, target))
    return; /* a loop to the own entry is no call */
  uint64_t clock = settle(cs, s);
  IrCallNode *link = child(cs, top, site->pc, target, IR_CALL_TAIL);
  size_t seen = in_chain(cs, link);
  if (seen != SIZE_MAX) {
    while (cs->frames.n > seen + 1) pop(cs, clock);
    link->calls++;
    return;
  }
  /* At the bottom of a stack (or handler) there is no return to share. */
  bool bottom = cs->frames.n == floor_of(cs);
  uint64_t ret_pc = bottom ? 0 : vec_last(&cs->frames).ret_pc;
  push(cs, link, bottom ? sp : vec_last(&cs->frames).sp, ret_pc, !bottom, clock);
}

void ir_callstack_enter_signal(IrCallStack *cs, IrState *s, uint64_t handler, uint64_t low,
                               uint64_t high) {
  uint64_t clock = settle(cs, s);
  IrCallSignal sig = {
      .frame = cs->frames.n, .low = low, .high = high, .clock = clock, .context = cs->context};
  vec_push(&cs->signals, sig);
  cs->context = ++cs->last_context;
  if (cs->context == NOT_OUTER) cs->context = cs->last_context = 2;
  push(cs, child(cs, cs->root, 0, handler, IR_CALL_SIGNAL), high, 0, false, clock);
}

void ir_callstack_leave_signal(IrCallStack *cs, IrState *s) {
  uint64_t clock = settle(cs, s);
  if (cs->signals.n) end_signal(cs, clock);
}

/* ---- reading --------------------------------------------------------------------------------- */

void ir_callstack_sync(IrCallStack *cs, const IrState *s) {
  uint64_t clock = settle(cs, s);
  size_t handler = cs->signals.n;
  for (size_t i = cs->frames.n; i-- > 0;) {
    IrCallFrame *f = &cs->frames.at[i];
    if (f->link_context != NOT_OUTER) f->link->inclusive += clock - f->start;
    if (f->function_context != NOT_OUTER) f->link->function->inclusive += clock - f->start;
    f->start = clock;
    if (handler && cs->signals.at[handler - 1].frame == i) clock = cs->signals.at[--handler].clock;
  }
  cs->root->inclusive += cs->mark - cs->root_mark;
  cs->root->function->inclusive += cs->mark - cs->root_mark;
  cs->root_mark = cs->mark;
}

void ir_callstack_zero(IrCallStack *cs, const IrState *s) {
  ir_callstack_sync(cs, s);
  for (size_t i = 0; i < cs->nodes.n; i++)
    cs->nodes.at[i]->calls = cs->nodes.at[i]->self = cs->nodes.at[i]->inclusive = 0;
  for (size_t i = 0; i < cs->functions.n; i++) cs->functions.at[i]->inclusive = 0;
}

static void add_costs(IrCallNode *to, const IrCallNode *from) {
  to->calls += from->calls;
  to->self += from->self;
  to->inclusive += from->inclusive;
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
    }
    copy[i] = to;
    add_costs(to, n);
  }
  for (size_t i = 0; i < from->functions.n; i++)
    function_at(into, from->functions.at[i]->pc)->inclusive += from->functions.at[i]->inclusive;
  into->root->inclusive += from->root->inclusive;
  free(copy);
}
