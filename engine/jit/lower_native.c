/* Lowering of native operations (ir/native.h), and of the instrumentation between them.
 *
 * Instructions are copied; what has to change is said by their `fix`. Instrumentation is lowered as
 * for any guest, in *windows*: scratch registers are the guest's rax rcx rdx rsi, each put into the
 * state before it is first overwritten and fetched back when it is read next; status flags are kept
 * in the state meanwhile where they matter (lahf and seto: pushf and popf cost several times as
 * much). Windows of counters alone do without: lea and mov leave flags as they are. */
#include "jit/lower.h"

#include <string.h>

static X64Mem gpr(const Lower *l, unsigned reg) { return x64_gs(l->j->native->gpr + 8u * reg); }

/* ---- windows --------------------------------------------------------------------------------- */

#define SCRATCH (1u << RAX | 1u << RCX | 1u << RDX | 1u << RSI)

static bool is_foreign(unsigned code) { /* not for a window */
  switch (code) {
  case IR_native:
  case IR_native_once:
  case IR_repeat:
  case IR_repeat_end:
  case IR_repeat_from: return true;
  default: return ir_op_info[code].flags & IR_TERM;
  }
}

static bool is_silent(unsigned code) {
  return code == IR_insn || code == IR_imm || code == IR_nop || code == IR_get;
}

static void save(Lower *l, unsigned reg) {
  if (l->window.stored >> reg & 1) return;
  x64_rm(&l->x, X64_MOV_STORE, reg, gpr(l, reg));
  l->window.stored |= 1u << reg;
  l->valid |= 1u << reg & SCRATCH;
}

void low_lose(Lower *l, unsigned reg) {
  if (!l->window.open || reg >= 16 || l->window.lost >> reg & 1) return;
  save(l, reg);
  l->window.lost |= 1u << reg;
}

void low_lose_scratch(Lower *l) {
  low_lose(l, RAX);
  low_lose(l, RCX);
  low_lose(l, RDX);
  low_lose(l, RSI);
}

void low_window_restore(Lower *l, uint16_t lost, bool flags) {
  if (flags) jit_native_load_flags(&l->x);
  for (unsigned reg = 0; reg < 16; reg++)
    if (lost >> reg & 1) x64_rm(&l->x, X64_MOV_LOAD, reg, gpr(l, reg));
}

typedef struct Plan { /* what a window will need */
  bool clobbers, counts;
  bool calls; /* C that may look at the guest, each time and not behind a guard: flags are exact */
  uint16_t reads; /* of the registers that have no place of their own in the state's pins */
  uint32_t end;
} Plan;

static Plan plan(const Lower *l, uint32_t k) {
  Plan p = {.counts = true};
  for (uint32_t guarded = 0;; k++) {
    const IrOp *op = low_op(l, (IrRef)k);
    if (is_foreign(op->code)) break;
    uint64_t reg = (op->imm - l->j->native->gpr) / 8;
    if (op->code == IR_get && reg < 16 && ((SCRATCH | 1u << RSP) >> reg & 1)) p.reads |= 1u << reg;
    if (!is_silent(op->code)) p.clobbers = true;
    if (!is_silent(op->code) && op->code != IR_count) p.counts = false;
    if (op->code == IR_guard && k >= guarded) guarded = k + 1 + (uint32_t)op->imm;
    if (k >= guarded && (op->code == IR_callout || op->code == IR_call)) p.calls = true;
  }
  p.end = k;
  return p;
}

static void open_window(Lower *l, uint32_t k) {
  Plan p = plan(l, k);
  bool live = l->flags_live[p.end];
  l->window = (LowWindow){
      .open = true, .counts = p.counts && live, .lost = l->kept, .stored = l->kept | l->valid};
  l->kept = 0;
  for (unsigned reg = 0; reg < 16; reg++)
    if (p.reads >> reg & 1) save(l, reg);
  if (!p.clobbers || p.counts || !(live || p.calls)) return;
  low_lose(l, RAX);
  jit_native_save_flags(&l->x);
  l->window.flags_saved = true;
}

/* Registers that may stay in the state while `next` is executed: those that it does not read. A
 * return puts rcx and rdx there anyway. Pinned ones only if it overwrites them. */
