/* The semantics of operations as C functions, for those that have no host code of their own, and
 * the cold cases of those that have: expanded from ops.def like the interpreter. */
#include "ir/callstack.h"
#include "ir/probes.h"
#include "ir/semantics.h"
#include "jit/code.h"

#define IR_FP(fn, ...)                                                                             \
  ({                                                                                               \
    SoftFp fp = {.rm = (IMM & 7) == 7 ? (unsigned)S->fp_rm : (unsigned)(IMM & 7),                  \
                 .nan = IMM >> 4 & 15};                                                            \
    __auto_type fp_result = fn(&fp, __VA_ARGS__);                                                  \
    S->fp_flags |= fp.flags;                                                                       \
    fp_result;                                                                                     \
  })

#define FN(name)                                                                                   \
  __attribute__((no_sanitize("address", "undefined"))) static uint64_t fn_##name(                  \
      IrState *S __attribute__((unused)), uint64_t IMM __attribute__((unused)),                    \
      uint64_t A __attribute__((unused)), uint64_t B __attribute__((unused)),                      \
      uint64_t C __attribute__((unused)))
#define AS(T) ((T *)(uintptr_t)IMM)

#define OP(name, result, a, b, c, flags, semantics)                                                \
  FN(name) {                                                                                       \
    if (result) return (uint64_t)(semantics);                                                      \
    (void)(semantics);                                                                             \
    return 0;                                                                                      \
  }
#define HAND(name, result, a, b, c, flags)
#include "ir/ops.def"

FN(nth) { return (C || A) && ir_nth(AS(IrNth)); }
FN(callout) { return AS(const IrCallout)->fn(S, AS(const IrCallout), A, B, (uint32_t)C); }
FN(plane_test) { return ir_plane_test(AS(const IrPlane), A, (uint32_t)C); }
FN(ring_open) { return ir_ring_open(AS(IrRing), S); }
FN(edge_ind) {
  ir_edge_ind(AS(IrEdgeSite), S, A);
  return 0;
}
FN(cs_call) {
  if (S->callstack) ir_callstack_call(S->callstack, S, AS(IrCallSite), A, B);
  return 0;
}
FN(cs_ret) {
  if (S->callstack) ir_callstack_ret(S->callstack, S, A, B);
  return 0;
}
FN(cs_jump) {
  if (S->callstack) ir_callstack_jump(S->callstack, S, AS(IrCallSite), A, B);
  return 0;
}

uint64_t jit_callstack_room(IrState *s, uint64_t imm, uint64_t a, uint64_t b, uint64_t c) {
  (void)imm, (void)a, (void)b, (void)c;
  ir_callstack_room(s->callstack);
  return 0;
}

#define HAS(name) [IR_##name] = fn_##name,
JitFn *const jit_fns[IR_OPCODES] = {
#define OP(name, result, a, b, c, flags, semantics) HAS(name)
#define HAND(name, result, a, b, c, flags)
#include "ir/ops.def"
    HAS(nth) HAS(callout) HAS(plane_test) HAS(ring_open) HAS(edge_ind) HAS(cs_call) HAS(cs_ret)
        HAS(cs_jump)};
