/* Random regions of several blocks: the interpreter and the JIT, each on the plain region and on
 * the optimised one, and a naive evaluator of this test's own must agree on registers, memory, pc,
 * counts, the way out, and on what every observer along the way saw (helpers, callouts, host
 * faults, traps). Usage: ir_random_test [regions [first seed]] */
#include <setjmp.h>
#include <signal.h>

#include "base/softfp.h"
#include "ir_test.h"
#include "jit/jit.h"

#define REGS 12 /* few, so that they are overwritten often */
#define MEM  256
#define BASE 0x1000

typedef struct World {
  uint64_t regs[REGS], fp_flags, fp_rm, pc, insns, taken;
  uint8_t mem[MEM];
  uint64_t trail; /* hash of all that observers saw, in order */
  int kind, detail, block;
  uint64_t address;
} World;

static IrState *s;
static uint8_t *mem; /* MEM bytes at the end of a page; the next page is inaccessible */
static uint64_t trail;
static uint64_t counter_slot = 8;
static bool
    interrupted; /* a signal came while an observer ran: the next back-edge or exit is the last */

/* As the host is; without its newer instructions; with the instruction count in a register. */
static Jit *jits[3];
static Jit *running; /* whose code may fault; NULL: the interpreter's */

static void make_jits(void) {
  IrConvention c = {.fp_first = TEST_REG(6), .fp_count = 4};
  for (int i = 0; i < 6; i++) c.int_pins[i] = TEST_REG(i);
  c.int_pins[IR_INT_PINS - 1] = TEST_REG(10);
  c.fp_pins[0] = TEST_REG(6);
  c.fp_pins[5] = TEST_REG(7);
  for (int i = 0; i < 3; i++) {
    jits[i] = jit_new(&c, 0, i == 1 ? JIT_NO_BMI | JIT_NO_FMA : 0);
    if (!jits[i]) abort();
  }
  jit_count_retired(jits[2]);
  jit_reset(jits[2]);
}

static uint64_t mix(uint64_t h, uint64_t x) { return (h ^ x) * 0x9e3779b97f4a7c15ull + (h >> 29); }

/* ---- observers: they see all registers, and change one --------------------------------------- */

static uint64_t observe(uint64_t *regs, uint64_t a, uint64_t b) {
  for (int i = 0; i < REGS; i++) trail = mix(trail, regs[i]);
  trail = mix(mix(trail, a), b);
  regs[trail % REGS] ^= 0x1111;
  if (trail % 8 == 3) s->interrupt = interrupted = true;
  return trail;
}
static uint64_t helper_fn(IrState *st, uint64_t a, uint64_t b) {
  return observe(test_reg(st, 0), a, b);
}
static const IrHelper helper = {"observe", helper_fn};
static uint64_t callout_fn(IrState *st, const IrCallout *site, uint64_t a, uint64_t b,
                           uint32_t size) {
  trail = mix(trail, st->pc);
  return observe(test_reg(st, 0), a + site->aux, b + size) & 1;
}
static const IrCallout callout = {.fn = callout_fn, .aux = 5};

/* ---- generating ------------------------------------------------------------------------------ */

typedef struct Gen {
  IrBuilder *b;
  uint64_t seed;
  IrRef values[64];
  int n;
} Gen;

static unsigned pick(Gen *g, unsigned n) { return (unsigned)(test_random(&g->seed) >> 20) % n; }

static IrRef value(Gen *g) {
  if (g->n && pick(g, 4)) return g->values[pick(g, (unsigned)g->n)];
  static const uint64_t interesting[] = {0,          1,          UINT64_MAX,         8,  31,
                                         0x80000000, 0xffffffff, 0x7fffffffffffffff, 255};
  IrRef v = pick(g, 3)   ? ir_emit(g->b, IR_get, 0, 0, 0, TEST_REG(pick(g, REGS)))
            : pick(g, 2) ? ir_imm(g->b, interesting[pick(g, 9)])
                         : ir_imm(g->b, test_random(&g->seed));
  return v;
}

