/* Private to the lowering: lower.c (registers, blocks, exits), lower_ops.c (integer and memory),
 * lower_fp.c, lower_probes.c. */
#ifndef JIT_LOWER_H
#define JIT_LOWER_H

#include "jit/code.h"

#define LOW_SCRATCH                                                                                \
  20 /* registers below this number may hold values: gprs, then xmm0-xmm3 as 16-19 */

/* Between native operations: which guest registers are not in their own host registers now. */
typedef struct LowWindow {
  bool open, flags_saved, counts; /* counts: nothing but counters, where flags must not change */
  uint16_t stored;                /* in the state as well */
  uint16_t lost;                  /* in the state only */
} LowWindow;

typedef struct LowSnapshot {
  IrRef in_reg[LOW_SCRATCH];
  bool saved[LOW_SCRATCH];
} LowSnapshot;

typedef enum LowColdKind {
  COLD_EXIT,      /* the site's stub */
  COLD_BACK_EDGE, /* likewise, nothing jumps there unless the region is broken */
  COLD_GUARD,
  COLD_PLANE, /* a guard behind a plane test: a = address, b = where in the window, c = the window
               */
  COLD_NATIVE_PLANE, /* likewise, between native operations: a = a register that is free */
  COLD_CANONICAL,    /* d = the canonical NaN */
  COLD_CALL,         /* d = the operation, by its function; operands in a, b, c */
  COLD_CALL_FULL,    /* the same, by call_full */
  COLD_DIVIDE,
  COLD_FAULT, /* the site's stub, once the address (register a, or operand c if that is X64_NONE) is
                 in the state */
  COLD_BUDGET, /* the site's stub, once the block's share is given back */
} LowColdKind;

typedef struct LowCold {
  LowColdKind kind;
  uint8_t *jump; /* rel32 that leads here, or NULL */
  uint8_t *back; /* where to go on */
  uint32_t k;    /* operation */
  uint32_t ea;   /* COLD_NATIVE_PLANE: the one that makes the address */
  uint32_t site;
  uint8_t a, b, c, d; /* registers, X64_NONE */
  uint16_t block, insn;
  LowSnapshot *snapshot;
  LowWindow window;
} LowCold;

typedef struct LowJump { /* to a block of the region */
  uint8_t *jump;
  uint32_t site; /* of a back-edge, else 0 */
  uint16_t block;
} LowJump;

typedef struct Lower {
  Jit *j;
  IrRegion *r;
  JitRegion *jr;
  IrPlace *p;
  X64 x;
  uint8_t *start; /* writable address of jr->start */
  uint8_t *reg;   /* of a value: scratch register that holds it, or X64_NONE */
  bool *saved;    /* its slot holds it */
  bool *xmm;      /* it lives in vector registers */
  IrRef in_reg[LOW_SCRATCH];
  uint32_t locked; /* registers that the current operation uses */
  uint32_t now;    /* operation */
  uint16_t block, insn;
  bool inline_rounding; /* the block has made sure that the dynamic rounding mode is one of the
                           host's */
  LowWindow window;
  uint16_t kept;    /* native, between windows: registers that are in the state only */
  uint16_t valid;   /* scratch registers that the state has as well, whether lost or not */
  bool *flags_live; /* native: some status flag matters before this operation */
  uint8_t *repeat, *repeat_out[3]; /* the loop of a repeated instruction: its head, its ways out */
  VEC(LowCold) cold;
  VEC(LowJump) jumps;
  VEC(JitPoint) points;
  uint32_t block_at[IR_MAX_BLOCKS];
} Lower;

