/* The shadow call stack and the calling-context tree, on scripted calls. Costs are given by raising
 * the retired count by hand. */
#include "ir/callstack.h"
#include "ir_test.h"

static IrState *s;
static IrCallStack *cs;

static bool is_entry(void *owner, uint64_t pc) {
  return (void)owner, pc % 0x1000 == 0;
} /* functions lie at multiples of 0x1000 */

static void start(uint32_t fold) {
  *ir_counter(s, 0) = 1000; /* whatever was retired before does not matter */
  cs = ir_callstack_new(s, 0x100000, &(IrCallConfig){.fold = fold, .is_entry = is_entry});
}
static void end(void) { ir_callstack_free(cs); }

static void work(uint64_t n) { *ir_counter(s, 0) += n; }
static void call(uint64_t site, uint64_t callee, uint64_t sp) {
  IrCallSite *c = calloc(1, sizeof *c); /* leaks are the test's */
  *c = (IrCallSite){.pc = site, .ret_pc = site + 4};
  ir_callstack_call(cs, s, c, callee, sp);
  free(c);
}
static void ret(uint64_t to, uint64_t sp) { ir_callstack_ret(cs, s, to, sp); }
static void jump(uint64_t site, uint64_t target, uint64_t sp) {
  ir_callstack_jump(cs, s, &(IrCallSite){.pc = site}, target, sp);
}

/* The node reached from the root through these callees; the first child that fits. */
static const IrCallNode *node(int n, const uint64_t *path) {
  const IrCallNode *at = cs->root;
  for (int i = 0; i < n; i++) {
    const IrCallNode *c = at->children;
    while (c && c->callee != path[i]) c = c->next;
    if (!c) return NULL;
    at = c;
  }
  return at;
}
static void check_node(const char *what, int n, const uint64_t *path, uint64_t calls, uint64_t self,
                       uint64_t inclusive) {
  const IrCallNode *at = node(n, path);
  CHECK(at, "%s: no such node", what);
  if (!at) return;
  CHECK(at->calls == calls && at->self == self && at->inclusive == inclusive,
        "%s: calls %" PRIu64 " self %" PRIu64 " inclusive %" PRIu64 ", want %" PRIu64 " %" PRIu64
        " %" PRIu64,
        what, at->calls, at->self, at->inclusive, calls, self, inclusive);
}
#define PATH(...)                                                                                  \
  (int)(sizeof((uint64_t[]){__VA_ARGS__}) / 8), (const uint64_t[]) { __VA_ARGS__ }

static uint64_t inclusive_of(uint64_t pc) {
  const IrCallFunction *f = map_get(&cs->by_pc, pc);
  return f ? f->inclusive : 0;
}

/* Self costs always sum up to all that was retired, and that is the root's inclusive cost. */
static void check_sum(const char *what) {
  ir_callstack_sync(cs, s);
  uint64_t sum = 0;
  for (size_t i = 0; i < cs->nodes.n; i++) sum += cs->nodes.at[i]->self;
  CHECK_EQ(sum, *ir_counter(s, 0) - 1000, what);
  CHECK_EQ(cs->root->inclusive, sum, what);
}

enum { MAIN = 0x1000, F = 0x2000, G = 0x3000, H = 0x4000, HANDLER = 0x5000, SP = 0x7ff0000 };

static void plain(void) { /* main: f(); g(); f, g: h() */
  start(0);
  work(2);
  call(0x100010, MAIN, SP);
  work(5);
  call(MAIN + 4, F, SP - 32);
  work(3);
  call(F + 8, H, SP - 64);
  work(20);
  ret(F + 12, SP - 64);
  ret(MAIN + 8, SP - 32);
  work(5);
  call(MAIN + 8, G, SP - 32);
  work(3);
  call(G + 8, H, SP - 64);
  work(21);
  check_sum("in the middle");
  CHECK_EQ(inclusive_of(H), 41, "h so far");
  work(1);
  ret(G + 12, SP - 64);
  ret(MAIN + 12, SP - 32);
  ret(0x100014, SP);
  work(7);
  check_sum("plain");
  check_node("root", 0, NULL, 1, 9, 67);
  check_node("main", PATH(MAIN), 1, 10, 58);
  check_node("f", PATH(MAIN, F), 1, 3, 23);
  check_node("f/h", PATH(MAIN, F, H), 1, 20, 20);
  check_node("g/h", PATH(MAIN, G, H), 1, 22, 22);
  CHECK_EQ(inclusive_of(H), 42, "h");
  CHECK_EQ(cs->top - cs->base, 0, "empty");
  end();
}

