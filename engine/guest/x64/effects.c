/* Effects of instructions: registers, flags, memory accesses, and the fix that copying needs.
 * See effects.h. */
#include <string.h>

#include "guest/x64/effects.h"

/* ---- registers and flags --------------------------------------------------------------------- */

static int gpr_of(ZydisRegister reg) {
  switch (ZydisRegisterGetClass(reg)) {
  case ZYDIS_REGCLASS_GPR8:
    return reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH ? reg - ZYDIS_REGISTER_AH
           : reg > ZYDIS_REGISTER_BH                            ? reg - ZYDIS_REGISTER_SPL + 4
                                                                : reg - ZYDIS_REGISTER_AL;
  case ZYDIS_REGCLASS_GPR16:
  case ZYDIS_REGCLASS_GPR32:
  case ZYDIS_REGCLASS_GPR64: return ZydisRegisterGetId(reg);
  default: return -1;
  }
}

static void touch(uint16_t *set, ZydisRegister reg) {
  int n = gpr_of(reg);
  if (n >= 0) *set |= (uint16_t)(1u << n);
}

/* Others may leave their destination as it is: bit scans, what a CPU takes for a nop. */
static bool surely_writes(const X64Decoded *d) {
  switch (d->insn.meta.category) {
  case ZYDIS_CATEGORY_BINARY:
  case ZYDIS_CATEGORY_LOGICAL:
  case ZYDIS_CATEGORY_DATAXFER:
  case ZYDIS_CATEGORY_POP: return true;
  default: return d->insn.mnemonic == ZYDIS_MNEMONIC_LEA;
  }
}

static void registers(const X64Decoded *d, IrNative *n) {
  for (int i = 0; i < d->insn.operand_count; i++) {
    const ZydisDecodedOperand *o = &d->ops[i];
    if (o->type == ZYDIS_OPERAND_TYPE_REGISTER) {
      bool whole = o->size >= 32 && !(o->actions & ZYDIS_OPERAND_ACTION_CONDWRITE);
      if (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ || !whole) touch(&n->reads, o->reg.value);
      if (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) touch(&n->writes, o->reg.value);
    } else if (o->type == ZYDIS_OPERAND_TYPE_MEMORY) {
      touch(&n->reads, o->mem.base);
      touch(&n->reads, o->mem.index);
    }
  }
  if (surely_writes(d)) n->overwrites = n->writes & (uint16_t)~n->reads;
}

/* Undefined flags may come through as they were where the CPU does not touch them: bit scans,
 * divisions. So may those of a shift by 0, of a string instruction repeated 0 times. */
static bool may_leave_flags(const X64Decoded *d) {
  switch (d->insn.mnemonic) {
  case ZYDIS_MNEMONIC_BSF:
  case ZYDIS_MNEMONIC_BSR:
  case ZYDIS_MNEMONIC_LZCNT:
  case ZYDIS_MNEMONIC_TZCNT:
  case ZYDIS_MNEMONIC_BT:
  case ZYDIS_MNEMONIC_BTC:
  case ZYDIS_MNEMONIC_BTR:
  case ZYDIS_MNEMONIC_BTS:
  case ZYDIS_MNEMONIC_DIV:
  case ZYDIS_MNEMONIC_IDIV:
  case ZYDIS_MNEMONIC_MUL:
  case ZYDIS_MNEMONIC_IMUL:
  case ZYDIS_MNEMONIC_SHL:
  case ZYDIS_MNEMONIC_SHR:
  case ZYDIS_MNEMONIC_SAR:
  case ZYDIS_MNEMONIC_SHLD:
  case ZYDIS_MNEMONIC_SHRD:
  case ZYDIS_MNEMONIC_ROL:
  case ZYDIS_MNEMONIC_ROR:
  case ZYDIS_MNEMONIC_RCL:
  case ZYDIS_MNEMONIC_RCR: return true;
  default: return d->insn.meta.category == ZYDIS_CATEGORY_STRINGOP;
  }
}

