/* Regions: the builder's result, the printer's text, the checker's rules one by one, what the
 * optimiser must and must not do, and the interpreter's control operations: links, interrupts,
 * budget, stops, guards, and every instrumentation record. */
#include "ir/callstack.h"
#include "ir_test.h"

static IrBuilder *b;
static IrState *s;

static IrRef get(int n) { return ir_emit(b, IR_get, 0, 0, 0, TEST_REG(n)); }
static void put(int n, IrRef v) { ir_emit(b, IR_put, v, 0, 0, TEST_REG(n)); }
static void begin(void) {
  ir_builder_begin(b, 0x1000);
  ir_builder_block(b, 0x1000);
}

/* r1 += 1 until it equals r2, then on at 100c */
static IrRegion *loop_region(void) {
  begin();
  ir_emit(b, IR_count, 2, 0, 0, 0);
  test_insn(b, 0x1000, IR_BR_NONE);
  IrRef a0 = get(1);
  put(1, ir_emit(b, IR_add, a0, ir_imm(b, 1), 0, 0));
  test_insn(b, 0x1004, IR_BR_COND);
  IrRef x = get(1), y = get(2);
  ir_br(b, ir_emit(b, IR_ne, x, y, 0, 0), 0x1000, 0x1008);
  ir_builder_block(b, 0x1008);
  test_insn(b, 0x1008, IR_BR_JUMP);
  ir_jump(b, 0x2000);
  return ir_builder_finish(b);
}

/* ---- builder and printer --------------------------------------------------------------------- */

static const char *names(uint64_t offset) {
  static const char *const n[] = {"zero", "a0", "a1", "a2", "a3"};
  uint64_t i = (offset - TEST_REG(0)) / 8;
  return offset >= TEST_REG(0) && i < 5 ? n[i] : NULL;
}

static uint64_t nothing(IrState *st, uint64_t x, uint64_t y) { return (void)st, x + y; }
static const IrHelper helper = {"nothing", nothing};

static void check_text(const IrRegion *r, const char *want, const char *what) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  ir_print(f, r, names);
  fclose(f);
  CHECK(!strcmp(text, want), "%s: printed\n%s", what, text);
  free(text);
}

static void printing(void) {
  IrRegion *r = loop_region();
  CHECK_EQ(r->low, 0x1000, "low");
  CHECK_EQ(r->high, 0x100c, "high");
  CHECK_EQ(r->blocks[0].succ[0].block, 0, "back-edge");
  CHECK_EQ(r->blocks[0].succ[1].block, 1, "fall-through");
  CHECK_EQ(r->blocks[1].succ[0].block, -1, "exit");
  CHECK_EQ(r->insns[2].block, 1, "block of an instruction");
  check_text(r,
             "region 1000\n"
             "block 0 (pc 1000, 2 insns)\n"
             "   1  count    2, 0\n"
             "   2  insn     1000\n"
             "   3  get      a0\n"
             "   4  imm      1\n"
             "   5  add      %3, %4\n"
             "   6  put      a0, %5\n"
             "   7  insn     1004\n"
             "   8  get      a0\n"
             "   9  get      a1\n"
             "  10  ne       %8, %9\n"
             "  11  br       %10 -> block 0, block 1\n"
             "block 1 (pc 1008, 1 insns)\n"
             "  12  insn     1008\n"
             "  13  jump     -> exit 2000\n",
             "loop");
  ir_region_free(r);
  begin();
  test_insn(b, 0x1000, IR_BR_TRAP);
  IrRef a = get(1), v = ir_emit(b, IR_ld32s, a, 0, 0, (uint64_t)-8);
  ir_emit(b, IR_st64, a, v, 0, 16);
  ir_emit(b, IR_trap_if, v, IR_FAULT_MISALIGNED, a, 0);
  IrRef f = ir_emit(b, IR_fadd64, v, a, 0, 7);
  put(9, ir_emit(b, IR_call, f, 0, 0, (uint64_t)(uintptr_t)&helper));
  ir_trap(b, IR_TRAP_SYSCALL, 0x1004);
  r = ir_builder_finish(b);
  char want[400];
  snprintf(want, sizeof want,
           "region 1000\n"
           "block 0 (pc 1000, 1 insns)\n"
           "   1  insn     1000\n"
           "   2  get      a0\n"
           "   3  ld32s    %%2 @ -8\n"
           "   4  st64     %%2, %%3 @ +16\n"
           "   5  trap_if  %%3, misaligned, %%2\n"
           "   6  fadd64   %%3, %%2, rm 7\n"
           "   7  call     %%6, %%0, nothing\n"
           "   8  put      [%" PRIx64 "], %%7\n"
           "   9  trap     syscall -> exit 1004\n",
           TEST_REG(9));
  check_text(r, want, "operands");
  ir_region_free(r);
}

