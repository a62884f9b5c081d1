/* Accesses whose addresses depend on more than the operand: elements of gathers, scatters and
 * masked moves, bits beyond the operand, a table's entry. */
#include <string.h>

#include "guest/x64/effects.h"

/* IrNative.mask: which mask `vector` names; the low bits say how wide things are. */
enum {
  MASK_NONE,
  MASK_K,
  MASK_VECTOR,
  MASK_PACKED /* compressed: as many as bits are set */
};
#define KIND(mask, bytes) (uint8_t)((mask) << 4 | (bytes))

static const X64State *state(const IrState *s) { return (const X64State *)s; }

/* `more` belongs to the address that is cut to 32 bits. */
static uint64_t address(const IrState *s, const IrAccess *a, uint64_t more) {
  const X64State *st = state(s);
  uint64_t at = (uint64_t)a->disp + more;
  if (a->base >= 0) at += st->gpr[a->base];
  if (a->index >= 0) at += st->gpr[a->index] * a->scale;
  if (a->address32) at = (uint32_t)at;
  if (a->base_slot) at += *(const uint64_t *)(const void *)((const char *)s + a->base_slot);
  return at;
}

static uint64_t get(const uint8_t *from, unsigned bytes) {
  uint64_t x = 0;
  memcpy(&x, from, bytes);
  return x;
}

static bool is_on(const IrState *s, const IrNative *n, unsigned k) {
  const IrVectors *v = &state(s)->vectors;
  unsigned bytes = n->mask & 15;
  switch (n->mask >> 4) {
  case MASK_K: return v->k[n->lane] >> k & 1;
  case MASK_VECTOR: return v->v[n->lane][k * bytes + bytes - 1] >> 7;
  case MASK_PACKED: {
    uint64_t all = n->n_elements == 64 ? ~0ull : (1ull << n->n_elements) - 1;
    return k < (unsigned)__builtin_popcountll(v->k[n->lane] & all);
  }
  default: return true;
  }
}

/* The k-th element of a broadcast to `vector` lanes: accessed if one that it goes to is on. */
static uint64_t broadcast(const IrState *s, const IrNative *n, unsigned k) {
  uint64_t on = state(s)->vectors.k[n->lane];
  for (unsigned lane = k; lane < n->vector; lane += n->n_elements)
    if (on >> lane & 1) return address(s, &n->accesses[0], 0) + (uint64_t)k * n->accesses[0].size;
  return IR_NO_ELEMENT;
}

static uint64_t masked(const IrState *s, const IrNative *n, unsigned k) {
  if (!is_on(s, n, k)) return IR_NO_ELEMENT;
  return address(s, &n->accesses[0], 0) + (uint64_t)k * n->accesses[0].size;
}

static uint64_t gather_by(const IrState *s, const IrNative *n, unsigned k, unsigned bytes) {
  if (!is_on(s, n, k)) return IR_NO_ELEMENT;
  uint64_t index = get(state(s)->vectors.v[n->vector] + k * bytes, bytes);
  int64_t wide = bytes == 4 ? (int32_t)index : (int64_t)index;
  return address(s, &n->accesses[0], (uint64_t)wide * n->accesses[0].scale);
}
static uint64_t gather32(const IrState *s, const IrNative *n, unsigned k) {
  return gather_by(s, n, k, 4);
}
static uint64_t gather64(const IrState *s, const IrNative *n, unsigned k) {
  return gather_by(s, n, k, 8);
}

/* bt and its kin: the bit's number (in register `vector`) counts from the operand's start. */
static uint64_t bit(const IrState *s, const IrNative *n, unsigned k) {
  unsigned size = n->accesses[0].size;
  uint64_t number = state(s)->gpr[n->vector];
  int64_t wide = size == 2 ? (int16_t)number : size == 4 ? (int32_t)number : (int64_t)number;
  (void)k;
  return address(s, &n->accesses[0], (uint64_t)(wide >> 3) & ~(uint64_t)(size - 1));
}

