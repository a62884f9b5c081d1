/* The host side of the exec sweep (rv64_exec.h): makes the jobs, and checks the records against
 * decoder, lifter and interpreter; every second job goes through the optimiser too. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "guest/rv64/rv64.h"
#include "rv64_exec.h"

extern const Guest rv64_guest;

static void die(const char *what) {
  fprintf(stderr, "rv64_exec_host: %s\n", what);
  exit(2);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static bool decode(uint32_t raw, size_t len, uint64_t pc, GuestInsn *insn) {
  return rv64_decode((const uint8_t *)&raw, len, pc, insn) == GUEST_DECODE_OK;
}

static const Rv64Row *base_row(const GuestInsn *insn) {
  return &rv64_rows[rv64_rows[insn->id].base];
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && !strcmp(s + n - m, end);
}

/* Fields that chance alone would make dull. */
static uint32_t season(GenRandom *r, const char *bits, const char *name, uint32_t raw) {
  static const uint8_t modes[] = {0, 1, 2, 3, 4, 7, 7, 7};
  unsigned width;
  if (gen_below(r, 16)) raw = gen_set_field(bits, raw, 'm', modes[gen_below(r, 8)]);
  uint32_t s = gen_field(bits, raw, 's', &width);
  if (width == 5 && !gen_below(r, 8)) raw = gen_set_field(bits, raw, 't', s);
  if (width == 5 && !gen_below(r, 8)) raw = gen_set_field(bits, raw, 'd', s);
  if (!strncmp(name, "csrr", 4) && gen_below(r, 8))
    raw = gen_set_field(bits, raw, 'i', 1 + gen_below(r, 3));
  return raw;
}

static bool is_near_code(uint64_t target, const GuestInsn *insn) {
  return target + 12 > insn->pc && target < insn->pc + insn->len + 8;
}

static uint64_t random_target(GenRandom *r, const GuestInsn *insn) {
  for (;;) {
    uint64_t target = EXEC_CODE + (gen_random(r) & (EXEC_CODE_SIZE / 2 - 2));
    if (!is_near_code(target, insn)) return target;
  }
}

/* Operands that need sensible values; false: try another encoding. */
static bool set_operands(GenRandom *r, ExecJob *job, const GuestInsn *insn) {
  const Rv64Args *a = rv64_args(insn);
  const Rv64Row *row = base_row(insn);
  if (row->branch == RV64_BR_JALR) {
    job->indirect = a->rs1;
    job->imm = a->imm;
    job->target = random_target(r, insn);
    return a->rs1 != 0;
  }
  if (insn->target) {
    job->target = insn->target;
    return !is_near_code(insn->target, insn);
  }
  if (!strpbrk(row->operands, "oq0")) return true;
  bool atomic = strchr(row->operands, '0');
  job->pointer = a->rs1;
  job->imm = atomic ? 0 : a->imm;
  job->align = !atomic ? 1 : ends_with(row->name, "_w") ? 4 : 8;
  if (!strncmp(row->name, "sc_", 3) &&
      gen_below(r, 4)) { /* a load-reserved before it, of either size */
    uint32_t rd = a->rd == a->rs1 || a->rd == a->rs2 ? 0 : a->rd;
    job->code[1] = 0x1000002f | (2 + gen_below(r, 2)) << 12 | (uint32_t)a->rs1 << 15 | rd << 7;
    job->len[1] = 4;
  }
  return a->rs1 != 0;
}

static bool is_counter(const GuestInsn *insn) {
  return !strncmp(base_row(insn)->name, "csrr", 4) && rv64_args(insn)->imm >= 0xc00 &&
         rv64_args(insn)->imm <= 0xc02;
}

/* Another instruction before the one under test, which often reads what it writes: a random one of
 * those that only compute. */