/* ---- checker --------------------------------------------------------------------------------- */

static IrRegion *sound(void) {
  begin();
  test_insn(b, 0x1000, IR_BR_NONE);                  /* 1 */
  IrRef x = get(1);                                  /* 2 */
  IrRef y = ir_emit(b, IR_ld64, x, 0, 0, 0);         /* 3 */
  ir_emit(b, IR_trap_if, y, IR_FAULT_ILLEGAL, 0, 0); /* 4 */
  put(2, y);                                         /* 5 */
  test_insn(b, 0x1004, IR_BR_COND);                  /* 6 */
  IrRef z = ir_emit(b, IR_fadd64, x, y, 0, 0);       /* 7 */
  ir_br(b, z, 0x1000, 0x1008);                       /* 8 */
  ir_builder_block(b, 0x1008);
  ir_emit(b, IR_budget, 1, 0, 0, 0x1008);   /* 9 */
  test_insn(b, 0x1008, IR_BR_JUMP);         /* 10 */
  IrRef g = get(3);                         /* 11 */
  ir_emit(b, IR_guard, g, 0, 0, 2);         /* 12 */
  IrRef h = ir_emit(b, IR_neg, g, 0, 0, 0); /* 13 */
  ir_emit(b, IR_count_if, h, 0, 0, 8);      /* 14 */
  put(4, g);                                /* 15 */
  ir_jump_ind(b, g);                        /* 16 */
  return ir_builder_finish(b);
}

/* Spoils a sound region by one statement; the checker must say `text`. */
#define SPOIL(text, ...)                                                                           \
  do {                                                                                             \
    IrRegion *r = sound();                                                                         \
    IrOp *ops = r->ops;                                                                            \
    (void)ops;                                                                                     \
    __VA_ARGS__;                                                                                   \
    const char *wrong = ir_check(r);                                                               \
    CHECK(wrong &&strstr(wrong, text), "want \"%s\", got \"%s\"", text,                            \
          wrong ? wrong : "(sound)");                                                              \
    ir_region_free(r);                                                                             \
  } while (0)

