/* Regions as text: the form shown at the head of ir.h. */
#include <inttypes.h>

#include "ir/native.h"

typedef const char *(*RegName)(uint64_t offset);

static const char *const trap_names[] = {"syscall", "breakpoint", "illegal",
                                         "fence_i", "fetch",      "next"};
static const char *const fault_names[] = {"misaligned", "illegal", "denied"};

static const char *name_in(const char *const *names, size_t n, unsigned i) {
  return i < n ? names[i] : "?";
}
#define NAME_IN(names, i) name_in(names, sizeof(names) / sizeof *(names), i)

static void print_offset(FILE *f, uint64_t offset, RegName reg_name) {
  const char *name = reg_name ? reg_name(offset) : NULL;
  if (name)
    fputs(name, f);
  else
    fprintf(f, "[%" PRIx64 "]", offset);
}

static void print_operand(FILE *f, const char **sep, unsigned type, IrRef ref) {
  if (type == IR_NONE) return;
  fprintf(f, type == IR_RAW ? "%s%u" : "%s%%%u", *sep, ref);
  *sep = ", ";
}

static void print_succ(FILE *f, const IrSucc *s) {
  if (s->block >= 0)
    fprintf(f, "block %d", (int)s->block);
  else
    fprintf(f, "exit %" PRIx64, s->pc);
}

/* The immediate, where the operation has one: an address displacement, an offset in the state, or
 * something of its own. */
static void print_imm(FILE *f, const char **sep, const IrOp *op, RegName reg_name) {
  const IrOpInfo *info = &ir_op_info[op->code];
  if (info->flags & (IR_LOADS | IR_STORES)) {
    if (op->imm) fprintf(f, " @ %+" PRId64, (int64_t)op->imm);
  } else if (op->code == IR_get) {
    print_offset(f, op->imm, reg_name);
  } else if (op->code == IR_call) {
    fprintf(f, "%s%s", *sep, ((const IrHelper *)(uintptr_t)op->imm)->name);
  } else if (info->flags & IR_FPENV) {
    fprintf(f, "%srm %u", *sep, (unsigned)(op->imm & 7));
  } else if (op->code == IR_imm || !(info->flags & (IR_PURE | IR_TERM))) {
    fprintf(f, "%s%" PRIx64, *sep, op->imm);
  }
}

static void print_op(FILE *f, const IrRegion *r, const IrBlock *b, uint32_t k, RegName reg_name) {
  const IrOp *op = &r->ops[k];
  const IrOpInfo *info = &ir_op_info[op->code];
  const char *sep = "";
  fprintf(f, "%4u  %-8s", k, info->name);
  switch (op->code) {
  case IR_insn: fprintf(f, " %" PRIx64, op->imm); break;
  case IR_put:
    fputc(' ', f);
    print_offset(f, op->imm, reg_name);
    fprintf(f, ", %%%u", op->a);
    break;
  case IR_trap_if: fprintf(f, " %%%u, %s, %%%u", op->a, NAME_IN(fault_names, op->b), op->c); break;
  case IR_trap: fprintf(f, " %s", NAME_IN(trap_names, op->a)); break;
  case IR_native:
  case IR_native_br:
  case IR_native_jump:
    for (int i = 0; i < ir_native_of(op)->len; i++) fprintf(f, " %02x", ir_native_of(op)->bytes[i]);
    break;
  case IR_nop:
  case IR_jump:
  case IR_fence: break;
  default:
    fputc(' ', f);
    print_operand(f, &sep, info->a, op->a);
    print_operand(f, &sep, info->b, op->b);
    print_operand(f, &sep, info->c, op->c);
    print_imm(f, &sep, op, reg_name);
  }
  for (int i = 0; info->flags & IR_TERM && i < b->n_succ; i++) {
    fputs(i ? ", " : " -> ", f);
    print_succ(f, &b->succ[i]);
  }
  fputc('\n', f);
}

void ir_print(FILE *f, const IrRegion *r, const char *(*reg_name)(uint64_t offset)) {
  fprintf(f, "region %" PRIx64 "\n", r->pc);
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    const IrBlock *b = &r->blocks[i];
    fprintf(f, "block %u (pc %" PRIx64 ", %u insns)\n", i, b->pc, b->n_insns);
    for (uint32_t k = b->first; k < b->end; k++) print_op(f, r, b, k, reg_name);
  }
}