/* fib(n) with one instruction of its own before, between and after its calls; returns how many
 * calls. */
static uint64_t fib(int n, uint64_t sp) {
  work(1);
  if (n < 2) return 1;
  call(F + 0x10, F, sp - 16);
  uint64_t calls = 1 + fib(n - 1, sp - 16);
  ret(F + 0x14, sp - 16);
  work(1);
  call(F + 0x20, F, sp - 16);
  calls += fib(n - 2, sp - 16);
  ret(F + 0x24, sp - 16);
  work(1);
  return calls;
}

static void recursion(void) {
  for (uint32_t fold = 1; fold <= 4; fold++) {
    start(fold);
    call(0x100010, F, SP);
    uint64_t calls = fib(16, SP), cost = *ir_counter(s, 0) - 1000;
    ret(0x100014, SP);
    work(10);
    check_sum("fib");
    CHECK_EQ(inclusive_of(F), cost, "recursion is counted once");
    CHECK(node(PATH(F)) && node(PATH(F))->inclusive == cost, "fib's node: inclusive");
    uint64_t sum = 0;
    for (size_t i = 1; i < cs->nodes.n; i++) sum += cs->nodes.at[i]->calls;
    CHECK_EQ(sum, calls, "calls of all links");
    CHECK(cs->nodes.n <= 2u << fold << 1, "fold %u: %zu nodes", fold, cs->nodes.n);
    end();
  }
  start(0); /* a million frames */
  for (uint64_t i = 0; i < 1000000; i++) {
    call(F + 0x10, F, SP - 16 * i);
    work(1);
  }
  CHECK_EQ(cs->top - cs->base, 1000000, "real depth");
  check_sum("deep");
  for (uint64_t i = 1000000; i-- > 0;) ret(F + 0x14, SP - 16 * i);
  CHECK_EQ(cs->top - cs->base, 0, "unwound");
  check_sum("deep and back");
  CHECK_EQ(inclusive_of(F), 1000000, "deep inclusive");
  end();
}

/* a -> b -> a -> b: b's inclusive cost contains the inner a's. */
static void mutual(void) {
  start(1);
  call(0x100010, F, SP);
  work(1);
  call(F + 4, G, SP - 16);
  work(10);
  call(G + 4, F, SP - 32);
  work(100);
  ret(G + 8, SP - 32);
  work(10);
  ret(F + 8, SP - 16);
  work(1);
  ret(0x100014, SP);
  check_sum("mutual");
  check_node("f", PATH(F), 1, 102, 122);
  check_node("g", PATH(F, G), 1, 20, 120);
  check_node("f in g, folded", PATH(F, G, F), 1, 0, 100);
  CHECK(node(PATH(F, G, F))->fold == node(PATH(F)), "folded onto f");
  CHECK_EQ(inclusive_of(G), 120, "g");
  end();
}

static void tail_calls(void) {
  start(0);
  call(0x100010, F, SP);
  work(1);
  jump(F + 8, F + 0x20, SP); /* inside a function: not a call */
  jump(F + 8, F, SP);        /* a loop */
  jump(F + 8, G, SP);
  work(10);
  CHECK_EQ(cs->top - cs->base, 2, "tail frame");
  jump(G + 8, H, SP);
  work(100);
  CHECK(ir_callstack_top(cs)->callee == H && ir_callstack_top(cs)->kind == IR_CALL_TAIL, "in h");
  call(H + 4, MAIN, SP - 16);
  work(1000);
  ret(H + 8, SP - 16);
  CHECK(ir_callstack_top(cs)->callee == H, "back in h");
  ret(0x100014, SP);
  CHECK_EQ(cs->top - cs->base, 0, "one return pops the chain");
  check_sum("tail");
  check_node("f", PATH(F), 1, 1, 1111);
  check_node("g", PATH(F, G), 1, 10, 1110);
  check_node("h", PATH(F, G, H), 1, 100, 1100);
  call(0x100010, F, SP); /* a state machine of tail calls */
  for (int i = 0; i < 100000; i++) {
    work(1);
    jump(F + 8, G, SP);
    work(2);
    jump(G + 8, F, SP);
  }
  CHECK(cs->top - cs->base <= 2 * IR_CALLSTACK_FOLD + 1, "bounded chain: %td", cs->top - cs->base);
  ret(0x100014, SP);
  CHECK_EQ(cs->top - cs->base, 0, "and back");
  check_sum("state machine");
  end();
}

