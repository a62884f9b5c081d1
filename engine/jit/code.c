/* Code memory, sites, stubs, and the ways in and out. See jit.h. */
#include <asm/prctl.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "ir/callstack.h"
#include "jit/code.h"

const uint8_t jit_int_pin[IR_INT_PINS] = {RBX, RBP, RDI, R8, R9, R10, R11, R12, R13, R14, R15};
const uint8_t jit_fp_pin[IR_FP_PINS] = {20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
static const uint8_t callee_saved[] = {RBX, RBP, R12, R13, R14, R15};

#define STATE(member)  offsetof(IrState, member)
#define HOST_MXCSR     0x1f80u /* all exceptions masked, to nearest: the ABI's default */
#define MXCSR_ROUNDING 13

/* ---- stubs ----------------------------------------------------------------------------------- */

void jit_move_retired(Jit *j, X64 *x, bool to_state) {
  if (j->count_retired)
    x64_rm(x, to_state ? X64_MOV_STORE : X64_MOV_LOAD, JIT_RETIRED, x64_gs(IR_COUNTERS_AT));
}

/* reg = the retired count. */
static void get_retired(Jit *j, X64 *x, unsigned reg) {
  if (j->count_retired) {
    x64_rr(x, X64_MOV_LOAD, reg, JIT_RETIRED);
    return;
  }
  x64_rm(x, X64_MOV_LOAD, reg, x64_gs(IR_COUNTERS_AT));
  for (unsigned i = 1; i < IR_RETIRED; i++) x64_rm(x, X64_ADD, reg, x64_gs(IR_COUNTERS_AT + 8 * i));
}

void jit_move_pins(Jit *j, X64 *x, bool to_state) {
  for (int i = 0; i < IR_INT_PINS; i++)
    if (j->pins.int_pins[i])
      x64_rm(x, to_state ? X64_MOV_STORE : X64_MOV_LOAD, jit_int_pin[i],
             x64_gs(j->pins.int_pins[i]));
  for (int i = 0; i < IR_FP_PINS; i++)
    if (j->pins.fp_pins[i])
      x64_rm(x, to_state ? X64_MOVSD_STORE : X64_MOVSD_LOAD, jit_fp_pin[i] & 15u,
             x64_gs(j->pins.fp_pins[i]));
  jit_move_retired(j, x, to_state);
}

uint8_t *jit_rx_of(const Jit *j, const X64 *x) { return j->rx + (x->at - j->rw); }

/* uint32_t enter(void *code): at code, rsp is a multiple of 16. */
static void make_enter(Jit *j, X64 *x) {
  j->enter = jit_rx_of(j, x);
  for (unsigned i = 0; i < sizeof callee_saved; i++) {
    if (callee_saved[i] >= 8) x64_byte(x, 0x41);
    x64_byte(x, 0x50 | (callee_saved[i] & 7));
  }
  x64_ri(x, X64_ALU_I, ALU_SUB, RSP, 8);
  x64_rr(x, X64_MOV_LOAD, RAX, RDI);
  x64_rm(x, X64_MOV_STORE, RSP, x64_gs(STATE(jit.host_sp)));
  jit_move_pins(j, x, false);
  x64_rm(x, X64_MXCSR, 2, x64_gs(STATE(jit.guest_mxcsr)));
  x64_mi(x, X64_MOV_I, 0, x64_gs(STATE(jit.entering)), 0);
  x64_rr(x, X64_GROUP5 | X64_32, 4, RAX);
  j->enter_end = jit_rx_of(j, x);
}

/* Jumped to with the site's number in eax; returns it from enter. */
static void make_leave(Jit *j, X64 *x) {
  j->leave = jit_rx_of(j, x);
  jit_move_pins(j, x, true);
  x64_rm(x, X64_MXCSR, 3, x64_gs(STATE(jit.seen_mxcsr)));
  x64_rm(x, X64_MXCSR, 2, x64_gs(STATE(jit.host_mxcsr)));
  x64_ri(x, X64_ALU_I, ALU_ADD, RSP, 8);
  for (unsigned i = sizeof callee_saved; i-- > 0;) {
    if (callee_saved[i] >= 8) x64_byte(x, 0x41);
    x64_byte(x, 0x58 | (callee_saved[i] & 7));
  }
  x64_byte(x, 0xc3);
}

/* x86: IE DE ZE OE UE PE from bit 0; RISC-V: NX UF OF DZ NV from bit 0. */
static uint8_t flags_of(unsigned f) {
  return (uint8_t)((f >> 5 & 1) | (f >> 4 & 1) << 1 | (f >> 3 & 1) << 2 | (f >> 2 & 1) << 3 |
                   (f & 1) << 4);
}

/* Moves MXCSR's exception flags into the state's. */
static void merge_flags(IrState *s) {
  s->fp_flags |= s->jit.flags[s->jit.seen_mxcsr & JIT_MXCSR_FLAGS];
}

static void set_mxcsr(IrState *s) {
  static const uint8_t rounding[8] = {
      0, 3, 1, 2}; /* RISC-V's to nearest, to zero, down, up in x86's numbers */
  s->jit.guest_mxcsr = HOST_MXCSR | (uint32_t)rounding[s->fp_rm & 7] << MXCSR_ROUNDING;
}

static void break_region(Jit *j, JitRegion *r);

/* Index of the first region that ends behind the address. */
static size_t region_index(const Jit *j, const uint8_t *code) {
  size_t low = 0, high = j->regions.n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (j->regions.at[mid]->start + j->regions.at[mid]->size <= code)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static JitRegion *region_at(const Jit *j, const uint8_t *code) {
  size_t i = region_index(j, code);
  return i < j->regions.n && j->regions.at[i]->start <= code ? j->regions.at[i] : NULL;
}

static void break_at(Jit *j, const uint8_t *back) {
  JitRegion *r = region_at(j, back - 1);
  if (r) break_region(j, r);
}

void jit_load_args(X64 *x) {
  x64_rm(x, X64_MOV_LOAD, RDI, x64_gs(STATE(jit.self)));
  x64_rr(x, X64_MOV_LOAD, RSI, RCX);
  x64_rr(x, X64_MOV_LOAD, R8, RDX);
  x64_rm(x, X64_MOV_LOAD, RDX, x64_gs(STATE(jit.args[0])));
  x64_rm(x, X64_MOV_LOAD, RCX, x64_gs(STATE(jit.args[1])));
}

void jit_call_c(X64 *x, const void *fn) {
  x64_mov_imm(x, RAX, (uint64_t)(uintptr_t)fn);
  x64_rr(x, X64_GROUP5 | X64_32, 2, RAX);
}

/* A signal that came while C ran is seen here; one that comes later finds rip in the stub
 * (jit_interrupt). */
void jit_was_interrupted(Jit *j, X64 *x, int32_t back_at) {
  x64_mi(x, X64_ALU_I | X64_32, ALU_CMP, x64_gs(STATE(interrupt)), 0);
  uint8_t *no = x64_jcc(x, CC_E);
  x64_mov_imm(x, RDI, (uint64_t)(uintptr_t)j);
  x64_rm(x, X64_MOV_LOAD, RSI, x64_at(RSP, back_at));
  jit_call_c(x, (const void *)(uintptr_t)break_at);
  x64_patch(no, x->at);
}

/* Calls the JitFn in rax with rcx = imm, args[0] = a, args[1] = b, rdx = c. The function sees all
 * guest registers in the state and may change them. Returns in rax; scratch registers are lost. */
static void make_call_full(Jit *j, X64 *x) {
  j->call_full = jit_rx_of(j, x);
  jit_move_pins(j, x, true);
  x64_rm(x, X64_MXCSR, 3, x64_gs(STATE(jit.seen_mxcsr)));
  x64_rm(x, X64_MXCSR, 2, x64_gs(STATE(jit.host_mxcsr)));
  x64_ri(x, X64_ALU_I, ALU_SUB, RSP, 8);
  x64_rr(x, X64_MOV_LOAD, R12, RAX); /* pins are saved: registers that C preserves are free */
  x64_rr(x, X64_MOV_LOAD, R13, RCX);
  x64_rr(x, X64_MOV_LOAD, R14, RDX);
  x64_rm(x, X64_MOV_LOAD, RDI, x64_gs(STATE(jit.self)));
  jit_call_c(x, (const void *)(uintptr_t)merge_flags);
  x64_rr(x, X64_MOV_LOAD, RCX, R13);
  x64_rr(x, X64_MOV_LOAD, RDX, R14);
  jit_load_args(x);
  x64_rr(x, X64_GROUP5 | X64_32, 2, R12);
  x64_rr(x, X64_MOV_LOAD, R12, RAX);
  x64_rm(x, X64_MOV_LOAD, RDI, x64_gs(STATE(jit.self)));
  jit_call_c(x, (const void *)(uintptr_t)set_mxcsr);
  jit_was_interrupted(j, x, 8);
  x64_ri(x, X64_ALU_I, ALU_ADD, RSP, 8);
  x64_rr(x, X64_MOV_LOAD, RAX, R12);
  jit_move_pins(j, x, false);
  x64_rm(x, X64_MXCSR, 2, x64_gs(STATE(jit.guest_mxcsr)));
  x64_byte(x, 0xc3);
}

/* The same for a function that neither sees nor changes guest registers, except for the state's
 * fp_rm and fp_flags: pins and vector registers are as before. */
static void make_call_keep(Jit *j, X64 *x) {
  static const uint8_t lost[] = {RDI, R8, R9, R10, R11};
  j->call_keep = jit_rx_of(j, x);
  x64_ri(x, X64_ALU_I, ALU_SUB, RSP, 8 + 16 * 3);
  jit_move_retired(j, x, true);
  for (unsigned i = 0; i < sizeof lost; i++)
    x64_rm(x, X64_MOV_STORE, lost[i], x64_at(RSP, (int32_t)(8 * i)));
  for (unsigned i = 0; i < 16; i++)
    x64_rm(x, X64_MOVSD_STORE, i, x64_gs(STATE(jit.vectors) + 8 * i));
  jit_load_args(x);
  x64_rr(x, X64_GROUP5 | X64_32, 2, RAX);
  x64_rm(x, X64_MOV_STORE, RAX, x64_gs(STATE(jit.result)));
  jit_was_interrupted(j, x, 8 + 16 * 3);
  x64_rm(x, X64_MOV_LOAD, RAX, x64_gs(STATE(jit.result)));
  for (unsigned i = 0; i < 16; i++)
    x64_rm(x, X64_MOVSD_LOAD, i, x64_gs(STATE(jit.vectors) + 8 * i));
  for (unsigned i = 0; i < sizeof lost; i++)
    x64_rm(x, X64_MOV_LOAD, lost[i], x64_at(RSP, (int32_t)(8 * i)));
  x64_ri(x, X64_ALU_I, ALU_ADD, RSP, 8 + 16 * 3);
  x64_byte(x, 0xc3);
}

void jit_jump_to(Jit *j, X64 *x, const uint8_t *rx) {
  uint8_t *at = x64_jmp(x);
  x64_patch(at, jit_rw(j, rx));
}

/* ---- calls and returns on the shadow call stack (ir/callstack.h): the common case, else the
 * function by call_keep. rax and rdx are the operation's a and b, rcx its site; scratch registers
 * are lost. ---- */

#define AT(base, type, member) x64_at(base, (int32_t)offsetof(type, member))
#define NEW(member)            x64_at(RSI, (int32_t)(sizeof(IrCallFrame) + offsetof(IrCallFrame, member)))

typedef struct Slow { /* jumps to the function */
  uint8_t *jump[8];
  int n;
} Slow;

static void slow_if(X64 *x, Slow *s, X64Cond cc) { s->jump[s->n++] = x64_jcc(x, cc); }

static void end_here(X64 *x, const Slow *s) {
  for (int i = 0; i < s->n; i++) x64_patch(s->jump[i], x->at);
}

/* Calls the quick function (ir/callstack.h), which changes no more than what is saved here and rax
 * rcx rdx rsi; if it has not done it, `fn` by call_keep, from where interrupts are seen too. */
static void end_slow(Jit *j, X64 *x, const Slow *s, JitFn *quick, JitFn *fn) {
  static const uint8_t saved[] = {RDI, R8, R9, R10, R11};
  X64Mem site = x64_gs(STATE(jit.result));
  end_here(x, s);
  x64_rm(x, X64_MOV_STORE, RAX, x64_gs(STATE(jit.args[0])));
  x64_rm(x, X64_MOV_STORE, RDX, x64_gs(STATE(jit.args[1])));
  x64_rm(x, X64_MOV_STORE, RCX, site);
  jit_move_retired(j, x, true);
  x64_ri(x, X64_ALU_I, ALU_SUB, RSP, 8 * sizeof saved);
  for (unsigned i = 0; i < sizeof saved; i++)
    x64_rm(x, X64_MOV_STORE, saved[i], x64_at(RSP, (int32_t)(8 * i)));
  jit_load_args(x);
  jit_call_c(x, (const void *)(uintptr_t)quick);
  for (unsigned i = 0; i < sizeof saved; i++)
    x64_rm(x, X64_MOV_LOAD, saved[i], x64_at(RSP, (int32_t)(8 * i)));
  x64_ri(x, X64_ALU_I, ALU_ADD, RSP, 8 * sizeof saved);
  x64_rr(x, X64_TEST | X64_32, RAX, RAX);
  x64_mov_imm(x, RAX, (uint64_t)(uintptr_t)fn);
  uint8_t *again = x64_jcc(x, CC_E);
  x64_mi(x, X64_ALU_I | X64_32, ALU_CMP, x64_gs(STATE(interrupt)), 0);
  x64_mov_imm(x, RAX, (uint64_t)(uintptr_t)jit_fns[IR_nop]);
  uint8_t *interrupted = x64_jcc(x, CC_NE);
  x64_byte(x, 0xc3);
  x64_patch(again, x->at);
  x64_patch(interrupted, x->at);
  x64_rm(x, X64_MOV_LOAD, RCX, site);
  x64_mov_imm(x, RDX, 0);
  jit_jump_to(j, x, j->call_keep);
}

/* rsi = the call stack; returns if there is none; slow if a signal handler is running. */
static void get_callstack(X64 *x, Slow *slow) {
  x64_rm(x, X64_MOV_LOAD, RSI, x64_gs(STATE(callstack)));
  x64_rr(x, X64_TEST, RSI, RSI);
  uint8_t *some = x64_jcc(x, CC_NE);
  x64_byte(x, 0xc3);
  x64_patch(some, x->at);
  x64_mi(x, X64_ALU_I, ALU_CMP, AT(RSI, IrCallStack, signals.n), 0);
  slow_if(x, slow, CC_NE);
}

static void begin_activation(X64 *x, X64Mem active, X64Mem inner) {
  x64_rm(x, X64_MOVZX8, RAX, active);
  x64_rm(x, X64_MOV8_STORE, RAX, inner);
  x64_mi8(x, X64_MOV8_I, 0, active, 1);
}

static void make_cs_call(Jit *j, X64 *x) {
  Slow slow = {.n = 0}, other = {.n = 0}, elsewhere = {.n = 0};
  j->cs_call = jit_rx_of(j, x);
  get_callstack(x, &slow);
  x64_rm(x, X64_MOV_LOAD, RSI, AT(RSI, IrCallStack, top));
  x64_rm(x, X64_CMP, RDX, AT(RSI, IrCallFrame, sp));
  slow_if(x, &slow, CC_AE);
  x64_rm(x, X64_MOV_STORE, RDX, NEW(sp));
  x64_rm(x, X64_MOV_LOAD, RDX, AT(RSI, IrCallFrame, node));
  x64_rm(x, X64_CMP, RDX, AT(RCX, IrCallSite, parent));
  slow_if(x, &other, CC_NE);
  x64_rm(x, X64_MOV_LOAD, RDX, AT(RCX, IrCallSite, link));
  x64_rm(x, X64_CMP, RAX, AT(RDX, IrCallNode, callee));
  slow_if(x, &elsewhere, CC_NE);
  uint8_t *found = x->at;
  x64_rm(x, X64_MOV_LOAD, RAX, AT(RCX, IrCallSite, ret_pc));
  x64_rm(x, X64_MOV_STORE, RAX, NEW(ret_pc));
  x64_rm(x, X64_MOV_STORE, RDX, NEW(link));
  x64_rm(x, X64_MOV_LOAD, RAX, AT(RDX, IrCallNode, node));
  x64_rm(x, X64_MOV_STORE, RAX, NEW(node));
  get_retired(j, x, RAX);
  x64_rm(x, X64_MOV_STORE, RAX, NEW(start));
  x64_mi(x, X64_MOV_I, 0, NEW(tail), 0); /* and the flags behind it */
  x64_mi(x, X64_ALU_I, ALU_ADD, AT(RDX, IrCallNode, calls), 1);
  begin_activation(x, AT(RDX, IrCallNode, active), NEW(inner_link));
  x64_rm(x, X64_MOV_LOAD, RDX, AT(RDX, IrCallNode, function));
  begin_activation(x, AT(RDX, IrCallFunction, active), NEW(inner_function));
  x64_ri(x, X64_ALU_I, ALU_ADD, RSI, sizeof(IrCallFrame));
  x64_rm(x, X64_MOV_LOAD, RAX, x64_gs(STATE(callstack)));
  x64_rm(x, X64_MOV_STORE, RSI, AT(RAX, IrCallStack, top));
  x64_rm(x, X64_CMP, RSI, AT(RAX, IrCallStack, end));
  uint8_t *full = x64_jcc(x, CC_AE);
  x64_byte(x, 0xc3);
  /* Called in another context than the last time: is it what that context called last? */
  end_here(x, &other);
  x64_rm(x, X64_MOV_LOAD, RDX, AT(RDX, IrCallNode, last));
  x64_rm(x, X64_CMP, RAX, AT(RDX, IrCallNode, callee));
  slow_if(x, &elsewhere, CC_NE);
  x64_rm(x, X64_MOV_LOAD, RAX, AT(RCX, IrCallSite, pc));
  x64_rm(x, X64_CMP, RAX, AT(RDX, IrCallNode, site));
  x64_patch(x64_jcc(x, CC_E), found);
  x64_rm(x, X64_MOV_LOAD, RAX, AT(RDX, IrCallNode, callee));
  end_here(x, &elsewhere);
  x64_rm(x, X64_MOV_LOAD, RDX, NEW(sp));
  end_slow(j, x, &slow, ir_callstack_quick_call, jit_fns[IR_cs_call]);
  x64_patch(full, x->at);
  x64_mov_imm(x, RAX, (uint64_t)(uintptr_t)jit_callstack_room);
  x64_mov_imm(x, RDX, 0);
  jit_jump_to(j, x, j->call_keep);
}

/* If it was the outermost activation, its cost (rax) counts. (No counters of activations: adding to
 * one at each call and taking off at each return would be a chain of dependent memory operations.)
 */
static void end_activation(X64 *x, X64Mem inner, X64Mem active, X64Mem inclusive) {
  x64_mi8(x, X64_CMP8_I, 7, inner, 0);
  uint8_t *skip = x64_jcc(x, CC_NE);
  x64_rm(x, X64_ADD_STORE, RAX, inclusive);
  x64_mi8(x, X64_MOV8_I, 0, active, 0);
  x64_patch(skip, x->at);
}

static void make_cs_ret(Jit *j, X64 *x) {
  Slow slow = {.n = 0};
  j->cs_ret = jit_rx_of(j, x);
  get_callstack(x, &slow);
  x64_rm(x, X64_MOV_LOAD, RCX, AT(RSI, IrCallStack, top));
  x64_rm(x, X64_CMP, RAX, AT(RCX, IrCallFrame, ret_pc));
  slow_if(x, &slow, CC_NE);
  x64_rm(x, X64_CMP, RDX, AT(RCX, IrCallFrame, sp));
  slow_if(x, &slow, CC_NE);
  x64_mi8(x, X64_CMP8_I, 7, AT(RCX, IrCallFrame, tail), 0);
  slow_if(x, &slow, CC_NE);
  x64_rm(x, X64_LEA, RDX, x64_at(RCX, -(int32_t)sizeof(IrCallFrame)));
  x64_rm(x, X64_MOV_STORE, RDX, AT(RSI, IrCallStack, top));
  get_retired(j, x, RAX);
  x64_rm(x, X64_SUB, RAX, AT(RCX, IrCallFrame, start));
  x64_rm(x, X64_MOV_LOAD, RDX, AT(RCX, IrCallFrame, link));
  x64_rm(x, X64_ADD_STORE, RAX, AT(RDX, IrCallNode, total));
  end_activation(x, AT(RCX, IrCallFrame, inner_link), AT(RDX, IrCallNode, active),
                 AT(RDX, IrCallNode, inclusive));
  x64_rm(x, X64_MOV_LOAD, RDX, AT(RDX, IrCallNode, function));
  end_activation(x, AT(RCX, IrCallFrame, inner_function), AT(RDX, IrCallFunction, active),
                 AT(RDX, IrCallFunction, inclusive));
  x64_byte(x, 0xc3);
  end_slow(j, x, &slow, ir_callstack_quick_ret, jit_fns[IR_cs_ret]);
}

/* A jump that may be a tail call and is not known to be none. */
static void make_cs_jump(Jit *j, X64 *x) {
  Slow slow = {.n = 0};
  j->cs_jump = jit_rx_of(j, x);
  get_callstack(x, &slow);
  end_slow(j, x, &slow, ir_callstack_quick_jump, jit_fns[IR_cs_jump]);
}

static void make_stubs(Jit *j) {
  X64 x = {.at = j->rw, .base = j->rw, .end = j->rw + j->size};
  if (j->native) {
    jit_native_enter(j, &x);
    jit_native_leave(j, &x);
    jit_native_call(j, &x);
    jit_native_branches(j, &x);
  } else {
    make_enter(j, &x);
    make_leave(j, &x);
    make_call_full(j, &x);
    j->call_light = j->call_full;
    make_call_keep(j, &x);
  }
  make_cs_call(j, &x);
  make_cs_ret(j, &x);
  make_cs_jump(j, &x);
  j->calls_end = jit_rx_of(j, &x);
  j->indirect_even = jit_rx_of(j, &x); /* target pc in rax; its low bit means nothing */
  x64_ri(&x, X64_ALU_I, ALU_AND, RAX, -2);
  j->indirect = jit_rx_of(j, &x); /* target pc in rax */
  x64_rm(&x, X64_MOV_STORE, RAX, x64_gs(STATE(pc)));
  x64_mov_imm(&x, RAX, JIT_SITE_INDIRECT);
  jit_jump_to(j, &x, j->leave);
  j->used = (size_t)(x.at - j->rw + 63) & ~63ul;
  j->constants = (uint64_t *)(void *)(j->rw + j->used);
  j->n_constants = 0;
  j->first_free = j->used += JIT_CONSTANTS * sizeof *j->constants;
}

const uint8_t *jit_constant(Jit *j, uint64_t value) {
  unsigned i = 0;
  while (i < j->n_constants && j->constants[i] != value) i++;
  if (i == JIT_CONSTANTS) return NULL;
  if (i == j->n_constants) j->constants[j->n_constants++] = value;
  return j->rx + ((uint8_t *)&j->constants[i] - j->rw);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* One memory, mapped twice: mremap of nothing makes a second mapping of shared pages. (No file: the
 * guest may limit those.) */
static bool map_code(size_t size, uint8_t **rw, uint8_t **rx) {
  *rw = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (*rw == MAP_FAILED) return false;
  *rx = mremap(*rw, 0, size, MREMAP_MAYMOVE);
  if (*rx != MAP_FAILED && !mprotect(*rx, size, PROT_READ | PROT_EXEC)) return true;
  int err = errno;
  munmap(*rw, size);
  if (*rx != MAP_FAILED) munmap(*rx, size);
  errno = err;
  return false;
}

static void set_pins(Jit *j) {
  memset(j->pin_of, X64_NONE, sizeof j->pin_of);
  if (j->count_retired) j->pins.int_pins[IR_INT_PINS - 1] = 0;
  for (int i = 0; i < IR_INT_PINS; i++)
    if (j->pins.int_pins[i]) j->pin_of[j->pins.int_pins[i] / 8] = jit_int_pin[i];
  for (int i = 0; i < IR_FP_PINS; i++)
    if (j->pins.fp_pins[i]) j->pin_of[j->pins.fp_pins[i] / 8] = jit_fp_pin[i];
}

Jit *jit_new(const IrConvention *convention, size_t code_size, unsigned without) {
  Jit *j = xcalloc(1, sizeof *j);
  j->pins = *convention;
  j->native = convention->native;
  j->size = code_size < JIT_MIN_SIZE ? JIT_MIN_SIZE : code_size;
  j->bmi =
      __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("bmi") && !(without & JIT_NO_BMI);
  j->lzcnt = __builtin_cpu_supports("lzcnt") && j->bmi;
  j->fma = __builtin_cpu_supports("fma") && !(without & JIT_NO_FMA);
  j->exact = without & JIT_EXACT;
  if (j->native) jit_native_open(j);
  if (!map_code(j->size, &j->rw, &j->rx)) {
    free(j);
    return NULL;
  }
  set_pins(j);
  make_stubs(j);
  j->place = ir_place_new(true);
  j->lower = jit_lower_new(j);
  for (int i = 0; i < JIT_FIRST_SITE; i++)
    vec_push(&j->sites, ((JitSite){.kind = IR_EXIT_NEXT, .pc_in_state = true}));
  return j;
}

void jit_free(Jit *j) {
  if (!j) return;
  munmap(j->rw, j->size);
  munmap(j->rx, j->size);
  vec_free(&j->sites);
  vec_free(&j->regions);
  vec_free(&j->broken);
  ir_place_free(j->place);
  jit_lower_free(j->lower);
  free(j);
}

void jit_count_retired(Jit *j) { j->restart = !j->native; }
bool jit_wants_reset(const Jit *j) { return j->restart; }

void jit_reset(Jit *j) {
  if (j->restart && !j->count_retired) {
    j->count_retired = true;
    set_pins(j);
    make_stubs(j);
  }
  j->restart = false;
  j->used = j->first_free;
  j->sites.n = JIT_FIRST_SITE;
  j->regions.n = j->broken.n = 0;
}

size_t jit_code_used(const Jit *j) { return j->used - j->first_free; }

const uint8_t *jit_code(const Jit *j, const IrRegion *r, size_t *size, size_t *hot) {
  (void)j;
  *size = r->host ? r->host->size - (size_t)(r->host->entry - r->host->start) : 0;
  *hot = r->host ? r->host->hot - (size_t)(r->host->entry - r->host->start) : 0;
  return r->host ? r->host->entry : NULL;
}

/* A shared mapping is shared with the child of a fork as well: it gets a copy, made while nobody
 * writes. */
bool jit_before_fork(Jit *j) {
  if (!map_code(j->size, &j->fork_rw, &j->fork_rx)) return false;
  memcpy(j->fork_rw, j->rw, j->used);
  return true;
}

void jit_after_fork(Jit *j, bool child) {
  if (!child) {
    munmap(j->fork_rw, j->size);
    munmap(j->fork_rx, j->size);
    return;
  }
  const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
  if (mremap(j->fork_rw, j->size, j->size, flags, j->rw) == MAP_FAILED ||
      mremap(j->fork_rx, j->size, j->size, flags, j->rx) == MAP_FAILED)
    base_oom(j->size);
}

/* ---- regions --------------------------------------------------------------------------------- */

static void point_site(Jit *j, const JitSite *s, const uint8_t *target) {
  uint8_t *rel = jit_rw(j, s->jump);
  int32_t d = (int32_t)(target - (s->jump + 4));
  __atomic_store_n((int32_t *)(void *)rel, d, __ATOMIC_RELAXED);
}

bool jit_compile(Jit *j, IrRegion *r) {
  JitRegion *jr = arena_new_array(r->arena, JitRegion, 1);
  jr->region = r;
  if (!jit_lower(j, jr)) return false;
  vec_push(&j->regions, jr);
  r->host = jr;
  return true;
}

/* Points all sites of the region at their stubs, or at where they lead. */
static void point_sites(Jit *j, const JitRegion *r, bool to_stubs) {
  for (uint32_t i = r->first_site; i < r->first_site + r->n_sites; i++) {
    const JitSite *site = &j->sites.at[i];
    if (site->jump) point_site(j, site, to_stubs ? site->stub : site->target);
  }
}

/* For a while: until the next jit_run, which has kept room in the list, as this may be a signal handler. */
static void break_region(Jit *j, JitRegion *r) {
  if (r->broken || r->dead || j->broken.n == j->broken.cap) return;
  r->broken = true;
  point_sites(j, r, true);
  j->broken.at[j->broken.n++] = r;
}

static void mend(Jit *j) {
  while (j->broken.n) {
    JitRegion *r = vec_pop(&j->broken);
    if (!r || r->dead) continue;
    r->broken = false;
    point_sites(j, r, false);
  }
}

void jit_drop(Jit *j, IrRegion *region) {
  JitRegion *r = region->host;
  if (!r || r->dead || !j->regions.n) return;
  point_sites(j, r, true);
  r->dead = true;
  *jit_rw(j, r->entry) = 0xe9; /* jmp rel32 */
  point_site(j, &(JitSite){.jump = r->entry + 1}, r->gone);
}

void jit_forget(Jit *j, IrRegion *region) {
  JitRegion *r = region->host;
  if (!r) return;
  for (size_t i = 0; i < j->broken.n; i++)
    if (j->broken.at[i] == r) j->broken.at[i] = NULL;
  size_t at = region_index(j, r->start);
  if (at < j->regions.n && j->regions.at[at] == r) {
    memmove(j->regions.at + at, j->regions.at + at + 1,
            (j->regions.n - at - 1) * sizeof *j->regions.at);
    j->regions.n--;
  }
  region->host = NULL;
}

void jit_link(Jit *j, IrSucc *succ, IrRegion *r) {
  if (!succ->site || !r->host || r->host->dead) return;
  JitSite *s = &j->sites.at[succ->site];
  s->target = r->host->entry;
  if (!s->from->broken && !s->from->dead) point_site(j, s, s->target);
}

static void forget_targets(const Jit *j, IrState *s, bool all) {
  if (j->native) {
    jit_native_forget_targets(j, s, all);
    return;
  }
  IrTarget *t = (IrTarget *)(void *)((char *)s + IR_TARGETS_AT);
  for (int i = 0; i < IR_N_TARGETS; i++)
    if (all || t[i].pc != 1) t[i] = (IrTarget){1, j->indirect}; /* all: the stub may have moved */
}

void jit_forget_targets(Jit *j, IrState *s) { forget_targets(j, s, true); }

/* ---- in and out ------------------------------------------------------------------------------ */

void jit_thread_start(IrState *s) {
  syscall(SYS_arch_prctl, ARCH_SET_GS, s);
  syscall(SYS_arch_prctl, ARCH_GET_FS, &s->host_fs);
}

static void prepare(Jit *j, IrState *s) {
  if (s->jit.self == s) return; /* a copied state has its original's */
  s->jit.self = s;
  s->jit.host_mxcsr = HOST_MXCSR;
  for (unsigned i = 0; i <= JIT_MXCSR_FLAGS; i++) s->jit.flags[i] = flags_of(i);
  static const uint64_t consts[] = {[JIT_C_SIGN64] = 1ull << 63,
                                    [JIT_C_SIGN32] = 1ull << 31,
                                    [JIT_C_BOX] = 0xffffffff00000000,
                                    [JIT_C_NAN64] = 0x7ff8000000000000,
                                    [JIT_C_NAN32] = 0x7fc00000};
  for (size_t i = 0; i < sizeof consts / sizeof *consts; i++)
    if (consts[i]) s->jit.consts[i] = s->jit.consts[i + 1] = consts[i];
  forget_targets(j, s, true);
}

/* Indirect branches to the region's pc find it from now on. */
static void note_target(const Jit *j, IrState *s, const JitRegion *r) {
  uint64_t pc = r->region->pc;
  if (j->native)
    jit_native_target(s, r);
  else
    ((IrTarget *)(void *)((char *)s + IR_TARGETS_AT))[pc >> 1 & (IR_N_TARGETS - 1)] =
        (IrTarget){pc, r->entry};
}

IrExit jit_run(Jit *j, IrRegion *r, IrState *s, bool chain) {
  prepare(j, s);
  if (j->broken.n) mend(j);
  vec_reserve(&j->broken, 64);
  uint8_t *entry = r->host->entry;
  if (chain) note_target(j, s, r->host);
  if (j->native)
    jit_native_before(j, s);
  else
    set_mxcsr(s);
  s->jit.code = entry;
  s->jit.entering = r->host;
  __asm__ volatile("" ::: "memory");
  s->block = r->blocks;
  if (s->interrupt) {
    s->jit.entering = NULL;
    return (IrExit){.kind = IR_EXIT_INTERRUPT, .block = r->blocks};
  }
  uint32_t (*enter)(void *) = (uint32_t(*)(void *))(uintptr_t)j->enter;
  const JitSite *site = &j->sites.at[enter(entry)];
  if (!j->native) merge_flags(s);
  IrExit x = {.kind = (IrExitKind)site->kind, .detail = site->detail, .succ = site->succ};
  if (!site->pc_in_state) s->pc = site->pc;
  if (!site->from) return x;
  if (x.kind == IR_EXIT_FAULT) x.address = s->jit.fault_address;
  x.block = s->block = &site->from->region->blocks[site->block];
  return x;
}

static const JitPoint *point_at(const JitRegion *r, const uint8_t *code) {
  uint32_t at = (uint32_t)(code - r->start), low = 0, high = r->n_points;
  while (high - low > 1) { /* the last point at or before it */
    uint32_t mid = (low + high) / 2;
    if (r->points[mid].offset <= at)
      low = mid;
    else
      high = mid;
  }
  return &r->points[low];
}

bool jit_host_fault(Jit *j, IrState *s, void *ucontext) {
  ucontext_t *uc = ucontext;
  greg_t *g = uc->uc_mcontext.gregs;
  const JitRegion *r = region_at(j, (const uint8_t *)(uintptr_t)g[REG_RIP]);
  if (!r) return false;
  const JitPoint *point = point_at(r, (const uint8_t *)(uintptr_t)g[REG_RIP]);
  if (point->resume) {
    g[REG_RIP] = (greg_t)(uintptr_t)(r->start + point->resume);
    return true;
  }
  s->pc = r->region->insns[point->insn].pc;
  s->block = &r->region->blocks[point->block];
  if (j->native) {
    jit_native_fault(j, s, point, uc);
    return false;
  }
  static const uint8_t greg_of[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                      REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                      REG_R12, REG_R13, REG_R14, REG_R15};
  for (int i = 0; i < IR_INT_PINS; i++)
    if (j->pins.int_pins[i])
      *(uint64_t *)(void *)((char *)s + j->pins.int_pins[i]) = (uint64_t)g[greg_of[jit_int_pin[i]]];
  if (j->count_retired) *ir_counter(s, 0) = (uint64_t)g[greg_of[JIT_RETIRED]];
  for (int i = 0; i < IR_FP_PINS; i++)
    if (j->pins.fp_pins[i])
      memcpy((char *)s + j->pins.fp_pins[i], &uc->uc_mcontext.fpregs->_xmm[jit_fp_pin[i] & 15], 8);
  s->jit.seen_mxcsr = uc->uc_mcontext.fpregs->mxcsr;
  merge_flags(s);
  return false;
}

bool jit_in_dropped(const Jit *j, const void *ucontext) {
  const ucontext_t *uc = ucontext;
  const JitRegion *r = region_at(j, (const uint8_t *)(uintptr_t)uc->uc_mcontext.gregs[REG_RIP]);
  return r && r->dead;
}

void jit_interrupt(Jit *j, IrState *s, void *ucontext) {
  ucontext_t *uc = ucontext;
  const uint8_t *rip = (const uint8_t *)(uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
  forget_targets(j, s, false);
  if (s->jit.entering) break_region(j, s->jit.entering);
  if (rip < j->rx || rip >= j->rx + j->size)
    return; /* in C: whoever called it looks at s->interrupt */
  JitRegion *r = NULL;
  if (rip >= j->enter && rip < j->enter_end)
    r = region_at(j, s->jit.code);
  else if (rip >= j->native_checked && rip < j->native_missed)
    uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)j->native_missed;
  else if (rip >= j->call_full && rip < j->calls_end)
    r = region_at(j, *(uint8_t **)(uintptr_t)(s->jit.host_sp - 8) - 1);
  else
    r = region_at(j, rip);
  if (r) break_region(j, r);
}
