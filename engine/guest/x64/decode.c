/* Decoding, by Zydis, and lifting: what an instruction reads, writes and accesses (effects.c), and
 * what has to be changed when it is copied.
 *
 * A GuestInsn keeps the instruction's bytes in priv. Instructions that the CPU would refuse in user
 * mode are copied: it refuses them in the code cache as well, with the same signal. Those that must
 * not be executed there end as illegal: is_refused. */
#include <Zydis/Zydis.h>
#include <pthread.h>
#include <string.h>

#include "guest/x64/effects.h"

static ZydisDecoder decoder;

static void make_decoder(void) {
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

/* The last instruction stays: decoding comes before lifting. NULL: illegal, or cut off. */
static const X64Decoded *decode(const uint8_t *code, size_t len) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static _Thread_local X64Decoded d;
  static _Thread_local uint8_t bytes[IR_NATIVE_MAX_LEN];
  ZydisDecoderContext context;
  if (d.insn.length && d.insn.length <= len && !memcmp(bytes, code, d.insn.length)) return &d;
  pthread_once(&once, make_decoder);
  d.ops[0] = (ZydisDecodedOperand){0}; /* asked for its type where there is none */
  if (ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, &context, code, len, &d.insn)) &&
      ZYAN_SUCCESS(
          ZydisDecoderDecodeOperands(&decoder, &context, &d.insn, d.ops, d.insn.operand_count))) {
    memcpy(bytes, code, d.insn.length);
    return &d;
  }
  d.insn.length = 0;
  return NULL;
}

/* ---- kinds of instructions ------------------------------------------------------------------- */

static bool writes_hidden_selector(const X64Decoded *d) {
  for (int i = 0; i < d->insn.operand_count; i++) {
    const ZydisDecodedOperand *o = &d->ops[i];
    if (o->type == ZYDIS_OPERAND_TYPE_REGISTER && o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
        (o->reg.value == ZYDIS_REGISTER_FS || o->reg.value == ZYDIS_REGISTER_GS ||
         o->reg.value == ZYDIS_REGISTER_SS))
      return true;
  }
  return false;
}

/* Would change what the engine relies on (selectors, protection keys), enter the kernel by a door
 * that is not watched, or is hidden by cpuid. */
static bool is_refused(const X64Decoded *d) {
  switch (d->insn.mnemonic) {
  case ZYDIS_MNEMONIC_SYSCALL: return false;
  case ZYDIS_MNEMONIC_INT: /* 0x80: the 32-bit system call; 4: into's trap */
    return d->ops[0].imm.value.u == 0x80 || d->ops[0].imm.value.u == 4;
  case ZYDIS_MNEMONIC_INT1:
  case ZYDIS_MNEMONIC_SYSENTER:
  case ZYDIS_MNEMONIC_IRET:
  case ZYDIS_MNEMONIC_IRETD:
  case ZYDIS_MNEMONIC_IRETQ:
  case ZYDIS_MNEMONIC_XBEGIN:
  case ZYDIS_MNEMONIC_XEND:
  case ZYDIS_MNEMONIC_XABORT:
  case ZYDIS_MNEMONIC_XTEST:
  case ZYDIS_MNEMONIC_WRPKRU:
  case ZYDIS_MNEMONIC_RDPKRU:
  case ZYDIS_MNEMONIC_VMCALL:
  case ZYDIS_MNEMONIC_VMMCALL:
  case ZYDIS_MNEMONIC_SENDUIPI:
  case ZYDIS_MNEMONIC_UIRET:
  case ZYDIS_MNEMONIC_STUI: return true;
  default: break;
  }
  bool far = d->insn.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
  return far || writes_hidden_selector(d);
}

static bool is_breakpoint(const X64Decoded *d) {
  return d->insn.mnemonic == ZYDIS_MNEMONIC_INT3 ||
         (d->insn.mnemonic == ZYDIS_MNEMONIC_INT && d->ops[0].imm.value.u == 3);
}