static void set_before(GenRandom *r, ExecJob *job, const GuestInsn *insn) {
  const GenRow *row = &gen_rows[gen_below(r, GEN_ROWS)];
  if (!strcmp(row->name, "ctzw") || !strcmp(gen_rows[job->row].name, "ctzw")) return; /* pinned */
  const Rv64Args *a = rv64_args(insn);
  uint32_t raw = season(r, row->bits, row->name, gen_encode(r, row->bits));
  if (gen_below(r, 2)) raw = gen_set_field(row->bits, raw, 'd', gen_below(r, 2) ? a->rs1 : a->rs2);
  GuestInsn before;
  uint8_t len = (uint8_t)(gen_length(row->bits) / 8);
  if (!decode(raw, len, insn->pc - len, &before) || before.branch != IR_BR_NONE) return;
  if (strpbrk(base_row(&before)->operands, "oq0") || is_counter(&before)) return;
  uint8_t rd = rv64_args(&before)->rd;
  if (rd && (rd == job->pointer || rd == job->indirect)) return;
  job->code[1] = raw;
  job->len[1] = len;
}

/* A register that neither instruction names; 0: there is none. */
static uint8_t free_register(const ExecJob *job) {
  uint32_t used = 0;
  for (int i = 0; i < 2; i++) {
    GuestInsn insn;
    if (!job->len[i]) continue;
    decode(job->code[i], job->len[i], 0, &insn);
    const Rv64Args *a = rv64_args(&insn);
    used |= 1u << a->rd | 1u << a->rs1 | 1u << a->rs2;
  }
  for (uint8_t reg = 31; reg >= 28; reg--)
    if (!(used >> reg & 1)) return reg;
  return 0;
}

static void make_job(GenRandom *r, int row, uint32_t states, ExecJob *job) {
  const char *bits = gen_rows[row].bits;
  do {
    *job = (ExecJob){.seed = gen_random(r), .row = (uint16_t)row, .states = states, .align = 1};
    job->code[0] = season(r, bits, gen_rows[row].name, gen_encode(r, bits));
    job->len[0] = (uint8_t)(gen_length(bits) / 8);
    GuestInsn insn;
    if (decode(job->code[0], job->len[0], EXEC_CODE + EXEC_MIDDLE, &insn)) {
      if (!set_operands(r, job, &insn) || is_counter(&insn)) continue;
      if (!job->len[1] && gen_below(r, 2)) set_before(r, job, &insn);
    }
    job->base = free_register(job);
  } while (!job->base);
}

static int n_jobs, n_states;
static GenRandom job_random;

/* Calls fn with each job; they depend on the seed only. */
static void each_job(void (*fn)(const ExecJob *)) {
  for (int row = 0; row < GEN_ROWS; row++) {
    if (!strcmp(gen_rows[row].name, "ecall")) continue; /* the system call tables' affair */
    for (int i = 0; i < n_jobs; i++) {
      ExecJob job;
      make_job(&job_random, row, (uint32_t)n_states, &job);
      fn(&job);
    }
  }
}

static void write_job(const ExecJob *job) { fwrite(job, sizeof *job, 1, stdout); }

/* ---- executing here -------------------------------------------------------------------------- */

static Rv64State *state;
static IrBuilder *builder;
static uint64_t n_cases, n_wrong, n_counted;

