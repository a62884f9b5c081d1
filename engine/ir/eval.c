/* The folder's expansion of ops.def: pure operations as a function. */
#include "ir/semantics.h"

#define EVAL_PURE(flags, semantics) (((flags)&PURE) ? (uint64_t)(semantics) : 0)

uint64_t ir_eval_pure(IrOpcode code, uint64_t A, uint64_t B, uint64_t C, uint64_t IMM) {
  IrState *S = NULL; /* impure rows name it; they are not evaluated */
#define IR_FP(fn, ...) 0
  /* clang-format off */
  switch (code) {
#define OP(name, result, a, b, c, flags, semantics) case IR_##name: return EVAL_PURE(flags, semantics);
#include "ir/ops.def"
  case IR_OPCODES: break;
  }
  /* clang-format on */
  (void)S;
  return 0;
}