/* xlat: [rbx + al] */
static uint64_t table(const IrState *s, const IrNative *n, unsigned k) {
  (void)k;
  return address(s, &n->accesses[0], state(s)->gpr[0] & 0xff);
}

static uint64_t cache_line(const IrState *s, const IrNative *n, unsigned k) {
  (void)k;
  return address(s, &n->accesses[0], 0) & ~63ull;
}

static void element_is(IrNative *n, uint64_t (*fn)(const IrState *, const IrNative *, unsigned),
                       unsigned count, unsigned size) {
  n->element = fn;
  n->n_elements = (uint8_t)count;
  n->span = fn == masked || fn == broadcast ? (uint8_t)(count * size) : 0;
  n->accesses[0].size = (uint16_t)size;
}

static uint8_t number(ZydisRegister reg) { return (uint8_t)ZydisRegisterGetId(reg); }

static bool has_k(const X64Decoded *d) {
  return d->insn.avx.mask.reg != ZYDIS_REGISTER_NONE && d->insn.avx.mask.reg != ZYDIS_REGISTER_K0;
}

static void mask_by(IrNative *n, unsigned kind, uint8_t reg, unsigned bytes) {
  n->mask = KIND(kind, bytes & 15);
  n->lane = reg;
}

static void vsib(const X64Decoded *d, const ZydisDecodedOperand *o, IrNative *n) {
  unsigned size = o->element_size / 8 ? o->element_size / 8 : o->size / 8;
  ZydisRegister index = o->mem.index;
  const char *name = ZydisMnemonicGetString(d->insn.mnemonic);
  size_t len = strlen(name);
  bool quad = name[len - 2] == 'q'; /* vpgatherqd, vgatherqps: the index before the element */
  if (name[len - 1] == 's' || (name[len - 1] == 'd' && name[len - 2] == 'p'))
    quad = name[len - 3] == 'q';
  unsigned bytes = quad ? 8 : 4, wide = d->insn.avx.vector_length / 8;
  unsigned count = wide / (size > bytes ? size : bytes);
  n->accesses[0].index = -1;
  n->vector = number(index);
  if (d->insn.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX)
    mask_by(n, MASK_K, number(d->insn.avx.mask.reg), size);
  else
    mask_by(n, MASK_VECTOR, number(d->ops[2].reg.value), size);
  element_is(n, quad ? gather64 : gather32, count, size);
}

/* The mask does not keep faults away: Intel SDM vol. 2, 2.8, exception classes that end in NF. */
static bool accesses_all(const X64Decoded *d) {
  switch (d->insn.meta.exception_class) {
  case ZYDIS_EXCEPTION_CLASS_E1NF:
  case ZYDIS_EXCEPTION_CLASS_E2NF:
  case ZYDIS_EXCEPTION_CLASS_E3NF:
  case ZYDIS_EXCEPTION_CLASS_E4NF:
  case ZYDIS_EXCEPTION_CLASS_E5NF:
  case ZYDIS_EXCEPTION_CLASS_E6NF:
  case ZYDIS_EXCEPTION_CLASS_E9NF:
  case ZYDIS_EXCEPTION_CLASS_E10NF:
  case ZYDIS_EXCEPTION_CLASS_E11NF: return true;
  default: break;
  }
  switch (d->insn.mnemonic) { /* E4 in Zydis 4.0 */
  case ZYDIS_MNEMONIC_VCVTNE2PS2BF16:
  case ZYDIS_MNEMONIC_VDBPSADBW:
  case ZYDIS_MNEMONIC_VGF2P8AFFINEQB:
  case ZYDIS_MNEMONIC_VGF2P8AFFINEINVQB: return true;
  default: return false;
  }
}

