/* The interpreter: executes threaded code (decode.h), one handler per operation, each the
 * expression of ops.def.
 *
 * Guest accesses are plain host accesses and may fault at any time; the handler of the host signal
 * unwinds to the caller of ir_interp. Whatever it needs (state->pc, state->block, the registers) is
 * in memory before each access: see HERE. */
#include "ir/callstack.h"
#include "ir/decode.h"
#include "ir/place.h"
#include "ir/probes.h"
#include "ir/semantics.h"

#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined")))

/* ---- handlers -------------------------------------------------------------------------------- */

#define A         v[op->a]
#define B         v[op->b]
#define C         v[op->c]
#define D         v[op->d]
#define IMM       op->imm
#define S         s
#define IMM_AS(T) ((T *)(uintptr_t)IMM)

#define IR_FP(fn, ...)                                                                             \
  ({                                                                                               \
    SoftFp fp = {.rm = (IMM & 7) == 7 ? (unsigned)s->fp_rm : (unsigned)(IMM & 7),                  \
                 .nan = IMM >> 4 & 15};                                                            \
    __auto_type fp_result = fn(&fp, __VA_ARGS__);                                                  \
    s->fp_flags |= fp.flags;                                                                       \
    fp_result;                                                                                     \
  })

#define NEXT                                                                                       \
  do {                                                                                             \
    op++;                                                                                          \
    goto *(op->go);                                                                                \
  } while (0)

/* The current instruction's pc is in memory before what follows. */
#define HERE                                                                                       \
  do {                                                                                             \
    s->pc = op->pc;                                                                                \
    __asm__ volatile("" ::: "memory");                                                             \
  } while (0)

/* Flag columns are constants: each handler keeps one of the branches. */
#define SEMANTICS(result, flags, semantics)                                                        \
  do {                                                                                             \
    if ((flags) & (LOAD | STORE | SIDE) && !((flags)&STATE)) HERE;                                 \
    if (result)                                                                                    \
      D = (uint64_t)(semantics);                                                                   \
    else                                                                                           \
      (void)(semantics);                                                                           \
  } while (0)

#define GOTO(flow_)                                                                                \
  do {                                                                                             \
    to = (flow_);                                                                                  \
    if (!to->code) goto leave;                                                                     \
    if (to->back && s->interrupt) goto interrupted;                                                \
    s->block = to->block;                                                                          \
    op = to->code;                                                                                 \
    goto *(op->go);                                                                                \
  } while (0)

#define BRANCH(taken) GOTO((taken) ? op->flow : op->flow + 1)

#define FORM(form, name) [IR_##form * IR_OPCODES + IR_##name]

