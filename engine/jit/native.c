/* The ways in and out of native operations (ir/native.h). The guest's registers, flags and vector
 * registers are the host's own; its fs base is in fs, rsp is its own too.
 *
 * Going out to C, all of that is put into the state, and C gets what it needs: its stack, its fs
 * base (thread-local variables live by it), MXCSR and x87 as the ABI has them, DF clear. Vector
 * registers are moved one by one: an XSAVE of all costs several times as much.
 *
 * An indirect branch has its target in rcx (the guest's rcx and rdx are in the state), takes a code
 * address from a table by the target's low 16 bits, and jumps there without looking: the region
 * entered compares rcx with its own pc, by lea and jrcxz, which leave the flags alone. What is no
 * match comes to native_indirect, which looks in a second table by a hash of the whole pc. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "jit/code.h"

#define STATE(member) offsetof(IrState, member)
#define FLAG_TF       0x100u
#define FLAG_RF       0x10000u
#define FLAG_FIXED    2u
#define HASH          0x9e3779b1u /* 2^32 / golden ratio */
#define FCW_DEFAULT   0x37f

static const uint8_t callee_saved[] = {RBX, RBP, R12, R13, R14, R15};

static uint64_t *slot(const Jit *j, IrState *s, unsigned reg) {
  return (uint64_t *)(void *)((char *)s + j->native->gpr) + reg;
}
static uint64_t *flags_slot(const Jit *j, IrState *s) {
  return (uint64_t *)(void *)((char *)s + j->native->flags);
}
static X64Mem gpr(const Jit *j, unsigned reg) { return x64_gs(j->native->gpr + 8u * reg); }

void jit_native_open(Jit *j) {
  j->vector_width = ir_xsave_features() & 0x80 ? 64 : ir_xsave_features() & 4 ? 32 : 16;
}

/* ---- flags ----------------------------------------------------------------------------------- */

void jit_native_save_flags(X64 *x) {
  x64_byte(x, 0x9f); /* lahf */
  x64_setcc(x, CC_O, RAX);
  x64_rm(x, X64_MOV_STORE, RAX, x64_gs(STATE(jit.status)));
}

void jit_native_load_flags(X64 *x) {
  x64_rm(x, X64_MOV_LOAD, RAX, x64_gs(STATE(jit.status)));
  x64_byte(x, 0x04); /* add al, 127: OF from al */
  x64_byte(x, 127);
  x64_byte(x, 0x9e); /* sahf */
}

static uint64_t status_of(uint64_t flags) {
  return (flags & 0xff) << 8 | (flags & IR_FLAG_OF ? 1 : 0);
}

static uint64_t flags_of(uint64_t status) {
  return (status >> 8 & (IR_FLAGS_STATUS & 0xff)) | (status & 1 ? IR_FLAG_OF : 0);
}

/* ---- in and out ------------------------------------------------------------------------------ */

static void move_vectors(Jit *j, X64 *x, bool to_state) {
  unsigned n = j->vector_width == 64 ? 32 : 16;
  uint64_t at = j->native->vectors + offsetof(IrVectors, v);
  for (unsigned i = 0; i < n; i++) x64_vector(x, j->vector_width, to_state, i, x64_gs(at + 64 * i));
  for (unsigned i = 0; j->vector_width == 64 && i < 8; i++)
    x64_mask(x, to_state, i, x64_gs(j->native->vectors + offsetof(IrVectors, k) + 8 * i));
  if (to_state && j->vector_width > 16) { /* vzeroupper */
    x64_byte(x, 0xc5);
    x64_byte(x, 0xf8);
    x64_byte(x, 0x77);
  }
}

static uint64_t legacy(const Jit *j) { return j->native->vectors + offsetof(IrVectors, legacy); }

/* fs base from the state, through rax. */
static void set_fs_base(X64 *x, uint64_t from) {
  x64_rm(x, X64_MOV_LOAD, RAX, x64_gs(from));
  x64_rr(x, X64_FSBASE, 2, RAX);
}

static void push_callee_saved(X64 *x, bool pop) {
  for (unsigned n = 0; n < sizeof callee_saved; n++) {
    unsigned reg = callee_saved[pop ? sizeof callee_saved - 1 - n : n];
    if (reg >= 8) x64_byte(x, 0x41);
    x64_byte(x, (pop ? 0x58u : 0x50u) | (reg & 7));
  }
}