static void broadcasts(const X64Decoded *d, const ZydisDecodedOperand *o, IrNative *n) {
  static const struct {
    uint8_t from, to;
  } modes[] = {
      [ZYDIS_BROADCAST_MODE_1_TO_2] = {1, 2},   [ZYDIS_BROADCAST_MODE_1_TO_4] = {1, 4},
      [ZYDIS_BROADCAST_MODE_1_TO_8] = {1, 8},   [ZYDIS_BROADCAST_MODE_1_TO_16] = {1, 16},
      [ZYDIS_BROADCAST_MODE_1_TO_32] = {1, 32}, [ZYDIS_BROADCAST_MODE_1_TO_64] = {1, 64},
      [ZYDIS_BROADCAST_MODE_2_TO_4] = {2, 4},   [ZYDIS_BROADCAST_MODE_2_TO_8] = {2, 8},
      [ZYDIS_BROADCAST_MODE_2_TO_16] = {2, 16}, [ZYDIS_BROADCAST_MODE_4_TO_8] = {4, 8},
      [ZYDIS_BROADCAST_MODE_4_TO_16] = {4, 16}, [ZYDIS_BROADCAST_MODE_8_TO_16] = {8, 16},
  };
  unsigned from = modes[d->insn.avx.broadcast.mode].from;
  n->vector = modes[d->insn.avx.broadcast.mode].to;
  n->lane = number(d->insn.avx.mask.reg);
  element_is(n, broadcast, from, o->element_size / 8);
}

void x64_zeroes_line(IrNative *n) { element_is(n, cache_line, 1, 64); }

void x64_elements(const X64Decoded *d, const ZydisDecodedOperand *o, IrNative *n) {
  unsigned size = n->accesses[0].size;
  if (o->mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
    vsib(d, o, n);
    return;
  }
  switch (d->insn.mnemonic) {
  case ZYDIS_MNEMONIC_BT:
  case ZYDIS_MNEMONIC_BTC:
  case ZYDIS_MNEMONIC_BTR:
  case ZYDIS_MNEMONIC_BTS:
    if (d->ops[1].type != ZYDIS_OPERAND_TYPE_REGISTER) return;
    n->vector = number(d->ops[1].reg.value);
    element_is(n, bit, 1, size);
    return;
  case ZYDIS_MNEMONIC_XLAT:
    n->accesses[0].index = -1;
    element_is(n, table, 1, size);
    return;
  case ZYDIS_MNEMONIC_MASKMOVQ: return; /* MMX registers are not looked at: all eight bytes */
  case ZYDIS_MNEMONIC_MASKMOVDQU:
  case ZYDIS_MNEMONIC_VMASKMOVDQU:
    mask_by(n, MASK_VECTOR,
            number(d->ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                           d->ops[1].visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT
                       ? d->ops[1].reg.value
                       : d->ops[2].reg.value),
            1);
    element_is(n, masked, 16, 1);
    return;
  case ZYDIS_MNEMONIC_VMASKMOVPS:
  case ZYDIS_MNEMONIC_VMASKMOVPD:
  case ZYDIS_MNEMONIC_VPMASKMOVD:
  case ZYDIS_MNEMONIC_VPMASKMOVQ: {
    bool wide = d->insn.mnemonic == ZYDIS_MNEMONIC_VMASKMOVPD ||
                d->insn.mnemonic == ZYDIS_MNEMONIC_VPMASKMOVQ;
    mask_by(n, MASK_VECTOR, number(d->ops[1].reg.value), wide ? 8 : 4);
    element_is(n, masked, size / (wide ? 8 : 4), wide ? 8 : 4);
    return;
  }
  default: break;
  }
  if (d->insn.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX || !has_k(d) || accesses_all(d)) return;
  if (d->insn.avx.broadcast.mode) {
    broadcasts(d, o, n);
    return;
  }
  unsigned element = o->element_size / 8;
  if (!element || size <= element) { /* a scalar: the mask's first bit */
    mask_by(n, MASK_K, number(d->insn.avx.mask.reg), size);
    element_is(n, masked, 1, size);
    return;
  }
  bool packed = d->insn.meta.category == ZYDIS_CATEGORY_COMPRESS ||
                d->insn.meta.category == ZYDIS_CATEGORY_EXPAND;
  mask_by(n, packed ? MASK_PACKED : MASK_K, number(d->insn.avx.mask.reg), element);
  element_is(n, masked, size / element, element);
}