/* lower.c */
const IrOp *low_op(const Lower *l, IrRef ref);
bool low_is_imm(const Lower *l, IrRef ref);
uint64_t low_imm(const Lower *l, IrRef ref);
bool low_is_single(const Lower *l, IrRef ref); /* an F32: in vector registers, its low half */
bool low_dies(const Lower *l, IrRef ref);
unsigned low_temp(Lower *l, bool xmm);
void low_take(Lower *l, unsigned reg);
void low_fetch(Lower *l, unsigned reg, IrRef ref);
void low_unlock(Lower *l, unsigned reg);
void low_move(Lower *l, unsigned to, unsigned from);
void low_copy(Lower *l, unsigned to, IrRef ref);
unsigned low_use(Lower *l, IrRef ref, bool xmm);
unsigned low_gpr(Lower *l, IrRef ref);
unsigned low_xmm(Lower *l, IrRef ref); /* number without the 16 */
bool low_memory(const Lower *l, IrRef ref, X64Mem *m);
unsigned low_def(Lower *l, IrRef ref, IrRef hint);
void low_defined(Lower *l, IrRef ref);
unsigned low_where(const Lower *l, IrRef ref); /* register in which low_def has it made */
void low_result(Lower *l, IrRef ref, unsigned from);
void low_spill_all(Lower *l);
void low_release(Lower *l);
uint32_t low_site(Lower *l, JitSite site);
void low_put_aside(Lower *l, LowCold c);
void low_put_guard_aside(Lower *l, LowCold c); /* with a snapshot of what is in registers */
void low_exit(Lower *l, uint8_t *jump, JitSite site);
void low_point(Lower *l);
void low_resume_here(Lower *l);
uint32_t low_operation(Lower *l, uint32_t k); /* returns the next one to lower */

void low_call_on_host(Lower *l, const uint8_t *stub); /* on the host's stack */
uint8_t *low_rx(const Lower *l, const uint8_t *rw);
void low_flow(Lower *l, uint8_t *jump, IrSucc *succ);
bool low_falls_through(const Lower *l, const IrSucc *succ);

/* lower_native.c */
void low_native_entry(Lower *l);
void low_native_flags(Lower *l); /* where flags are live, if there is instrumentation */
/* Opens or closes the window before the operation at k. */
void low_window_at(Lower *l, uint32_t k);
/* The register is about to be overwritten. */
void low_lose(Lower *l, unsigned reg);
void low_lose_scratch(Lower *l);
/* Registers and flags as the guest has them. */
void low_window_restore(Lower *l, uint16_t lost, bool flags);
bool low_native(Lower *l, uint32_t k);
/* A register that is the guest's no more until the window ends, with the address of ea operation k
 * in it; `next` comes behind the test of it. */
unsigned low_native_address(Lower *l, uint32_t k, uint32_t next);
void low_native_give_back(Lower *l, unsigned reg); /* before C is called: the pinned ones */
void low_native_end(Lower *l, const IrOp *op, IrBlock *b);

/* lower_plane.c */
bool low_is_plane_guard(const Lower *l, uint32_t k);
LowCold low_plane_test(Lower *l, uint32_t k);
void low_cold_plane(Lower *l, const LowCold *c);
/* The test of an address that operation k makes, and the guard on it: the next one to lower; 0: k is
 * lowered as others are. */
uint32_t low_native_plane(Lower *l, uint32_t k);
void low_cold_native_plane(Lower *l, const LowCold *c);

/* lower_ops.c */
uint32_t low_body(Lower *l, uint32_t k);
X64Cond low_condition(Lower *l,
                      IrRef ref); /* emits the test of a value; true if the condition holds */
void low_call(Lower *l, uint32_t k, JitFn *fn, uint64_t imm, IrRef a, IrRef b, IrRef c,
              uint64_t c_raw, bool full);

void low_say_where(Lower *l);
X64Mem low_address(Lower *l, const IrOp *op);
void low_cold_divide(Lower *l, const LowCold *c);
void low_call_stub(Lower *l, uint64_t imm, IrRef a, IrRef b, const uint8_t *stub);

/* lower_fp.c */
bool low_is_rounding_check(const Lower *l, const IrOp *trap_if);
bool low_fp(Lower *l, uint32_t k);
void low_block_begin(Lower *l, const IrBlock *b);
void low_cold(Lower *l, const LowCold *c);

/* lower_probes.c */
bool low_probe(Lower *l, uint32_t k);

#endif