static bool ends_by_fault(const X64Decoded *d) {
  switch (d->insn.mnemonic) {
  case ZYDIS_MNEMONIC_UD0:
  case ZYDIS_MNEMONIC_UD1:
  case ZYDIS_MNEMONIC_UD2:
  case ZYDIS_MNEMONIC_HLT: return true;
  default: return false;
  }
}

static IrBranch branch_of(const X64Decoded *d) {
  if (is_refused(d) || is_breakpoint(d) || ends_by_fault(d)) return IR_BR_TRAP;
  switch (d->insn.meta.category) {
  case ZYDIS_CATEGORY_CALL: return IR_BR_CALL;
  case ZYDIS_CATEGORY_RET: return IR_BR_RET;
  case ZYDIS_CATEGORY_UNCOND_BR: return IR_BR_JUMP;
  case ZYDIS_CATEGORY_COND_BR: return IR_BR_COND;
  default: return d->insn.mnemonic == ZYDIS_MNEMONIC_SYSCALL ? IR_BR_SYSCALL : IR_BR_NONE;
  }
}

static bool is_direct(const X64Decoded *d) {
  return d->ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && d->ops[0].imm.is_relative;
}

/* ---- decode ---------------------------------------------------------------------------------- */

GuestDecode x64_decode(const uint8_t *code, size_t avail, uint64_t pc, GuestInsn *out) {
  size_t n = avail > IR_NATIVE_MAX_LEN ? IR_NATIVE_MAX_LEN : avail;
  uint8_t bytes[16] = {0};
  memcpy(bytes, code, n);
  *out = (GuestInsn){.pc = pc, .len = 1};
  memcpy(out->priv, bytes, sizeof bytes);
  memcpy(&out->raw, bytes, sizeof out->raw);
  const X64Decoded *d = decode(bytes, n);
  if (!d) {
    /* More bytes would not have helped if it is illegal with zeros behind it as well. */
    return n < IR_NATIVE_MAX_LEN && decode(bytes, IR_NATIVE_MAX_LEN) ? GUEST_DECODE_TRUNCATED
                                                                     : GUEST_DECODE_ILLEGAL;
  }
  out->len = d->insn.length;
  out->id = (uint16_t)d->insn.mnemonic;
  out->branch = (uint8_t)branch_of(d);
  bool goes = out->branch >= IR_BR_JUMP && out->branch <= IR_BR_CALL;
  if (goes && is_direct(d)) out->target = pc + d->insn.length + d->ops[0].imm.value.u;
  return GUEST_DECODE_OK;
}

const char *x64_insn_name(uint16_t id) {
  const char *name = ZydisMnemonicGetString((ZydisMnemonic)id);
  return name ? name : "?";
}

uint16_t x64_dead_flags(const uint8_t *code, size_t avail, uint64_t pc) {
  uint16_t dead = 0, read = 0;
  for (int i = 0; i < 8; i++) {
    const X64Decoded *d = decode(code, avail > IR_NATIVE_MAX_LEN ? IR_NATIVE_MAX_LEN : avail);
    if (!d) break;
    IrNative n = {.len = d->insn.length};
    x64_effects(d, pc, &n);
    read |= n.flags_read;
    /* What may fault shows its flags to a signal handler: they are still the program's then. */
    if (n.n_accesses) read |= (uint16_t)~dead;
    dead |= n.flags_written & (uint16_t)~read;
    if (branch_of(d) != IR_BR_NONE || (dead & IR_FLAGS_STATUS) == IR_FLAGS_STATUS) break;
    code += n.len;
    avail -= n.len;
    pc += n.len;
  }
  return dead & IR_FLAGS_STATUS;
}

/* ---- lift ------------------------------------------------------------------------------------ */

static void lift_jump(IrBuilder *b, const GuestInsn *i, const X64Decoded *d, IrNative *n) {
  if (i->target) {
    ir_jump(b, i->target);
    return;
  }
  n->fix = IR_FIX_JUMP_IND;
  (void)d;
  ir_native_jump(b, n);
}

