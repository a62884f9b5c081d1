/* The generator of the x86-64 oracle (x64_oracle.h).
 *
 *   x64_oracle_gen forms STATES                   a job for each form of instruction (of seed 0)
 *   x64_oracle_gen [-x FILE] jobs SEED FIRST N STATES   jobs FIRST .. FIRST + N - 1
 *   x64_oracle_gen [-x FILE] show SEED FIRST N    their code as text
 *   x64_oracle_gen names FILE                     mnemonics that FILE, what the runner said of the forms, says the host
 *                                                 executes, and how many it does not
 *
 * Forms come from a sweep of the encoding space: prefix or VEX, EVEX, XOP and their fields, opcode,
 * register or memory operand; what Zydis decodes alike but for registers, addresses and immediates
 * is one form. -x: what the runner printed ("jobs") of the forms; those that are always illegal are
 * taken rarely.
 *
 * Left out, as they must differ or would end the program: see `excluded` and `is_excluded`. */
#include <Zydis/Zydis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "x64_oracle.h"

typedef enum Space { SPACE_LEGACY, SPACE_VEX, SPACE_EVEX, SPACE_XOP } Space;

typedef struct Form {
  uint8_t space, map, prefix, w, l, b, z, opcode, reg, rm;
  bool is_memory, is_legal;
  uint16_t mnemonic;
  uint64_t key;
} Form;

typedef struct Decoded {
  ZydisDecodedInstruction insn;
  ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
} Decoded;

enum { MAX_FORMS = 1 << 16, TABLE = 1 << 18 };
static Form forms[MAX_FORMS];
static size_t n_forms;
static uint32_t table[TABLE]; /* of keys: index in forms, plus 1 */
static uint32_t legal[MAX_FORMS], n_legal, illegal[MAX_FORMS], n_illegal;
static ZydisDecoder decoder;
static OracleRandom rng;

static void die(const char *what) {
  fprintf(stderr, "x64_oracle_gen: %s\n", what);
  exit(2);
}

static uint32_t below(uint32_t n) { return oracle_below(&rng, n); }
static bool one_in(uint32_t n) { return !below(n); }

/* ---- what is left out ------------------------------------------------------------------------ */

static const struct {
  ZydisMnemonic mnemonic;
  const char *why;
} excluded[] = {
    {ZYDIS_MNEMONIC_RDTSC, "time"},
    {ZYDIS_MNEMONIC_RDTSCP, "time"},
    {ZYDIS_MNEMONIC_RDPMC, "time"},
    {ZYDIS_MNEMONIC_RDPRU, "time"},
    {ZYDIS_MNEMONIC_RDRAND, "random"},
    {ZYDIS_MNEMONIC_RDSEED, "random"},
    {ZYDIS_MNEMONIC_RDPID, "which CPU"},
    {ZYDIS_MNEMONIC_LSL, "which CPU: the limit of a segment that Linux has for it"},
    {ZYDIS_MNEMONIC_CPUID, "the guest's own"},
    {ZYDIS_MNEMONIC_XGETBV, "the guest's own"},
    {ZYDIS_MNEMONIC_SYSCALL, "system calls have other judges"},
    {ZYDIS_MNEMONIC_SYSENTER, "32-bit system calls"},
    {ZYDIS_MNEMONIC_SYSRET, "kernel"},
    {ZYDIS_MNEMONIC_SYSEXIT, "kernel"},
    {ZYDIS_MNEMONIC_IRET, "could load any selector and leave 64-bit mode"},
    {ZYDIS_MNEMONIC_IRETD, "could load any selector and leave 64-bit mode"},
    {ZYDIS_MNEMONIC_IRETQ, "could load any selector and leave 64-bit mode"},
    {ZYDIS_MNEMONIC_LFS, "loads a selector"},
    {ZYDIS_MNEMONIC_LGS, "loads a selector"},
    {ZYDIS_MNEMONIC_LSS, "loads a selector"},
    {ZYDIS_MNEMONIC_XBEGIN, "transactions are hidden: aborts where the CPU would not know it"},
    {ZYDIS_MNEMONIC_XTEST, "transactions are hidden"},
    {ZYDIS_MNEMONIC_XEND, "transactions are hidden"},
    {ZYDIS_MNEMONIC_XABORT, "transactions are hidden"},
    {ZYDIS_MNEMONIC_MWAITX, "waits"},
    {ZYDIS_MNEMONIC_TPAUSE, "waits"},
    {ZYDIS_MNEMONIC_UMWAIT, "waits"},
    {ZYDIS_MNEMONIC_INT1, "the trap of debuggers: refused as illegal"},
    {ZYDIS_MNEMONIC_WRPKRU, "hidden: protection keys"},
    {ZYDIS_MNEMONIC_RDPKRU, "hidden: protection keys"},
    {ZYDIS_MNEMONIC_VMCALL, "the hypervisor's"},
    {ZYDIS_MNEMONIC_VMMCALL, "the hypervisor's"},
};