NO_SANITIZE IrExit ir_interp(IrRegion *r, IrState *s, IrLinks *links) {
  static const void *const handlers[IR_FORMS * IR_OPCODES] = {
#define OP(name, result, a, b, c, flags, semantics)                                                \
  FORM(PLAIN, name) = &&plain_##name, FORM(PLAIN_IMM, name) = &&plain_imm_##name,                  \
              FORM(SEXT, name) = &&sext_##name, FORM(SEXT_IMM, name) = &&sext_imm_##name,          \
              FORM(BRANCH, name) = &&branch_##name, FORM(BRANCH_IMM, name) = &&branch_imm_##name,
#define HAND(name, result, a, b, c, flags)   FORM(PLAIN, name) = &&plain_##name,
#define NATIVE(name, result, a, b, c, flags) FORM(PLAIN, name) = &&plain_nop,
#include "ir/ops.def"
  };
  uint64_t *const v = (uint64_t *)s; /* slots */
  const IrCode *op;
  const IrFlow *to;
  IrSucc *succ;
  v[IR_SCRATCH_AT / 8] = 0; /* the value of reference 0 */

enter:
  if (!r->code) ir_decode(r, handlers);
  s->block = r->blocks;
  op = r->code;
  goto *(op->go);

  /* The operations with semantics, straight from the table. A form that the decoder does not use
   * for an operation is empty. */
#define OP(name, result, a, b, c, flags, semantics)                                                \
  plain_##name : SEMANTICS(result, flags, semantics);                                              \
  NEXT;                                                                                            \
  sext_##name : if (ir_has_sext(IR_##name)) D = (uint64_t)(int32_t)(semantics);                    \
  NEXT;                                                                                            \
  branch_##name : if (ir_is_comparison(IR_##name)) BRANCH((uint64_t)(semantics) != 0);             \
  NEXT;
#define HAND(name, result, a, b, c, flags)
#include "ir/ops.def"

#undef B
#define B IMM
#define OP(name, result, a, b, c, flags, semantics)                                                \
  plain_imm_##name : if (ir_has_imm(IR_##name)) SEMANTICS(result, flags, semantics);               \
  NEXT;                                                                                            \
  sext_imm_##name : if (ir_has_sext(IR_##name)) D = (uint64_t)(int32_t)(semantics);                \
  NEXT;                                                                                            \
  branch_imm_##name : if (ir_is_comparison(IR_##name)) BRANCH((uint64_t)(semantics) != 0);         \
  NEXT;
#define HAND(name, result, a, b, c, flags)
#include "ir/ops.def"
#undef B
#define B v[op->b]

plain_insn: /* never emitted: pc travels with the operations that need it */
  NEXT;
plain_trap_if:
  if (A) {
    s->pc = op->pc;
    return (IrExit){.kind = IR_EXIT_FAULT, .detail = op->b, .address = C, .block = s->block};
  }
  NEXT;

  /* ---- ways out of a block ---- */

plain_br:
  BRANCH(A != 0);
plain_jump:
  GOTO(op->flow);
plain_jump_ind:
  s->pc = A;
  if (!links) return (IrExit){.kind = IR_EXIT_NEXT, .block = s->block};
  succ = ir_link_target(links, s->pc);
  if (succ->pc != s->pc) *succ = (IrSucc){.pc = s->pc, .block = -1};
  goto follow;
plain_trap:
  s->pc = op->pc;
  if (op->a == IR_TRAP_NEXT) {
    succ = (IrSucc *)s->block->succ;
    goto follow;
  }
  return (IrExit){.kind = IR_EXIT_TRAP, .detail = op->a, .block = s->block};

leave:
  succ = to->succ;
  s->pc = succ->pc;
follow: /* to succ; s->pc is there */
  if (s->interrupt) return (IrExit){.kind = IR_EXIT_INTERRUPT, .block = s->block};
  if (!links || !succ->link || succ->link_generation != links->generation)
    return (IrExit){.kind = IR_EXIT_NEXT, .block = s->block, .succ = succ};
  r = succ->link;
  goto enter;
interrupted:
  s->pc = to->block->pc;
  return (IrExit){.kind = IR_EXIT_INTERRUPT, .block = s->block};

  /* ---- instrumentation ---- */

plain_count:
  *ir_counter(s, IMM) += op->a;
  NEXT;
plain_count_if:
  *ir_counter(s, IMM) += A != 0;
  NEXT;
plain_budget:
  s->budget -= op->a;
  if (s->budget < 0) {
    s->budget += op->a;
    s->pc = IMM;
    return (IrExit){.kind = IR_EXIT_BUDGET, .block = s->block};
  }
  NEXT;
plain_guard:
  if (!A) {
    op = IMM_AS(const IrCode);
    goto *(op->go);
  }
  NEXT;
plain_nth:
  D = (op->c || A) && ir_nth(IMM_AS(IrNth)); /* c: no condition */
  NEXT;
plain_callout:
  HERE;
  D = IMM_AS(const IrCallout)->fn(s, IMM_AS(const IrCallout), A, B, op->c);
  NEXT;
plain_stop_if_asked:
  if (s->stop) {
    s->pc = IMM;
    return (IrExit){.kind = IR_EXIT_STOP, .block = s->block};
  }
  NEXT;
plain_plane_test:
  HERE;
  D = ir_plane_test(IMM_AS(const IrPlane), A, op->b);
  NEXT;
plain_ring_open:
  HERE;
  D = ir_ring_open(IMM_AS(IrRing), s);
  NEXT;
plain_ring_put:
  *(uint64_t *)(uintptr_t)(A + IMM) = B;
  NEXT;
plain_edge_ind:
  ir_edge_ind(IMM_AS(IrEdgeSite), s, A);
  NEXT;
plain_cs_call:
  if (s->callstack) ir_callstack_call(s->callstack, s, IMM_AS(IrCallSite), A, B);
  NEXT;
plain_cs_ret:
  if (s->callstack) ir_callstack_ret(s->callstack, s, A, B);
  NEXT;
plain_cs_jump:
  if (s->callstack) ir_callstack_jump(s->callstack, s, IMM_AS(IrCallSite), A, B);
  NEXT;
}
