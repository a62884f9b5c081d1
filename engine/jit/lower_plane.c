/* Lowering of plane tests: a shadow plane looked at before an access.
 *
 * The code that always runs asks for all shadow bytes that the access touches at once, so that bits
 * of neighbours count as well; what it finds is looked at more closely in the cold code. */
#include "jit/lower.h"

static const IrPlane *plane_of(const IrOp *op) { return (const IrPlane *)(uintptr_t)op->imm; }

/* A plane test that only the guard behind it reads, of a size that one load covers. */
bool low_is_plane_guard(const Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k), *guard = op + 1;
  return op->code == IR_plane_test && guard->code == IR_guard && guard->a == k &&
         l->p->uses[k] == 1 && op->b <= 8 && l->j->bmi;
}

/* One load and a compare of the 16 bits (32 for planes of 2 bits) that hold the access's and a few
 * others: a hit is looked at in the cold code. An address that is none of the guest's may fault
 * here; the access itself comes next and faults rightly. */
LowCold low_plane_test(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  const IrPlane *p = plane_of(op);
  unsigned a = low_gpr(l, op->a), at = low_temp(l, false), window = low_temp(l, false);
  low_move(l, at, a);
  x64_mov_imm(&l->x, window, (uint64_t)(uintptr_t)p->window);
  x64_ri(&l->x, X64_SHIFT_I, SHIFT_SHR, at, (int32_t)p->shift);
  low_point(l);
  if (p->bits == 1) x64_byte(&l->x, 0x66);
  x64_mi(&l->x, X64_ALU_I | X64_32, ALU_CMP,
         (X64Mem){.base = (uint8_t)window, .index = (uint8_t)at}, 0);
  LowCold c = {.kind = COLD_PLANE,
               .jump = x64_jcc(&l->x, CC_NE),
               .a = (uint8_t)a,
               .b = (uint8_t)at,
               .c = (uint8_t)window};
  c.back = l->x.at;
  low_resume_here(l);
  return c;
}

/* Goes back unless the access itself is marked. */
void low_cold_plane(Lower *l, const LowCold *c) {
  const IrOp *op = low_op(l, (IrRef)(c->k - 1));
  const IrPlane *p = plane_of(op);
  if (p->limit) {
    x64_ri(&l->x, X64_SHIFT_I, SHIFT_SHR, c->b,
           (int32_t)(__builtin_ctzll(p->limit) - (int)p->shift));
    x64_patch(x64_jcc(&l->x, CC_NE), c->back); /* no guest address */
    low_move(l, c->b, c->a);
    x64_ri(&l->x, X64_SHIFT_I, SHIFT_SHR, c->b, (int32_t)p->shift);
  }
  x64_rm(&l->x, X64_MOV_LOAD | X64_32, c->b, (X64Mem){.base = c->c, .index = c->b});
  low_move(l, c->c, c->a);
  if (p->bits == 2) x64_rr(&l->x, X64_ADD, c->c, c->c);
  x64_ri(&l->x, X64_ALU_I | X64_32, ALU_AND, c->c, 7);
  x64_vex_rr(&l->x, X64_SHRX | X64_32, c->b, c->c, c->b);
  x64_ri(&l->x, X64_TEST_I | X64_32, 0, c->b, (int32_t)((1u << op->b * p->bits) - 1));
  x64_patch(x64_jcc(&l->x, CC_E), c->back);
}

/* ---- between native operations --------------------------------------------------------------- */

/* Here every register is the guest's, so a test gets along with one: the address is made in it, and
 * made again in the cold code; the window's address is a constant in the code memory. */

static uint32_t shadow_bytes(const IrPlane *p, uint32_t size) {
  uint32_t each = 8 / p->bits;
  return (each - 1 + size - 1) / each + 1;
}

/* The test of the address that operation k makes, if only it and the guard on it want that. */
static uint32_t test_of(const Lower *l, uint32_t k) {
  uint32_t t = k + 1, uses = 1;
  while (low_op(l, (IrRef)t)->code == IR_imm) t++;
  const IrOp *op = low_op(l, (IrRef)t), *guard = op + 1;
  if (op->code != IR_plane_test || op->a != k || guard->code != IR_guard || guard->a != t ||
      l->p->uses[t] != 1 || op->b > 64 || !l->j->bmi)
    return 0;
  for (uint32_t i = 0; i < guard->imm; i++) {
    IrRef use[3];
    for (int n = ir_operands(&guard[1 + i], use); n-- > 0;) uses += use[n] == k;
  }
  return uses == l->p->uses[k] ? t : 0;
}