static uint16_t may_stay(const IrOp *next) {
  if (!ir_is_native(next->code)) return 0;
  const IrNative *n = ir_native_of(next);
  if (next->code == IR_native_jump) return n->fix == IR_FIX_RETURN ? 1u << RCX | 1u << RDX : 0;
  bool plain = next->code == IR_native && !n->by_gs && !n->repeats;
  uint16_t untouched = SCRATCH & (uint16_t) ~(n->reads | n->writes);
  return plain ? untouched | (n->overwrites & (uint16_t) ~(1u << RSP)) : 0;
}

static void settle(Lower *l, const IrOp *next, uint16_t lost, bool flags) {
  l->kept = lost & may_stay(next);
  low_window_restore(l, lost & (uint16_t)~l->kept, flags);
}

void low_window_at(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  if (is_foreign(op->code)) {
    LowWindow w = l->window.open ? l->window : (LowWindow){.lost = l->kept};
    l->window = (LowWindow){.open = false};
    settle(l, op, w.lost, w.flags_saved);
    return;
  }
  if (!l->window.open && (!is_silent(op->code) || op->code == IR_get)) open_window(l, k);
}

/* The registers that a native operation writes are its own again. */
static void written(Lower *l, const IrNative *n) {
  l->kept &= (uint16_t)~n->writes;
  l->valid &= (uint16_t)~n->writes;
}

/* ---- which flags matter ---------------------------------------------------------------------- */

static uint16_t flags_before(const Lower *l, const IrOp *op, uint16_t live) {
  bool repeats = op->code == IR_repeat || op->code == IR_native_once || op->code == IR_repeat_end;
  if (repeats) return IR_FLAGS_STATUS; /* may fault, may go round again, or leave flags alone */
  if (!ir_is_native(op->code)) return live;
  const IrNative *n = ir_native_of(op);
  if (l->j->exact && n->may_fault) return IR_FLAGS_STATUS;
  return (uint16_t)((live & ~n->flags_written) | n->flags_read) & IR_FLAGS_STATUS;
}

static uint16_t flags_at_end(const IrBlock *b, const IrOp *term, const uint16_t *at_entry) {
  if (term->code == IR_trap || !b->n_succ) return IR_FLAGS_STATUS;
  uint16_t live = 0;
  for (int i = 0; i < b->n_succ; i++)
    live |= b->succ[i].block >= 0 ? at_entry[b->succ[i].block]
                                  : IR_FLAGS_STATUS & ~b->succ[i].dead_flags;
  return live;
}

/* Backwards, until loops agree: what is live only grows. */
void low_native_flags(Lower *l) {
  uint16_t at_entry[IR_MAX_BLOCKS] = {0};
  for (bool again = true; again;) {
    again = false;
    for (uint32_t i = l->r->n_blocks; i-- > 0;) {
      const IrBlock *b = &l->r->blocks[i];
      uint16_t live = flags_at_end(b, low_op(l, (IrRef)(b->end - 1)), at_entry);
      for (uint32_t k = b->end; k-- > b->first;) {
        live = flags_before(l, low_op(l, (IrRef)k), live);
        l->flags_live[k] = live;
      }
      again |= live != at_entry[i];
      at_entry[i] = live;
    }
  }
}

/* ---- copying --------------------------------------------------------------------------------- */

static void bytes(Lower *l, const uint8_t *from, unsigned n) {
  while (n--) x64_byte(&l->x, *from++);
}

/* The prefixes as they are to be when the memory operand has no base or index of its own among
 * r8-r15, and its address has been cut to 32 bits where that is asked. Legacy prefixes end with REX
 * if there is one. */
static void prefixes(Lower *l, const IrNative *n) {
  for (unsigned i = 0; i < n->prefixes; i++) {
    unsigned b = n->bytes[i];
    bool vex = (b == 0xc4 || b == 0x62) && n->prefixes > i + 1;
    if (b == 0x67) continue;
    if (vex || b == 0xc5) {
      x64_byte(&l->x, b);
      i++;
      x64_byte(&l->x, n->bytes[i] | (b == 0xc5 ? 0 : 0x60)); /* X and B, inverted */
      bytes(l, n->bytes + i + 1, n->prefixes - i - 1u);
      return;
    }
    x64_byte(&l->x, i + 1 == n->prefixes && (b & 0xf0) == 0x40 ? b & ~3u : b);
  }
}

static bool fits31(uint64_t address) { return address < 1ull << 31; }

