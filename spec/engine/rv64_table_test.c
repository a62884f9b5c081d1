/* The instruction table of the riscv64 guest: rows do not overlap but where declared, an encoding
 * of a row decodes to that row, every row lifts to a region that passes the checker, before and
 * after the optimiser, and has a text. Also branch kinds and lengths.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/rv64_gen.h"
#include "guest/rv64/rv64.h"

extern const Guest rv64_guest;

static int n_passed;

#define CHECK(cond, ...)                                                                           \
  do {                                                                                             \
    if (!(cond)) {                                                                                 \
      printf("line %d: %s: ", __LINE__, #cond);                                                    \
      printf(__VA_ARGS__);                                                                         \
      printf("\n");                                                                                \
      exit(1);                                                                                     \
    }                                                                                              \
    n_passed++;                                                                                    \
  } while (0)

static GuestDecode decode(uint32_t raw, size_t len, GuestInsn *insn) {
  return rv64_decode((const uint8_t *)&raw, len, 0x10000, insn);
}

/* ---- overlap --------------------------------------------------------------------------------- */

/* Encodings of the first row are cut out of the second's (insns.def says so where the rows are). */
static const char *const cuts[][2] = {
    {"c_addi16sp", "c_lui"}, {"c_jr", "c_mv"},    {"c_ebreak", "c_jalr"},
    {"c_ebreak", "c_add"},   {"c_jalr", "c_add"},
};

static bool is_declared(const char *a, const char *b) {
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    if (!strcmp(cuts[i][0], a) && !strcmp(cuts[i][1], b)) return true;
  return false;
}

static bool overlaps(const char *a, const char *b) {
  if (strlen(a) != strlen(b)) return false;
  for (; *a; a++, b++)
    if ((*a == '0' && *b == '1') || (*a == '1' && *b == '0')) return false;
  return true;
}

