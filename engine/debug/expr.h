/* Private to debug/: DWARF expressions (DWARF 5, 2.5) over a frame's registers and memory. */
#ifndef DEBUG_EXPR_H
#define DEBUG_EXPR_H

#include "debug/debug.h"

/* Evaluates the expression to an address or value. frame_base is DW_OP_fbreg's; bias is added to
 * DW_OP_addr; start: the stack begins with `initial`. False: an operation or register that is not
 * available. A register location (DW_OP_reg*) gives false too: see debug_expression_reg. */
bool debug_expression(const uint8_t *code, size_t n, const DebugRegs *regs, uint64_t frame_base,
                      uint64_t bias, uint64_t initial, bool start, uint64_t *out);
/* The register that the expression names as the location, or -1. */
int debug_expression_reg(const uint8_t *code, size_t n);

#endif