/* Bytes of modrm, sib and displacement. */
static unsigned operand_bytes(const IrNative *n) {
  unsigned mod = n->bytes[n->modrm] >> 6, rm = n->bytes[n->modrm] & 7, size = 1;
  if (mod == 3) return 1;
  unsigned base = rm == 4 ? n->bytes[n->modrm + 1] & 7 : rm;
  if (rm == 4) size++;
  if (mod == 1) return size + 1;
  return mod == 2 || base == 5 ? size + 4 : size;
}

/* The instruction with another memory operand: [address], or [reg]. */
static void copy_with(Lower *l, const IrNative *n, unsigned reg, uint64_t address) {
  unsigned field = n->bytes[n->modrm] & 0x38, rest = n->modrm + operand_bytes(n);
  prefixes(l, n);
  bytes(l, n->bytes + n->prefixes, n->modrm - n->prefixes);
  if (reg == X64_NONE) {
    x64_byte(&l->x, field | 4);
    x64_byte(&l->x, 0x25);
    x64_word32(&l->x, (uint32_t)address);
  } else {
    x64_byte(&l->x, field | reg);
  }
  bytes(l, n->bytes + rest, n->len - rest);
}

/* A register that the instruction does not use; of those that need no REX and no SIB as a base. */
static unsigned spare(const IrNative *n, unsigned but) {
  static const uint8_t order[] = {RAX, RCX, RDX, RBX, RSI, RDI};
  for (unsigned i = 0; i < sizeof order; i++)
    if (!((n->reads | n->writes) >> order[i] & 1) && order[i] != but) return order[i];
  return X64_NONE; /* none uses six and a memory operand */
}

static X64Mem operand(const IrAccess *a) {
  static const uint8_t log2_of[9] = {[1] = 0, [2] = 1, [4] = 2, [8] = 3};
  return (X64Mem){.base = a->base < 0 ? X64_NONE : (uint8_t)a->base,
                  .index = a->index < 0 ? X64_NONE : (uint8_t)a->index,
                  .scale = log2_of[a->scale & 15],
                  .disp = (int32_t)a->disp};
}

static void point_without(Lower *l, uint32_t lost) {
  LowWindow before = l->window;
  l->window.lost |= (uint16_t)lost;
  low_point(l);
  l->window = before;
}

/* Through a scratch register: rip-relative, too far away. */
static void copy_far(Lower *l, const IrNative *n) {
  unsigned reg = spare(n, X64_NONE);
  bool free = l->kept >> reg & 1;
  if (!free) x64_rm(&l->x, X64_MOV_STORE, reg, gpr(l, reg));
  x64_mov_imm(&l->x, reg, n->target);
  point_without(l, 1u << reg | l->kept);
  copy_with(l, n, reg, 0);
  if (!free) x64_rm(&l->x, X64_MOV_LOAD, reg, gpr(l, reg));
}

static void set_fs_base(Lower *l, uint64_t from) {
  x64_rm(&l->x, X64_MOV_STORE, RAX, gpr(l, RAX));
  x64_rm(&l->x, X64_MOV_LOAD, RAX, x64_gs(from));
  x64_rr(&l->x, X64_FSBASE, 2, RAX);
  x64_rm(&l->x, X64_MOV_LOAD, RAX, gpr(l, RAX));
}

static void copy(Lower *l, const IrNative *n) {
  if (n->by_gs) set_fs_base(l, l->j->native->gs_base);
  point_without(l, l->kept);
  if (n->fix == IR_FIX_RIP && fits31(n->target))
    copy_with(l, n, X64_NONE, n->target);
  else if (n->fix == IR_FIX_RIP)
    copy_far(l, n);
  else
    bytes(l, n->bytes, n->len);
  if (n->by_gs) set_fs_base(l, l->j->native->fs_base);
  written(l, n);
}

/* ---- repeated string instructions ------------------------------------------------------------ */

/* With an address size of 32 bits the count is ecx. */
static bool counts_in_ecx(const IrNative *n) { return n->n_accesses && n->accesses[0].address32; }

/* jrcxz (jecxz) reaches no further than a byte. */
static uint8_t *jump_if_rcx_zero(Lower *l, const IrNative *n) {
  if (counts_in_ecx(n)) x64_byte(&l->x, 0x67);
  x64_byte(&l->x, 0xe3);
  x64_byte(&l->x, 2);
  x64_byte(&l->x, 0xeb);
  x64_byte(&l->x, 5);
  return x64_jmp(&l->x);
}