static void checking(void) {
  IrRegion *good = sound();
  CHECK(!ir_check(good), "sound region: %s", ir_check(good));
  ir_region_free(good);
  SPOIL("no blocks", r->n_blocks = 0);
  SPOIL("no operations", r->n_ops = IR_MAX_OPS + 1);
  SPOIL("not nop", ops[0].code = IR_imm);
  SPOIL("not the entry", r->blocks[0].pc = 0x1004);
  SPOIL("include its entry", r->low = 0x1001);
  SPOIL("no such operation", ops[2].code = IR_OPCODES);
  SPOIL("operand a is missing", ops[3].a = 0);
  SPOIL("operand b is not used", ops[3].b = 2);
  SPOIL("operation 3 (ld64): operand %3 is not defined before", ops[3].a = 3);
  SPOIL("another block", ops[15].a = 3);
  SPOIL("not a value", ops[7].a = 5);
  SPOIL("more than 32 bits", ops[7].code = IR_fadd32);
  SPOIL("rounding mode", ops[7].imm = 5);
  SPOIL("not a slot", ops[2].imm = 12);
  SPOIL("beyond the state", ops[2].imm = IR_SCRATCH_AT);
  SPOIL("pc is not a register", ops[2].imm = offsetof(IrState, pc));
  SPOIL("engine's part", ops[5].imm = offsetof(IrState, budget));
  SPOIL("out of order", ops[6].a = 0);
  SPOIL("pc differs", ops[6].imm = 0x1002);
  SPOIL("first_op", r->insns[1].first_op = 5);
  SPOIL("belongs to block", r->insns[1].block = 1);
  SPOIL("too many instructions", r->blocks[0].n_insns = 1; r->blocks[1].first_insn = 1);
  SPOIL("fewer instructions", ops[6] = (IrOp){.code = IR_nop});
  SPOIL("do not follow", r->blocks[1].first_insn = 1);
  SPOIL("may fault after a put", ops[2].code = IR_put, ops[2].a = 0, ops[4].a = 0, ops[2] = ops[5],
        ops[2].a = 0, ops[3].a = 0, ops[3] = ops[2],
        ops[2] = (IrOp){.code = IR_get, .imm = TEST_REG(1)}, ops[3].a = 2, ops[4].a = 2,
        ops[5].a = 2);
  SPOIL("belongs to no instruction", ops[1] = (IrOp){.code = IR_get, .imm = TEST_REG(1)},
        ops[2] = (IrOp){.code = IR_ld64, .a = 1});
  SPOIL("no such fault", ops[4].b = 9);
  SPOIL("no such trap", ops[16] = (IrOp){.code = IR_trap, .a = 9});
  SPOIL("ways out", r->blocks[0].n_succ = 1);
  SPOIL("way out to block 7", r->blocks[0].succ[0].block = 7);
  SPOIL("another pc", r->blocks[0].succ[0].pc = 0x1010);
  SPOIL("always leaves", ops[8] = (IrOp){.code = IR_trap}, r->blocks[0].n_succ = 1);
  SPOIL("before its end", ops[7] = (IrOp){.code = IR_jump});
  SPOIL("does not end the block", ops[16] = (IrOp){.code = IR_nop});
  SPOIL("does not begin where", r->blocks[1].first++);
  SPOIL("beyond the region's", r->blocks[1].end++);
  SPOIL("behind the last block", r->n_ops = 17, r->blocks[1].end = 17, r->n_blocks = 1,
        r->blocks[0].succ[1].block = -1);
  SPOIL("another region", r->blocks[1].region = NULL);
  SPOIL("another pc than its first", r->blocks[1].pc = 0x100c, r->blocks[0].succ[1].pc = 0x100c);
  SPOIL("leaves its guard", ops[15].a = 13);
  SPOIL("always execute", ops[12].imm = 3);
  SPOIL("beyond its block's body", ops[12].imm = 4);
  SPOIL("no such counter", ops[14].imm = 4);
  SPOIL("another pc than the block's", ops[9].imm = 0x1000);
  SPOIL("has no record", ops[13] = (IrOp){.code = IR_nth});
}

/* ---- optimiser ------------------------------------------------------------------------------- */

static int count(const IrRegion *r, IrOpcode code) {
  int n = 0;
  for (uint32_t k = 0; k < r->n_ops; k++) n += r->ops[k].code == code;
  return n;
}

static IrRegion *finish_optimised(void) {
  ir_jump(b, 0x2000);
  IrRegion *r = ir_builder_finish(b);
  ir_optimise(r);
  CHECK(!ir_check(r), "optimised: %s", ir_check(r));
  return r;
}