static void *map(uint64_t at, uint64_t size) {
  int fixed = at ? MAP_FIXED_NOREPLACE : 0;
  void *p = mmap((void *)(uintptr_t)at, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (p == MAP_FAILED) die("mmap");
  return p;
}

/* The job's region, or NULL: the instruction is illegal. */
static IrRegion *make_region(const ExecJob *job, uint32_t count) {
  uint64_t pc = EXEC_CODE + EXEC_MIDDLE - job->len[1];
  ir_builder_begin(builder, pc);
  ir_builder_block(builder, pc);
  for (int i = 1; i >= 0; i--) {
    GuestInsn insn;
    if (!job->len[i]) continue;
    bool legal = decode(job->code[i], job->len[i], pc, &insn);
    ir_builder_insn(builder, &(IrInsn){.pc = pc,
                                       .target = insn.target,
                                       .len = insn.len,
                                       .branch = insn.branch,
                                       .id = insn.id});
    pc += insn.len;
    if (!legal)
      ir_trap(builder, IR_TRAP_ILLEGAL, insn.pc);
    else
      rv64_guest.lift(builder, &insn);
    if (i == 0 && legal && insn.branch == IR_BR_NONE) ir_jump(builder, pc);
  }
  IrRegion *r = ir_builder_finish(builder);
  const char *wrong = ir_check(r);
  if (!wrong && count & 1) {
    ir_optimise(r);
    wrong = ir_check(r);
  }
  if (wrong) {
    ir_print(stderr, r, NULL);
    die(wrong);
  }
  return r;
}

static unsigned outcome_of(const ExecJob *job, const IrExit *e) {
  switch (e->kind) {
  case IR_EXIT_NEXT:
    return state->ir.pc == job->target                             ? EXEC_TAKEN
           : state->ir.pc == EXEC_CODE + EXEC_MIDDLE + job->len[0] ? EXEC_FELL_THROUGH
                                                                   : 255;
  case IR_EXIT_FAULT:
    return EXEC_SIGNAL + (e->detail == IR_FAULT_MISALIGNED ? 7
                          : e->detail == IR_FAULT_ILLEGAL  ? 4
                                                           : 11);
  case IR_EXIT_TRAP:
    return e->detail == IR_TRAP_FENCE_I ? EXEC_FELL_THROUGH
                                        : EXEC_SIGNAL + (e->detail == IR_TRAP_BREAKPOINT ? 5
                                                         : e->detail == IR_TRAP_ILLEGAL  ? 4
                                                                                         : 255);
  default: return 254;
  }
}

static unsigned execute(const ExecJob *job, IrRegion *r, const ExecState *before,
                        ExecState *after) {
  uint64_t *words = (uint64_t *)EXEC_WORDS_AT;
  memcpy(words, before->memory, sizeof before->memory);
  memcpy(state->x, before->x, sizeof state->x);
  memcpy(state->f, before->f, sizeof state->f);
  state->ir.pc = r->pc;
  state->ir.fp_flags = before->fcsr & 31;
  state->ir.fp_rm = before->fcsr >> 5;
  state->lr_addr = RV64_NO_RESERVATION;
  IrExit e = ir_interp(r, &state->ir, NULL);
  memcpy(after->x, state->x, sizeof state->x);
  memcpy(after->f, state->f, sizeof state->f);
  after->fcsr = state->ir.fp_flags | state->ir.fp_rm << 5;
  memcpy(after->memory, words, sizeof after->memory);
  after->x[job->base] = 0;
  return outcome_of(job, &e);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void print_record(const char *who, const uint8_t *p) {
  fprintf(stderr, "  %s: outcome %u", who, p[0]);
  for (unsigned i = 0; i < p[1]; i++) {
    const uint8_t *c = p + 2 + i * 9;
    uint64_t v;
    memcpy(&v, c + 1, 8);
    if (*c < 32)
      fprintf(stderr, ", x%u", *c);
    else if (*c < 64)
      fprintf(stderr, ", f%u", *c - 32);
    else if (*c == 64)
      fprintf(stderr, ", fcsr");
    else
      fprintf(stderr, ", memory[%u]", *c - 65);
    fprintf(stderr, " = %016" PRIx64, v);
  }
  fprintf(stderr, "\n");
}

/* Where qemu-riscv64 7.2 is known to be wrong: which row, which cases, why. An example of each:
 *
 *   sc.w a0,a7,(a7)   a7 = 4000081a     qemu: a0 = 1         here: SIGBUS
 *   ctzw t4,s1        s1 = 1 << 57      qemu: t4 = 57        here: t4 = 32 */
typedef struct Divergence {
  const char *row;
  bool (*is_known)(const ExecJob *job, const ExecState *before, const uint8_t *theirs,
                   const uint8_t *ours);
  const char *why;
  uint64_t n;
} Divergence;

static bool is_misaligned_sc(const ExecJob *job, const ExecState *before, const uint8_t *theirs,
                             const uint8_t *ours) {
  return before->x[job->pointer] & (job->align - 1u) && theirs[0] == EXEC_FELL_THROUGH &&
         ours[0] == EXEC_SIGNAL + 7;
}

static bool is_ctzw_of_zero(const ExecJob *job, const ExecState *before, const uint8_t *theirs,
                            const uint8_t *ours) {
  bool is_32 = ours[1] ? ours[3] == 32 : before->x[job->code[0] >> 7 & 31] == 32;
  return !(uint32_t)before->x[job->code[0] >> 15 & 31] && theirs[0] == ours[0] && is_32;
}

static Divergence divergences[] = {
    {"sc_w", is_misaligned_sc,
     "a misaligned sc faults (unprivileged ISA 8.2), even without a reservation", 0},
    {"sc_d", is_misaligned_sc,
     "a misaligned sc faults (unprivileged ISA 8.2), even without a reservation", 0},
    {"ctzw", is_ctzw_of_zero,
     "ctzw of a zero word is 32 (bit-manipulation 1.0.0), whatever is above", 0},
};

static bool is_pinned(const ExecJob *job, const ExecState *before, const uint8_t *theirs,
                      const uint8_t *ours) {
  for (size_t i = 0; i < sizeof divergences / sizeof *divergences; i++) {
    Divergence *d = &divergences[i];
    if (strcmp(gen_rows[job->row].name, d->row) || !d->is_known(job, before, theirs, ours))
      continue;
    d->n++;
    return true;
  }
  return false;
}

static void report(const ExecJob *job, const ExecState *s, const uint8_t *theirs,
                   const uint8_t *ours) {
  char text[96], before[96] = "";
  GuestInsn insn;
  if (is_pinned(job, s, theirs, ours)) return;
  if (++n_wrong > 40) return;
  if (job->len[1]) {
    decode(job->code[1], job->len[1], EXEC_CODE + EXEC_MIDDLE - job->len[1], &insn);
    rv64_disasm(&insn, before, sizeof before);
  }
  decode(job->code[0], job->len[0], EXEC_CODE + EXEC_MIDDLE, &insn);
  const Rv64Args *a = rv64_args(&insn);
  rv64_disasm(&insn, text, sizeof text);
  fprintf(stderr, "%s %0*x %s%s%s\n", gen_rows[job->row].name, job->len[0] * 2, job->code[0], text,
          job->len[1] ? " after " : "", before);
  fprintf(stderr,
          "  x%u=%" PRIx64 " x%u=%" PRIx64 " f%u=%" PRIx64 " f%u=%" PRIx64 " f%u=%" PRIx64
          " fcsr=%" PRIx64 "\n",
          a->rs1, s->x[a->rs1], a->rs2, s->x[a->rs2], a->rs1, s->f[a->rs1], a->rs2, s->f[a->rs2],
          a->rs3 & 31, s->f[a->rs3 & 31], s->fcsr);
  print_record("theirs", theirs);
  print_record("ours  ", ours);
}

static size_t read_record(uint8_t *p) {
  if (fread(p, 2, 1, stdin) != 1) {
    fprintf(stderr, "after %" PRIu64 " cases: ", n_cases);
    die("records end early");
  };
  size_t n = p[1] * 9u;
  if (p[1] > EXEC_SLOTS || (n && fread(p + 2, n, 1, stdin) != 1)) die("bad record");
  return n + 2;
}

static void check_job(const ExecJob *job) {
  GenRandom r = {job->seed};
  IrRegion *region = make_region(job, (uint32_t)n_counted++);
  for (uint32_t i = 0; i < job->states; i++) {
    ExecState before = {0}, after;
    uint8_t theirs[2 + 255 * 9], ours[EXEC_RECORD_MAX];
    exec_state(&r, job, &before);
    unsigned outcome = execute(job, region, &before, &after);
    size_t n = exec_record(&before, &after, outcome, ours);
    n_cases++;
    if (read_record(theirs) != n || memcmp(theirs, ours, n)) report(job, &before, theirs, ours);
  }
  ir_region_free(region);
}

int main(int argc, char **argv) {
  if (argc != 5) die("usage: rv64_exec_host jobs|check SEED N K");
  job_random.state = strtoull(argv[2], NULL, 0);
  n_jobs = atoi(argv[3]);
  n_states = atoi(argv[4]);
  if (!strcmp(argv[1], "jobs")) return each_job(write_job), fflush(stdout);
  state = map(0, IR_STATE_WINDOW);
  map(EXEC_WINDOW, 0x1000);
  builder = ir_builder_new();
  each_job(check_job);
  if (getc(stdin) != EOF) die("records behind the last");
  ir_builder_free(builder);
  for (size_t i = 0; i < sizeof divergences / sizeof *divergences; i++)
    printf("%s: %" PRIu64 " pinned: %s\n", divergences[i].row, divergences[i].n,
           divergences[i].why);
  printf("%" PRIu64 " cases, %" PRIu64 " wrong\n", n_cases, n_wrong);
  return n_wrong != 0;
}