/* uint32_t enter(void): to state->jit.code. */
void jit_native_enter(Jit *j, X64 *x) {
  j->enter = jit_rx_of(j, x);
  push_callee_saved(x, false);
  x64_ri(x, X64_ALU_I, ALU_SUB, RSP, 8);
  x64_rm(x, X64_MOV_STORE, RSP, x64_gs(STATE(jit.host_sp)));
  x64_rm(x, X64_FXSAVE, 1, x64_gs(legacy(j)));
  move_vectors(j, x, false);
  set_fs_base(x, j->native->fs_base);
  x64_mi(x, X64_MOV_I, 0, x64_gs(STATE(jit.entering)), 0);
  x64_rm(x, X64_GROUP5 | X64_32, 6, x64_gs(j->native->flags));
  x64_byte(x, 0x9d); /* popfq */
  for (unsigned reg = 0; reg < 16; reg++) x64_rm(x, X64_MOV_LOAD, reg, gpr(j, reg));
  x64_rm(x, X64_GROUP5 | X64_32, 4, x64_gs(STATE(jit.code)));
  j->enter_end = jit_rx_of(j, x);
}

static void set_ac(X64 *x, bool on) {
  X64Mem top = {.base = RSP, .index = X64_NONE};
  x64_byte(x, 0x9c); /* pushfq */
  x64_mi(x, X64_ALU_I | X64_32, on ? ALU_OR : ALU_AND, top, on ? IR_FLAG_AC : ~IR_FLAG_AC);
  x64_byte(x, 0x9d); /* popfq */
}

/* Emits what follows only if the guest has the flag: to be patched to where that ends. */
static uint8_t *if_flag(const Jit *j, X64 *x, int32_t flag) {
  x64_mi(x, X64_TEST_I | X64_32, 0, x64_gs(j->native->flags), flag);
  return x64_jcc(x, CC_E);
}

/* The flags from the processor, on the host's stack. */
static void take_flags(Jit *j, X64 *x) {
  x64_byte(x, 0x9c); /* pushfq */
  x64_rm(x, X64_POP | X64_32, 0, x64_gs(j->native->flags));
  x64_byte(x, 0xfc); /* cld */
  uint8_t *aligned = if_flag(j, x, IR_FLAG_AC);
  set_ac(x, false);
  x64_patch(aligned, x->at);
}

/* Empties the x87 registers if there are any in use, and sets its control word. */
static void host_x87(Jit *j, X64 *x) {
  X64Mem fcw = x64_gs(legacy(j)), tags = x64_gs(legacy(j) + 4);
  x64_rm(x, X64_CMP16_I, 7, fcw);
  x64_byte(x, FCW_DEFAULT & 255);
  x64_byte(x, FCW_DEFAULT >> 8);
  uint8_t *other = x64_jcc(x, CC_NE);
  x64_mi8(x, X64_CMP8_I, 7, tags, 0);
  uint8_t *same = x64_jcc(x, CC_E);
  x64_patch(other, x->at);
  x64_byte(x, 0xdb); /* fninit */
  x64_byte(x, 0xe3);
  x64_patch(same, x->at);
}

/* Jumped to with the site's number in the state; returns it from enter. */
void jit_native_leave(Jit *j, X64 *x) {
  j->leave = jit_rx_of(j, x);
  for (unsigned reg = 0; reg < 16; reg++) x64_rm(x, X64_MOV_STORE, reg, gpr(j, reg));
  x64_rm(x, X64_MOV_LOAD, RSP, x64_gs(STATE(jit.host_sp)));
  take_flags(j, x);
  set_fs_base(x, STATE(host_fs));
  x64_rm(x, X64_FXSAVE, 0, x64_gs(legacy(j)));
  move_vectors(j, x, true);
  x64_rm(x, X64_MXCSR, 2, x64_gs(STATE(jit.host_mxcsr)));
  host_x87(j, x);
  x64_ri(x, X64_ALU_I, ALU_ADD, RSP, 8);
  push_callee_saved(x, true);
  x64_rm(x, X64_MOV_LOAD | X64_32, RAX, x64_gs(STATE(jit.site)));
  x64_byte(x, 0xc3);
}