static void optimising(void) {
  begin(); /* a constant in two halves, copied: lui + addi + mv */
  test_insn(b, 0x1000, IR_BR_NONE);
  put(1, ir_imm(b, 0x12345000));
  test_insn(b, 0x1004, IR_BR_NONE);
  put(1, ir_emit(b, IR_add, get(1), ir_imm(b, 0x678), 0, 0));
  test_insn(b, 0x1008, IR_BR_NONE);
  put(2, get(1));
  IrRegion *r = finish_optimised();
  CHECK_EQ(count(r, IR_get) + count(r, IR_add), 0, "folded");
  CHECK_EQ(count(r, IR_put), 2, "the first put is dead");
  ir_interp(r, s, NULL);
  CHECK_EQ(*test_reg(s, 1), 0x12345678, "value");
  CHECK_EQ(*test_reg(s, 2), 0x12345678, "copy");
  ir_region_free(r);

  begin(); /* what a load's hook or fault could see stays */
  test_insn(b, 0x1000, IR_BR_NONE);
  put(1, get(2));
  test_insn(b, 0x1004, IR_BR_NONE);
  IrRef v = ir_emit(b, IR_ld64, get(3), 0, 0, 0);
  put(1, v);
  test_insn(b, 0x1008, IR_BR_NONE);
  put(1, ir_imm(b, 5));
  r = finish_optimised();
  CHECK_EQ(count(r, IR_put), 3, "puts around an access stay");
  CHECK_EQ(count(r, IR_ld64), 1, "the load stays");
  ir_region_free(r);

  begin(); /* unused loads and floating-point operations stay, unused pure ones go */
  test_insn(b, 0x1000, IR_BR_NONE);
  IrRef x = get(1);
  ir_emit(b, IR_ld8u, x, 0, 0, 0);
  ir_emit(b, IR_fadd64, x, x, 0, 0);
  ir_emit(b, IR_mul, x, x, 0, 0);
  ir_emit(b, IR_trap_if, ir_imm(b, 0), IR_FAULT_ILLEGAL, 0, 0);
  r = finish_optimised();
  CHECK_EQ(count(r, IR_ld8u), 1, "load");
  CHECK_EQ(count(r, IR_fadd64), 1, "fp");
  CHECK_EQ(count(r, IR_mul) + count(r, IR_trap_if) + count(r, IR_imm), 0, "dead");
  ir_region_free(r);

  begin(); /* address arithmetic, extensions of extended values */
  test_insn(b, 0x1000, IR_BR_NONE);
  IrRef a = ir_emit(b, IR_add, get(1), ir_imm(b, 16), 0, 0);
  IrRef w = ir_emit(b, IR_ld32u, a, 0, 0, 4);
  put(2, ir_emit(b, IR_zext32, w, 0, 0, 0));
  r = finish_optimised();
  CHECK_EQ(count(r, IR_add) + count(r, IR_zext32), 0, "folded into the load");
  ir_region_free(r);
}

/* ---- control --------------------------------------------------------------------------------- */

static IrLinks links;