static void lift_call(IrBuilder *b, const GuestInsn *i, IrNative *n) {
  n->fix = i->target ? IR_FIX_CALL : IR_FIX_CALL_IND;
  if (i->target) n->target = i->target;
  ir_native_jump(b, n);
}

static void lift_return(IrBuilder *b, const X64Decoded *d, IrNative *n) {
  bool more = d->ops[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
  n->fix = IR_FIX_RETURN;
  n->pops = (uint16_t)(8 + (more ? d->ops[0].imm.value.u : 0));
  ir_native_jump(b, n);
}

static void lift_branch(IrBuilder *b, const GuestInsn *i, const X64Decoded *d, IrNative *n) {
  uint8_t opcode = d->insn.opcode;
  n->fix = IR_FIX_BRANCH;
  if (opcode >= 0xe0 && opcode <= 0xe3 && d->insn.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
    n->fix = IR_FIX_COUNTED;
  else
    n->bytes[0] = opcode & 15;
  ir_native_br(b, n, i->target, i->pc + i->len);
}

static void call_helper(IrBuilder *b, const IrHelper *helper, uint64_t x, uint64_t y) {
  ir_emit(b, IR_call, ir_imm(b, x), ir_imm(b, y), 0, (uint64_t)(uintptr_t)helper);
}

/* rdfsbase, rdgsbase, wrfsbase, wrgsbase. The host's wrfsbase says which values can be loaded. */
static void lift_base(IrBuilder *b, const X64Decoded *d, IrNative *n, uint64_t how) {
  if (d->ops[0].size == 32) how |= X64_BASE_32;
  if (how & X64_BASE_WRITE) {
    n->bytes[n->modrm] = (uint8_t)((n->bytes[n->modrm] & ~0x38) | 2 << 3);
    ir_native(b, n);
  }
  call_helper(b, &x64_base, (uint64_t)ZydisRegisterGetId(d->ops[0].reg.value), how);
}

void x64_lift(IrBuilder *b, const GuestInsn *i) {
  IrNative n = {.len = i->len};
  memcpy(n.bytes, i->priv, i->len);
  const X64Decoded *d = decode(n.bytes, i->len);
  if (!d || is_refused(d)) {
    ir_trap(b, IR_TRAP_ILLEGAL, i->pc);
    return;
  }
  x64_effects(d, i->pc, &n);
  switch (d->insn.mnemonic) {
  case ZYDIS_MNEMONIC_CPUID: call_helper(b, &x64_cpuid, 0, 0); return;
  case ZYDIS_MNEMONIC_XGETBV: call_helper(b, &x64_xgetbv, 0, 0); return;
  case ZYDIS_MNEMONIC_RDFSBASE: lift_base(b, d, &n, 0); return;
  case ZYDIS_MNEMONIC_RDGSBASE: lift_base(b, d, &n, X64_BASE_GS); return;
  case ZYDIS_MNEMONIC_WRFSBASE: lift_base(b, d, &n, X64_BASE_WRITE); return;
  case ZYDIS_MNEMONIC_WRGSBASE: lift_base(b, d, &n, X64_BASE_GS | X64_BASE_WRITE); return;
  default: break;
  }
  switch ((IrBranch)i->branch) {
  case IR_BR_JUMP: lift_jump(b, i, d, &n); return;
  case IR_BR_CALL: lift_call(b, i, &n); return;
  case IR_BR_RET: lift_return(b, d, &n); return;
  case IR_BR_COND: lift_branch(b, i, d, &n); return;
  case IR_BR_SYSCALL: ir_trap(b, IR_TRAP_SYSCALL, i->pc + i->len); return;
  case IR_BR_TRAP:
    if (is_breakpoint(d)) {
      ir_trap(b, IR_TRAP_BREAKPOINT, i->pc + i->len);
    } else {
      ir_native(b, &n);
      ir_trap(b, IR_TRAP_NEXT, i->pc + i->len);
    }
    return;
  case IR_BR_NONE: ir_native(b, &n); return;
  }
}
