/* Lockstep: every instruction is executed by the JIT and again by the interpreter, on a copy of the
 * state, and must leave the same registers, exit and stored bytes. For finding faults of the JIT:
 * the first difference ends the process.
 *
 * What cannot be done twice is not compared: atomic operations, and what calls out (hooks,
 * helpers). A plain store is done twice, as it writes the same bytes again; before that, what the
 * JIT has stored is compared with what it should have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/run.h"

static bool repeats(const IrRegion *r) {
  for (uint32_t k = 1; k < r->n_ops; k++) {
    const IrOp *op = &r->ops[k];
    uint8_t flags = ir_op_info[op->code].flags;
    if (flags & IR_LOADS && flags & IR_STORES) return false;
    switch (op->code) {
    case IR_call:
    case IR_callout:
    case IR_nth:
    case IR_ring_open:
    case IR_edge_ind:
    case IR_cs_call:
    case IR_cs_ret:
    case IR_cs_jump: return false;
    default: break;
    }
  }
  return true;
}

/* What the first store should have written, if that follows from the registers alone, is there. */
static bool stored_right(const IrRegion *r, const IrState *before) {
  static uint64_t v[IR_MAX_OPS];
  for (uint32_t k = 1; k < r->n_ops; k++) {
    const IrOp *op = &r->ops[k];
    const IrOpInfo *info = &ir_op_info[op->code];
    if (info->flags & (IR_LOADS | IR_FPENV) || op->code == IR_guard) return true;
    if (info->flags & IR_PURE)
      v[k] = ir_eval_pure((IrOpcode)op->code, v[op->a], v[op->b], v[op->c], op->imm);
    else if (op->code == IR_get)
      v[k] = *(const uint64_t *)(const void *)((const char *)before + op->imm);
    else if (info->flags & IR_STORES)
      return !memcmp((const void *)(uintptr_t)(v[op->a] + op->imm), &v[op->b], info->size);
  }
  return true;
}

static _Noreturn void differ(const CoreThread *t, const IrRegion *r, const IrState *want,
                             const char *what) {
  const Guest *g = t->emu->guest;
  fprintf(stderr, "kitlua: internal error: JIT and interpreter differ at %#llx: %s\n",
          (unsigned long long)r->pc, what);
  for (uint32_t i = 0; i < g->n_regs; i++) {
    uint64_t a = guest_reg(g, want, (int)i), b = guest_reg(g, t->state, (int)i);
    if (a != b)
      fprintf(stderr, "  %s: %#llx by the interpreter, %#llx by the JIT\n", g->regs[i].name,
              (unsigned long long)a, (unsigned long long)b);
  }
  ir_print(stderr, r, NULL);
  _exit(125);
}

IrState *core_lockstep_before(CoreThread *t, const IrRegion *r) {
  if (!repeats(r)) return NULL;
  if (!t->lockstep) {
    void *p = mmap(NULL, IR_STATE_WINDOW, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) base_oom(IR_STATE_WINDOW);
    t->lockstep = p;
  }
  memcpy(t->lockstep, t->state, t->emu->guest->state_size);
  return t->lockstep;
}

void core_lockstep_after(CoreThread *t, IrRegion *r, IrState *copy, const IrExit *x) {
  sigjmp_buf saved;
  if (x->kind == IR_EXIT_INTERRUPT || x->kind == IR_EXIT_SOFT) return;
  if (!stored_right(r, copy)) differ(t, r, copy, "stored bytes");
  memcpy(saved, t->fault_env, sizeof saved);
  if (sigsetjmp(t->fault_env, 0)) differ(t, r, copy, "the interpreter's access faults");
  copy->interrupt = 0;
  IrExit y = ir_interp(r, copy, NULL);
  memcpy(t->fault_env, saved, sizeof saved);
  const IrState *s = t->state;
  if (x->kind != y.kind || x->detail != y.detail ||
      (x->kind == IR_EXIT_FAULT && x->address != y.address))
    differ(t, r, copy, "the exit");
  if (s->pc != copy->pc) differ(t, r, copy, "pc");
  if (s->fp_flags != copy->fp_flags || s->fp_rm != copy->fp_rm)
    differ(t, r, copy, "floating-point state");
  if (memcmp((const char *)s + sizeof *s, (const char *)copy + sizeof *s,
             t->emu->guest->state_size - sizeof *s))
    differ(t, r, copy, "registers");
}