static bool writes_selector(const Decoded *d) {
  for (int i = 0; i < d->insn.operand_count; i++) {
    const ZydisDecodedOperand *o = &d->ops[i];
    if (o->type == ZYDIS_OPERAND_TYPE_REGISTER && (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
        (o->reg.value == ZYDIS_REGISTER_FS || o->reg.value == ZYDIS_REGISTER_GS ||
         o->reg.value == ZYDIS_REGISTER_SS))
      return true;
  }
  return false;
}

/* Vector instructions that take rsp as data: AMD's Zen 4 reads it without the push or call before
 * it, seen in `call rax; vpbroadcastq xmm5, rsp`. */
static bool broadcasts_rsp(const Decoded *d) {
  if (d->insn.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX) return false;
  for (int i = 0; i < d->insn.operand_count; i++)
    if (d->ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
        ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, d->ops[i].reg.value) ==
            ZYDIS_REGISTER_RSP)
      return true;
  return false;
}

/* Branches are in sequences only; `int 0x80` is a system call, `int 4` is refused as int1 is. */
static bool is_excluded(const Decoded *d) {
  switch (d->insn.meta.category) {
  case ZYDIS_CATEGORY_CALL:
  case ZYDIS_CATEGORY_COND_BR:
  case ZYDIS_CATEGORY_RET:
  case ZYDIS_CATEGORY_UNCOND_BR: return true;
  default: break;
  }
  if (d->insn.mnemonic == ZYDIS_MNEMONIC_INT &&
      (d->ops[0].imm.value.u == 0x80 || d->ops[0].imm.value.u == 4))
    return true;
  for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
    if (d->insn.mnemonic == excluded[i].mnemonic) return true;
  return writes_selector(d) || broadcasts_rsp(d);
}

/* ---- forms ----------------------------------------------------------------------------------- */

static bool decode(const uint8_t *code, size_t len, Decoded *d) {
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, len, &d->insn, d->ops));
}

static uint64_t add_key(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9fb21c651e98df25;
  return h ^ h >> 32;
}