static IrRef keep(Gen *g, IrRef v) {
  if (g->n < 64) g->values[g->n++] = v;
  return v;
}

static IrRef pure(Gen *g) {
  for (;;) {
    IrOpcode code = (IrOpcode)pick(g, IR_OPCODES);
    const IrOpInfo *info = &ir_op_info[code];
    if (!(info->flags & IR_PURE) || info->a != IR_I64) continue;
    IrRef a = value(g), b = info->b ? value(g) : 0, c = info->c ? value(g) : 0;
    IrRef v = ir_emit(g->b, code, a, b, c, 0);
    if (info->result == IR_F32) v = ir_emit(g->b, IR_box32, v, 0, 0, 0); /* it is no double */
    return keep(g, v);
  }
}

/* Rounding with the dynamic mode; flags and mode are read and written as registers. */
static void floating(Gen *g) {
  static const IrOpcode codes[] = {IR_fadd64, IR_fmul64, IR_fdiv64};
  IrRef x = value(g), y = value(g);
  keep(g, ir_emit(g->b, codes[pick(g, 3)], x, y, 0, 7));
  if (!pick(g, 3)) keep(g, ir_emit(g->b, IR_get, 0, 0, 0, offsetof(IrState, fp_flags)));
}

static void put_floating(Gen *g) {
  IrRef v = value(g);
  if (pick(g, 2)) {
    ir_emit(g->b, IR_put, v, 0, 0, offsetof(IrState, fp_flags)); /* any bits will do */
  } else {
    v = ir_emit(g->b, IR_and, v, ir_imm(g->b, 3), 0, 0);
    ir_emit(g->b, IR_put, v, 0, 0, offsetof(IrState, fp_rm));
  }
}

/* An address in mem, now and then beyond it. */
static IrRef address(Gen *g) {
  IrRef off =
      ir_emit(g->b, IR_and, value(g), ir_imm(g->b, pick(g, 40) ? MEM - 8 : 2 * MEM - 8), 0, 0);
  return ir_emit(g->b, IR_add, off, ir_imm(g->b, (uint64_t)(uintptr_t)mem), 0, 0);
}

static void memory_access(Gen *g) {
  static const IrOpcode codes[] = {IR_ld8u, IR_ld16s, IR_ld32u,  IR_ld64,     IR_st8,  IR_st16,
                                   IR_st32, IR_st64,  IR_swap64, IR_rmwadd32, IR_cas64};
  IrOpcode code = codes[pick(g, sizeof codes / sizeof *codes)];
  const IrOpInfo *info = &ir_op_info[code];
  IrRef a = address(g), b = info->b ? value(g) : 0, c = info->c ? value(g) : 0;
  IrRef v = ir_emit(g->b, code, a, b, c, 0);
  if (info->result) keep(g, v);
}

static void trap_maybe(Gen *g) {
  IrRef bits = ir_emit(g->b, IR_and, value(g), ir_imm(g->b, 0x1f), 0, 0);
  ir_emit(g->b, IR_trap_if, ir_emit(g->b, IR_eq, bits, ir_imm(g->b, 9), 0, 0), IR_FAULT_MISALIGNED,
          pick(g, 2) ? value(g) : 0, 0);
}

static void instrument(Gen *g) {
  IrBuilder *b = g->b;
  switch (pick(g, 12)) {
  case 3: { /* what is made behind the guard stays there */
    IrRef x = value(g), y = value(g);
    ir_emit(b, IR_guard, pick(g, 2) ? x : ir_emit(b, IR_ltu, x, y, 0, 0), 0, 0, 3);
    ir_emit(b, IR_count_if, y, 0, 0, counter_slot);
    ir_emit(b, IR_callout, ir_emit(b, IR_add, x, y, 0, 0), y, 3, (uint64_t)(uintptr_t)&callout);
    break;
  }
  case 0:
    keep(g, ir_emit(b, IR_callout, value(g), pick(g, 2) ? value(g) : 0, (IrRef)pick(g, 9),
                    (uint64_t)(uintptr_t)&callout));
    break;
  case 1: ir_emit(b, IR_count_if, value(g), 0, 0, counter_slot); break;
  case 2: ir_emit(b, IR_count, (IrRef)pick(g, 5), 0, 0, counter_slot); break;
  default: break;
  }
}

