/* Every operation's semantics on corner values against an expression of the test's own, through the
 * interpreter (operands from registers, and where it can be from immediates) and through the
 * constant folder. */
#include "ir_test.h"

#define N(a) (sizeof(a) / sizeof *(a))

typedef uint64_t u64;
typedef int64_t i64;
typedef uint32_t u32;
typedef int32_t i32;
typedef unsigned __int128 u128;
typedef __int128 i128;

static const u64 corners[] = {0,
                              1,
                              2,
                              3,
                              7,
                              8,
                              31,
                              32,
                              33,
                              63,
                              64,
                              65,
                              127,
                              128,
                              255,
                              256,
                              0x7fff,
                              0x8000,
                              0xffff,
                              0x10000,
                              0x7fffffff,
                              0x80000000,
                              0x80000001,
                              0xffffffff,
                              0x100000000,
                              0x123456789abcdef0,
                              0x7fffffffffffffff,
                              0x8000000000000000,
                              0x8000000000000001,
                              0xffffffff00000000,
                              0xffffffff80000000,
                              0xfffffffffffffffe,
                              0xffffffffffffffff,
                              0x00ff00ff0100807f};

/* ---- reference semantics, in other words than ops.def's -------------------------------------- */

static u64 bits_where(u64 x, u64 y, int table) { /* truth table: bit 2*xbit+ybit */
  u64 r = 0;
  for (int i = 0; i < 64; i++) r |= (u64)(table >> (2 * (x >> i & 1) + (y >> i & 1)) & 1) << i;
  return r;
}
static u64 shift(u64 x, u64 n, int bits, int dir, int arithmetic) {
  n %= (u64)bits;
  u64 mask = bits == 64 ? ~0ull : (1ull << bits) - 1, sign = x >> (bits - 1) & 1;
  x &= mask;
  for (; n; n--) x = dir < 0 ? x / 2 | (arithmetic && sign ? 1ull << (bits - 1) : 0) : x * 2 & mask;
  return x;
}
static u64 rotate(u64 x, u64 n, int bits, int left) {
  u64 r = 0;
  for (int i = 0; i < bits; i++) {
    int to = left ? (int)((unsigned)i + n % (u64)bits) % bits
                  : (int)((unsigned)i + (u64)bits - n % (u64)bits) % bits;
    r |= (x >> i & 1) << to;
  }
  return r;
}
static u64 zeros(u64 x, int bits, int from_top) {
  for (int i = 0; i < bits; i++)
    if (x >> (from_top ? bits - 1 - i : i) & 1) return (u64)i;
  return (u64)bits;
}
static u64 ones(u64 x, int bits) {
  u64 n = 0;
  for (int i = 0; i < bits; i++) n += x >> i & 1;
  return n;
}
static u64 swapped(u64 x) {
  u64 r = 0;
  for (int i = 0; i < 8; i++) r |= (x >> 8 * i & 0xff) << 8 * (7 - i);
  return r;
}
static u64 or_bytes(u64 x) {
  u64 r = 0;
  for (int i = 0; i < 8; i++)
    if (x >> 8 * i & 0xff) r |= 0xffull << 8 * i;
  return r;
}
static u64 sign(u64 x, int bits) {
  return shift(shift(x, (u64)(64 - bits), 64, 1, 0), (u64)(64 - bits), 64, -1, 1);
}
static u64 low32(u64 x) { return x % 0x100000000; }
static i128 sx(u64 x) { return x >> 63 ? (i128)x - ((i128)1 << 64) : (i128)x; }
static i128 sx32(u64 x) { return (i128)low32(x) - (low32(x) >> 31 ? (i128)1 << 32 : 0); }
static u64 high(i128 x) { return (u64)((u128)x >> 64); }
static u64 divide(i128 a, i128 b, int rem, u64 mask) {
  if (b == 0) return rem ? (u64)a & mask : mask;
  return (u64)(rem ? a % b : a / b) & mask;
}