static bool stops_on_flags(const IrNative *n) { return n->flags_written & IR_FLAG_ZF; }

static void repeat_end(Lower *l, const IrNative *n) {
  l->valid = 0;
  x64_rm(&l->x, counts_in_ecx(n) ? X64_LEA | X64_32 : X64_LEA, RCX, x64_at(RCX, -1));
  if (stops_on_flags(n)) l->repeat_out[1] = x64_jcc(&l->x, n->repeats == 0xf3 ? CC_NE : CC_E);
  l->repeat_out[2] = jump_if_rcx_zero(l, n);
  uint8_t *jump = x64_jmp(&l->x);
  uint32_t site = low_site(l, (JitSite){.kind = IR_EXIT_STOP,
                                        .pc = l->r->insns[l->insn].pc,
                                        .jump = low_rx(l, jump),
                                        .target = low_rx(l, l->repeat)});
  x64_patch(jump, l->repeat);
  low_put_aside(l, (LowCold){.kind = COLD_BACK_EDGE, .site = site});
  for (int i = 0; i < 3; i++)
    if (l->repeat_out[i]) x64_patch(l->repeat_out[i], l->x.at);
}

static void once(Lower *l, const IrNative *n) {
  l->valid = 0;
  if (n->by_gs) set_fs_base(l, l->j->native->gs_base);
  low_point(l);
  for (unsigned i = 0; i < n->len; i++)
    if (i >= n->prefixes || (n->bytes[i] != 0xf3 && n->bytes[i] != 0xf2))
      x64_byte(&l->x, n->bytes[i]);
  if (n->by_gs) set_fs_base(l, l->j->native->fs_base);
}

/* d = iterations beyond the first: max(from - rcx, 1) - 1. */
static void repeated(Lower *l, uint32_t k) {
  bool lost = l->window.lost >> RCX & 1;
  unsigned d = low_def(l, (IrRef)k, 0);
  if (lost || d == RCX) {
    save(l, RCX);
    x64_rm(&l->x, X64_MOV_LOAD, d, x64_gs(offsetof(IrState, jit.repeat_from)));
    x64_rm(&l->x, X64_SUB, d, gpr(l, RCX));
  } else {
    x64_rm(&l->x, X64_MOV_LOAD, d, x64_gs(offsetof(IrState, jit.repeat_from)));
    x64_rr(&l->x, X64_SUB, d, RCX);
  }
  if (counts_in_ecx(ir_native_of(low_op(l, (IrRef)k)))) x64_rr(&l->x, X64_MOV_LOAD | X64_32, d, d);
  x64_ri(&l->x, X64_ALU_I, ALU_CMP, d, 1);
  x64_ri(&l->x, X64_ALU_I, ALU_ADC, d, -1);
  low_defined(l, (IrRef)k);
}

/* ---- addresses and decisions, for instrumentation -------------------------------------------- */

static bool in_place(const Lower *l, int reg) { return reg < 0 || !(l->window.lost >> reg & 1); }

/* d = the address, from registers where they are now (d may be one of them: it is still there) or in
 * the state. */
static void lower_address(Lower *l, const IrAccess *a, unsigned d, bool base_here,
                          bool index_here) {
  IrAccess b = *a;
  if (!index_here || (!base_here && a->index == (int)d)) {
    unsigned t = low_temp(l, false);
    x64_rm(&l->x, X64_MOV_LOAD, t, gpr(l, (unsigned)a->index));
    b.index = (int8_t)t;
    if (a->base == (int)t) base_here = false;
    low_unlock(l, t);
  }
  if (!base_here) {
    x64_rm(&l->x, X64_MOV_LOAD, d, gpr(l, (unsigned)a->base));
    b.base = (int8_t)d;
  }
  if (b.base < 0 && b.index < 0)
    x64_mov_imm(&l->x, d, (uint64_t)a->disp);
  else
    x64_rm(&l->x, a->address32 ? X64_LEA | X64_32 : X64_LEA, d, operand(&b));
  if (a->base_slot) x64_rm(&l->x, X64_ADD, d, x64_gs((uint64_t)a->base_slot));
}

static void lower_ea(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  const IrAccess *a = &ir_native_of(op)->accesses[op->a];
  bool base = in_place(l, a->base), index = in_place(l, a->index);
  unsigned d = low_def(l, (IrRef)k, 0);
  lower_address(l, a, d, base, index);
  low_defined(l, (IrRef)k);
}

