/* A stack machine for DWARF expressions; see expr.h. */
#include "debug/expr.h"

#include <dwarf.h>
#include <string.h>

#define STACK 64

typedef struct Machine {
  const uint8_t *p, *end;
  uint64_t stack[STACK];
  int n;
  bool failed;
} Machine;

static void push(Machine *m, uint64_t v) {
  if (m->n >= STACK)
    m->failed = true;
  else
    m->stack[m->n++] = v;
}

static uint64_t pop(Machine *m) {
  if (m->n <= 0) {
    m->failed = true;
    return 0;
  }
  return m->stack[--m->n];
}

static uint64_t fixed(Machine *m, int n, bool is_signed) {
  uint64_t v = 0;
  if (m->end - m->p < n) {
    m->failed = true;
    return 0;
  }
  memcpy(&v, m->p, (size_t)n);
  m->p += n;
  int shift = 64 - 8 * n;
  return is_signed ? (uint64_t)((int64_t)(v << shift) >> shift) : v;
}

static uint64_t leb(Machine *m, bool is_signed) {
  uint64_t v = 0;
  for (int shift = 0; m->p < m->end; shift += 7) {
    uint8_t b = *m->p++;
    if (shift < 64) v |= (uint64_t)(b & 127) << shift;
    if (b & 128) continue;
    if (is_signed && b & 64 && shift + 7 < 64) v |= ~0ull << (shift + 7);
    return v;
  }
  m->failed = true;
  return 0;
}

static void push_reg(Machine *m, const DebugRegs *regs, int reg, uint64_t offset) {
  uint64_t v = 0;
  if (!regs->get(regs->ctx, reg, &v)) m->failed = true;
  push(m, v + offset);
}

static void deref(Machine *m, const DebugRegs *regs, size_t n) {
  uint64_t v = 0;
  if (n > 8 || !regs->read(regs->ctx, pop(m), &v, n)) m->failed = true;
  push(m, v);
}

static void binary(Machine *m, uint8_t op) {
  uint64_t b = pop(m), a = pop(m), v = 0;
  switch (op) {
  case DW_OP_and: v = a & b; break;
  case DW_OP_div:
    v = b ? (uint64_t)((int64_t)b == -1 ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b)) : 0;
    break;
  case DW_OP_minus: v = a - b; break;
  case DW_OP_mod: v = b ? a % b : 0; break;
  case DW_OP_mul: v = a * b; break;
  case DW_OP_or: v = a | b; break;
  case DW_OP_plus: v = a + b; break;
  case DW_OP_shl: v = b < 64 ? a << b : 0; break;
  case DW_OP_shr: v = b < 64 ? a >> b : 0; break;
  case DW_OP_shra: v = (uint64_t)((int64_t)a >> (b < 63 ? b : 63)); break;
  case DW_OP_xor: v = a ^ b; break;
  case DW_OP_eq: v = a == b; break;
  case DW_OP_ge: v = (int64_t)a >= (int64_t)b; break;
  case DW_OP_gt: v = (int64_t)a > (int64_t)b; break;
  case DW_OP_le: v = (int64_t)a <= (int64_t)b; break;
  case DW_OP_lt: v = (int64_t)a < (int64_t)b; break;
  case DW_OP_ne: v = a != b; break;
  default: m->failed = true; break;
  }
  push(m, v);
}

static void jump(Machine *m, int64_t by) {
  if (by < 0 || by > m->end - m->p)
    m->failed = true; /* no loops: an expression must end */
  else
    m->p += by;
}

static void stack_op(Machine *m, uint8_t op) {
  uint64_t a, b, c;
  switch (op) {
  case DW_OP_dup:
    a = pop(m);
    push(m, a);
    push(m, a);
    break;
  case DW_OP_drop: pop(m); break;
  case DW_OP_over:
    a = pop(m);
    b = pop(m);
    push(m, b);
    push(m, a);
    push(m, b);
    break;
  case DW_OP_swap:
    a = pop(m);
    b = pop(m);
    push(m, a);
    push(m, b);
    break;
  case DW_OP_rot:
    a = pop(m);
    b = pop(m);
    c = pop(m);
    push(m, a);
    push(m, c);
    push(m, b);
    break;
  case DW_OP_abs:
    a = pop(m);
    push(m, (int64_t)a < 0 ? 0 - a : a);
    break;
  case DW_OP_neg: push(m, 0 - pop(m)); break;
  case DW_OP_not: push(m, ~pop(m)); break;
  default: binary(m, op); break;
  }
}

static void step(Machine *m, uint8_t op, const DebugRegs *regs, uint64_t frame_base,
                 uint64_t bias) {
  if (op >= DW_OP_lit0 && op <= DW_OP_lit31)
    push(m, (uint64_t)op - DW_OP_lit0);
  else if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
    push_reg(m, regs, op - DW_OP_breg0, leb(m, true));
  else
    switch (op) {
    case DW_OP_addr: push(m, fixed(m, 8, false) + bias); break;
    case DW_OP_deref: deref(m, regs, 8); break;
    case DW_OP_deref_size: deref(m, regs, fixed(m, 1, false)); break;
    case DW_OP_const1u: push(m, fixed(m, 1, false)); break;
    case DW_OP_const1s: push(m, fixed(m, 1, true)); break;
    case DW_OP_const2u: push(m, fixed(m, 2, false)); break;
    case DW_OP_const2s: push(m, fixed(m, 2, true)); break;
    case DW_OP_const4u: push(m, fixed(m, 4, false)); break;
    case DW_OP_const4s: push(m, fixed(m, 4, true)); break;
    case DW_OP_const8u:
    case DW_OP_const8s: push(m, fixed(m, 8, false)); break;
    case DW_OP_constu: push(m, leb(m, false)); break;
    case DW_OP_consts: push(m, leb(m, true)); break;
    case DW_OP_plus_uconst: push(m, pop(m) + leb(m, false)); break;
    case DW_OP_bregx: {
      int reg = (int)leb(m, false);
      push_reg(m, regs, reg, leb(m, true));
      break;
    }
    case DW_OP_fbreg: push(m, frame_base + leb(m, true)); break;
    case DW_OP_call_frame_cfa: push(m, frame_base); break;
    case DW_OP_skip: jump(m, (int64_t)fixed(m, 2, true)); break;
    case DW_OP_bra: {
      int64_t by = (int64_t)fixed(m, 2, true);
      if (pop(m)) jump(m, by);
      break;
    }
    case DW_OP_nop: break;
    default: stack_op(m, op); break;
    }
}

bool debug_expression(const uint8_t *code, size_t n, const DebugRegs *regs, uint64_t frame_base,
                      uint64_t bias, uint64_t initial, bool start, uint64_t *out) {
  Machine m = {.p = code, .end = code + n};
  if (start) push(&m, initial);
  while (m.p < m.end && !m.failed) {
    uint8_t op = *m.p++;
    if (op == DW_OP_stack_value) break;
    step(&m, op, regs, frame_base, bias);
  }
  *out = pop(&m);
  return !m.failed;
}

int debug_expression_reg(const uint8_t *code, size_t n) {
  if (n == 1 && code[0] >= DW_OP_reg0 && code[0] <= DW_OP_reg31) return code[0] - DW_OP_reg0;
  if (n >= 2 && code[0] == DW_OP_regx) return code[1];
  return -1;
}