#define ALL 0xffffffffffffffffull
#define LOW 0xffffffffull

/* name, number of operands, reference */
/* clang-format off */
#define PURE_OPS(X) \
  X(add, 2, (u64)(sx(a) + sx(b))) \
  X(sub, 2, (u64)(sx(a) - sx(b))) \
  X(and, 2, bits_where(a, b, 8)) \
  X(or, 2, bits_where(a, b, 14)) \
  X(xor, 2, bits_where(a, b, 6)) \
  X(andn, 2, bits_where(a, b, 4)) \
  X(orn, 2, bits_where(a, b, 13)) \
  X(xnor, 2, bits_where(a, b, 9)) \
  X(not, 1, ALL - a) \
  X(neg, 1, (u64)-sx(a)) \
  X(shl, 2, shift(a, b, 64, 1, 0)) \
  X(shr, 2, shift(a, b, 64, -1, 0)) \
  X(sar, 2, shift(a, b, 64, -1, 1)) \
  X(rotl, 2, rotate(a, b, 64, 1)) \
  X(rotr, 2, rotate(a, b, 64, 0)) \
  X(mul, 2, (u64)((u128)a * b)) \
  X(mulhs, 2, high(sx(a) * sx(b))) \
  X(mulhu, 2, (u64)((u128)a * b >> 64)) \
  X(mulhsu, 2, sx(a) < 0 ? (u64)((u128)a * b >> 64) - b : (u64)((u128)a * b >> 64)) \
  X(divs, 2, divide(sx(a), sx(b), 0, ALL)) \
  X(divu, 2, divide((i128)a, (i128)b, 0, ALL)) \
  X(rems, 2, divide(sx(a), sx(b), 1, ALL)) \
  X(remu, 2, divide((i128)a, (i128)b, 1, ALL)) \
  X(mins, 2, sx(a) < sx(b) ? a : b) \
  X(maxs, 2, sx(a) < sx(b) ? b : a) \
  X(minu, 2, b > a ? a : b) \
  X(maxu, 2, b > a ? b : a) \
  X(clz, 1, zeros(a, 64, 1)) \
  X(ctz, 1, zeros(a, 64, 0)) \
  X(popcnt, 1, ones(a, 64)) \
  X(bswap, 1, swapped(a)) \
  X(orcb, 1, or_bytes(a)) \
  X(add32, 2, low32(low32(a) + low32(b))) \
  X(sub32, 2, low32(low32(a) - low32(b))) \
  X(mul32, 2, low32(low32(a) * low32(b))) \
  X(shl32, 2, shift(a, b, 32, 1, 0)) \
  X(shr32, 2, shift(a, b, 32, -1, 0)) \
  X(sar32, 2, shift(a, b, 32, -1, 1)) \
  X(rotl32, 2, rotate(a, b, 32, 1)) \
  X(rotr32, 2, rotate(a, b, 32, 0)) \
  X(divs32, 2, divide(sx32(a), sx32(b), 0, LOW)) \
  X(divu32, 2, divide(low32(a), low32(b), 0, LOW)) \
  X(rems32, 2, divide(sx32(a), sx32(b), 1, LOW)) \
  X(remu32, 2, divide(low32(a), low32(b), 1, LOW)) \
  X(clz32, 1, zeros(a, 32, 1)) \
  X(ctz32, 1, zeros(a, 32, 0)) \
  X(popcnt32, 1, ones(a, 32)) \
  X(sext8, 1, sign(a, 8)) \
  X(sext16, 1, sign(a, 16)) \
  X(sext32, 1, sign(a, 32)) \
  X(zext8, 1, a % 256) \
  X(zext16, 1, a % 65536) \
  X(zext32, 1, low32(a)) \
  X(eq, 2, !(a ^ b)) \
  X(ne, 2, !!(a ^ b)) \
  X(lts, 2, sx(a) < sx(b)) \
  X(ges, 2, sx(b) <= sx(a)) \
  X(ltu, 2, b > a) \
  X(geu, 2, b <= a) \
  X(select, 3, a != 0 ? b : c) \
  X(unbox32, 1, a / 0x100000000 == 0xffffffff ? low32(a) : 0x7fc00000) \
  X(box32, 1, bits_where( a, LOW << 32, 14))