#define LOOK_AHEAD 24

/* The register of a set that is read last by the operations from `next` on. */
static unsigned least_wanted(const Lower *l, uint32_t next, uint32_t left) {
  for (uint32_t k = next; k < next + LOOK_AHEAD; k++) {
    const IrOp *op = low_op(l, (IrRef)k);
    if (ir_is_native(op->code)) {
      uint32_t after = left & ~(uint32_t)ir_native_of(op)->reads;
      if (!after) break;
      left = after;
    }
    if (ir_op_info[op->code].flags & IR_TERM) break;
  }
  return (unsigned)__builtin_ctz(left);
}

unsigned low_native_address(Lower *l, uint32_t k, uint32_t next) {
  const IrOp *op = low_op(l, (IrRef)k), *then = low_op(l, (IrRef)next);
  const IrAccess *a = &ir_native_of(op)->accesses[op->a];
  bool base = in_place(l, a->base), index = in_place(l, a->index);
  unsigned reg = X64_NONE;
  if (is_foreign(then->code)) {
    uint32_t set = l->window.lost & SCRATCH, stay = may_stay(then);
    if (!set) set = stay & SCRATCH; /* the next test may find it free */
    if (!set) set = stay ? stay : 0xffff & ~(1u << RSP);
    reg = least_wanted(l, next, set);
  }
  if (reg == X64_NONE)
    reg = low_temp(l, false);
  else if (SCRATCH >> reg & 1)
    low_take(l, reg);
  else
    low_lose(l, reg);
  lower_address(l, a, reg, base, index);
  return reg;
}

void low_native_give_back(Lower *l, unsigned reg) {
  if (SCRATCH >> reg & 1) return;
  low_window_restore(l, (uint16_t)(1u << reg), false);
  l->window.lost &= (uint16_t) ~(1u << reg);
}

/* The host's own jrcxz, loop and the like decide again, on a copy of rcx. */
static void lower_counted(Lower *l, const IrNative *n, unsigned d) {
  x64_rm(&l->x, X64_MOV_LOAD, RCX, gpr(l, RCX));
  bytes(l, n->bytes, n->len - 1u);
  x64_byte(&l->x, 7);
  x64_mov_imm(&l->x, d, 0); /* 5 bytes */
  x64_byte(&l->x, 0xeb);
  x64_byte(&l->x, 5);
  x64_mov_imm(&l->x, d, 1);
}

static void lower_taken(Lower *l, uint32_t k) {
  const IrNative *n = ir_native_of(low_op(l, (IrRef)k));
  low_take(l, RAX);
  if (l->window.flags_saved) jit_native_load_flags(&l->x);
  low_unlock(l, RAX);
  if (n->fix == IR_FIX_COUNTED) {
    low_take(l, RCX);
    low_take(l, RDX);
    low_unlock(l, RCX);
    low_unlock(l, RDX);
    lower_counted(l, n, RDX);
    low_result(l, (IrRef)k, RDX);
    return;
  }
  unsigned d = low_def(l, (IrRef)k, 0);
  x64_setcc(&l->x, n->bytes[0] & 15u, d);
  x64_rr(&l->x, X64_MOVZX8, d, d);
  low_defined(l, (IrRef)k);
}

static unsigned register_operand(const IrNative *n) {
  unsigned rex =
      n->prefixes && (n->bytes[n->prefixes - 1] & 0xf0) == 0x40 ? n->bytes[n->prefixes - 1] : 0;
  return (n->bytes[n->modrm] & 7u) | (rex & 1) << 3;
}

static bool through_register(const IrNative *n) { return n->bytes[n->modrm] >> 6 == 3; }

static void lower_target(Lower *l, uint32_t k) {
  const IrNative *n = ir_native_of(low_op(l, (IrRef)k));
  const IrAccess *a = &n->accesses[0];
  if (n->fix == IR_FIX_CALL) {
    x64_mov_imm(&l->x, low_def(l, (IrRef)k, 0), n->target);
  } else if (n->fix != IR_FIX_RETURN && through_register(n)) {
    unsigned reg = register_operand(n);
    bool here = in_place(l, (int)reg);
    unsigned d = low_def(l, (IrRef)k, 0);
    if (here)
      x64_rr(&l->x, X64_MOV_LOAD, d, reg);
    else
      x64_rm(&l->x, X64_MOV_LOAD, d, gpr(l, reg));
  } else {
    bool base = in_place(l, a->base), index = in_place(l, a->index);
    unsigned d = low_def(l, (IrRef)k, 0);
    lower_address(l, a, d, base, index);
    low_point(l);
    x64_rm(&l->x, X64_MOV_LOAD, d, x64_at(d, 0));
  }
  low_defined(l, (IrRef)k);
}