static void instruction(Gen *g, uint64_t pc, IrBranch branch) {
  IrBuilder *b = g->b;
  test_insn(b, pc, branch);
  if (!pick(g, 3)) g->n = 0; /* else values of earlier instructions stay in use */
  instrument(g);
  for (unsigned i = pick(g, 3); i > 0; i--) pure(g);
  if (!pick(g, 5)) floating(g);
  if (!pick(g, 12)) trap_maybe(g);
  if (!pick(g, 4)) memory_access(g);
  for (unsigned i = pick(g, 3); i > 0; i--) pure(g);
  if (!pick(g, 15))
    keep(g, ir_emit(b, IR_call, value(g), value(g), 0, (uint64_t)(uintptr_t)&helper));
  for (unsigned i = pick(g, 3); i > 0; i--) {
    ir_emit(b, IR_put, value(g), 0, 0, TEST_REG(pick(g, REGS)));
    if (!pick(g, 3)) pure(g);
    if (!pick(g, 6)) put_floating(g);
  }
}

static uint64_t target(Gen *g, unsigned blocks) {
  return BASE + 0x100 * pick(g, blocks + 2);
} /* some leave the region */

static void terminator(Gen *g, unsigned blocks) {
  switch (pick(g, 8)) {
  case 0: ir_jump_ind(g->b, value(g)); break;
  case 1: ir_trap(g->b, (IrTrap)pick(g, IR_TRAP_NEXT + 1), target(g, blocks)); break;
  case 2:
  case 3: ir_jump(g->b, target(g, blocks)); break;
  default: {
    IrRef a = value(g), b = value(g);
    IrRef cond = ir_emit(g->b, (IrOpcode)(IR_eq + (int)pick(g, 6)), a, b, 0, 0);
    if (!pick(g, 4)) ir_emit(g->b, IR_count_if, cond, 0, 0, counter_slot);
    ir_br(g->b, cond, target(g, blocks), target(g, blocks));
  }
  }
}

static IrRegion *generate(IrBuilder *b, uint64_t seed) {
  Gen g = {.b = b, .seed = seed * 0x9e3779b97f4a7c15ull + 1};
  for (int i = 0; i < 4; i++) test_random(&g.seed);
  unsigned blocks = 1 + pick(&g, 4);
  ir_builder_begin(b, BASE);
  for (unsigned i = 0; i < blocks; i++) {
    uint64_t pc = BASE + 0x100 * i;
    g.n = 0;
    ir_builder_block(b, pc);
    unsigned insns = 1 + pick(&g, 8);
    ir_emit(b, IR_budget, (IrRef)insns, 0, 0, pc);
    ir_emit(b, IR_count, (IrRef)insns, 0, 0, 0);
    for (unsigned k = 0; k < insns; k++)
      instruction(&g, pc + 4 * k, k + 1 == insns ? IR_BR_COND : IR_BR_NONE);
    terminator(&g, blocks);
  }
  return ir_builder_finish(b);
}

/* ---- the naive evaluator --------------------------------------------------------------------- */

static uint64_t *reg_of(World *w, uint64_t offset) {
  if (offset == offsetof(IrState, fp_flags)) return &w->fp_flags;
  if (offset == offsetof(IrState, fp_rm)) return &w->fp_rm;
  return &w->regs[(offset - TEST_REG(0)) / 8];
}