/* clang-format on */

#define X(name, n, expr)                                                                           \
  static u64 want_##name(u64 a, u64 b, u64 c) {                                                    \
    (void)a, (void)b, (void)c;                                                                     \
    return expr;                                                                                   \
  }
PURE_OPS(X)
#undef X

typedef struct PureOp {
  const char *name;
  IrOpcode code;
  int n;
  u64 (*want)(u64 a, u64 b, u64 c);
} PureOp;
static const PureOp pure_ops[] = {
#define X(name, n, expr) {#name, IR_##name, n, want_##name},
    PURE_OPS(X)
#undef X
};

/* ---- running one operation ------------------------------------------------------------------- */

static IrState *s;
static IrBuilder *b;

/* r10 = op(r1, r2, r3), or with an immediate for the second operand */
static IrRegion *op_region(IrOpcode code, int n, const u64 *imm, u64 op_imm) {
  ir_builder_begin(b, 0x1000);
  ir_builder_block(b, 0x1000);
  test_insn(b, 0x1000, IR_BR_NONE);
  IrRef x = ir_emit(b, IR_get, 0, 0, 0, TEST_REG(1)), y = 0, z = 0;
  if (code == IR_box32) x = ir_emit(b, IR_zext32, x, 0, 0, 0);
  if (n > 1) y = imm ? ir_imm(b, *imm) : ir_emit(b, IR_get, 0, 0, 0, TEST_REG(2));
  if (n > 2) z = ir_emit(b, IR_get, 0, 0, 0, TEST_REG(3));
  IrRef value = ir_emit(b, code, x, y, z, op_imm);
  if (ir_op_info[code].result != IR_NONE) ir_emit(b, IR_put, value, 0, 0, TEST_REG(10));
  ir_jump(b, 0x1004);
  IrRegion *r = ir_builder_finish(b);
  const char *wrong = ir_check(r);
  CHECK(!wrong, "%s: %s", ir_op_info[code].name, wrong);
  return r;
}

static u64 run(IrRegion *r) {
  IrExit x = ir_interp(r, s, NULL);
  CHECK(x.kind == IR_EXIT_NEXT && s->pc == 0x1004, "exit %d at %" PRIx64, x.kind, s->pc);
  return *test_reg(s, 10);
}

