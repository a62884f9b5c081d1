/* Disassembly text as objdump (binutils 2.40) prints it, aliases included. Operands come from the table; an alias row replaces name and
 * operands where its condition holds. */
#include <stdio.h>
#include <string.h>

#include "guest/rv64/rv64.h"

/* Conditions on operands, joined by '&': d0 s0 t0 (register is zero), d1 s1 (is ra), st (rs1 == rs2), i0 i1 i-1 i255 (immediate). */
typedef struct Alias {
  uint16_t base;
  const char *cond, *name, *operands;
} Alias;

static const Alias aliases[] = {
    {RV64_addi, "d0&s0&i0", "nop", ""},        {RV64_addi, "s0", "li", "d,j"},         {RV64_addi, "i0", "mv", "d,s"},
    {RV64_addiw, "i0", "sext.w", "d,s"},       {RV64_xori, "i-1", "not", "d,s"},       {RV64_andi, "i255", "zext.b", "d,s"},
    {RV64_sltiu, "i1", "seqz", "d,s"},         {RV64_sltu, "s0", "snez", "d,t"},       {RV64_slt, "t0", "sltz", "d,s"},
    {RV64_slt, "s0", "sgtz", "d,t"},           {RV64_sub, "s0", "neg", "d,t"},         {RV64_subw, "s0", "negw", "d,t"},
    {RV64_add, "s0", "mv", "d,t"},             {RV64_add_uw, "t0", "zext.w", "d,s"},
    {RV64_beq, "t0", "beqz", "s,p"},           {RV64_bne, "t0", "bnez", "s,p"},        {RV64_bge, "s0", "blez", "t,p"},
    {RV64_bge, "t0", "bgez", "s,p"},           {RV64_blt, "t0", "bltz", "s,p"},        {RV64_blt, "s0", "bgtz", "t,p"},
    {RV64_jal, "d0", "j", "a"},                {RV64_jal, "d1", "jal", "a"},
    {RV64_jalr, "d0&s1&i0", "ret", ""},        {RV64_jalr, "d0&i0", "jr", "s"},        {RV64_jalr, "d0", "jr", "o"},
    {RV64_jalr, "d1&i0", "jalr", "s"},         {RV64_jalr, "d1", "jalr", "o"},         {RV64_jalr, "i0", "jalr", "d,s"},
    {RV64_csrrs, "s0&c1", "frflags", "d"},     {RV64_csrrs, "s0&c2", "frrm", "d"},     {RV64_csrrs, "s0&c3", "frcsr", "d"},
    {RV64_csrrs, "s0&cc00", "rdcycle", "d"},   {RV64_csrrs, "s0&cc01", "rdtime", "d"}, {RV64_csrrs, "s0&cc02", "rdinstret", "d"},
    {RV64_csrrw, "d0&c1", "fsflags", "s"},     {RV64_csrrw, "c1", "fsflags", "d,s"},   {RV64_csrrw, "d0&c2", "fsrm", "s"},
    {RV64_csrrw, "c2", "fsrm", "d,s"},         {RV64_csrrw, "d0&c3", "fscsr", "s"},    {RV64_csrrw, "c3", "fscsr", "d,s"},
    {RV64_csrrwi, "d0&c1", "fsflagsi", "Z"},   {RV64_csrrwi, "c1", "fsflagsi", "d,Z"}, {RV64_csrrwi, "d0&c2", "fsrmi", "Z"},
    {RV64_csrrwi, "c2", "fsrmi", "d,Z"},
    {RV64_csrrs, "s0", "csrr", "d,E"},         {RV64_csrrw, "d0", "csrw", "E,s"},      {RV64_csrrs, "d0", "csrs", "E,s"},
    {RV64_csrrc, "d0", "csrc", "E,s"},         {RV64_csrrwi, "d0", "csrwi", "E,Z"},    {RV64_csrrsi, "d0", "csrsi", "E,Z"},
    {RV64_csrrci, "d0", "csrci", "E,Z"},
    {RV64_fsgnj_s, "st", "fmv.s", "D,S"},      {RV64_fsgnjn_s, "st", "fneg.s", "D,S"}, {RV64_fsgnjx_s, "st", "fabs.s", "D,S"},
    {RV64_fsgnj_d, "st", "fmv.d", "D,S"},      {RV64_fsgnjn_d, "st", "fneg.d", "D,S"}, {RV64_fsgnjx_d, "st", "fabs.d", "D,S"},
    {RV64_fence, "w", "fence", ""},            {RV64_fence, "p", "pause", ""},         {RV64_fence, "o", "fence.tso", ""},
};

static bool one_condition(const char *c, const Rv64Args *a, uint32_t raw) {
  unsigned long csr;
  switch (*c) {
  case 'd': return a->rd == c[1] - '0';
  case 't': return a->rs2 == 0;
  case 's': return c[1] == 't' ? a->rs1 == a->rs2 : a->rs1 == c[1] - '0';
  case 'i': {
    long v;
    return sscanf(c + 1, "%ld", &v) == 1 && a->imm == v;
  }
  case 'c': return sscanf(c + 1, "%lx", &csr) == 1 && (unsigned long)a->imm == csr;
  case 'w': return raw == 0x0ff0000f;
  case 'p': return raw == 0x0100000f;
  case 'o': return (raw & 0xfff0707f) == 0x8330000f;
  default: return false;
  }
}

