/* Making a region. The builder keeps its arrays from one region to the next; finish copies what
 * outlives the translation, exactly sized, into the region's own arena. */
#include <assert.h>
#include <string.h>

#include "base/vec.h"
#include "ir/native.h"

struct IrBuilder {
  uint64_t pc;
  VEC(IrOp) ops;
  VEC(IrBlock) blocks;
  VEC(IrInsn) insns;
  VEC(IrNative) natives;
  bool open; /* the last block has no terminator yet */
};

IrBuilder *ir_builder_new(void) { return xcalloc(1, sizeof(IrBuilder)); }

void ir_builder_free(IrBuilder *b) {
  if (!b) return;
  vec_free(&b->ops);
  vec_free(&b->blocks);
  vec_free(&b->insns);
  vec_free(&b->natives);
  free(b);
}

void ir_builder_begin(IrBuilder *b, uint64_t pc) {
  b->pc = pc;
  b->ops.n = b->blocks.n = b->insns.n = b->natives.n = 0;
  b->open = false;
  vec_push(&b->ops, (IrOp){.code = IR_nop}); /* reference 0 is no value */
}

void ir_builder_block(IrBuilder *b, uint64_t pc) {
  assert(!b->open && "the previous block has no terminator");
  IrBlock block = {.pc = pc, .first = (uint32_t)b->ops.n, .first_insn = (uint16_t)b->insns.n};
  vec_push(&b->blocks, block);
  b->open = true;
}

void ir_builder_insn(IrBuilder *b, const IrInsn *insn) {
  assert(b->open);
  IrBlock *block = &vec_last(&b->blocks);
  vec_push(&b->insns, *insn);
  IrInsn *copy = &vec_last(&b->insns);
  copy->block = (uint16_t)(b->blocks.n - 1);
  copy->first_op = (IrRef)b->ops.n;
  block->n_insns++;
  block->branch = insn->branch;
  ir_emit(b, IR_insn, (IrRef)(b->insns.n - 1), 0, 0, insn->pc);
}

uint32_t ir_builder_ops(const IrBuilder *b) { return (uint32_t)b->ops.n; }

IrRef ir_emit(IrBuilder *b, IrOpcode code, IrRef x, IrRef y, IrRef z, uint64_t imm) {
  assert(b->open && "operation outside of a block");
  assert(b->ops.n < IR_MAX_OPS);
  IrOp op = {.code = (uint8_t)code, .a = x, .b = y, .c = z, .imm = imm};
  vec_push(&b->ops, op);
  return (IrRef)(b->ops.n - 1);
}

IrRef ir_imm(IrBuilder *b, uint64_t value) { return ir_emit(b, IR_imm, 0, 0, 0, value); }

/* ---- terminators ----------------------------------------------------------------------------- */

static void end_block(IrBuilder *b, int n_succ, uint64_t pc0, uint64_t pc1) {
  IrBlock *block = &vec_last(&b->blocks);
  block->end = (uint32_t)b->ops.n;
  block->n_succ = (uint8_t)n_succ;
  block->succ[0] = (IrSucc){.pc = pc0, .block = -1};
  block->succ[1] = (IrSucc){.pc = pc1, .block = -1};
  b->open = false;
}

void ir_br(IrBuilder *b, IrRef cond, uint64_t taken_pc, uint64_t next_pc) {
  ir_emit(b, IR_br, cond, 0, 0, 0);
  end_block(b, 2, taken_pc, next_pc);
}

void ir_jump(IrBuilder *b, uint64_t pc) {
  ir_emit(b, IR_jump, 0, 0, 0, 0);
  end_block(b, 1, pc, 0);
}

void ir_jump_ind(IrBuilder *b, IrRef target) {
  ir_emit(b, IR_jump_ind, target, 0, 0, 0);
  end_block(b, 0, 0, 0);
}

void ir_trap(IrBuilder *b, IrTrap trap, uint64_t next_pc) {
  ir_emit(b, IR_trap, (IrRef)trap, 0, 0, 0);
  end_block(b, 1, next_pc, 0);
}

/* ---- native operations ----------------------------------------------------------------------- */