static void pure_op(const PureOp *op) {
  IrRegion *r = op_region(op->code, op->n, NULL, 0);
  for (size_t i = 0; i < N(corners); i++)
    for (size_t j = 0; j < (op->n > 1 ? N(corners) : 1); j++) {
      u64 x = corners[i], y = corners[j], z = corners[(i * 7 + j) % N(corners)];
      if (op->code == IR_box32) x = low32(x);
      u64 want = op->want(x, y, z);
      *test_reg(s, 1) = x, *test_reg(s, 2) = y, *test_reg(s, 3) = z;
      CHECK_EQ(run(r), want, op->name);
      CHECK_EQ(ir_eval_pure(op->code, x, y, z, 0), want, op->name);
    }
  ir_region_free(r);
  if (op->n != 2) return;
  for (size_t j = 0; j < N(corners); j++) {
    r = op_region(op->code, 2, &corners[j], 0);
    for (size_t i = 0; i < N(corners); i++) {
      *test_reg(s, 1) = corners[i];
      CHECK_EQ(run(r), op->want(corners[i], corners[j], 0), op->name);
    }
    ir_region_free(r);
  }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static u64 read_le(const uint8_t *p, int n) {
  u64 v = 0;
  while (n--) v = v << 8 | p[n];
  return v;
}

static void memory_ops(void) {
  static const struct {
    IrOpcode code;
    int size, sign;
  } loads[] = {{IR_ld8u, 1, 0}, {IR_ld16u, 2, 0}, {IR_ld32u, 4, 0}, {IR_ld64, 8, 0},
               {IR_ld8s, 1, 1}, {IR_ld16s, 2, 1}, {IR_ld32s, 4, 1}};
  static const struct {
    IrOpcode code;
    int size;
  } stores[] = {{IR_st8, 1}, {IR_st16, 2}, {IR_st32, 4}, {IR_st64, 8}};
  uint8_t mem[64], want[64];
  for (size_t i = 0; i < N(loads); i++) {
    CHECK_EQ(ir_op_info[loads[i].code].size, loads[i].size, "access size");
    for (int at = 0; at < 40; at++) { /* any alignment */
      for (size_t k = 0; k < sizeof mem; k++) mem[k] = (uint8_t)(k * 37 + 129);
      IrRegion *r = op_region(loads[i].code, 1, NULL, (u64)at - 100);
      *test_reg(s, 1) = (u64)(uintptr_t)mem + 100;
      u64 v = read_le(mem + at, loads[i].size);
      CHECK_EQ(run(r), loads[i].sign ? sign(v, loads[i].size * 8) : v,
               ir_op_info[loads[i].code].name);
      ir_region_free(r);
    }
  }
  for (size_t i = 0; i < N(stores); i++)
    for (int at = 0; at < 40; at++) {
      memset(mem, 0x5a, sizeof mem);
      memset(want, 0x5a, sizeof want);
      for (int k = 0; k < stores[i].size; k++)
        want[at + k] = (uint8_t)(0x8877665544332211 >> 8 * k);
      IrRegion *r = op_region(stores[i].code, 2, NULL, (u64)at);
      *test_reg(s, 1) = (u64)(uintptr_t)mem, *test_reg(s, 2) = 0x8877665544332211;
      run(r);
      CHECK(!memcmp(mem, want, sizeof mem), "%s at %d", ir_op_info[stores[i].code].name, at);
      ir_region_free(r);
    }
}

/* clang-format off */
#define ATOMICS(X) \
  X(swap, b) \
  X(rmwadd, a + b) \
  X(rmwand, bits_where(a, b, 8)) \
  X(rmwor, bits_where(a, b, 14)) \
  X(rmwxor, bits_where(a, b, 6)) \
  X(rmwmins, s32 ? (sx32(a) < sx32(b) ? a : b) : (sx(a) < sx(b) ? a : b)) \
  X(rmwmaxs, s32 ? (sx32(a) > sx32(b) ? a : b) : (sx(a) > sx(b) ? a : b)) \
  X(rmwminu, s32 ? (low32(a) < low32(b) ? a : b) : (b > a ? a : b)) \
  X(rmwmaxu, s32 ? (low32(a) > low32(b) ? a : b) : (b > a ? b : a))
/* clang-format on */

#define X(name, expr)                                                                              \
  static u64 atomic_##name(u64 a, u64 b, int s32) { /* NOLINT */                                   \
    (void)a, (void)b, (void)s32;                                                                   \
    return expr;                                                                                   \
  }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
ATOMICS(X)
#pragma GCC diagnostic pop
#undef X

static void atomic_op(IrOpcode code, int s32, u64 (*want)(u64, u64, int)) {
  u64 mem[2] = {0, 0};
  IrRegion *r = op_region(code, 2, NULL, 8);
  for (size_t i = 0; i < N(corners); i++)
    for (size_t j = 0; j < N(corners); j++) {
      mem[1] = corners[i];
      *test_reg(s, 1) = (u64)(uintptr_t)mem, *test_reg(s, 2) = corners[j];
      CHECK_EQ(run(r), s32 ? low32(corners[i]) : corners[i], ir_op_info[code].name);
      u64 now = want(corners[i], corners[j], s32);
      CHECK_EQ(mem[1], s32 ? (corners[i] & ~LOW) | low32(now) : now, ir_op_info[code].name);
    }
  ir_region_free(r);
}