static void long_jumps(void) {
  start(0);
  call(0x100010, MAIN, SP);
  work(1);
  call(MAIN + 4, G, SP - 64); /* setjmp */
  work(1);
  ret(MAIN + 8, SP - 64);
  call(MAIN + 0x10, F, SP - 64);
  work(1);
  call(F + 4, F, SP - 128);
  call(F + 4, F, SP - 192);
  call(F + 4, H, SP - 256); /* longjmp */
  work(5);
  ret(MAIN + 8, SP - 64); /* back behind setjmp: no frame fits */
  CHECK(ir_callstack_top(cs)->callee == MAIN, "longjmp lands in main");
  work(50);
  check_sum("longjmp");
  check_node("main", PATH(MAIN), 1, 51, 58);
  check_node("f", PATH(MAIN, F), 1, 1, 6);
  ret(0x100014, SP);
  CHECK_EQ(cs->top - cs->base, 0, "main returns");
  /* An unwinder returns into a frame in the middle as if its callee had returned. */
  call(0x100010, MAIN, SP);
  call(MAIN + 4, F, SP - 64);
  call(F + 4, G, SP - 128);
  call(G + 4, H, SP - 192);
  ret(MAIN + 8, SP - 64);
  CHECK(cs->top - cs->base == 1 && ir_callstack_top(cs)->callee == MAIN, "unwound to main");
  /* Frames that were left without a return go when their caller calls again. */
  call(MAIN + 4, F, SP - 64);
  call(F + 4, G, SP - 128);
  call(MAIN + 0x20, H, SP - 64 + 16);
  CHECK(cs->top - cs->base == 2 && node(PATH(MAIN, H)), "stale frames");
  ret(MAIN + 0x24, SP - 64 + 16);
  /* call next; pop pc: calls that never return do not pile up */
  for (int i = 0; i < 1000; i++) call(MAIN + 0x30, MAIN + 0x34, SP - 64);
  CHECK(cs->top - cs->base == 2, "pc-reading calls: %td", cs->top - cs->base);
  ret(0x100014, SP);
  CHECK_EQ(cs->top - cs->base, 0, "empty");
  call(0x100010, F, SP); /* ret n */
  ret(0x100014, SP + 16);
  CHECK_EQ(cs->top - cs->base, 0, "a return that pops arguments");
  ret(0x999, SP + 4096);
  CHECK_EQ(cs->top - cs->base, 0, "a return nobody called for");
  check_sum("longjmp and kin");
  end();
}

static void signals(void) {
  uint64_t alt = 0x1000000;
  for (int on_alt = 0; on_alt < 2; on_alt++) {
    uint64_t low = on_alt ? alt : 0, high = on_alt ? alt + 0x2000 : SP - 64, hsp = high - 0x400;
    start(0);
    call(0x100010, MAIN, SP);
    work(1);
    call(MAIN + 4, F, SP - 64);
    work(2);
    ir_callstack_enter_signal(cs, s, HANDLER, low, high);
    work(10);
    call(HANDLER + 4, F, hsp - 16);
    work(20);
    check_sum("inside a handler");
    ret(HANDLER + 8, hsp - 16);
    ret(0xdead0, hsp); /* to the trampoline */
    work(5);
    CHECK(ir_callstack_top(cs)->callee == HANDLER, "still in the handler");
    ir_callstack_leave_signal(cs, s);
    work(3);
    CHECK(ir_callstack_top(cs)->callee == F, "back in f");
    ret(MAIN + 8, SP - 64);
    work(1);
    check_sum("signal");
    check_node("f without the handler", PATH(MAIN, F), 1, 5, 5);
    check_node("main without the handler", PATH(MAIN), 1, 2, 7);
    check_node("handler", PATH(HANDLER), 1, 15, 35);
    CHECK(node(PATH(HANDLER))->kind == IR_CALL_SIGNAL, "kind");
    CHECK_EQ(inclusive_of(F), 25, "f, interrupted and called by the handler");
    /* siglongjmp from a nested handler to main */
    call(MAIN + 0x10, F, SP - 64);
    ir_callstack_enter_signal(cs, s, HANDLER, low, high);
    work(7);
    ir_callstack_enter_signal(cs, s, HANDLER, low, hsp - 64);
    work(8);
    call(HANDLER + 4, G, hsp - 0x500);
    CHECK_EQ(cs->signals.n, 2, "nested");
    ret(MAIN + 0x40, SP - 64);
    work(9);
    CHECK_EQ(cs->signals.n, 0, "handlers left");
    CHECK(cs->top - cs->base == 1 && ir_callstack_top(cs)->callee == MAIN, "in main: %zu frames",
          cs->top - cs->base);
    check_sum("siglongjmp");
    check_node("handler", PATH(HANDLER), 3, 30, 50);
    check_node("main", PATH(MAIN), 1, 11, 16);
    ret(0x100014, SP);
    CHECK_EQ(cs->top - cs->base, 0, "end");
    ir_callstack_leave_signal(cs, s); /* a sigreturn without a handler */
    check_sum("end");
    end();
  }
}