static void sanitise(uint64_t *flags) {
  *flags = (*flags & ~(uint64_t)(FLAG_TF | FLAG_RF)) | FLAG_FIXED;
}

void jit_native_before(const Jit *j, IrState *s) { sanitise(flags_slot(j, s)); }

static void flags_out(const Jit *j, IrState *s) {
  uint64_t *flags = flags_slot(j, s);
  *flags = (*flags & ~(uint64_t)IR_FLAGS_STATUS) | flags_of(s->jit.status);
}

static void flags_in(const Jit *j, IrState *s) { s->jit.status = status_of(*flags_slot(j, s)); }

static void native_call(Jit *j, X64 *x, bool light) {
  jit_move_pins(j, x, true);
  x64_ri(x, X64_ALU_I, ALU_SUB, RSP, 8);
  take_flags(j, x);
  x64_rr(x, X64_MOV_LOAD, R12, RAX);
  x64_rr(x, X64_MOV_LOAD, R13, RCX);
  x64_rr(x, X64_MOV_LOAD, R14, RDX);
  set_fs_base(x, STATE(host_fs));
  if (!light) {
    move_vectors(j, x, true);
    x64_rm(x, X64_MXCSR, 3, x64_gs(legacy(j) + IR_LEGACY_MXCSR));
    x64_rm(x, X64_MXCSR, 2, x64_gs(STATE(jit.host_mxcsr)));
    x64_mov_imm(x, RDI, (uint64_t)(uintptr_t)j);
    x64_rm(x, X64_MOV_LOAD, RSI, x64_gs(STATE(jit.self)));
    jit_call_c(x, (const void *)(uintptr_t)flags_out);
    x64_rr(x, X64_MOV_LOAD, RCX, R13);
    x64_rr(x, X64_MOV_LOAD, RDX, R14);
  }
  jit_load_args(x);
  x64_rr(x, X64_GROUP5 | X64_32, 2, R12);
  x64_rr(x, X64_MOV_LOAD, R12, RAX);
  if (!light) {
    x64_mov_imm(x, RDI, (uint64_t)(uintptr_t)j);
    x64_rm(x, X64_MOV_LOAD, RSI, x64_gs(STATE(jit.self)));
    jit_call_c(x, (const void *)(uintptr_t)flags_in);
  }
  jit_was_interrupted(j, x, 8);
  if (!light) {
    move_vectors(j, x, false);
    x64_rm(x, X64_MXCSR, 2, x64_gs(legacy(j) + IR_LEGACY_MXCSR));
  }
  set_fs_base(x, j->native->fs_base);
  uint8_t *up = if_flag(j, x, IR_FLAG_DF);
  x64_byte(x, 0xfd); /* std */
  x64_patch(up, x->at);
  uint8_t *aligned = if_flag(j, x, IR_FLAG_AC);
  set_ac(x, true);
  x64_patch(aligned, x->at);
  x64_ri(x, X64_ALU_I, ALU_ADD, RSP, 8);
  x64_rr(x, X64_MOV_LOAD, RAX, R12);
  jit_move_pins(j, x, false);
  x64_byte(x, 0xc3);
}

/* Calls the JitFn in rax with rcx = imm, args[0] = a, args[1] = b, rdx = c, on the host's stack.
 * rax rcx rdx rsi rsp are in the state, and the status flags in jit.status; so is all else when
 * the function runs, which may change it. call_light: vector registers, MXCSR and flags are as the
 * C code leaves them, as after a call that the guest itself makes. */
void jit_native_call(Jit *j, X64 *x) {
  j->call_full = j->call_keep = jit_rx_of(j, x);
  native_call(j, x, false);
  j->call_light = jit_rx_of(j, x);
  native_call(j, x, true);
}

/* ---- indirect branches ----------------------------------------------------------------------- */

static X64Mem hashed(unsigned index, size_t member) {
  return (X64Mem){.base = X64_NONE,
                  .index = (uint8_t)index,
                  .gs = true,
                  .disp = (int32_t)(IR_NATIVE_HASHED_AT + member)};
}

/* eax = byte offset of rcx's entry in the second table. */
static void hash_pc(X64 *x) {
  x64_rr(x, X64_IMUL_I | X64_32, RAX, RCX);
  x64_word32(x, HASH);
  x64_ri(x, X64_SHIFT_I | X64_32, SHIFT_SHR, RAX, 16);
  x64_ri(x, X64_SHIFT_I | X64_32, SHIFT_SHL, RAX, 4);
}