static void flags(const X64Decoded *d, IrNative *n) {
  const ZydisAccessedFlags *f = d->insn.cpu_flags;
  const unsigned known = IR_FLAGS_STATUS | IR_FLAG_DF;
  if (!f) return;
  n->flags_read = (uint16_t)(f->tested & known);
  n->flags_written = (uint16_t)((f->modified | f->set_0 | f->set_1 | f->undefined) & known);
  if (may_leave_flags(d)) n->flags_read |= n->flags_written;
  if (d->insn.mnemonic == ZYDIS_MNEMONIC_PUSHF || d->insn.mnemonic == ZYDIS_MNEMONIC_PUSHFQ ||
      d->insn.mnemonic == ZYDIS_MNEMONIC_LAHF || d->insn.mnemonic == ZYDIS_MNEMONIC_SYSCALL)
    n->flags_read = known; /* r11 has them behind a system call */
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Their operand names an address, or is a hint. */
static bool is_no_access(const X64Decoded *d, const ZydisDecodedOperand *o) {
  if (o->mem.type != ZYDIS_MEMOP_TYPE_MEM && o->mem.type != ZYDIS_MEMOP_TYPE_VSIB) return true;
  if (!(o->actions & (ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_MASK_WRITE)))
    return true;
  switch (d->insn.meta.category) {
  case ZYDIS_CATEGORY_PREFETCH:
  case ZYDIS_CATEGORY_PREFETCHWT1:
  case ZYDIS_CATEGORY_NOP:
  case ZYDIS_CATEGORY_WIDENOP:
  case ZYDIS_CATEGORY_MPX: /* Linux has no support for it: they do nothing */
  case ZYDIS_CATEGORY_CLFLUSHOPT:
  case ZYDIS_CATEGORY_CLWB:
  case ZYDIS_CATEGORY_CLDEMOTE: return true;
  default: return d->insn.mnemonic == ZYDIS_MNEMONIC_CLFLUSH;
  }
}

static uint16_t size_of(const X64Decoded *d, const ZydisDecodedOperand *o) {
  switch (d->insn.mnemonic) {
  case ZYDIS_MNEMONIC_XSAVE:
  case ZYDIS_MNEMONIC_XSAVE64:
  case ZYDIS_MNEMONIC_XSAVEC:
  case ZYDIS_MNEMONIC_XSAVEC64:
  case ZYDIS_MNEMONIC_XSAVEOPT:
  case ZYDIS_MNEMONIC_XSAVEOPT64:
  case ZYDIS_MNEMONIC_XRSTOR:
  case ZYDIS_MNEMONIC_XRSTOR64: return (uint16_t)ir_xsave_size();
  default: break;
  }
  if (d->insn.avx.broadcast.mode && !d->insn.avx.broadcast.is_static) return o->element_size / 8;
  return o->size / 8;
}

/* The address as it is before the instruction: a push writes below, a pop's own operand is found
 * with rsp as it is afterwards. */
static int64_t from_stack(const X64Decoded *d, const ZydisDecodedOperand *o) {
  unsigned size = o->size / 8;
  if (o->mem.base != ZYDIS_REGISTER_RSP) return 0;
  bool hidden = o->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
  if (hidden && o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) return -(int64_t)size;
  return !hidden && d->insn.mnemonic == ZYDIS_MNEMONIC_POP ? size : 0;
}

static bool is_rip(const ZydisDecodedOperand *o) {
  return o->mem.base == ZYDIS_REGISTER_RIP || o->mem.base == ZYDIS_REGISTER_EIP;
}

static uint64_t rip_target(const X64Decoded *d, const ZydisDecodedOperand *o, uint64_t pc) {
  uint64_t target = pc + d->insn.length + (uint64_t)o->mem.disp.value;
  return o->mem.base == ZYDIS_REGISTER_EIP ? (uint32_t)target : target;
}

/* A SIB without a base and with a displacement: Zydis 4.0 takes r13d for the base behind a 67 prefix
 * if the bit for that is set. */
static bool is_disp32(const X64Decoded *d, const ZydisDecodedOperand *o) {
  return o->encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM && d->insn.raw.modrm.mod == 0 &&
         d->insn.raw.modrm.rm == 4 && d->insn.raw.sib.base == 5;
}

static void access(const X64Decoded *d, const ZydisDecodedOperand *o, uint64_t pc, IrAccess *a) {
  *a = (IrAccess){.base = -1,
                  .index = -1,
                  .scale = o->mem.scale ? o->mem.scale : 1,
                  .size = size_of(d, o),
                  .is_read = o->actions & ZYDIS_OPERAND_ACTION_MASK_READ,
                  .is_write = o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE,
                  .address32 = d->insn.address_width == 32 && o->mem.base != ZYDIS_REGISTER_RSP,
                  .disp = o->mem.disp.value + from_stack(d, o)};
  if (o->mem.segment == ZYDIS_REGISTER_FS) a->base_slot = offsetof(X64State, fs_base);
  if (o->mem.segment == ZYDIS_REGISTER_GS) a->base_slot = offsetof(X64State, gs_base);
  if (is_rip(o)) {
    a->disp = (int64_t)rip_target(d, o, pc);
    return;
  }
  if (is_disp32(d, o)) {
    a->disp = d->insn.raw.disp.value;
    a->index = (int8_t)gpr_of(o->mem.index);
    return;
  }
  a->base = (int8_t)gpr_of(o->mem.base);
  a->index = (int8_t)gpr_of(o->mem.index);
}

static void memory(const X64Decoded *d, uint64_t pc, IrNative *n) {
  if (d->insn.mnemonic == ZYDIS_MNEMONIC_CLZERO) {
    n->accesses[n->n_accesses++] = (IrAccess){.base = 0,
                                              .index = -1,
                                              .scale = 1,
                                              .is_write = true,
                                              .address32 = d->insn.address_width == 32};
    x64_zeroes_line(n);
  }
  for (int i = 0; i < d->insn.operand_count; i++) {
    const ZydisDecodedOperand *o = &d->ops[i];
    if (o->type != ZYDIS_OPERAND_TYPE_MEMORY || is_no_access(d, o)) continue;
    if (n->n_accesses == IR_NATIVE_ACCESSES) break;
    access(d, o, pc, &n->accesses[n->n_accesses++]);
    if (n->n_accesses == 1) x64_elements(d, o, n);
  }
}

/* ---- encoding -------------------------------------------------------------------------------- */

static bool is_legacy_prefix(uint8_t b) {
  switch (b) {
  case 0x66:
  case 0x67:
  case 0xf0:
  case 0xf2:
  case 0xf3:
  case 0x26:
  case 0x2e:
  case 0x36:
  case 0x3e:
  case 0x64:
  case 0x65: return true;
  default: return false;
  }
}

static void encoding(const X64Decoded *d, IrNative *n) {
  uint8_t at = 0;
  while (at < n->len && is_legacy_prefix(n->bytes[at])) {
    if (n->bytes[at] == 0x65 && d->insn.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS) {
      n->bytes[at] = 0x64;
      n->by_gs = true;
    }
    at++;
  }
  switch (d->insn.encoding) {
  case ZYDIS_INSTRUCTION_ENCODING_VEX: at = (uint8_t)(at + (n->bytes[at] == 0xc5 ? 2 : 3)); break;
  case ZYDIS_INSTRUCTION_ENCODING_XOP: at = (uint8_t)(at + 3); break;
  case ZYDIS_INSTRUCTION_ENCODING_EVEX: at = (uint8_t)(at + 4); break;
  default:
    if ((n->bytes[at] & 0xf0) == 0x40) at++;
  }
  n->prefixes = at;
  if (d->insn.attributes & ZYDIS_ATTRIB_HAS_MODRM) n->modrm = d->insn.raw.modrm.offset;
  n->disp = d->insn.raw.disp.size ? d->insn.raw.disp.offset : 0;
  n->locked = d->insn.attributes & ZYDIS_ATTRIB_HAS_LOCK;
}

static void repetition(const X64Decoded *d, IrNative *n) {
  if (d->insn.meta.category != ZYDIS_CATEGORY_STRINGOP) return;
  n->step = (uint8_t)(d->insn.operand_width / 8);
  if (n->n_accesses) n->step = (uint8_t)n->accesses[0].size;
  for (int i = 0; i < n->prefixes; i++)
    if (n->bytes[i] == 0xf2 || n->bytes[i] == 0xf3) n->repeats = n->bytes[i];
}

static void fix(const X64Decoded *d, uint64_t pc, IrNative *n) {
  for (int i = 0; i < d->insn.operand_count; i++) {
    const ZydisDecodedOperand *o = &d->ops[i];
    if (o->type != ZYDIS_OPERAND_TYPE_MEMORY || !is_rip(o)) continue;
    n->fix = IR_FIX_RIP;
    n->target = rip_target(d, o, pc);
  }
}

/* false: for sure none on any host. */
static bool may_fault(const X64Decoded *d, const IrNative *n) {
  if (n->n_accesses || d->insn.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY ||
      d->insn.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED)
    return true;
  for (int i = 0; i < d->insn.operand_count; i++) /* an x87 exception may be pending */
    if (d->ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        ZydisRegisterGetClass(d->ops[i].reg.value) == ZYDIS_REGCLASS_MMX)
      return true;
  switch (d->insn.meta.category) {
  case ZYDIS_CATEGORY_BINARY:
    return d->insn.mnemonic == ZYDIS_MNEMONIC_DIV || d->insn.mnemonic == ZYDIS_MNEMONIC_IDIV;
  case ZYDIS_CATEGORY_LOGICAL:
  case ZYDIS_CATEGORY_SHIFT:
  case ZYDIS_CATEGORY_ROTATE:
  case ZYDIS_CATEGORY_BITBYTE:
  case ZYDIS_CATEGORY_DATAXFER:
  case ZYDIS_CATEGORY_CMOV:
  case ZYDIS_CATEGORY_SETCC:
  case ZYDIS_CATEGORY_CONVERT:
  case ZYDIS_CATEGORY_NOP:
  case ZYDIS_CATEGORY_WIDENOP:
  case ZYDIS_CATEGORY_COND_BR:
  case ZYDIS_CATEGORY_UNCOND_BR: return false;
  default: return d->insn.mnemonic != ZYDIS_MNEMONIC_LEA;
  }
}

void x64_effects(const X64Decoded *d, uint64_t pc, IrNative *n) {
  registers(d, n);
  flags(d, n);
  memory(d, pc, n);
  encoding(d, n);
  repetition(d, n);
  fix(d, pc, n);
  n->may_fault = may_fault(d, n);
}