static uint64_t element(IrState *s, uint64_t imm, uint64_t a, uint64_t b, uint64_t c) {
  const IrNative *n = (const IrNative *)(uintptr_t)imm;
  (void)a, (void)b;
  return n->element(s, n, (unsigned)c);
}

static void count_add(Lower *l, const IrOp *op) {
  x64_rm(&l->x, X64_ADD_STORE, low_gpr(l, op->a), x64_gs(IR_COUNTERS_AT + op->imm));
}

static void count_by_lea(Lower *l, const IrOp *op) {
  unsigned t = low_temp(l, false);
  x64_rm(&l->x, X64_MOV_LOAD, t, x64_gs(IR_COUNTERS_AT + op->imm));
  x64_rm(&l->x, X64_LEA, t, x64_at(t, op->a));
  x64_rm(&l->x, X64_MOV_STORE, t, x64_gs(IR_COUNTERS_AT + op->imm));
  low_unlock(l, t);
}

/* true: it is one of those that only guests of native operations have, or is done otherwise for
 * them, and now lowered. */
bool low_native(Lower *l, uint32_t k) {
  const IrOp *op = low_op(l, (IrRef)k);
  const IrNative *n = ir_native_of(op);
  switch (op->code) {
  case IR_native: copy(l, n); break;
  case IR_native_once: once(l, n); break;
  case IR_repeat:
    l->valid = 0;
    l->repeat = l->x.at;
    l->repeat_out[1] = NULL;
    l->repeat_out[0] = jump_if_rcx_zero(l, n);
    l->repeat = l->x.at;
    break;
  case IR_repeat_end: repeat_end(l, n); break;
  case IR_repeat_from:
    x64_rm(&l->x, X64_MOV_STORE, RCX, x64_gs(offsetof(IrState, jit.repeat_from)));
    break;
  case IR_repeated: repeated(l, k); break;
  case IR_ea: lower_ea(l, k); break;
  case IR_taken: lower_taken(l, k); break;
  case IR_target: lower_target(l, k); break;
  case IR_element: low_call(l, k, element, op->imm, 0, 0, 0, op->a, true); break;
  case IR_count_add: count_add(l, op); break;
  case IR_count:
    if (!l->window.counts) return false;
    count_by_lea(l, op);
    break;
  default: return false;
  }
  low_release(l);
  return true;
}

/* ---- branches -------------------------------------------------------------------------------- */

static void put_away(Lower *l, unsigned reg) {
  if (!(l->kept >> reg & 1)) x64_rm(&l->x, X64_MOV_STORE, reg, gpr(l, reg));
}

/* To the pc in rcx; rcx itself is in the state. */
static void indirect(Lower *l) {
  put_away(l, RDX);
  x64_rr(&l->x, X64_MOVZX16, RDX, RCX);
  x64_rm(&l->x, X64_GROUP5 | X64_32, 4,
         (X64Mem){.base = X64_NONE,
                  .index = RDX,
                  .scale = 3,
                  .gs = true,
                  .disp = (int32_t)IR_NATIVE_TARGETS_AT});
}

/* What indirect branches to this region do first: see native.c. */
void low_native_entry(Lower *l) {
  uint64_t pc = l->r->pc;
  bool near = fits31(pc);
  if (near) {
    x64_rm(&l->x, X64_LEA, RCX, x64_at(RCX, (int32_t) - (int64_t)pc));
  } else {
    x64_mov_imm(&l->x, RDX, 0 - pc);
    x64_rm(&l->x, X64_LEA, RCX, (X64Mem){.base = RCX, .index = RDX});
  }
  x64_byte(&l->x, 0xe3); /* jrcxz */
  uint8_t *skip = l->x.at;
  x64_byte(&l->x, 0);
  if (near) {
    x64_rm(&l->x, X64_LEA, RCX, x64_at(RCX, (int32_t)pc));
  } else {
    x64_mov_imm(&l->x, RDX, pc);
    x64_rm(&l->x, X64_LEA, RCX, (X64Mem){.base = RCX, .index = RDX});
  }
  jit_jump_to(l->j, &l->x, l->j->native_indirect);
  if (!l->x.full) *skip = (uint8_t)(l->x.at - skip - 1);
  x64_rm(&l->x, X64_MOV_LOAD, RCX, gpr(l, RCX));
  x64_rm(&l->x, X64_MOV_LOAD, RDX, gpr(l, RDX));
}