static void test_overlap(void) {
  for (int i = 0; i < GEN_ROWS; i++)
    for (int j = i + 1; j < GEN_ROWS; j++)
      if (overlaps(gen_rows[i].bits, gen_rows[j].bits)) {
        const char *a = gen_rows[i].name, *b = gen_rows[j].name;
        CHECK(is_declared(a, b) || is_declared(b, a), "%s and %s overlap", a, b);
      }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void test_lifting(IrBuilder *b, const GuestInsn *insn, const char *name) {
  ir_builder_begin(b, insn->pc);
  ir_builder_block(b, insn->pc);
  ir_builder_insn(b, &(IrInsn){.pc = insn->pc,
                               .target = insn->target,
                               .len = insn->len,
                               .branch = insn->branch,
                               .id = insn->id});
  rv64_guest.lift(b, insn);
  if (insn->branch == IR_BR_NONE) ir_jump(b, insn->pc + insn->len);
  IrRegion *r = ir_builder_finish(b);
  const char *wrong = ir_check(r);
  CHECK(!wrong, "%s lifted: %s", name, wrong);
  ir_optimise(r);
  wrong = ir_check(r);
  CHECK(!wrong, "%s optimised: %s", name, wrong);
  ir_region_free(r);
}

/* Whether the encoding is one that rows further up have. */
static bool is_cut_out(uint32_t raw, int row) {
  for (int i = 0; i < GEN_ROWS; i++) {
    const char *bits = gen_rows[i].bits;
    unsigned n = gen_length(bits);
    if (!is_declared(gen_rows[i].name, gen_rows[row].name)) continue;
    bool fits = true;
    for (unsigned k = 0; k < n; k++)
      if (bits[k] < '2' && bits[k] - '0' != (int)(raw >> (n - 1 - k) & 1)) fits = false;
    if (fits) return true;
  }
  return false;
}

static void test_row(IrBuilder *b, GenRandom *r, int row) {
  const char *bits = gen_rows[row].bits, *name = gen_rows[row].name;
  int legal = 0;
  for (int i = 0; i < 200; i++) {
    uint32_t raw = gen_encode(r, bits);
    GuestInsn insn;
    char text[80];
    GuestDecode d = decode(raw, gen_length(bits) / 8, &insn);
    if (is_cut_out(raw, row)) continue;
    CHECK(insn.id < RV64_ROWS && !strcmp(rv64_rows[insn.id].name, name), "%s: %x is %s", name, raw,
          rv64_rows[insn.id].name);
    CHECK(insn.len * 8u == gen_length(bits) && insn.raw == raw, "%s: %x", name, raw);
    if (d != GUEST_DECODE_OK) continue; /* reserved: the sweeps against objdump and qemu know */
    legal++;
    CHECK(!strcmp(rv64_rows[rv64_rows[insn.id].base].name, gen_rows[row].base), "%s", name);
    CHECK(rv64_disasm(&insn, text, sizeof text) > 0 && text[0] != '.', "%s: %s", name, text);
    test_lifting(b, &insn, name);
  }
  CHECK(legal > 0, "%s has no legal encoding", name);
}

static void test_rows(void) {
  IrBuilder *b = ir_builder_new();
  GenRandom r = {1};
  for (int row = 0; row < GEN_ROWS; row++) test_row(b, &r, row);
  ir_builder_free(b);
}

/* Whatever the bytes: what decodes lifts, and texts keep to their buffers. */
static void test_noise(void) {
  IrBuilder *b = ir_builder_new();
  GenRandom r = {2};
  for (int i = 0; i < 200000; i++) {
    uint32_t raw = (uint32_t)gen_random(&r);
    GuestInsn insn;
    char full[80], cut[80];
    if (i & 1) raw |= 3;
    GuestDecode d = decode(raw, 4, &insn);
    CHECK(d != GUEST_DECODE_TRUNCATED && insn.len == ((raw & 3) == 3 ? 4 : 2), "%x", raw);
    if (d == GUEST_DECODE_OK) test_lifting(b, &insn, rv64_guest.insn_name(insn.id));
    int n = rv64_disasm(&insn, full, sizeof full);
    size_t size = gen_below(&r, 40);
    memset(cut, '#', sizeof cut);
    CHECK(n == (int)strlen(full) && rv64_disasm(&insn, cut, size) == n, "%x: %s", raw, full);
    CHECK(cut[size] == '#', "%x: %s in %zu bytes", raw, full, size);
    CHECK(!size || strlen(cut) == (n < (int)size ? (size_t)n : size - 1), "%x: %s", raw, full);
  }
  ir_builder_free(b);
}

/* ---- decoding -------------------------------------------------------------------------------- */

static void test_branches(void) {
  static const struct {
    uint32_t raw;
    uint8_t branch;
    int64_t target;
  } cases[] = {
      {0x00b50463, IR_BR_COND, 8},  /* beq a0,a1,+8 */
      {0x0100006f, IR_BR_JUMP, 16}, /* j +16 */
      {0x010000ef, IR_BR_CALL, 16}, /* jal ra,+16 */
      {0x010002ef, IR_BR_CALL, 16}, /* jal t0,+16 */
      {0x0100056f, IR_BR_JUMP, 16}, /* jal a0,+16 */
      {0x00008067, IR_BR_RET, 0},   /* ret */
      {0x00028067, IR_BR_RET, 0},   /* jr t0 */
      {0x00050067, IR_BR_JUMP, 0},  /* jr a0 */
      {0x000500e7, IR_BR_CALL, 0},  /* jalr a0 */
      {0x000280e7, IR_BR_CALL, 0},  /* jalr ra,t0 */
      {0x000080e7, IR_BR_CALL, 0},  /* jalr ra,ra */
      {0x00000073, IR_BR_SYSCALL, 0}, {0x00100073, IR_BR_TRAP, 0},
      {0x0000100f, IR_BR_TRAP, 0}, /* fence.i */
      {0x0ff0000f, IR_BR_NONE, 0}, /* fence */
      {0x00b50533, IR_BR_NONE, 0}, /* add */
      {0x8082, IR_BR_RET, 0},      /* c.jr ra */
      {0x9502, IR_BR_CALL, 0},     /* c.jalr a0 */
      {0x8502, IR_BR_JUMP, 0},     /* c.jr a0 */
      {0xa009, IR_BR_JUMP, 2},     /* c.j +2 */
      {0x9002, IR_BR_TRAP, 0},     /* c.ebreak */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    GuestInsn insn;
    uint32_t raw = cases[i].raw;
    CHECK(decode(raw, (raw & 3) == 3 ? 4 : 2, &insn) == GUEST_DECODE_OK, "%x", raw);
    CHECK(insn.branch == cases[i].branch, "%x: branch kind %d", raw, insn.branch);
    CHECK(insn.target == (cases[i].target ? 0x10000 + (uint64_t)cases[i].target : 0), "%x", raw);
  }
}

static void test_lengths(void) {
  GuestInsn insn;
  CHECK(decode(0x00b50533, 0, &insn) == GUEST_DECODE_TRUNCATED, "no bytes");
  CHECK(decode(0x00b50533, 1, &insn) == GUEST_DECODE_TRUNCATED, "one byte");
  CHECK(decode(0x00b50533, 2, &insn) == GUEST_DECODE_TRUNCATED, "half of an instruction");
  CHECK(decode(0x00b50533, 3, &insn) == GUEST_DECODE_TRUNCATED, "three quarters");
  CHECK(decode(0x8082, 2, &insn) == GUEST_DECODE_OK && insn.len == 2, "compressed");
  CHECK(decode(0, 2, &insn) == GUEST_DECODE_ILLEGAL && insn.len == 2, "all zeros");
  CHECK(decode(0xffffffff, 4, &insn) == GUEST_DECODE_ILLEGAL && insn.len == 4, "all ones");
}

static void test_registers(void) {
  CHECK(rv64_guest.n_regs == 66, "%u", rv64_guest.n_regs);
  for (int i = 0; i < 64; i++) CHECK(rv64_guest.regs[i].dwarf == i, "register %d", i);
  CHECK(guest_find_reg(&rv64_guest, "a0") == 10 && guest_find_reg(&rv64_guest, "x10") == 10, "a0");
  CHECK(guest_find_reg(&rv64_guest, "fp") == 8 && guest_find_reg(&rv64_guest, "fa0") == 42, "fp");
  CHECK(guest_find_reg(&rv64_guest, "nosuch") == -1, "nosuch");
}

int main(void) {
  test_overlap();
  test_rows();
  test_noise();
  test_branches();
  test_lengths();
  test_registers();
  printf("%d passed\n", n_passed);
  return 0;
}