static uint64_t keep(IrBuilder *b, const IrNative *n) {
  vec_push(&b->natives, *n);
  return b->natives.n - 1;
}

void ir_native(IrBuilder *b, const IrNative *n) { ir_emit(b, IR_native, 0, 0, 0, keep(b, n)); }

void ir_native_br(IrBuilder *b, const IrNative *n, uint64_t taken_pc, uint64_t next_pc) {
  ir_emit(b, IR_native_br, 0, 0, 0, keep(b, n));
  end_block(b, 2, taken_pc, next_pc);
}

void ir_native_jump(IrBuilder *b, const IrNative *n) {
  ir_emit(b, IR_native_jump, 0, 0, 0, keep(b, n));
  end_block(b, n->fix == IR_FIX_CALL, n->target, 0);
}

/* Until now they were numbers: the vector moved as it grew. `element` runs with the translated
 * code. */
static void place_natives(IrBuilder *b, IrRegion *r) {
  for (uint32_t k = 1; k < r->n_ops; k++) {
    if (!ir_is_native(r->ops[k].code)) continue;
    IrNative *n = &b->natives.at[r->ops[k].imm];
    if (n->element) {
      IrNative *lasting = arena_alloc(r->arena, sizeof *n);
      *lasting = *n;
      n = lasting;
    }
    r->ops[k].imm = (uint64_t)(uintptr_t)n;
  }
}

/* What the JIT is going to add for a region, and for each of its instructions, about. */
#define LATER_BYTES 256
#define LATER_INSN  12

/* ---- the region ------------------------------------------------------------------------------ */

static void *copy_of(Arena *arena, const void *from, size_t n, size_t size) {
  void *to = arena_alloc(arena, n ? n * size : size);
  if (n) memcpy(to, from, n * size);
  return to;
}

static int32_t block_at(const IrRegion *r, uint64_t pc) {
  for (uint32_t i = 0; i < r->n_blocks; i++)
    if (r->blocks[i].pc == pc) return (int32_t)i;
  return -1;
}

/* A trap always leaves the region; other ways out that lead to one of its blocks stay inside. */
static void resolve(IrRegion *r) {
  for (uint32_t i = 0; i < r->n_blocks; i++) {
    IrBlock *block = &r->blocks[i];
    block->region = r;
    if (r->ops[block->end - 1].code == IR_trap) continue;
    for (int k = 0; k < block->n_succ; k++) block->succ[k].block = block_at(r, block->succ[k].pc);
  }
}

static void find_extent(IrRegion *r) {
  r->low = r->pc;
  r->high = r->pc + 1;
  for (uint32_t i = 0; i < r->n_insns; i++) {
    const IrInsn *insn = &r->insns[i];
    if (insn->pc < r->low) r->low = insn->pc;
    if (insn->pc + insn->len > r->high) r->high = insn->pc + insn->len;
  }
}

IrRegion *ir_builder_finish(IrBuilder *b) {
  assert(!b->open && b->blocks.n && b->blocks.at[0].pc == b->pc);
  bool lasting = !b->natives.n;
  size_t size = b->blocks.n * sizeof(IrBlock) + b->insns.n * sizeof(IrInsn);
  if (lasting) size += b->ops.n * sizeof(IrOp);
  Arena *arena = arena_new_sized(size + sizeof(IrRegion) + LATER_BYTES + LATER_INSN * b->insns.n);
  IrRegion *r = arena_alloc(arena, sizeof *r);
  r->pc = b->pc;
  r->arena = arena;
  r->ops = lasting ? copy_of(arena, b->ops.at, b->ops.n, sizeof(IrOp)) : b->ops.at;
  r->blocks = copy_of(arena, b->blocks.at, b->blocks.n, sizeof(IrBlock));
  r->insns = copy_of(arena, b->insns.at, b->insns.n, sizeof(IrInsn));
  r->n_ops = (uint32_t)b->ops.n;
  r->n_blocks = (uint32_t)b->blocks.n;
  r->n_insns = (uint32_t)b->insns.n;
  if (!lasting) place_natives(b, r);
  resolve(r);
  find_extent(r);
  return r;
}

void ir_region_free(IrRegion *r) {
  if (r) arena_free(r->arena);
}
