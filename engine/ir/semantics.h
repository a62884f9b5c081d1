/* What the names in ops.def mean, for the files that expand it: ops.c (the table), eval.c (the
 * folder), interp.c. */
#ifndef IR_SEMANTICS_H
#define IR_SEMANTICS_H

#include "base/softfp.h"
#include "ir/ir.h"

/* The columns. */
enum {
  NONE = IR_NONE,
  I8 = IR_I8,
  I16 = IR_I16,
  I32 = IR_I32,
  I64 = IR_I64,
  F32 = IR_F32,
  F64 = IR_F64,
  RAW = IR_RAW
};
enum {
  PURE = IR_PURE,
  STATE = IR_STATE,
  LOAD = IR_LOADS,
  STORE = IR_STORES,
  FP = IR_FPENV,
  SIDE = IR_SIDE,
  TERM = IR_TERM
};
#define SIZE(n) ((n) << 8)

/* Guest memory: any alignment, any type, exactly one host access, never optimised away. */
#define IR_ANY(T)                                                                                  \
  struct __attribute__((packed, may_alias)) {                                                      \
    T at;                                                                                          \
  }
#define IR_LOAD(T)  (((const volatile IR_ANY(T) *)(uintptr_t)(A + IMM))->at)
#define IR_STORE(T) (((volatile IR_ANY(T) *)(uintptr_t)(A + IMM))->at = (T)B)
#define IR_PTR(T)   ((T *)(uintptr_t)(A + IMM))

/* Atomic read-modify-write by compare and swap; `update` computes the new value from `old`. Gives
 * the old value. These are macros since a function would be instrumented by sanitizers, which must
 * not see guest accesses. */
#define IR_RMW(T, update)                                                                          \
  ({                                                                                               \
    T *rmw_ptr = IR_PTR(T);                                                                        \
    T old = __atomic_load_n(rmw_ptr, __ATOMIC_SEQ_CST);                                            \
    while (!__atomic_compare_exchange_n(rmw_ptr, &old, (update), 0, __ATOMIC_SEQ_CST,              \
                                        __ATOMIC_SEQ_CST))                                         \
      continue;                                                                                    \
    sizeof(T) == 4 ? (uint32_t)old : (uint64_t)old;                                                \
  })
#define IR_CAS(T, ptr, expected, desired)                                                          \
  ({                                                                                               \
    T cas_old = (expected);                                                                        \
    __atomic_compare_exchange_n((ptr), &cas_old, (desired), 0, __ATOMIC_SEQ_CST,                   \
                                __ATOMIC_SEQ_CST);                                                 \
    cas_old;                                                                                       \
  })
#define ir_cas32(ptr, expected, desired) IR_CAS(uint32_t, ptr, expected, desired)
#define ir_cas64(ptr, expected, desired) IR_CAS(uint64_t, ptr, expected, desired)

/* Each byte of x that is not 0 becomes 0xff (RISC-V orc.b): bit 7 of a byte is set iff the byte is
 * not 0, then spread. */
static inline uint64_t ir_orc_b(uint64_t x) {
  uint64_t low7 = 0x7f7f7f7f7f7f7f7full;
  uint64_t set = ((((x & low7) + low7) | x) & ~low7) >> 7;
  return set * 0xff;
}

#endif