static uint64_t naive_fp(World *w, IrOpcode code, uint64_t a, uint64_t b) {
  SoftFp fp = {.rm = (uint8_t)w->fp_rm};
  uint64_t v = code == IR_fadd64   ? softfp_add64(&fp, a, b)
               : code == IR_fmul64 ? softfp_mul64(&fp, a, b)
                                   : softfp_div64(&fp, a, b);
  w->fp_flags |= fp.flags;
  return v;
}

/* Guest memory of the evaluator: true if the access is good. */
static bool naive_access(World *w, const IrOp *op, uint64_t *v) {
  uint64_t at = v[op->a] + op->imm - (uint64_t)(uintptr_t)mem, size = ir_op_info[op->code].size,
           old = 0;
  if (at + size > MEM) {
    w->address = v[op->a] + op->imm;
    return false;
  }
  memcpy(&old, &w->mem[at], size);
  uint64_t b = v[op->b], now = old;
  switch (op->code) {
  case IR_ld16s: old = (uint64_t)(int16_t)old; break;
  case IR_st8:
  case IR_st16:
  case IR_st32:
  case IR_st64:
  case IR_swap64: now = b; break;
  case IR_rmwadd32: now = old + b; break;
  case IR_cas64: now = old == b ? v[op->c] : old; break;
  default: break;
  }
  memcpy(&w->mem[at], &now, size);
  w->address = old;
  return true;
}

static void leave(World *w, int kind, int detail, uint64_t pc) {
  w->kind = kind;
  w->detail = detail;
  w->pc = pc;
}

/* Executes one operation; false: the region was left. */
static bool naive_op(World *w, const IrRegion *r, const IrBlock *b, uint32_t k, uint64_t *v,
                     int64_t *budget, uint64_t *pc, int *next) {
  const IrOp *op = &r->ops[k];
  const IrOpInfo *info = &ir_op_info[op->code];
  uint64_t A = v[op->a];
  if (info->flags & IR_PURE)
    return v[k] = ir_eval_pure((IrOpcode)op->code, A, v[op->b], v[op->c], op->imm), true;
  if (info->flags & (IR_LOADS | IR_STORES)) {
    if (!naive_access(w, op, v)) return leave(w, -1, 0, *pc), false;
    return v[k] = w->address, true;
  }
  if (info->flags & IR_FPENV) return v[k] = naive_fp(w, (IrOpcode)op->code, A, v[op->b]), true;
  switch (op->code) {
  case IR_get: v[k] = *reg_of(w, op->imm); break;
  case IR_put: *reg_of(w, op->imm) = A; break;
  case IR_insn: *pc = op->imm; break;
  case IR_call: v[k] = observe(w->regs, A, v[op->b]); break;
  case IR_callout:
    trail = mix(trail, *pc);
    v[k] = observe(w->regs, A + 5, v[op->b] + op->c) & 1;
    break;
  case IR_trap_if:
    if (!A) break;
    w->address = v[op->c];
    return leave(w, IR_EXIT_FAULT, op->b, *pc), false;
  case IR_count: *(op->imm ? &w->taken : &w->insns) += op->a; break;
  case IR_count_if: w->taken += A != 0; break;
  case IR_budget:
    if (*budget < op->a) return leave(w, IR_EXIT_BUDGET, 0, b->pc), false;
    *budget -= op->a;
    break;
  case IR_jump_ind: return leave(w, IR_EXIT_NEXT, 0, A), false;
  case IR_trap:
    if (op->a == IR_TRAP_NEXT)
      leave(w, IR_EXIT_NEXT, 0, b->succ[0].pc);
    else
      leave(w, IR_EXIT_TRAP, op->a,
            op->a == IR_TRAP_ILLEGAL || op->a == IR_TRAP_BREAKPOINT ? *pc : b->succ[0].pc);
    return false;
  case IR_br:
  case IR_jump: {
    const IrSucc *to = &b->succ[op->code == IR_br && !A];
    *next = to->block;
    if (to->block < 0) return leave(w, IR_EXIT_NEXT, 0, to->pc), false;
    if (interrupted && to->block <= w->block) return leave(w, IR_EXIT_NEXT, 0, to->pc), false;
    break;
  }
  default: abort();
  }
  return true;
}

