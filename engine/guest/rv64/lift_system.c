/* Fences, environment calls, control and status registers. User mode has fflags, frm, fcsr and the
 * read-only counters. */
#include <time.h>

#include "guest/rv64/lift.h"

LIFT(fence) { ir_emit(b, IR_fence, 0, 0, 0, 0); }
LIFT(fence_i) { ir_trap(b, IR_TRAP_FENCE_I, i->pc + i->len); }
LIFT(ecall) { ir_trap(b, IR_TRAP_SYSCALL, i->pc + i->len); }
LIFT(ebreak) { ir_trap(b, IR_TRAP_BREAKPOINT, i->pc + i->len); }

enum {
  CSR_FFLAGS = 1,
  CSR_FRM = 2,
  CSR_FCSR = 3,
  CSR_CYCLE = 0xc00,
  CSR_TIME = 0xc01,
  CSR_INSTRET = 0xc02
};

/* The retired count where it is kept, else nanoseconds, which move on at least. */
static uint64_t read_counter(IrState *s, uint64_t csr, uint64_t unused) {
  (void)unused;
  uint64_t retired = ir_retired(s);
  if (csr != CSR_TIME && retired) return retired;
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  uint64_t ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
  return csr == CSR_TIME ? ns / 100 : ns; /* 10 MHz, as common boards and qemu have it */
}

static const IrHelper counter_helper = {"read_counter", read_counter};

static IrRef read_csr(IrBuilder *b, int64_t csr) {
  IrRef flags = get_state(b, offsetof(IrState, fp_flags));
  if (csr == CSR_FFLAGS) return flags;
  IrRef rm = get_state(b, offsetof(IrState, fp_rm));
  if (csr == CSR_FRM) return rm;
  if (csr == CSR_FCSR) return op2(b, IR_or, flags, op2(b, IR_shl, rm, ir_imm(b, 5)));
  return ir_emit(b, IR_call, ir_imm(b, (uint64_t)csr), ir_imm(b, 0), 0,
                 (uint64_t)(uintptr_t)&counter_helper);
}

static void write_csr(IrBuilder *b, int64_t csr, IrRef v) {
  if (csr != CSR_FRM) put_state(b, offsetof(IrState, fp_flags), op2(b, IR_and, v, ir_imm(b, 31)));
  if (csr == CSR_FFLAGS) return;
  if (csr == CSR_FCSR) v = op2(b, IR_shr, v, ir_imm(b, 5));
  put_state(b, offsetof(IrState, fp_rm), op2(b, IR_and, v, ir_imm(b, 7)));
}

typedef enum Update { WRITE, SET, CLEAR } Update;

/* rd = csr; csr = v, csr | v or csr & ~v. Setting or clearing with x0 (or 0) does not write. */
static void access_csr(IrBuilder *b, const Rv64Args *a, const GuestInsn *i, Update update,
                       IrRef v) {
  bool writes = update == WRITE || a->rs1 != 0;
  bool counter = a->imm >= CSR_CYCLE && a->imm <= CSR_INSTRET;
  if (!(a->imm >= CSR_FFLAGS && a->imm <= CSR_FCSR) && !(counter && !writes)) {
    illegal_if(b, ir_imm(b, 1));
    (void)i;
    return;
  }
  IrRef old = read_csr(b, a->imm);
  if (writes)
    write_csr(b, a->imm, update == WRITE ? v : op2(b, update == SET ? IR_or : IR_andn, old, v));
  put_x(b, a->rd, old);
}

LIFT(csrrw) { access_csr(b, a, i, WRITE, get_x(b, a->rs1)); }
LIFT(csrrs) { access_csr(b, a, i, SET, get_x(b, a->rs1)); }
LIFT(csrrc) { access_csr(b, a, i, CLEAR, get_x(b, a->rs1)); }
LIFT(csrrwi) { access_csr(b, a, i, WRITE, ir_imm(b, a->rs1)); }
LIFT(csrrsi) { access_csr(b, a, i, SET, ir_imm(b, a->rs1)); }
LIFT(csrrci) { access_csr(b, a, i, CLEAR, ir_imm(b, a->rs1)); }