static void atomics(void) {
#define X(name, expr)                                                                              \
  atomic_op(IR_##name##32, 1, atomic_##name), atomic_op(IR_##name##64, 0, atomic_##name);
  ATOMICS(X)
#undef X
  for (int wide = 0; wide < 2; wide++)
    for (int equal = 0; equal < 2; equal++) {
      u64 mem = 0x1122334455667788, old = wide ? mem : low32(mem);
      IrRegion *r = op_region(wide ? IR_cas64 : IR_cas32, 3, NULL, 0);
      *test_reg(s, 1) = (u64)(uintptr_t)&mem, *test_reg(s, 2) = equal ? old : old + 1,
                   *test_reg(s, 3) = 0x99aabbccddeeff00;
      CHECK_EQ(run(r), old, "cas");
      CHECK_EQ(mem,
               !equal ? 0x1122334455667788
               : wide ? 0x99aabbccddeeff00
                      : 0x11223344ddeeff00,
               "cas");
      ir_region_free(r);
    }
}

/* ---- floating point: the wiring; base/softfp has its own tests ------------------------------- */

static u64 f64(double x) {
  u64 v;
  memcpy(&v, &x, 8);
  return v;
}
static u64 f32(float x) {
  u32 v;
  memcpy(&v, &x, 4);
  return v;
}

static u64 fp(IrOpcode code, int n, u64 rm, u64 x, u64 y, u64 z) {
  bool single = ir_op_info[code].a == IR_F32;
  ir_builder_begin(b, 0x1000);
  ir_builder_block(b, 0x1000);
  test_insn(b, 0x1000, IR_BR_NONE);
  IrRef v[3] = {0};
  for (int i = 0; i < n; i++) {
    v[i] = ir_emit(b, IR_get, 0, 0, 0, TEST_REG(1 + i));
    if (single) v[i] = ir_emit(b, IR_zext32, v[i], 0, 0, 0);
  }
  ir_emit(b, IR_put, ir_emit(b, code, v[0], v[1], v[2], rm), 0, 0, TEST_REG(10));
  ir_jump(b, 0x1004);
  IrRegion *r = ir_builder_finish(b);
  CHECK(!ir_check(r), "%s: %s", ir_op_info[code].name, ir_check(r));
  *test_reg(s, 1) = x, *test_reg(s, 2) = y, *test_reg(s, 3) = z;
  s->fp_flags = 0;
  u64 got = run(r);
  ir_region_free(r);
  return got;
}

static void floating(void) {
  enum { RNE, RTZ, RDN, RUP, RMM, DYN = 7, NX = 1, UF = 2, OF = 4, DZ = 8, NV = 16 };
  CHECK_EQ(fp(IR_fadd64, 2, RNE, f64(1.5), f64(2.25), 0), f64(3.75), "fadd64");
  CHECK_EQ(s->fp_flags, 0, "exact");
  CHECK_EQ(fp(IR_fsub32, 2, RNE, f32(1.5f), f32(2.25f), 0), f32(-0.75f), "fsub32");
  CHECK_EQ(fp(IR_fmul32, 2, RNE, f32(1.5f), f32(-2.f), 0), f32(-3.f), "fmul32");
  CHECK_EQ(fp(IR_fma64, 3, RNE, f64(3), f64(4), f64(5)), f64(17), "fma64");
  CHECK_EQ(fp(IR_fsqrt64, 1, RNE, f64(81), 0, 0), f64(9), "fsqrt64");
  CHECK_EQ(fp(IR_fdiv64, 2, RNE, f64(1), f64(0), 0), f64(1.0 / 0.0), "1/0");
  CHECK_EQ(s->fp_flags, DZ, "1/0 raises DZ");
  CHECK_EQ(fp(IR_fdiv64, 2, RDN, f64(1), f64(3), 0), f64(1.0 / 3.0), "1/3 down");
  CHECK_EQ(s->fp_flags, NX, "inexact");
  CHECK_EQ(fp(IR_fdiv64, 2, RUP, f64(1), f64(3), 0), f64(1.0 / 3.0) + 1, "1/3 up");
  s->fp_rm = RUP;
  CHECK_EQ(fp(IR_fdiv64, 2, DYN, f64(1), f64(3), 0), f64(1.0 / 3.0) + 1, "1/3 dynamic, up");
  s->fp_rm = RTZ;
  CHECK_EQ(fp(IR_fdiv64, 2, DYN, f64(1), f64(3), 0), f64(1.0 / 3.0), "1/3 dynamic, to zero");
  CHECK_EQ(fp(IR_i32_f64, 1, RTZ, f64(-3.5), 0, 0), (u64)-3, "i32_f64");
  CHECK_EQ(fp(IR_i32_f64, 1, RTZ, f64(1e10), 0, 0), 0x7fffffff, "i32_f64 saturates");
  CHECK_EQ(s->fp_flags, NV, "invalid");
  CHECK_EQ(fp(IR_u32_f64, 1, RTZ, f64(4e9), 0, 0), 4000000000u, "u32_f64 is zero-extended");
  CHECK_EQ(fp(IR_i64_f32, 1, RTZ, f32(-8.f), 0, 0), (u64)-8, "i64_f32");
  CHECK_EQ(fp(IR_u64_f64, 1, RTZ, f64(-1), 0, 0), 0, "u64_f64 saturates");
  CHECK_EQ(fp(IR_f64_i32, 1, RNE, (u64)-7, 0, 0), f64(-7), "f64_i32");
  CHECK_EQ(fp(IR_f64_u32, 1, RNE, 0xffffffff, 0, 0), f64(4294967295.0), "f64_u32");
  CHECK_EQ(fp(IR_f32_i64, 1, RNE, (u64)-16777217, 0, 0), f32(-16777216.f), "f32_i64 rounds");
  CHECK_EQ(fp(IR_f64_u64, 1, RNE, ALL, 0, 0), f64(18446744073709551616.0), "f64_u64");
  CHECK_EQ(fp(IR_f32_f64, 1, RNE, f64(0.1), 0, 0), f32(0.1f), "f32_f64");
  CHECK_EQ(fp(IR_f64_f32, 1, RNE, f32(0.1f), 0, 0), f64((double)0.1f), "f64_f32");
  CHECK_EQ(fp(IR_flt64, 2, 0, f64(1), f64(2), 0), 1, "flt64");
  CHECK_EQ(fp(IR_fle32, 2, 0, f32(2.f), f32(2.f), 0), 1, "fle32");
  CHECK_EQ(fp(IR_feq32, 2, 0, f32(2.f), f32(1.f), 0), 0, "feq32");
  CHECK_EQ(fp(IR_fmin64, 2, 0, f64(0.0), f64(-0.0), 0), f64(-0.0), "fmin64");
  CHECK_EQ(fp(IR_fmax32, 2, 0, 0x7fc00000, f32(1.f), 0), f32(1.f), "fmax32 of a NaN");
  CHECK_EQ(fp(IR_fclass64, 1, 0, f64(-1.0 / 0.0), 0, 0), 1, "fclass64 of -inf");
  CHECK_EQ(fp(IR_fclass32, 1, 0, f32(1.f), 0, 0), 1 << 6, "fclass32 of a normal");
}

int main(void) {
  s = test_state();
  b = ir_builder_new();
  for (size_t i = 0; i < N(pure_ops); i++) pure_op(&pure_ops[i]);
  int pure = 2; /* nop, imm; fclass below */
  for (int i = 0; i < IR_OPCODES; i++) pure -= !!(ir_op_info[i].flags & IR_PURE);
  CHECK_EQ(pure + (int)N(pure_ops) + 2, 0, "every pure operation is tested");
  memory_ops();
  atomics();
  floating();
  ir_builder_free(b);
  return test_end();
}