void jit_native_branches(Jit *j, X64 *x) {
  j->native_indirect = jit_rx_of(j, x);
  x64_rm(x, X64_MOV_STORE, RAX, gpr(j, RAX));
  jit_native_save_flags(x);
  x64_mi(x, X64_ALU_I | X64_32, ALU_CMP, x64_gs(STATE(interrupt)), 0);
  j->native_checked = jit_rx_of(j, x);
  uint8_t *interrupted = x64_jcc(x, CC_NE);
  hash_pc(x);
  x64_rm(x, X64_CMP, RCX, hashed(RAX, offsetof(IrTarget, pc)));
  uint8_t *unknown = x64_jcc(x, CC_NE);
  x64_rm(x, X64_MOV_LOAD, RAX, hashed(RAX, offsetof(IrTarget, code)));
  x64_rr(x, X64_MOVZX16, RDX, RCX);
  x64_rm(x, X64_MOV_STORE, RAX,
         (X64Mem){.base = X64_NONE,
                  .index = RDX,
                  .scale = 3,
                  .gs = true,
                  .disp = (int32_t)IR_NATIVE_TARGETS_AT});
  x64_rr(x, X64_MOV_LOAD, RDX, RAX);
  jit_native_load_flags(x);
  x64_rm(x, X64_MOV_LOAD, RAX, gpr(j, RAX));
  x64_rr(x, X64_GROUP5 | X64_32, 4, RDX);
  /* A signal that came since then is not to be missed: its handler leads here. */
  j->native_missed = jit_rx_of(j, x);
  x64_patch(interrupted, x->at);
  x64_patch(unknown, x->at);
  jit_native_load_flags(x);
  x64_rm(x, X64_MOV_LOAD, RAX, gpr(j, RAX));
  x64_rm(x, X64_MOV_STORE, RCX, x64_gs(STATE(pc)));
  x64_rm(x, X64_MOV_LOAD, RCX, gpr(j, RCX));
  x64_rm(x, X64_MOV_LOAD, RDX, gpr(j, RDX));
  x64_mi(x, X64_MOV_I | X64_32, 0, x64_gs(STATE(jit.site)), JIT_SITE_INDIRECT);
  jit_jump_to(j, x, j->leave);
}

void jit_native_forget_targets(const Jit *j, IrState *s, bool all) {
  const uint8_t **first = (const uint8_t **)(void *)((char *)s + IR_NATIVE_TARGETS_AT);
  for (unsigned i = 0; i < 1u << 16; i++) first[i] = j->native_indirect;
  if (all) madvise((char *)s + IR_NATIVE_HASHED_AT, sizeof(IrTarget) << 16, MADV_DONTNEED);
}

void jit_native_target(IrState *s, const JitRegion *r) {
  uint64_t pc = r->region->pc;
  ((const uint8_t **)(void *)((char *)s + IR_NATIVE_TARGETS_AT))[pc & 0xffff] = r->start;
  ((IrTarget *)(void *)((char *)s + IR_NATIVE_HASHED_AT))[(uint32_t)pc * HASH >> 16] =
      (IrTarget){pc, r->start};
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* All registers from where the fault found them: in the context, unless the code there had put them
 * into the state. */
void jit_native_fault(const Jit *j, IrState *s, const JitPoint *point, const void *ucontext) {
  static const uint8_t greg_of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                      REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                      REG_R12, REG_R13, REG_R14, REG_R15};
  const ucontext_t *uc = ucontext;
  const greg_t *g = uc->uc_mcontext.gregs;
  for (unsigned reg = 0; reg < 16; reg++)
    if (!(point->lost >> reg & 1)) *slot(j, s, reg) = (uint64_t)g[greg_of[reg]];
  *flags_slot(j, s) = (uint64_t)g[REG_EFL];
  if (point->flags_saved) flags_out(j, s);
  sanitise(flags_slot(j, s));
  const uint8_t *image = (const uint8_t *)uc->uc_mcontext.fpregs;
  IrVectors *v = (IrVectors *)(void *)((char *)s + j->native->vectors);
  ir_xsave_to(v, image, ir_xsave_frame_size(image));
}