static void merging(void) {
  IrCallStack *all = ir_callstack_new(NULL, 0, NULL);
  for (int thread = 0; thread < 3; thread++) {
    start(1);
    work(1);
    call(0x100010, F, SP);
    fib(5, SP);
    ret(0x100014, SP);
    ir_callstack_sync(cs, s);
    ir_callstack_merge(all, cs);
    if (thread == 2) {
      ir_callstack_zero(cs, s);
      work(4);
      ir_callstack_sync(cs, s);
      CHECK_EQ(cs->root->self, 4, "zero");
      CHECK_EQ(inclusive_of(F), 0, "zero");
    }
    if (thread < 2) end();
  }
  IrCallStack *last = cs;
  cs = all;
  const IrCallNode *f = node(PATH(0x100000, F)), *folded = node(PATH(0x100000, F, F));
  CHECK(f && f->calls == 3 && folded && folded->fold == f, "merged tree");
  uint64_t calls = 0;
  for (const IrCallNode *c = f->children; c; c = c->next) calls += c->calls;
  CHECK_EQ(calls, 3 * 14, "merged calls");
  CHECK_EQ(all->nodes.n, 1 + last->nodes.n, "one copy of each node");
  CHECK_EQ(inclusive_of(F), f->self, "merged functions");
  ir_callstack_free(all);
  ir_callstack_free(last);
}

/* A wide tree: the table grows, every node is found again. */
static void many_children(void) {
  start(0);
  for (int round = 0; round < 2; round++)
    for (uint64_t i = 0; i < 20000; i++) {
      call(0x100010 + 8 * (i % 100), 0x200000 + 0x1000 * i, SP);
      work(1);
      ret(0x100014 + 8 * (i % 100), SP);
    }
  CHECK_EQ(cs->nodes.n, 20001, "nodes");
  check_sum("wide");
  bool twice = true;
  for (const IrCallNode *c = cs->root->children; c; c = c->next)
    twice &= c->calls == 2 && c->self == 2;
  CHECK(twice, "each called twice");
  end();
}

/* Through the interpreter: cs_call, cs_ret, cs_jump, and no stack at all. */
static void executed(void) {
  static IrCallSite site = {.pc = 0x1000, .ret_pc = 0x1004};
  IrBuilder *b = ir_builder_new();
  for (int with = 0; with < 2; with++) {
    start(0);
    s->callstack = with ? cs : NULL;
    ir_builder_begin(b, 0x1000);
    ir_builder_block(b, 0x1000);
    IrRef callee = ir_imm(b, F), next = ir_imm(b, G), to = ir_imm(b, 0x1004), sp = ir_imm(b, SP);
    ir_emit(b, IR_cs_call, callee, sp, 0, (uint64_t)(uintptr_t)&site);
    ir_emit(b, IR_count, 5, 0, 0, 0);
    ir_emit(b, IR_cs_jump, next, sp, 0, (uint64_t)(uintptr_t)&site);
    ir_emit(b, IR_count, 7, 0, 0, 0);
    ir_emit(b, IR_cs_ret, to, sp, 0, 0);
    ir_jump(b, 0x2000);
    IrRegion *r = ir_builder_finish(b);
    CHECK(!ir_check(r), "%s", ir_check(r));
    ir_interp(r, s, NULL);
    ir_callstack_sync(cs, s);
    if (with) check_node("executed", PATH(F, G), 1, 7, 7);
    CHECK_EQ(cs->nodes.n, with ? 3 : 1, "nodes");
    ir_region_free(r);
    end();
  }
  s->callstack = NULL;
  ir_builder_free(b);
}

int main(void) {
  s = test_state();
  plain();
  recursion();
  mutual();
  tail_calls();
  long_jumps();
  signals();
  merging();
  many_children();
  executed();
  return test_end();
}