static void links_and_interrupts(void) {
  links.generation = 1;
  IrRegion *r = loop_region();
  begin();
  test_insn(b, 0x1000, IR_BR_RET);
  ir_jump_ind(b, get(5));
  IrRegion *ret = ir_builder_finish(b);
  ret->pc = ret->blocks[0].pc = 0x2000;
  *test_reg(s, 1) = 0, *test_reg(s, 2) = 10, *test_reg(s, 5) = 0x3000;
  *ir_counter(s, 0) = 0;
  IrExit x = ir_interp(r, s, &links);
  CHECK_EQ(x.kind, IR_EXIT_NEXT, "unlinked");
  CHECK_EQ(s->pc, 0x2000, "pc");
  CHECK(x.succ == &r->blocks[1].succ[0], "succ");
  CHECK_EQ(*ir_counter(s, 0), 20, "counted");
  x.succ->link = ret;
  x.succ->link_generation = links.generation;
  *test_reg(s, 1) = 0;
  x = ir_interp(r, s, &links);
  CHECK_EQ(s->pc, 0x3000, "through the link");
  CHECK(x.succ == ir_link_target(&links, 0x3000) && x.succ->pc == 0x3000,
        "an indirect jump offers the target table");
  x.succ->link = ret; /* 3000 jumps to 3000 */
  x.succ->link_generation = links.generation;
  *test_reg(s, 1) = 0,
               *test_reg(s, 5) = 0x3000 + 2 * IR_TARGETS * 4096; /* the same entry, another pc */
  x = ir_interp(r, s, &links);
  CHECK_EQ(s->pc, 0x3000 + 2 * IR_TARGETS * 4096, "another target");
  links.generation++;
  *test_reg(s, 1) = 0;
  x = ir_interp(r, s, &links);
  CHECK_EQ(s->pc, 0x2000, "a new generation breaks links");
  s->interrupt = 1;
  *test_reg(s, 1) = 0;
  x = ir_interp(r, s, &links);
  CHECK_EQ(x.kind, IR_EXIT_INTERRUPT, "back-edges ask");
  CHECK_EQ(s->pc, 0x1000, "pc at the back-edge");
  CHECK_EQ(*test_reg(s, 1), 1, "after one round");
  *test_reg(s, 1) = 9;
  x = ir_interp(r, s, &links);
  CHECK_EQ(x.kind, IR_EXIT_INTERRUPT, "exits ask");
  CHECK_EQ(s->pc, 0x2000, "pc at the exit");
  s->interrupt = 0;
  ir_region_free(r);
  ir_region_free(ret);
}

static void budget_and_stop(void) {
  begin();
  ir_emit(b, IR_budget, 3, 0, 0, 0x1000);
  test_insn(b, 0x1000, IR_BR_NONE);
  put(1, ir_emit(b, IR_add, get(1), ir_imm(b, 1), 0, 0));
  ir_emit(b, IR_stop_if_asked, 0, 0, 0, 0x1004);
  test_insn(b, 0x1004, IR_BR_JUMP);
  ir_jump(b, 0x1000);
  IrRegion *r = ir_builder_finish(b);
  *test_reg(s, 1) = 0;
  s->budget = 10;
  IrExit x = ir_interp(r, s, NULL);
  CHECK_EQ(x.kind, IR_EXIT_BUDGET, "budget");
  CHECK_EQ(s->budget, 1, "undone");
  CHECK_EQ(*test_reg(s, 1), 3, "rounds");
  CHECK_EQ(s->pc, 0x1000, "pc");
  s->budget = 10, s->stop = 1;
  x = ir_interp(r, s, NULL);
  CHECK_EQ(x.kind, IR_EXIT_STOP, "stop");
  CHECK_EQ(s->pc, 0x1004, "pc");
  CHECK(x.block == &r->blocks[0], "block");
  s->stop = 0;
  ir_region_free(r);
}

/* ---- instrumentation ------------------------------------------------------------------------- */

static int flushes;
static void flush(IrRing *ring, IrState *st) {
  (void)st;
  flushes++;
  ring->next = ring->owner;
}
static uint64_t per_target[2];
static uint64_t *miss(IrEdgeSite *site, IrState *st, uint64_t target) {
  (void)st;
  site->last = target;
  return site->counter = &per_target[target == 0x20];
}

static void run(void) {
  ir_jump(b, 0x2000);
  IrRegion *r = ir_builder_finish(b);
  CHECK(!ir_check(r), "%s", ir_check(r));
  for (int i = 0; i < 10; i++) {
    *test_reg(s, 1) = (uint64_t)i;
    *test_reg(s, 2) = i < 6 ? 0x10 : 0x20;
    CHECK_EQ(ir_interp(r, s, NULL).kind, IR_EXIT_NEXT, "instrumented");
  }
  ir_region_free(r);
}

