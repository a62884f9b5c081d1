/* Private to the lifters: reading and writing registers. x0 reads as 0 and ignores writes. */
#ifndef RV64_LIFT_H
#define RV64_LIFT_H

#include "guest/rv64/rv64.h"

static inline IrRef op1(IrBuilder *b, IrOpcode op, IrRef a) { return ir_emit(b, op, a, 0, 0, 0); }
static inline IrRef op2(IrBuilder *b, IrOpcode op, IrRef a, IrRef c) {
  return ir_emit(b, op, a, c, 0, 0);
}

static inline IrRef get_x(IrBuilder *b, uint8_t reg) {
  return reg ? ir_emit(b, IR_get, 0, 0, 0, offsetof(Rv64State, x) + 8u * reg) : ir_imm(b, 0);
}
static inline void put_x(IrBuilder *b, uint8_t reg, IrRef v) {
  if (reg) ir_emit(b, IR_put, v, 0, 0, offsetof(Rv64State, x) + 8u * reg);
}
static inline IrRef get_f(IrBuilder *b, uint8_t reg) {
  return ir_emit(b, IR_get, 0, 0, 0, offsetof(Rv64State, f) + 8u * reg);
}
static inline void put_f(IrBuilder *b, uint8_t reg, IrRef v) {
  ir_emit(b, IR_put, v, 0, 0, offsetof(Rv64State, f) + 8u * reg);
}
static inline IrRef get_state(IrBuilder *b, size_t offset) {
  return ir_emit(b, IR_get, 0, 0, 0, offset);
}
static inline void put_state(IrBuilder *b, size_t offset, IrRef v) {
  ir_emit(b, IR_put, v, 0, 0, offset);
}
/* Illegal instruction unless the condition is 0. */
static inline void illegal_if(IrBuilder *b, IrRef cond) {
  ir_emit(b, IR_trap_if, cond, IR_FAULT_ILLEGAL, ir_imm(b, 0), 0);
}

/* void rv64_lift_name(b, i), with its operands `a`. */
#define LIFT(name)                                                                                 \
  static void lift_##name(IrBuilder *b, const GuestInsn *i, const Rv64Args *a);                    \
  void rv64_lift_##name(IrBuilder *b, const GuestInsn *i) { lift_##name(b, i, rv64_args(i)); }     \
  static void lift_##name(IrBuilder *b __attribute__((unused)),                                    \
                          const GuestInsn *i __attribute__((unused)),                              \
                          const Rv64Args *a __attribute__((unused)))

#endif