/* Pushes the return address, as one instruction where it fits in one. */
static void push_return(Lower *l) {
  const IrInsn *insn = &l->r->insns[l->insn];
  uint64_t pc = insn->pc + insn->len;
  x64_byte(&l->x, 0x68);
  x64_word32(&l->x, (uint32_t)pc);
  if (!fits31(pc)) x64_mi(&l->x, X64_MOV_I | X64_32, 0, x64_at(RSP, 4), (int32_t)(pc >> 32));
}

/* rcx = where a jump or call through register or memory leads; rcx is in the state. */
static void fetch_target(Lower *l, const IrNative *n) {
  if (through_register(n)) {
    unsigned reg = register_operand(n);
    if (reg != RCX) x64_rr(&l->x, X64_MOV_LOAD, RCX, reg);
    return;
  }
  const IrAccess *a = &n->accesses[0];
  if (a->base_slot || a->address32 || !x64_fits(a->disp) || (a->base < 0 && a->index < 0)) {
    x64_rm(&l->x, X64_MOV_STORE, RDX, gpr(l, RDX));
    if (a->base < 0 && a->index < 0)
      x64_mov_imm(&l->x, RCX, (uint64_t)a->disp);
    else
      x64_rm(&l->x, a->address32 ? X64_LEA | X64_32 : X64_LEA, RCX, operand(a));
    if (a->base_slot) {
      x64_rm(&l->x, X64_MOV_LOAD, RDX, x64_gs((uint64_t)a->base_slot));
      x64_rm(&l->x, X64_LEA, RCX, (X64Mem){.base = RCX, .index = RDX});
    }
    point_without(l, 1u << RCX | 1u << RDX);
    x64_rm(&l->x, X64_MOV_LOAD, RCX, x64_at(RCX, 0));
    x64_rm(&l->x, X64_MOV_LOAD, RDX, gpr(l, RDX));
    return;
  }
  x64_rm(&l->x, X64_MOV_LOAD, RCX, operand(a));
}

static void lower_indirect(Lower *l, const IrNative *n) {
  put_away(l, RCX);
  if (n->fix == IR_FIX_RETURN) {
    if (l->kept) point_without(l, l->kept);
    x64_byte(&l->x, 0x59); /* pop rcx */
    if (n->pops > 8) x64_rm(&l->x, X64_LEA, RSP, x64_at(RSP, n->pops - 8));
  } else {
    fetch_target(l, n);
  }
  if (n->fix == IR_FIX_CALL_IND) {
    point_without(l, 1u << RCX);
    push_return(l);
  }
  indirect(l);
}

static void lower_br(Lower *l, const IrNative *n, IrBlock *b) {
  if (n->fix == IR_FIX_COUNTED) {
    bytes(l, n->bytes, n->len - 1u);
    x64_byte(&l->x, 2);
    x64_byte(&l->x, 0xeb);
    x64_byte(&l->x, 5);
    low_flow(l, x64_jmp(&l->x), &b->succ[0]);
    if (!low_falls_through(l, &b->succ[1])) low_flow(l, x64_jmp(&l->x), &b->succ[1]);
    return;
  }
  X64Cond cc = n->bytes[0] & 15;
  if (low_falls_through(l, &b->succ[0])) {
    low_flow(l, x64_jcc(&l->x, cc ^ 1), &b->succ[1]);
    return;
  }
  low_flow(l, x64_jcc(&l->x, cc), &b->succ[0]);
  if (!low_falls_through(l, &b->succ[1])) low_flow(l, x64_jmp(&l->x), &b->succ[1]);
}

void low_native_end(Lower *l, const IrOp *op, IrBlock *b) {
  const IrNative *n = ir_native_of(op);
  low_point(l);
  if (op->code == IR_native_br) {
    lower_br(l, n, b);
  } else if (n->fix == IR_FIX_CALL) {
    push_return(l);
    low_flow(l, x64_jmp(&l->x), &b->succ[0]);
  } else {
    lower_indirect(l, n);
  }
  l->kept = 0;
}