static void naive(World *w, const IrRegion *r) {
  static uint64_t v[IR_MAX_OPS];
  int64_t budget = 200;
  uint64_t pc = r->pc;
  trail = 1;
  interrupted = false;
  for (int i = 0;;) {
    const IrBlock *b = &r->blocks[i];
    int next = -1;
    w->block = i;
    pc = b->pc;
    for (uint32_t k = b->first; k < b->end; k++)
      if (r->ops[k].code == IR_guard)
        k += v[r->ops[k].a] ? 0 : (uint32_t)r->ops[k].imm;
      else if (!naive_op(w, r, b, k, v, &budget, &pc, &next)) {
        w->trail = trail;
        if (w->kind == IR_EXIT_NEXT || w->kind == IR_EXIT_TRAP || w->kind == IR_EXIT_BUDGET)
          w->address = 0;
        return;
      }
    i = next;
  }
}

/* ---- the interpreter ------------------------------------------------------------------------- */

static sigjmp_buf fault_env;
static volatile uint64_t fault_address;

static void on_fault(int signo, siginfo_t *info, void *ctx) {
  (void)signo;
  if (running && jit_host_fault(running, s, ctx)) return;
  fault_address = (uint64_t)(uintptr_t)info->si_addr;
  siglongjmp(fault_env, 1);
}

static void compile(Jit *j, IrRegion *r) {
  if (jit_compile(j, r)) return;
  jit_reset(j);
  if (!jit_compile(j, r)) abort();
}

/* j NULL: by the interpreter. */
static void execute(World *w, IrRegion *r, Jit *j) {
  if (j) compile(j, r);
  running = j;
  memset(s, 0, sizeof *s);
  memcpy(test_reg(s, 0), w->regs, sizeof w->regs);
  memcpy(mem, w->mem, MEM);
  *ir_counter(s, 0) = *ir_counter(s, counter_slot) = 0;
  s->budget = 200;
  trail = 1;
  if (sigsetjmp(fault_env, 1)) {
    w->kind = -1;
    w->detail = 0;
    w->address = fault_address;
    w->block = (int)(s->block - r->blocks);
  } else {
    IrExit x = j ? jit_run(j, r, s, false) : ir_interp(r, s, NULL);
    w->kind = (int)x.kind;
    if (w->kind == IR_EXIT_INTERRUPT)
      w->kind = IR_EXIT_NEXT; /* an exit that was taken anyway may say either */
    w->detail = (int)x.detail;
    w->address = x.address;
    w->block = x.block ? (int)(x.block - r->blocks) : -1; /* not known after an indirect jump */
  }
  w->pc = s->pc;
  w->trail = trail;
  w->insns = *ir_counter(s, 0);
  w->taken = *ir_counter(s, counter_slot);
  memcpy(w->regs, test_reg(s, 0), sizeof w->regs);
  w->fp_flags = s->fp_flags;
  w->fp_rm = s->fp_rm;
  memcpy(w->mem, mem, MEM);
  if (j) jit_forget(j, r);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same(const World *a, const World *b, bool fault_address_too) {
  return !memcmp(a->regs, b->regs, sizeof a->regs) && !memcmp(a->mem, b->mem, MEM) &&
         a->pc == b->pc && a->fp_flags == b->fp_flags && a->fp_rm == b->fp_rm &&
         a->insns == b->insns && a->taken == b->taken && a->trail == b->trail &&
         a->kind == b->kind && a->detail == b->detail && (b->block < 0 || a->block == b->block) &&
         (!fault_address_too || a->address == b->address);
}

static void explain(uint64_t seed, const char *what, const IrRegion *r, const World *want,
                    const World *got) {
  if (test_failed > 3) return;
  fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, what);
  ir_print(stderr, r, NULL);
  fprintf(stderr,
          "kind %d/%d pc %" PRIx64 "/%" PRIx64 " block %d/%d insns %" PRIu64 "/%" PRIu64
          " trail %" PRIx64 "/%" PRIx64 "\n",
          want->kind, got->kind, want->pc, got->pc, want->block, got->block, want->insns,
          got->insns, want->trail, got->trail);
  fprintf(stderr,
          "flags %" PRIx64 "/%" PRIx64 " rm %" PRIx64 "/%" PRIx64 " taken %" PRIu64 "/%" PRIu64
          " address %" PRIx64 "/%" PRIx64 " memory %s\n",
          want->fp_flags, got->fp_flags, want->fp_rm, got->fp_rm, want->taken, got->taken,
          want->address, got->address, memcmp(want->mem, got->mem, MEM) ? "differs" : "same");
  for (int i = 0; i < REGS; i++)
    if (want->regs[i] != got->regs[i])
      fprintf(stderr, "[%" PRIx64 "] want %" PRIx64 " got %" PRIx64 "\n", TEST_REG(i),
              want->regs[i], got->regs[i]);
}

