/* The operation table as data. */
#include "ir/semantics.h"

const IrOpInfo ir_op_info[IR_OPCODES] = {
#define OP(name, result, a, b, c, flags, semantics)                                                \
  [IR_##name] = {#name, result, a, b, c, (uint8_t)((flags)&0xff), (uint8_t)((flags) >> 8)},
#include "ir/ops.def"
};