static bool holds(const char *cond, const Rv64Args *a, uint32_t raw) {
  for (const char *c = cond; c; c = strchr(c, '&') ? strchr(c, '&') + 1 : NULL)
    if (!one_condition(c, a, raw)) return false;
  return true;
}

static const char *csr_name(int64_t csr, char *buf, size_t size) {
  switch (csr) {
  case 1: return "fflags";
  case 2: return "frm";
  case 3: return "fcsr";
  case 0xc00: return "cycle";
  case 0xc01: return "time";
  case 0xc02: return "instret";
  default: snprintf(buf, size, "0x%llx", (unsigned long long)csr); return buf;
  }
}

static void fence_set(unsigned set, char *out) {
  static const char letters[] = "iorw";
  for (int i = 0; i < 4; i++)
    if (set >> (3 - i) & 1) *out++ = letters[i];
  *out = 0;
  if (!set) strcpy(out, "unknown");
}

static int operand(char c, const GuestInsn *i, const Rv64Args *a, char *buf, size_t size) {
  static const char *const modes[] = {"rne", "rtz", "rdn", "rup", "rmm", "unknown", "unknown", "dyn"};
  char tmp[16];
  const GuestReg *x = rv64_regs, *f = rv64_regs + 32;
  switch (c) {
  case 'd': return snprintf(buf, size, "%s", x[a->rd].name);
  case 's': return snprintf(buf, size, "%s", x[a->rs1].name);
  case 't': return snprintf(buf, size, "%s", x[a->rs2].name);
  case 'D': return snprintf(buf, size, "%s", f[a->rd].name);
  case 'S': return snprintf(buf, size, "%s", f[a->rs1].name);
  case 'T': return snprintf(buf, size, "%s", f[a->rs2].name);
  case 'U': return snprintf(buf, size, "%s", f[a->rs3].name);
  case 'j': return snprintf(buf, size, "%lld", (long long)a->imm);
  case '>': return snprintf(buf, size, "0x%llx", (unsigned long long)a->imm);
  case 'u': return snprintf(buf, size, "0x%llx", (unsigned long long)a->imm >> 12 & 0xfffff);
  case 'o': case 'q': return snprintf(buf, size, "%lld(%s)", (long long)a->imm, x[a->rs1].name);
  case '0': return snprintf(buf, size, "(%s)", x[a->rs1].name);
  case 'a': case 'p': return snprintf(buf, size, "%llx", (unsigned long long)i->target);
  case 'E': return snprintf(buf, size, "%s", csr_name(a->imm, tmp, sizeof tmp));
  case 'Z': return snprintf(buf, size, "%u", a->rs1);
  case 'P': fence_set(a->pred, tmp); return snprintf(buf, size, "%s", tmp);
  case 'Q': fence_set(a->succ, tmp); return snprintf(buf, size, "%s", tmp);
  case 'm': return snprintf(buf, size, "%s", modes[a->rm]);
  default: return 0;
  }
}

static int print(const GuestInsn *i, const char *name, const char *aqrl, const char *operands, char *buf, size_t size) {
  const Rv64Args *a = rv64_args(i);
  int n = snprintf(buf, size, "%s%s", name, aqrl);
  char sep = '\t';
  for (const char *p = operands; *p && n < (int)size; p++) {
    if (*p == ',' || (*p == 'm' && a->rm == RV64_RM_DYN)) continue;
    buf[n++] = sep;
    sep = ',';
    if (n < (int)size) n += operand(*p, i, a, buf + n, size - (size_t)n);
  }
  if (n < (int)size) buf[n] = 0;
  return n;
}

int rv64_disasm(const GuestInsn *i, char *buf, size_t size) {
  static const char *const order[] = {"", ".rl", ".aq", ".aqrl"};
  GuestInsn again;
  if (rv64_decode((const uint8_t *)&i->raw, 4, i->pc, &again) != GUEST_DECODE_OK) {
    if (i->raw == 0) return snprintf(buf, size, "unimp");
    return snprintf(buf, size, i->len == 2 ? ".2byte\t0x%x" : ".4byte\t0x%x", i->raw);
  }
  uint16_t base = rv64_rows[i->id].base;
  const Rv64Args *a = rv64_args(i);
  if (i->raw == 0xc0001073) return snprintf(buf, size, "unimp");
  for (size_t k = 0; k < sizeof aliases / sizeof *aliases; k++)
    if (aliases[k].base == base && holds(aliases[k].cond, a, i->raw)) return print(i, aliases[k].name, "", aliases[k].operands, buf, size);
  const Rv64Row *row = &rv64_rows[base];
  return print(i, rv64_guest_insn_name(base), strchr(row->bits, 'a') ? order[a->aqrl] : "", row->operands, buf, size);
}