static void add_window(Lower *l, unsigned reg, const uint8_t *window) {
  x64_byte(&l->x, reg < 8 ? 0x48 : 0x4c);
  x64_byte(&l->x, 0x03);
  x64_byte(&l->x, 5 | (reg & 7) << 3); /* [rip + disp32] */
  x64_word32(&l->x, (uint32_t)(window - (low_rx(l, l->x.at) + 4)));
}

/* reg = where the shadow of the address in it is. */
static void to_shadow(Lower *l, const IrPlane *p, unsigned reg) {
  x64_ri(&l->x, X64_SHIFT_I, SHIFT_SHR, reg, (int32_t)p->shift);
  add_window(l, reg, jit_constant(l->j, (uint64_t)(uintptr_t)p->window));
}

/* The flags say whether the shadow bytes at [at] are all 0. */
static void look(Lower *l, unsigned at, uint32_t n) {
  if (n <= 2) {
    x64_byte(&l->x, 0x66);
    x64_mi(&l->x, X64_ALU_I | X64_32, ALU_CMP, x64_at(at, 0), 0);
  } else if (n <= 8) {
    x64_mi(&l->x, n <= 4 ? X64_ALU_I | X64_32 : X64_ALU_I, ALU_CMP, x64_at(at, 0), 0);
  } else {
    unsigned sum = low_temp(l, false);
    x64_rm(&l->x, X64_MOV_LOAD, sum, x64_at(at, 0));
    for (uint32_t i = 8; i < n; i += 8)
      x64_rm(&l->x, X64_OR, sum, x64_at(at, (int32_t)(i + 8 <= n ? i : n - 8)));
    x64_rr(&l->x, X64_TEST, sum, sum);
  }
}

uint32_t low_native_plane(Lower *l, uint32_t k) {
  uint32_t t = test_of(l, k);
  const IrOp *op = low_op(l, (IrRef)t);
  const IrPlane *p = t ? (const IrPlane *)(uintptr_t)op->imm : NULL;
  if (!p || !jit_constant(l->j, (uint64_t)(uintptr_t)p->window)) return 0;
  uint32_t guard = t + 1, next = guard + 1 + (uint32_t)low_op(l, (IrRef)guard)->imm;
  unsigned at = low_native_address(l, k, next);
  to_shadow(l, p, at);
  low_point(l);
  look(l, at, shadow_bytes(p, op->b));
  LowCold c = {
      .kind = COLD_NATIVE_PLANE, .jump = x64_jcc(&l->x, CC_NE), .k = guard, .a = (uint8_t)at};
  low_resume_here(l);
  c.back = l->x.at;
  l->now = guard;
  low_release(l);
  c.ea = k;
  low_put_guard_aside(l, c);
  return next;
}

/* Goes on unless the access itself is marked. */
void low_cold_native_plane(Lower *l, const LowCold *c) {
  const IrOp *op = low_op(l, (IrRef)(c->k - 1));
  const IrPlane *p = plane_of(op);
  uint16_t lost = c->window.lost;
  low_native_give_back(l, c->a);
  l->now = c->ea;
  low_native(l, c->ea);
  l->now = c->k;
  unsigned a = low_gpr(l, (IrRef)c->ea), t = low_temp(l, false), n = low_temp(l, false);
  uint8_t *hit[4], *miss = NULL;
  if (p->limit) {
    low_move(l, t, a);
    x64_ri(&l->x, X64_SHIFT_I, SHIFT_SHR, t, (int32_t)__builtin_ctzll(p->limit));
    miss = x64_jcc(&l->x, CC_NE);
  }
  unsigned bits = op->b * p->bits, parts = (bits + 31) / 32;
  for (unsigned i = 0; i < parts; i++) { /* 32 bits, of the 39 that they may lie in */
    unsigned rest = bits - 32 * i;
    low_move(l, t, a);
    to_shadow(l, p, t);
    x64_rm(&l->x, X64_MOV_LOAD, t, x64_at(t, (int32_t)(4 * i)));
    low_move(l, n, a);
    if (p->bits == 2) x64_rr(&l->x, X64_ADD, n, n);
    x64_ri(&l->x, X64_ALU_I | X64_32, ALU_AND, n, 7);
    x64_vex_rr(&l->x, X64_SHRX, t, n, t);
    x64_ri(&l->x, X64_TEST_I | X64_32, 0, t, rest < 32 ? (int32_t)((1u << rest) - 1) : -1);
    hit[i] = x64_jcc(&l->x, CC_NE);
  }
  if (miss) x64_patch(miss, l->x.at);
  low_window_restore(l, l->window.lost & (uint16_t)~lost, false);
  x64_patch(x64_jmp(&l->x), c->back);
  for (unsigned i = 0; i < parts; i++) x64_patch(hit[i], l->x.at);
  low_release(l);
}