/* What is alike in all instances of a form. */
static uint64_t key_of(const Decoded *d) {
  const ZydisDecodedInstruction *i = &d->insn;
  ZydisInstructionAttributes kinds =
      ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;
  uint64_t h = add_key(1, i->mnemonic);
  h = add_key(h, (uint64_t)i->encoding << 24 | (uint64_t)i->opcode_map << 16 | i->opcode);
  h = add_key(h, i->attributes & kinds);
  h = add_key(h, (uint64_t)i->operand_width << 16 | i->avx.vector_length);
  h = add_key(h, (uint64_t)i->avx.broadcast.mode << 16 | (uint64_t)i->avx.rounding.mode << 8 |
                     i->avx.has_sae);
  h = add_key(h, i->avx.mask.mode == ZYDIS_MASK_MODE_ZEROING ||
                     i->avx.mask.mode == ZYDIS_MASK_MODE_CONTROL_ZEROING);
  for (int k = 0; k < i->operand_count; k++) {
    const ZydisDecodedOperand *o = &d->ops[k];
    bool is_address = o->type == ZYDIS_OPERAND_TYPE_MEMORY;
    h = add_key(h, (uint64_t)o->type << 32 | (uint64_t)o->size << 8 |
                       (is_address ? (unsigned)o->mem.type : 0));
    if (o->type == ZYDIS_OPERAND_TYPE_REGISTER &&
        o->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
      h = add_key(h, ZydisRegisterGetClass(o->reg.value));
  }
  return h;
}

static void add_form(Form *f, const Decoded *d) {
  f->key = key_of(d);
  f->mnemonic = (uint16_t)d->insn.mnemonic;
  size_t at = f->key % TABLE;
  while (table[at] && forms[table[at] - 1].key != f->key) at = (at + 1) % TABLE;
  if (table[at]) return;
  if (n_forms == MAX_FORMS) die("too many forms");
  forms[n_forms++] = *f;
  table[at] = (uint32_t)n_forms;
}

/* Fields of an instance; a form's own with the rest at rest. */
typedef struct Fields {
  uint8_t r, x, b, r2, v, v2, aaa, reg, rm; /* extensions are as they are meant, not inverted */
  uint8_t mod, sib;
  bool rex; /* even if it says nothing */
  uint8_t prefixes[3], n_prefixes;
} Fields;

static size_t put_head(const Form *f, const Fields *s, uint8_t *out) {
  static const uint8_t mandatory[] = {0, 0x66, 0xf3, 0xf2};
  size_t n = 0;
  unsigned r = !s->r, x = !s->x, b = !s->b, r2 = !s->r2, v = ~s->v & 15u, v2 = !s->v2;
  for (int i = 0; i < s->n_prefixes; i++) out[n++] = s->prefixes[i];
  switch (f->space) {
  case SPACE_LEGACY:
    if (f->prefix) out[n++] = mandatory[f->prefix];
    if (f->w || s->r || s->x || s->b || s->rex)
      out[n++] = (uint8_t)(0x40 | f->w << 3 | s->r << 2 | s->x << 1 | s->b);
    if (f->map) out[n++] = 0x0f;
    if (f->map > 1) out[n++] = f->map == 2 ? 0x38 : 0x3a;
    break;
  case SPACE_VEX:
    if (f->map == 1 && !f->w && x && b && s->rex) {
      out[n++] = 0xc5, out[n++] = (uint8_t)(r << 7 | v << 3 | f->l << 2 | f->prefix);
      break;
    } /* fall through */
  case SPACE_XOP:
    out[n++] = f->space == SPACE_VEX ? 0xc4 : 0x8f;
    out[n++] = (uint8_t)(r << 7 | x << 6 | b << 5 | f->map);
    out[n++] = (uint8_t)(f->w << 7 | v << 3 | f->l << 2 | f->prefix);
    break;
  default:
    out[n++] = 0x62;
    out[n++] = (uint8_t)(r << 7 | x << 6 | b << 5 | r2 << 4 | f->map);
    out[n++] = (uint8_t)(f->w << 7 | v << 3 | 4 | f->prefix);
    out[n++] = (uint8_t)(f->z << 7 | f->l << 5 | f->b << 4 | v2 << 3 | s->aaa);
  }
  out[n++] = f->opcode;
  return n;
}

/* The instance; what follows the opcode's and address's bytes is random. Returns its length, 0: not this form. */
static size_t put_instance(const Form *f, const Fields *s, uint8_t *out, Decoded *d) {
  size_t n = put_head(f, s, out);
  out[n++] = (uint8_t)(s->mod << 6 | s->reg << 3 | s->rm);
  if (s->mod < 3 && s->rm == 4) out[n++] = s->sib;
  for (size_t i = n; i < n + 8 && i < 24; i++) out[i] = (uint8_t)oracle_random(&rng);
  if (n > 14 || !decode(out, 24, d)) return 0;
  return d->insn.length;
}

static void try_form(Form f) {
  Decoded d;
  uint8_t code[32];
  Fields s = {.reg = f.reg, .rm = f.is_memory ? 3 : f.rm, .mod = f.is_memory ? 0 : 3, .aaa = f.z};
  for (int way = 0; way < 3;
       way++) { /* masks are a must for some, and an index of vectors for others */
    if (way == 1) s.aaa = 1;
    if (way == 2) s.rm = 4, s.sib = 0x0b;
    if (way == 2 && !f.is_memory) return;
    if (way && f.space == SPACE_LEGACY) return;
    if (put_instance(&f, &s, code, &d) && !is_excluded(&d)) {
      add_form(&f, &d);
      return;
    }
  }
}

/* Opcodes whose register form uses all of modrm. */
static bool has_rm_opcode(const Form *f) {
  if (f->space != SPACE_LEGACY) return false;
  if (f->map == 0) return f->opcode >= 0xd8 && f->opcode <= 0xdf;
  return f->map == 1 &&
         (f->opcode <= 1 || f->opcode == 0x1e || f->opcode == 0xae || f->opcode == 0xc7);
}

static void sweep_modrm(Form f) {
  for (f.reg = 0; f.reg < 8; f.reg++) {
    f.is_memory = true, f.rm = 0;
    try_form(f);
    f.is_memory = false;
    for (f.rm = 0; f.rm < (has_rm_opcode(&f) ? 8 : 1); f.rm++) try_form(f);
  }
}

static bool is_prefix(const Form *f) {
  uint8_t o = f->opcode;
  return f->space == SPACE_LEGACY && f->map == 0 &&
         (o == 0x0f || (o & 0xe7) == 0x26 || (o & 0xf0) == 0x40 || o == 0x62 ||
          (o >= 0x64 && o <= 0x67) || o == 0xc4 || o == 0xc5 || o == 0xf0 || o == 0xf2 ||
          o == 0xf3);
}

static void sweep_opcodes(Form f) {
  for (unsigned o = 0; o < 256; o++) {
    f.opcode = (uint8_t)o;
    if (!is_prefix(&f)) sweep_modrm(f);
  }
}

static void find_forms(void) {
  rng.state = 0;
  for (uint8_t map = 0; map < 4; map++)
    for (uint8_t p = 0; p < 4; p++)
      for (uint8_t w = 0; w < 2; w++)
        sweep_opcodes((Form){.space = SPACE_LEGACY, .map = map, .prefix = p, .w = w});
  for (uint8_t map = 1; map < 4; map++)
    for (uint8_t p = 0; p < 4; p++)
      for (uint8_t wl = 0; wl < 4; wl++)
        sweep_opcodes(
            (Form){.space = SPACE_VEX, .map = map, .prefix = p, .w = wl & 1, .l = wl >> 1});
  for (uint8_t map = 1; map < 7; map++)
    for (uint8_t p = 0; p < 4; p++)
      for (uint8_t bits = 0; bits < 32; bits++)
        if (map != 4)
          sweep_opcodes((Form){.space = SPACE_EVEX,
                               .map = map,
                               .prefix = p,
                               .w = bits & 1,
                               .b = bits >> 1 & 1,
                               .z = bits >> 2 & 1,
                               .l = bits >> 3});
  for (uint8_t map = 8; map < 11; map++)
    for (uint8_t wl = 0; wl < 4; wl++)
      sweep_opcodes((Form){.space = SPACE_XOP, .map = map, .w = wl & 1, .l = wl >> 1});
}

/* ---- instances ------------------------------------------------------------------------------- */

static void random_address(const Form *f, Fields *s) {
  static const uint8_t segments[] = {0x64, 0x65, 0x64, 0x65, 0x64, 0x65, 0x2e, 0x36, 0x3e, 0x26};
  if (one_in(8)) s->prefixes[s->n_prefixes++] = segments[below(sizeof segments)];
  if (one_in(16)) s->prefixes[s->n_prefixes++] = 0x67;
  s->mod = (uint8_t)below(3);
  s->rm = (uint8_t)below(8);
  s->sib = (uint8_t)oracle_random(&rng);
  (void)f;
}

static void random_fields(const Form *f, Fields *s) {
  uint64_t v = oracle_random(&rng);
  *s = (Fields){.r = v & 1,
                .x = v >> 1 & 1,
                .b = v >> 2 & 1,
                .r2 = v >> 3 & 1,
                .v = v >> 4 & 15,
                .v2 = v >> 8 & 1,
                .aaa = v >> 9 & 7,
                .reg = v >> 12 & 7,
                .rm = v >> 15 & 7,
                .mod = 3,
                .rex = v >> 18 & 1};
  if (v >> 19 & 1) s->v = 0, s->v2 = 0;
  if (v >> 20 & 1) s->reg = f->reg;
  if (v >> 21 & 1) s->rm = f->rm;
  if (v >> 22 & 1) s->r2 = s->r;
  if (f->space == SPACE_EVEX && v >> 23 & 1) s->aaa = f->z;
  if (f->space == SPACE_LEGACY && v >> 24 & 1) s->r = s->x = s->b = 0;
  if (f->is_memory) random_address(f, s);
  if (f->space == SPACE_LEGACY && f->is_memory && one_in(3)) s->prefixes[s->n_prefixes++] = 0xf0;
}

static int gpr_number(ZydisRegister reg) {
  ZydisRegister full = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  if (full < ZYDIS_REGISTER_RAX || full > ZYDIS_REGISTER_R15) return -1;
  return full - ZYDIS_REGISTER_RAX;
}

/* A sequence in the making. */
typedef struct Maker {
  OracleJob *job;
  uint64_t at;      /* where the next instruction is */
  uint32_t written; /* registers */
  bool is_sequence;
} Maker;

static const OracleFix *fix_of(const OracleJob *job, int reg, bool is_vector) {
  for (int i = 0; i < job->n_fixes; i++)
    if (job->fixes[i].reg == reg && (job->fixes[i].kind >= FIX_INDEX32) == is_vector)
      return &job->fixes[i];
  return NULL;
}

/* false: it contradicts another. */
static bool add_fix(Maker *m, int reg, unsigned kind, unsigned align, int64_t add) {
  bool is_vector = kind >= FIX_INDEX32;
  const OracleFix *old = fix_of(m->job, reg, is_vector);
  if (old && old->kind == kind && kind == FIX_POINTER) return llabs(add - old->add) <= 64;
  if (old) return old->kind == kind;
  if (!is_vector && m->written >> reg & 1) return false;
  if (m->job->n_fixes == ORACLE_FIXES || add != (int32_t)add) return false;
  m->job->fixes[m->job->n_fixes++] = (OracleFix){.reg = (uint8_t)reg,
                                                 .kind = (uint8_t)kind,
                                                 .align = (uint8_t)(align > 64 ? 64 : align),
                                                 .add = (int32_t)add};
  return true;
}

static bool is_bit_test(ZydisMnemonic m) {
  return m == ZYDIS_MNEMONIC_BT || m == ZYDIS_MNEMONIC_BTS || m == ZYDIS_MNEMONIC_BTR ||
         m == ZYDIS_MNEMONIC_BTC;
}

static bool fix_index(Maker *m, const Decoded *d, const ZydisDecodedOperand *o) {
  if (o->mem.index == ZYDIS_REGISTER_NONE) return true;
  if (o->mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
    int reg = ZydisRegisterGetId(o->mem.index);
    ZydisMnemonic n = d->insn.mnemonic;
    const char *name = ZydisMnemonicGetString(n);
    bool is_64 =
        strchr(name, 'q') && (strstr(name, "qd") || strstr(name, "qq") || strstr(name, "qp"));
    return add_fix(m, reg, is_64 ? FIX_INDEX64 : FIX_INDEX32, 0, 0);
  }
  return add_fix(m, gpr_number(o->mem.index), FIX_INDEX, 0, 0);
}

/* An address without a register: the displacement in the code is made to point into the window. */
static void patch_displacement(const Maker *m, const Decoded *d, uint8_t *code, bool is_relative) {
  uint64_t to = ORACLE_MIDDLE + below(64);
  uint8_t at = d->insn.raw.disp.offset, size = d->insn.raw.disp.size / 8;
  if (one_in(32) || size < 4) return;
  if (!one_in(8)) to &= ~15ull;
  if (is_relative) to -= m->at + d->insn.length;
  memcpy(code + at, &to, size);
}

static bool fix_memory(Maker *m, const Decoded *d, const ZydisDecodedOperand *o, uint8_t *code) {
  bool touches = o->actions & (ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_MASK_WRITE);
  if (o->mem.type == ZYDIS_MEMOP_TYPE_AGEN || o->mem.type == ZYDIS_MEMOP_TYPE_INVALID || !touches)
    return true;
  unsigned align = 1;
  while (align < 64 && align * 8 < o->size) align *= 2;
  if (!fix_index(m, d, o)) return false;
  bool has_base = o->mem.base != ZYDIS_REGISTER_NONE && gpr_number(o->mem.base) >= 0;
  if (o->mem.segment == ZYDIS_REGISTER_FS || o->mem.segment == ZYDIS_REGISTER_GS) {
    int segment = o->mem.segment == ZYDIS_REGISTER_FS ? ORACLE_FS : ORACLE_GS;
    if (o->mem.base == ZYDIS_REGISTER_RIP || o->mem.disp.value != (int32_t)o->mem.disp.value)
      return !m->is_sequence;
    if (has_base && !add_fix(m, gpr_number(o->mem.base), FIX_INDEX, 0, 0)) return false;
    return add_fix(m, segment, FIX_POINTER, align, o->mem.disp.value);
  }
  if (has_base) return add_fix(m, gpr_number(o->mem.base), FIX_POINTER, align, o->mem.disp.value);
  patch_displacement(m, d, code,
                     o->mem.base == ZYDIS_REGISTER_RIP || o->mem.base == ZYDIS_REGISTER_EIP);
  return true;
}

static bool is_popf(ZydisMnemonic m) {
  return m == ZYDIS_MNEMONIC_POPF || m == ZYDIS_MNEMONIC_POPFQ || m == ZYDIS_MNEMONIC_POPFD;
}

static unsigned image_of(const Decoded *d) {
  switch (d->insn.mnemonic) {
  case ZYDIS_MNEMONIC_FXSAVE:
  case ZYDIS_MNEMONIC_FXSAVE64: return IMAGE_FXSAVE;
  case ZYDIS_MNEMONIC_XSAVE:
  case ZYDIS_MNEMONIC_XSAVE64:
  case ZYDIS_MNEMONIC_XSAVEC:
  case ZYDIS_MNEMONIC_XSAVEC64:
  case ZYDIS_MNEMONIC_XSAVEOPT:
  case ZYDIS_MNEMONIC_XSAVEOPT64: return IMAGE_XSAVE;
  case ZYDIS_MNEMONIC_FNSAVE:
  case ZYDIS_MNEMONIC_FNSTENV: return d->insn.operand_width == 16 ? IMAGE_ENV16 : IMAGE_ENV;
  default: return IMAGE_NONE;
  }
}

/* Where an image (IMAGE_*) goes must be known: [register + displacement]. */
static bool image_is_placed(const OracleJob *job, const Decoded *d) {
  const ZydisDecodedOperandMem *m = &d->ops[0].mem;
  return job->n_fixes && job->fixes[0].kind == FIX_POINTER && m->index == ZYDIS_REGISTER_NONE &&
         m->segment != ZYDIS_REGISTER_FS && m->segment != ZYDIS_REGISTER_GS;
}

static bool fix_operands(Maker *m, const Decoded *d, uint8_t *code) {
  bool repeats =
      d->insn.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
  bool has_memory = false;
  for (int i = 0; i < d->insn.operand_count; i++)
    if (d->ops[i].type == ZYDIS_OPERAND_TYPE_MEMORY) {
      has_memory = true;
      if (!fix_memory(m, d, &d->ops[i], code)) return false;
    }
  if (repeats && !add_fix(m, 1, FIX_COUNT, 0, 0)) return false;
  /* When both of cmps's operands fault, which one is told depends on whether it repeats. */
  bool compares =
      repeats && d->insn.operand_count > 1 && d->ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
      d->ops[1].type == ZYDIS_OPERAND_TYPE_MEMORY && d->ops[0].actions == ZYDIS_OPERAND_ACTION_READ;
  for (int i = 0; compares && i < m->job->n_fixes; i++)
    if (m->job->fixes[i].reg == 7) m->job->fixes[i].is_middle = true;
  if (is_bit_test(d->insn.mnemonic) && has_memory &&
      d->ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER && !one_in(32))
    if (!add_fix(m, gpr_number(d->ops[1].reg.value), FIX_BITS, 0, 0)) return false;
  return true;
}

/* Registers written; false: one of them must keep its value for a later run of a sequence. */
static bool note_written(Maker *m, const Decoded *d) {
  uint32_t written = 0;
  for (int i = 0; i < d->insn.operand_count; i++) {
    const ZydisDecodedOperand *o = &d->ops[i];
    if (o->type != ZYDIS_OPERAND_TYPE_REGISTER || !(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
      continue;
    int reg = gpr_number(o->reg.value);
    if (reg < 0 || (reg == 4 && o->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN)) continue;
    written |= 1u << reg;
  }
  if (m->is_sequence && written >> 4 & 1) return false;
  m->written |= written;
  return true;
}

/* Those that would make what follows them senseless. */
static bool is_for_sequences(const Decoded *d) {
  ZydisInstructionCategory c = d->insn.meta.category;
  return !is_popf(d->insn.mnemonic) && !image_of(d) && d->insn.mnemonic != ZYDIS_MNEMONIC_ENTER &&
         d->insn.mnemonic != ZYDIS_MNEMONIC_LEAVE &&
         d->insn.mnemonic != ZYDIS_MNEMONIC_CLZERO /* rax may be a code address by then */ &&
         c != ZYDIS_CATEGORY_INTERRUPT && c != ZYDIS_CATEGORY_SYSTEM;
}

static void season_enter(const Decoded *d, uint8_t *code) {
  if (d->insn.mnemonic != ZYDIS_MNEMONIC_ENTER) return;
  uint8_t *imm = code + d->insn.raw.imm[0].offset;
  if (!one_in(8)) imm[1] = 0, imm[2] &= 3;
}

/* Appends an instance of a form; false: none found that fits. */
static bool add_instance(Maker *m, const Form *f, int tries) {
  OracleJob *job = m->job;
  while (tries-- > 0) {
    Decoded d;
    Fields s;
    uint8_t code[32];
    OracleJob before = *job;
    uint32_t written = m->written;
    random_fields(f, &s);
    size_t n = put_instance(f, &s, code, &d);
    if (!n || key_of(&d) != f->key || is_excluded(&d) || job->len + n > ORACLE_CODE_MAX) continue;
    if (m->is_sequence && !is_for_sequences(&d)) return false;
    season_enter(&d, code);
    if (fix_operands(m, &d, code) && note_written(m, &d) &&
        (!image_of(&d) || image_is_placed(job, &d))) {
      if (!m->is_sequence)
        job->image = (uint8_t)image_of(&d), job->no_trap = is_popf(d.insn.mnemonic);
      memcpy(job->code + job->len, code, n);
      job->len = (uint8_t)(job->len + n), job->n_insns++, m->at += n;
      return true;
    }
    *job = before, m->written = written;
  }
  return false;
}

static const Form *random_form(void) {
  if (n_illegal && one_in(64)) return &forms[illegal[below(n_illegal)]];
  return &forms[legal[below(n_legal)]];
}

/* ---- branches -------------------------------------------------------------------------------- */

static void add_bytes(Maker *m, const void *bytes, size_t n) {
  memcpy(m->job->code + m->job->len, bytes, n);
  m->job->len = (uint8_t)(m->job->len + n), m->at += n, m->job->n_insns++;
}

static bool is_free(const Maker *m, int reg) { return !fix_of(m->job, reg, false); }

/* A branch forwards over an instruction, or a loop around it. */
static void add_around(Maker *m) {
  uint8_t choice = (uint8_t)below(8), head[8] = {0};
  size_t len = choice < 3 ? 2 : choice < 5 ? 6 : choice == 5 ? 2 : choice == 6 ? 3 : 5;
  if (m->job->len + len + 20 > ORACLE_CODE_MAX || (choice == 7 && !is_free(m, 1))) return;
  Maker before = *m;
  OracleJob job = *m->job;
  uint8_t start = m->job->len;
  if (choice < 3)
    head[0] = (uint8_t)(0x70 | below(16));
  else if (choice < 5)
    head[0] = 0x0f, head[1] = (uint8_t)(0x80 | below(16));
  else if (choice == 5)
    head[0] = (uint8_t)(0xe0 | below(4)); /* loopne loope loop jrcxz, forwards */
  else if (choice == 6)
    head[0] = 0x67, head[1] = 0xe3;
  else
    head[0] = 0xb9, head[1] = (uint8_t)(1 + below(5));
  add_bytes(m, head, len);
  uint32_t written = m->written;
  if (choice == 7)
    m->written = 0; /* what a loop's body writes must not count it or be its pointers */
  bool done = add_instance(m, random_form(), 16);
  if (choice == 7 && (m->written || !is_free(m, 1))) done = false;
  m->written |= written | (choice == 7 ? 2 : 0);
  if (!done) {
    *m = before, *m->job = job;
    return;
  }
  uint8_t body = (uint8_t)(m->job->len - start - len);
  if (choice == 5) m->written |= 2;
  if (choice < 7)
    m->job->code[start + (choice < 3 ? 1 : choice < 5 ? 2 : choice - 4)] = body;
  else
    add_bytes(m, (uint8_t[]){0xe2, (uint8_t)(0u - body - 2u)}, 2);
}

/* Calls, returns, jumps through a register and memory; all use rax and the stack. */
static void add_transfer(Maker *m) {
  static const struct {
    const char *what;
    uint8_t len, code[20];
  } ways[] = {
      {"call over a jump to a ret, which returns to the jump",
       8,
       {0xe8, 2, 0, 0, 0, 0xeb, 1, 0xc3}},
      {"lea; jmp rax", 11, {0x48, 0x8d, 0x05, 4, 0, 0, 0, 0xff, 0xe0, 0x0f, 0x0b}},
      {"lea; notrack jmp rax", 12, {0x48, 0x8d, 0x05, 5, 0, 0, 0, 0x3e, 0xff, 0xe0, 0x0f, 0x0b}},
      {"lea; push; ret", 11, {0x48, 0x8d, 0x05, 4, 0, 0, 0, 0x50, 0xc3, 0x0f, 0x0b}},
      {"lea; push; ret 16", 13, {0x48, 0x8d, 0x05, 6, 0, 0, 0, 0x50, 0xc2, 16, 0, 0x0f, 0x0b}},
      {"lea; push; jmp [rsp]",
       13,
       {0x48, 0x8d, 0x05, 6, 0, 0, 0, 0x50, 0xff, 0x24, 0x24, 0x0f, 0x0b}},
      {"lea; call rax", 11, {0x48, 0x8d, 0x05, 4, 0, 0, 0, 0xff, 0xd0, 0x0f, 0x0b}},
      {"lea; push; call [rsp]",
       13,
       {0x48, 0x8d, 0x05, 6, 0, 0, 0, 0x50, 0xff, 0x14, 0x24, 0x0f, 0x0b}},
      {"call next; pop", 6, {0xe8, 0, 0, 0, 0, 0x58}},
      {"jmp next", 2, {0xeb, 0}},
      {"jmp next", 5, {0xe9, 0, 0, 0, 0}},
      {"pushf; popf", 2, {0x9c, 0x9d}},
      {"call (66 ignored) next", 6, {0x48, 0xe8, 0, 0, 0, 0}},
  };
  unsigned way = below(sizeof ways / sizeof *ways);
  if (!is_free(m, 0) || m->job->len + ways[way].len > ORACLE_CODE_MAX) return;
  m->written |= 1;
  add_bytes(m, ways[way].code, ways[way].len);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* A stack that works, unless an instruction has other wishes. */
static void add_stack(Maker *m) {
  if (fix_of(m->job, 4, false) || (!m->is_sequence && one_in(4))) return;
  if (m->written >> 4 & 1 || m->job->n_fixes == ORACLE_FIXES) return;
  m->job->fixes[m->job->n_fixes++] = (OracleFix){
      .reg = 4, .kind = FIX_POINTER, .align = one_in(2) ? 16 : 8, .is_middle = m->is_sequence};
}

static void make_sequence(Maker *m) {
  m->is_sequence = true;
  add_fix(m, 4, FIX_POINTER, 16, 0);
  m->job->fixes[0].is_middle = true;
  unsigned n = 2 + below(7);
  for (unsigned i = 0; i < n; i++) {
    unsigned choice = below(16);
    if (choice < 3)
      add_around(m);
    else if (choice == 3)
      add_transfer(m);
    else
      add_instance(m, random_form(), 16);
  }
  if (!m->job->n_insns) add_bytes(m, "\x90", 1);
}

static void begin_job(OracleJob *job, Maker *m, uint64_t seed, uint32_t index, uint16_t states) {
  rng.state = seed * 0x9fb21c651e98df25 + index * 0x9e3779b97f4a7c15;
  for (int i = 0; i < 4; i++) oracle_random(&rng);
  *job = (OracleJob){.index = index, .states = states, .seed = oracle_random(&rng)};
  job->start = (uint8_t)(one_in(4) ? below(40) : 50 - below(12));
  if (job->start > ORACLE_SLOT - ORACLE_CODE_MAX - 5)
    job->start = ORACLE_SLOT - ORACLE_CODE_MAX - 5;
  *m = (Maker){.job = job, .at = oracle_slot(index) + job->start};
}

static void finish_single(Maker *m) {
  add_stack(m);
  if (m->job->no_trap)
    for (int i = 0; i < m->job->n_fixes; i++)
      if (m->job->fixes[i].reg == 4) m->job->fixes[i].is_middle = true, m->job->fixes[i].align = 8;
}

/* Half of the jobs go through all forms that the host executes, again and again. */
static void make_job(OracleJob *job, uint64_t seed, uint32_t index, uint16_t states) {
  Maker m;
  begin_job(job, &m, seed, index, states);
  if (index % 2) {
    job->form = 0xffff;
    make_sequence(&m);
    return;
  }
  const Form *f = one_in(64) ? random_form() : &forms[legal[(index / 2 + seed * 7919) % n_legal]];
  while (!add_instance(&m, f, 64)) f = random_form();
  job->form = (uint16_t)(f - forms);
  finish_single(&m);
}

static void make_form_job(OracleJob *job, uint32_t form, uint16_t states) {
  Maker m;
  begin_job(job, &m, 0, form, states);
  job->form = (uint16_t)form;
  if (!add_instance(&m, &forms[form], 4096)) {
    fprintf(stderr, "x64_oracle_gen: no instance of form %u (%s)\n", form,
            ZydisMnemonicGetString(forms[form].mnemonic));
    add_bytes(&m, "\x0f\x0b", 2);
  }
  finish_single(&m);
}

/* ---- what the host executes ------------------------------------------------------------------ */

static void read_verdicts(const char *path) {
  char line[160];
  unsigned job, form;
  unsigned long signals;
  FILE *f = path ? fopen(path, "r") : NULL;
  if (path && !f) die(path);
  for (size_t i = 0; i < n_forms; i++) forms[i].is_legal = !f;
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "job %u form %u signals %lx", &job, &form, &signals) == 3 && form < n_forms)
      forms[form].is_legal = signals != 1 << 4;
  if (f) fclose(f);
  for (uint32_t i = 0; i < n_forms; i++)
    if (forms[i].is_legal)
      legal[n_legal++] = i;
    else
      illegal[n_illegal++] = i;
  if (!n_legal) die("nothing is legal");
}

static void show_job(const OracleJob *job) {
  ZydisFormatter formatter;
  uint64_t pc = oracle_slot(job->index) + job->start;
  ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
  printf("job %u form %u seed %lx\n", job->index, job->form, job->seed);
  for (size_t i = 0; i < job->n_fixes; i++)
    printf("  fix reg %u kind %u align %u add %d\n", job->fixes[i].reg, job->fixes[i].kind,
           job->fixes[i].align, job->fixes[i].add);
  for (size_t i = 0; i < job->len;) {
    Decoded d;
    char text[128] = "?";
    size_t n = 1;
    if (decode(job->code + i, job->len - i, &d)) {
      n = d.insn.length;
      ZydisFormatterFormatInstruction(&formatter, &d.insn, d.ops, d.insn.operand_count_visible,
                                      text, sizeof text, pc + i, NULL);
    }
    printf("  %lx ", pc + i);
    for (size_t k = 0; k < n; k++) printf("%02x", job->code[i + k]);
    printf("  %s\n", text);
    i += n;
  }
}

static void show_names(void) {
  static bool is_legal[ZYDIS_MNEMONIC_MAX_VALUE + 1], is_known[ZYDIS_MNEMONIC_MAX_VALUE + 1];
  unsigned n = 0, known = 0;
  for (size_t i = 0; i < n_forms; i++) {
    is_known[forms[i].mnemonic] = true;
    if (forms[i].is_legal) is_legal[forms[i].mnemonic] = true;
  }
  for (int i = 0; i <= ZYDIS_MNEMONIC_MAX_VALUE; i++) {
    n += is_legal[i], known += is_known[i];
    if (!is_known[i] && i) printf("- %s\n", ZydisMnemonicGetString((ZydisMnemonic)i));
    if (is_known[i])
      printf("%s %s\n", is_legal[i] ? "+" : "?", ZydisMnemonicGetString((ZydisMnemonic)i));
  }
  printf("%zu forms, %u executed; %u mnemonics, %u executed, %u of Zydis's not in forms\n", n_forms,
         n_legal, known, n, ZYDIS_MNEMONIC_MAX_VALUE - known);
}

int main(int argc, char **argv) {
  const char *verdicts = NULL;
  OracleJob job;
  if (argc > 2 && !strcmp(argv[1], "-x")) verdicts = argv[2], argv += 2, argc -= 2;
  if (argc > 2 && !strcmp(argv[1], "names")) verdicts = argv[2];
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  find_forms();
  read_verdicts(verdicts);
  if (argc == 3 && !strcmp(argv[1], "names")) return show_names(), 0;
  if (argc == 3 && !strcmp(argv[1], "forms")) {
    for (uint32_t i = 0; i < n_forms; i++)
      make_form_job(&job, i, (uint16_t)atoi(argv[2])), fwrite(&job, sizeof job, 1, stdout);
    return 0;
  }
  if (argc < 5) die("usage: [-x FILE] jobs|show SEED FIRST N [STATES]");
  uint64_t seed = strtoull(argv[2], NULL, 0);
  uint32_t first = (uint32_t)atoi(argv[3]), n = (uint32_t)atoi(argv[4]);
  for (uint32_t i = first; i < first + n; i++) {
    make_job(&job, seed, i, (uint16_t)(argc > 5 ? atoi(argv[5]) : 1));
    if (!strcmp(argv[1], "jobs"))
      fwrite(&job, sizeof job, 1, stdout);
    else
      show_job(&job);
  }
  return 0;
}