static void records(void) {
  IrNth every3 = {3, 3}, odd2 = {2, 2};
  uint64_t buf[6] = {0};
  IrRing ring = {.next = (char *)buf,
                 .end = (char *)(buf + 6),
                 .record_size = 16,
                 .flush = flush,
                 .owner = buf};
  IrEdgeSite edge = {.miss = miss};
  begin();
  IrRef i = get(1), odd = ir_emit(b, IR_and, i, ir_imm(b, 1), 0, 0);
  ir_emit(b, IR_count_if, ir_emit(b, IR_nth, 0, 0, 0, (uint64_t)(uintptr_t)&every3), 0, 0, 8);
  ir_emit(b, IR_count_if, ir_emit(b, IR_nth, odd, 0, 0, (uint64_t)(uintptr_t)&odd2), 0, 0, 16);
  ir_emit(b, IR_count_if, ir_emit(b, IR_nth, ir_imm(b, 0), 0, 0, (uint64_t)(uintptr_t)&odd2), 0, 0,
          40);
  ir_emit(b, IR_guard, odd, 0, 0, 5);
  ir_emit(b, IR_count, 1, 0, 0, 24);
  ir_emit(b, IR_guard, ir_emit(b, IR_eq, i, ir_imm(b, 3), 0, 0), 0, 0, 1);
  ir_emit(b, IR_count, 100, 0, 0, 32);
  IrRef rec = ir_emit(b, IR_ring_open, 0, 0, 0, (uint64_t)(uintptr_t)&ring);
  ir_emit(b, IR_ring_put, rec, i, 0, 0);
  ir_emit(b, IR_ring_put, rec, odd, 0, 8);
  ir_emit(b, IR_edge_ind, get(2), 0, 0, (uint64_t)(uintptr_t)&edge);
  run();
  CHECK_EQ(*ir_counter(s, 8), 3, "nth");
  CHECK_EQ(*ir_counter(s, 16), 2, "nth with a condition");
  CHECK_EQ(*ir_counter(s, 40), 0, "nth of nothing");
  CHECK_EQ(*ir_counter(s, 24), 5, "guard");
  CHECK_EQ(*ir_counter(s, 32), 100, "nested guard");
  CHECK_EQ(flushes, 3, "ring flushes");
  CHECK_EQ(buf[0], 9, "last record");
  CHECK_EQ(per_target[0], 6, "edge 0x10");
  CHECK_EQ(per_target[1], 4, "edge 0x20");
}

static void plane(uint32_t bits) {
  static uint8_t window[1024];
  memset(window, 0, sizeof window);
  IrPlane p = {.window = window, .shift = bits == 1 ? 3 : 2, .bits = bits, .limit = 2000};
  window[1000 * bits / 8] |= (uint8_t)(1 << 1000 * bits % 8); /* the byte 1000 is marked */
  static const struct {
    uint64_t at;
    uint32_t n;
    int want;
  } cases[] = {{1000, 1, 1}, {999, 1, 0},   {1001, 8, 0},       {993, 8, 1},
               {992, 8, 0},  {1000, 16, 1}, {985, 16, 1},       {984, 16, 0},
               {2000, 8, 0}, {1999, 8, 0},  {UINT64_MAX, 8, 0}, {UINT64_MAX / 2, 4, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    test_insn(b, 0x1000, IR_BR_NONE);
    put(3, ir_emit(b, IR_plane_test, get(1), (IrRef)cases[i].n, 0, (uint64_t)(uintptr_t)&p));
    ir_jump(b, 0x2000);
    IrRegion *r = ir_builder_finish(b);
    *test_reg(s, 1) = cases[i].at;
    ir_interp(r, s, NULL);
    CHECK_EQ(*test_reg(s, 3) != 0, cases[i].want, "plane_test");
    ir_region_free(r);
  }
}

int main(void) {
  b = ir_builder_new();
  s = test_state();
  printing();
  checking();
  optimising();
  links_and_interrupts();
  budget_and_stop();
  records();
  plane(1);
  plane(2);
  ir_builder_free(b);
  return test_end();
}
