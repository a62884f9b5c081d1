/* Lowering of instrumentation operations. */
#include "jit/lower.h"

static X64Mem counter(uint64_t offset) { return x64_gs(IR_COUNTERS_AT + offset); }

static void lower_budget(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  x64_mi(&l->x, X64_ALU_I, ALU_SUB, x64_gs(offsetof(IrState, budget)), op->a);
  LowCold c = {.kind = COLD_BUDGET, .jump = x64_jcc(&l->x, CC_S), .k = k};
  c.site = low_site(l, (JitSite){.kind = IR_EXIT_BUDGET, .pc = op->imm});
  low_put_aside(l, c);
}

static void lower_stop(Lower *l, const IrOp *op) {
  x64_mi(&l->x, X64_ALU_I | X64_32, ALU_CMP, x64_gs(offsetof(IrState, stop)), 0);
  low_exit(l, x64_jcc(&l->x, CC_NE), (JitSite){.kind = IR_EXIT_STOP, .pc = op->imm});
}

static void lower_count_if(Lower *l, const IrOp *op) {
  if (low_is_imm(l, op->a)) {
    if (low_imm(l, op->a)) x64_mi(&l->x, X64_ALU_I, ALU_ADD, counter(op->imm), 1);
    return;
  }
  X64Cond cc = low_condition(l, op->a);
  unsigned t = low_temp(l, false);
  x64_setcc(&l->x, cc, t);
  x64_rr(&l->x, X64_MOVZX8, t, t);
  x64_rm(&l->x, X64_ADD_STORE, t, counter(op->imm));
}

#define FIELD(base, type, member) x64_at(base, (int32_t)offsetof(type, member))

/* A register that holds the immediate's address. */
static unsigned object(Lower *l, const IrOp *op) {
  unsigned t = low_temp(l, false);
  x64_mov_imm(&l->x, t, op->imm);
  return t;
}

/* The operation's function, with all that it may change, when the jump is taken; d: its result. */
static void aside(Lower *l, uint32_t k, uint8_t *jump, unsigned a, unsigned d, LowColdKind kind) {
  low_put_aside(l, (LowCold){.kind = kind,
                             .jump = jump,
                             .k = k,
                             .a = (uint8_t)a,
                             .b = X64_NONE,
                             .c = X64_NONE,
                             .d = (uint8_t)d,
                             .back = l->x.at});
}

static void lower_ring_open(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  const IrRing *ring = (const IrRing *)(uintptr_t)op->imm;
  unsigned t = object(l, op), d = low_temp(l, false);
  x64_rm(&l->x, X64_MOV_LOAD, d, FIELD(t, IrRing, next));
  x64_rm(&l->x, X64_CMP, d, FIELD(t, IrRing, end));
  uint8_t *full = x64_jcc(&l->x, CC_E);
  x64_mi(&l->x, X64_ALU_I, ALU_ADD, FIELD(t, IrRing, next), (int32_t)ring->record_size);
  aside(l, k, full, X64_NONE, d, COLD_CALL_FULL);
  low_result(l, (IrRef)k, d);
}

/* 1 when the countdown ends, else 0. */
static void lower_nth(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = op->a ? low_gpr(l, op->a) : 0, t = object(l, op), d = low_temp(l, false);
  uint8_t *no = NULL, *not_yet;
  x64_mov_imm(&l->x, d, 0);
  if (op->a) {
    x64_rr(&l->x, X64_TEST, a, a);
    no = x64_jcc(&l->x, CC_E);
  }
  x64_mi(&l->x, X64_ALU_I, ALU_SUB, FIELD(t, IrNth, left), 1);
  not_yet = x64_jcc(&l->x, CC_NE);
  x64_rm(&l->x, X64_MOV_LOAD, d, FIELD(t, IrNth, every));
  x64_rm(&l->x, X64_MOV_STORE, d, FIELD(t, IrNth, left));
  x64_mov_imm(&l->x, d, 1);
  x64_patch(not_yet, l->x.at);
  if (no) x64_patch(no, l->x.at);
  low_result(l, (IrRef)k, d);
}

/* The edge taken last is at hand; others are looked up. */
static void lower_edge_ind(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_gpr(l, op->a), t = object(l, op);
  x64_rm(&l->x, X64_CMP, a, FIELD(t, IrEdgeSite, last));
  uint8_t *other = x64_jcc(&l->x, CC_NE);
  x64_rm(&l->x, X64_MOV_LOAD, t, FIELD(t, IrEdgeSite, counter));
  x64_mi(&l->x, X64_ALU_I, ALU_ADD, x64_at(t, 0), 1);
  aside(l, k, other, a, X64_NONE, COLD_CALL);
}

static void lower_ring_put(Lower *l, const IrOp *op) {
  unsigned record = low_gpr(l, op->a);
  int64_t imm = (int64_t)low_imm(l, op->b);
  if (low_is_imm(l, op->b) && x64_fits(imm))
    x64_mi(&l->x, X64_MOV_I, 0, x64_at(record, (int32_t)op->imm), (int32_t)imm);
  else
    x64_rm(&l->x, X64_MOV_STORE, low_gpr(l, op->b), x64_at(record, (int32_t)op->imm));
}

static void lower_count(Lower *l, const IrOp *op) {
  if (!op->imm && l->j->count_retired)
    x64_ri(&l->x, X64_ALU_I, ALU_ADD, JIT_RETIRED, op->a);
  else
    x64_mi(&l->x, X64_ALU_I, ALU_ADD, counter(op->imm), op->a);
}

/* Most jumps that may be tail calls are known not to be: then nothing happens. */
static void lower_cs_jump(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  unsigned a = low_gpr(l, op->a), b = low_gpr(l, op->b), t = low_temp(l, false);
  x64_rr(&l->x, X64_MOV_LOAD | X64_32, t, a);
  x64_ri(&l->x, X64_ALU_I | X64_32, ALU_AND, t, (IR_NOT_ENTRIES - 1) << 1);
  x64_rm(
      &l->x, X64_CMP, a,
      (X64Mem){
          .base = X64_NONE, .index = (uint8_t)t, .scale = 2, .gs = true, .disp = IR_NOT_ENTRY_AT});
  LowCold c = {.kind = COLD_CALL,
               .jump = x64_jcc(&l->x, CC_NE),
               .k = k,
               .a = (uint8_t)a,
               .b = (uint8_t)b,
               .c = X64_NONE,
               .d = X64_NONE};
  c.back = l->x.at;
  low_put_aside(l, c);
}

bool low_probe(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  JitFn *fn = jit_fns[op->code];
  switch (op->code) {
  case IR_count: lower_count(l, op); break;
  case IR_count_if: lower_count_if(l, op); break;
  case IR_budget: lower_budget(l, k); break;
  case IR_stop_if_asked: lower_stop(l, op); break;
  case IR_nth: lower_nth(l, k); break;
  case IR_callout: low_call(l, k, fn, op->imm, op->a, op->b, 0, op->c, true); break;
  case IR_plane_test: low_call(l, k, fn, op->imm, op->a, 0, 0, op->b, false); break;
  case IR_ring_open: lower_ring_open(l, k); break;
  case IR_ring_put: lower_ring_put(l, op); break;
  case IR_edge_ind: lower_edge_ind(l, k); break;
  case IR_cs_call: low_call_stub(l, op->imm, op->a, op->b, l->j->cs_call); break;
  case IR_cs_ret: low_call_stub(l, op->imm, op->a, op->b, l->j->cs_ret); break;
  case IR_cs_jump: lower_cs_jump(l, k); break;
  default: return false;
  }
  return true;
}