static int kinds[8];
static int interruptions;

static void one(IrBuilder *b, uint64_t seed) {
  World start = {0}, want, plain, optimised;
  uint64_t rnd = seed + 12345;
  for (int i = 0; i < REGS; i++) start.regs[i] = test_random(&rnd) >> (test_random(&rnd) & 63);
  for (int i = 0; i < MEM; i++) start.mem[i] = (uint8_t)test_random(&rnd);
  want = plain = optimised = start;
  IrRegion *r = generate(b, seed), *o = generate(b, seed);
  const char *wrong = ir_check(r);
  CHECK(!wrong, "seed %" PRIu64 ": generated region: %s", seed, wrong);
  naive(&want, r);
  interruptions += interrupted;
  execute(&plain, r, NULL);
  ir_optimise(o);
  wrong = ir_check(o);
  CHECK(!wrong, "seed %" PRIu64 ": optimised region: %s", seed, wrong);
  execute(&optimised, o, NULL);
  kinds[want.kind + 1]++;
  if (!same(&want, &plain, true))
    explain(seed, "interpreter differs from naive evaluation", r, &want, &plain);
  CHECK(same(&want, &plain, true), "seed %" PRIu64 ": interpreter", seed);
  if (!same(&want, &optimised, true))
    explain(seed, "optimised region differs", o, &want, &optimised);
  CHECK(same(&want, &optimised, true), "seed %" PRIu64 ": optimiser", seed);
  static const char *const names[] = {"JIT", "JIT for an old host", "JIT that counts"};
  for (int i = 0; i < 6; i++) {
    World got = start;
    IrRegion *x = i < 3 ? r : o;
    execute(&got, x, jits[i % 3]);
    if (!same(&want, &got, true)) explain(seed, names[i % 3], x, &want, &got);
    CHECK(same(&want, &got, true), "seed %" PRIu64 ": %s, %s", seed, names[i % 3],
          i < 3 ? "plain" : "optimised");
  }
  ir_region_free(r);
  ir_region_free(o);
}

int main(int argc, char **argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000,
           first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  s = test_state();
  char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(pages + 4096, 4096, PROT_NONE);
  mem = (uint8_t *)pages + 4096 - MEM;
  struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &sa, NULL);
  jit_thread_start(s);
  make_jits();
  IrBuilder *b = ir_builder_new();
  for (uint64_t seed = first; seed < first + n; seed++) one(b, seed);
  ir_builder_free(b);
  for (int k = 0; k < 5; k++)
    if (k != 4 && n > 1000)
      CHECK(kinds[k] > 0, "no region ended in way %d",
            k - 1); /* the test reaches them all (but STOP) */
  if (n > 1000) CHECK(interruptions > 100, "only %d regions were interrupted", interruptions);
  return test_end();
}
