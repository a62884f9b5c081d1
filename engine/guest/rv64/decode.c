/* Decoding. The bit strings of insns.def become mask and value; rows are found through a table by
 * the encoding's low bits. Operands come from fixed places by major opcode (unprivileged ISA,
 * chapter 24, "Base Instruction Formats"), or by format for compressed instructions. */
#include <pthread.h>
#include <string.h>

#include "guest/rv64/rv64.h"

typedef enum Rv64Format {
  CNONE,
  CIW,
  CLD,
  CLW,
  CSD,
  CSW,
  CI,
  CI_NZ,
  CLI,
  CI16SP,
  CLUI,
  CSH,
  CBI,
  CA,
  CJ,
  CB,
  CSLLI,
  CLDSP,
  CLWSP_NZ,
  CLDSP_NZ,
  CJR,
  CMV,
  CJALR,
  CADD,
  CSDSP,
  CSWSP,
} Rv64Format;

const Rv64Row rv64_rows[RV64_ROWS] = {
#define INSN(name, bits, ext, operands, branch)                                                    \
  [RV64_##name] = {#name, bits, #ext, operands, RV64_BR_##branch, 0, RV64_##name, rv64_lift_##name},
#define COMPRESSED(name, bits, format, base)                                                       \
  [RV64_##name] = {#name, bits, "C", NULL, 0, format, RV64_##base, rv64_lift_##base},
#include "guest/rv64/insns.def"
};

/* ---- finding the row ------------------------------------------------------------------------- */

typedef struct Entry {
  uint32_t mask, value;
  uint16_t id;
  bool has_rm, has_shift;
} Entry;

/* Lists ended by mask 0: of 32-bit rows by opcode (bits 6..2) and funct3, of compressed ones by
 * quadrant and funct3. A row that leaves funct3 open is in several. */
enum { WIDE_BUCKETS = 32 * 8, BUCKETS = WIDE_BUCKETS + 3 * 8, BUCKET_MAX = 48 };
static Entry buckets[BUCKETS][BUCKET_MAX];

static uint32_t bucket_of(uint32_t raw) {
  if ((raw & 3) == 3) return (raw >> 2 & 31) << 3 | (raw >> 12 & 7);
  return WIDE_BUCKETS + ((raw & 3) << 3 | (raw >> 13 & 7));
}

static void add_row(uint16_t id) {
  const char *bits = rv64_rows[id].bits;
  Entry e = {.id = id, .has_rm = strchr(bits, 'm') != NULL, .has_shift = strchr(bits, 'h') != NULL};
  for (const char *p = bits; *p; p++) {
    e.mask = e.mask << 1 | (*p == '0' || *p == '1');
    e.value = e.value << 1 | (*p == '1');
  }
  bool wide = (e.value & 3) == 3;
  for (uint32_t funct3 = 0; funct3 < 8; funct3++) {
    uint32_t raw = e.value | (wide ? funct3 << 12 : funct3 << 13);
    if ((raw & e.mask) != e.value) continue;
    Entry *bucket = buckets[bucket_of(raw)];
    while (bucket->mask) bucket++;
    *bucket = e;
  }
}

static void build(void) {
  /* A row that is cut out of a more general one has more fixed bits: it must be found first. */
  for (int fixed = 32; fixed > 0; fixed--)
    for (uint16_t id = 0; id < RV64_ROWS; id++) {
      int n = 0;
      for (const char *p = rv64_rows[id].bits; *p; p++) n += *p == '0' || *p == '1';
      if (n == fixed) add_row(id);
    }
}

static const Entry *find(uint32_t raw) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, build);
  for (const Entry *e = buckets[bucket_of(raw)]; e->mask; e++)
    if ((raw & e->mask) == e->value) return e;
  return NULL;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Bits [hi:lo] of raw, placed at `at`. */
#define BITS(hi, lo, at) ((raw >> (lo) & ((1u << ((hi) - (lo) + 1)) - 1)) << (at))
#define BIT(n, at)       BITS(n, n, at)

static int64_t sign(uint32_t v, int bits) {
  return (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

static void operands32(uint32_t raw, bool has_shift, Rv64Args *a) {
  a->rd = BITS(11, 7, 0);
  a->rs1 = BITS(19, 15, 0);
  a->rs2 = BITS(24, 20, 0);
  a->rs3 = BITS(31, 27, 0);
  a->rm = BITS(14, 12, 0);
  a->aqrl = BITS(26, 25, 0);
  a->pred = BITS(27, 24, 0);
  a->succ = BITS(23, 20, 0);
  switch (raw >> 2 & 31) {
  case 0x0d:
  case 0x05: a->imm = sign(raw & 0xfffff000, 32); break; /* U */
  case 0x1b:
    a->imm = sign(BIT(31, 20) | BITS(19, 12, 12) | BIT(20, 11) | BITS(30, 21, 1), 21);
    break; /* J */
  case 0x18:
    a->imm = sign(BIT(31, 12) | BIT(7, 11) | BITS(30, 25, 5) | BITS(11, 8, 1), 13);
    break; /* B */
  case 0x08:
  case 0x09: a->imm = sign(BITS(31, 25, 5) | BITS(11, 7, 0), 12); break; /* S */
  case 0x1c: a->imm = BITS(31, 20, 0); break;                            /* csr */
  default: a->imm = sign(BITS(31, 20, 0), 12); break;                    /* I */
  }
  if (has_shift) a->imm = BITS(25, 20, 0); /* 5-bit shift amounts have a fixed 0 above */
}

/* Immediates of the compressed formats (unprivileged ISA, chapter 16). */
static uint32_t imm6(uint32_t raw) { return BIT(12, 5) | BITS(6, 2, 0); }
static uint32_t imm_w(uint32_t raw) { return BITS(12, 10, 3) | BIT(6, 2) | BIT(5, 6); }
static uint32_t imm_d(uint32_t raw) { return BITS(12, 10, 3) | BITS(6, 5, 6); }
static int64_t imm_j(uint32_t raw) {
  return sign(BIT(12, 11) | BIT(11, 4) | BITS(10, 9, 8) | BIT(8, 10) | BIT(7, 6) | BIT(6, 7) |
                  BITS(5, 3, 1) | BIT(2, 5),
              12);
}
static int64_t imm_b(uint32_t raw) {
  return sign(BIT(12, 8) | BITS(11, 10, 3) | BITS(6, 5, 6) | BITS(4, 3, 1) | BIT(2, 5), 9);
}

/* Fills the operands of the 32-bit instruction; false: a reserved encoding. */
static bool operands16(uint32_t raw, Rv64Format format, Rv64Args *a) {
  uint8_t rd = BITS(11, 7, 0), rs2 = BITS(6, 2, 0), rdp = 8 + BITS(4, 2, 0),
          rs1p = 8 + BITS(9, 7, 0);
  *a = (Rv64Args){.rd = rd, .rs1 = rd, .rs2 = rs2, .rm = RV64_RM_DYN};
  switch (format) {
  case CNONE: a->rd = a->rs1 = a->rs2 = 0; return true;
  case CIW:
    a->rd = rdp;
    a->rs1 = 2;
    a->imm = BITS(12, 11, 4) | BITS(10, 7, 6) | BIT(6, 2) | BIT(5, 3);
    return a->imm != 0;
  case CLD:
  case CLW:
    a->rd = rdp;
    a->rs1 = rs1p;
    a->imm = format == CLW ? imm_w(raw) : imm_d(raw);
    return true;
  case CSD:
  case CSW:
    a->rs1 = rs1p;
    a->rs2 = rdp;
    a->imm = format == CSW ? imm_w(raw) : imm_d(raw);
    return true;
  case CI: a->imm = sign(imm6(raw), 6); return true;
  case CI_NZ: a->imm = sign(imm6(raw), 6); return rd != 0;
  case CLI:
    a->rs1 = 0;
    a->imm = sign(imm6(raw), 6);
    return true;
  case CI16SP:
    a->imm = sign(BIT(12, 9) | BIT(6, 4) | BIT(5, 6) | BITS(4, 3, 7) | BIT(2, 5), 10);
    return a->imm != 0;
  case CLUI: a->imm = sign(imm6(raw) << 12, 18); return a->imm != 0;
  case CSH:
    a->rd = a->rs1 = rs1p;
    a->imm = imm6(raw);
    return true;
  case CBI:
    a->rd = a->rs1 = rs1p;
    a->imm = sign(imm6(raw), 6);
    return true;
  case CA:
    a->rd = a->rs1 = rs1p;
    a->rs2 = rdp;
    return true;
  case CJ:
    a->rd = 0;
    a->imm = imm_j(raw);
    return true;
  case CB:
    a->rs1 = rs1p;
    a->rs2 = 0;
    a->imm = imm_b(raw);
    return true;
  case CSLLI: a->imm = imm6(raw); return true;
  case CLDSP:
  case CLDSP_NZ:
    a->rs1 = 2;
    a->imm = BIT(12, 5) | BITS(6, 5, 3) | BITS(4, 2, 6);
    return format == CLDSP || rd != 0;
  case CLWSP_NZ:
    a->rs1 = 2;
    a->imm = BIT(12, 5) | BITS(6, 4, 2) | BITS(3, 2, 6);
    return rd != 0;
  case CJR: a->rd = 0; return rd != 0;
  case CJALR: a->rd = 1; return rd != 0;
  case CMV: a->rs1 = 0; return true;
  case CADD: return true;
  case CSDSP:
    a->rs1 = 2;
    a->imm = BITS(12, 10, 3) | BITS(9, 7, 6);
    return true;
  case CSWSP:
    a->rs1 = 2;
    a->imm = BITS(12, 9, 2) | BITS(8, 7, 6);
    return true;
  }
  return false;
}

/* ---- branches -------------------------------------------------------------------------------- */

static bool is_link(uint8_t reg) { return reg == 1 || reg == 5; }

/* The return-address-stack hints (unprivileged ISA, 2.5, table 2.1) tell calls and returns. */
static void set_branch(GuestInsn *out, const Rv64Args *a) {
  switch ((Rv64Branch)rv64_rows[rv64_rows[out->id].base].branch) {
  case RV64_BR_NONE: break;
  case RV64_BR_COND:
    out->branch = IR_BR_COND;
    out->target = out->pc + (uint64_t)a->imm;
    break;
  case RV64_BR_JAL:
    out->branch = is_link(a->rd) ? IR_BR_CALL : IR_BR_JUMP;
    out->target = out->pc + (uint64_t)a->imm;
    break;
  case RV64_BR_JALR:
    out->branch = is_link(a->rd) ? IR_BR_CALL : is_link(a->rs1) ? IR_BR_RET : IR_BR_JUMP;
    break;
  case RV64_BR_SYSCALL: out->branch = IR_BR_SYSCALL; break;
  case RV64_BR_TRAP: out->branch = IR_BR_TRAP; break;
  }
}

GuestDecode rv64_decode(const uint8_t *code, size_t avail, uint64_t pc, GuestInsn *out) {
  uint32_t raw = 0;
  if (avail < 2) return GUEST_DECODE_TRUNCATED;
  size_t len = (code[0] & 3) == 3 ? 4 : 2;
  if (avail < len) return GUEST_DECODE_TRUNCATED;
  memcpy(&raw, code, len);
  *out = (GuestInsn){.pc = pc, .len = (uint8_t)len, .raw = raw};
  const Entry *e = find(raw);
  if (!e) return GUEST_DECODE_ILLEGAL;
  out->id = e->id;
  Rv64Args *a = (Rv64Args *)(void *)out->priv;
  const Rv64Row *row = &rv64_rows[e->id];
  if (len == 2) {
    if (!operands16(raw, (Rv64Format)row->format, a)) return GUEST_DECODE_ILLEGAL;
  } else {
    operands32(raw, e->has_shift, a);
    if (e->has_rm && (a->rm == 5 || a->rm == 6)) return GUEST_DECODE_ILLEGAL;
  }
  set_branch(out, a);
  return GUEST_DECODE_OK;
}
