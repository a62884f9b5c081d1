/* A: load-reserved, store-conditional, atomic memory operations. All are sequentially consistent,
 * whatever aq and rl say.
 *
 * The reservation is the address and value that the last lr saw. A store-conditional to that
 * address is a compare-and-swap with that value; any other one is a compare-and-swap that must
 * fail, so that both make the same accesses. */
#include "guest/rv64/lift.h"

static void require_aligned(IrBuilder *b, IrRef addr, unsigned size) {
  ir_emit(b, IR_trap_if, op2(b, IR_and, addr, ir_imm(b, size - 1)), IR_FAULT_MISALIGNED, addr, 0);
}

static IrRef widen(IrBuilder *b, IrRef v, unsigned size) {
  return size == 4 ? op1(b, IR_sext32, v) : v;
}

static void load_reserved(IrBuilder *b, const Rv64Args *a, unsigned size) {
  IrRef addr = get_x(b, a->rs1);
  require_aligned(b, addr, size);
  IrRef v = ir_emit(b, size == 4 ? IR_ld32s : IR_ld64, addr, 0, 0, 0);
  put_state(b, offsetof(Rv64State, lr_addr), addr);
  put_state(b, offsetof(Rv64State, lr_value), v);
  put_x(b, a->rd, v);
}

static void store_conditional(IrBuilder *b, const Rv64Args *a, unsigned size) {
  IrRef addr = get_x(b, a->rs1);
  require_aligned(b, addr, size);
  IrRef reserved = op2(b, IR_eq, addr, get_state(b, offsetof(Rv64State, lr_addr)));
  IrRef expected = get_state(b, offsetof(Rv64State, lr_value));
  IrRef now = ir_emit(b, size == 4 ? IR_ld32s : IR_ld64, addr, 0, 0, 0);
  expected = ir_emit(b, IR_select, reserved, expected, op1(b, IR_not, now), 0);
  IrRef old = ir_emit(b, size == 4 ? IR_cas32 : IR_cas64, addr, expected, get_x(b, a->rs2), 0);
  IrRef failed = op2(b, IR_ne, widen(b, old, size), expected);
  put_state(b, offsetof(Rv64State, lr_addr), ir_imm(b, RV64_NO_RESERVATION));
  put_x(b, a->rd, failed);
}

LIFT(lr_w) { load_reserved(b, a, 4); }
LIFT(lr_d) { load_reserved(b, a, 8); }
LIFT(sc_w) { store_conditional(b, a, 4); }
LIFT(sc_d) { store_conditional(b, a, 8); }

static void amo(IrBuilder *b, const Rv64Args *a, IrOpcode op, unsigned size) {
  IrRef addr = get_x(b, a->rs1);
  require_aligned(b, addr, size);
  IrRef old = ir_emit(b, op, addr, get_x(b, a->rs2), 0, 0);
  put_x(b, a->rd, widen(b, old, size));
}

#define AMO(name, op)                                                                              \
  LIFT(name##_w) { amo(b, a, IR_##op##32, 4); }                                                    \
  LIFT(name##_d) { amo(b, a, IR_##op##64, 8); }

AMO(amoswap, swap)
AMO(amoadd, rmwadd)
AMO(amoxor, rmwxor)
AMO(amoand, rmwand)
AMO(amoor, rmwor)
AMO(amomin, rmwmins)
AMO(amomax, rmwmaxs)
AMO(amominu, rmwminu)
AMO(amomaxu, rmwmaxu)
