/* Disassembly text as objdump (binutils 2.40) prints it, aliases included. Operands come from
 * insns.def; a row of aliases.def replaces name and operands where its condition holds. */
#include <stdio.h>
#include <string.h>

#include "guest/rv64/rv64.h"

typedef struct Alias {
  uint16_t base;
  const char *cond, *name, *operands;
} Alias;

static const Alias aliases[] = {
#define ALIAS(row, condition, name, operands) {RV64_##row, condition, name, operands},
#include "guest/rv64/aliases.def"
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
  if (!*cond) return true;
  for (const char *c = cond; c; c = strchr(c, '&') ? strchr(c, '&') + 1 : NULL)
    if (!one_condition(c, a, raw)) return false;
  return true;
}

static const Alias *find_alias(uint16_t id, const Rv64Args *a, uint32_t raw) {
  for (size_t k = 0; k < sizeof aliases / sizeof *aliases; k++)
    if (aliases[k].base == id && holds(aliases[k].cond, a, raw)) return &aliases[k];
  return NULL;
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
  static const char *const modes[] = {"rne", "rtz",     "rdn",     "rup",
                                      "rmm", "unknown", "unknown", "dyn"};
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
  case 'o':
  case 'q': return snprintf(buf, size, "%lld(%s)", (long long)a->imm, x[a->rs1].name);
  case '0': return snprintf(buf, size, "(%s)", x[a->rs1].name);
  case 'a':
  case 'p': return snprintf(buf, size, "%llx", (unsigned long long)i->target);
  case 'E': return snprintf(buf, size, "%s", csr_name(a->imm, tmp, sizeof tmp));
  case 'Z': return snprintf(buf, size, "%u", a->rs1);
  case 'P': fence_set(a->pred, tmp); return snprintf(buf, size, "%s", tmp);
  case 'Q': fence_set(a->succ, tmp); return snprintf(buf, size, "%s", tmp);
  case 'm': return snprintf(buf, size, "%s", modes[a->rm]);
  default: return 0;
  }
}

/* Longer than any text. */
enum { TEXT_MAX = 96 };

static void print(const GuestInsn *i, const char *name, const char *aqrl, const char *operands,
                  char text[TEXT_MAX]) {
  const Rv64Args *a = rv64_args(i);
  int n = snprintf(text, TEXT_MAX, "%s%s", name, aqrl);
  char sep = '\t';
  for (const char *p = operands; *p; p++) {
    if (*p == ',' || (*p == 'm' && a->rm == RV64_RM_DYN)) continue;
    text[n++] = sep;
    sep = ',';
    n += operand(*p, i, a, text + n, (size_t)(TEXT_MAX - n));
  }
  text[n] = 0;
}

static void print_legal(const GuestInsn *i, char text[TEXT_MAX]) {
  static const char *const order[] = {"", ".rl", ".aq", ".aqrl"};
  uint16_t base = rv64_rows[i->id].base;
  const Rv64Row *row = &rv64_rows[base];
  const Rv64Args *a = rv64_args(i);
  const Alias *alias = find_alias(i->id, a, i->raw);
  if (!alias) alias = find_alias(base, a, i->raw);
  if (alias) return print(i, alias->name, "", alias->operands, text);
  const char *aqrl = strchr(row->bits, 'a') ? order[a->aqrl] : "";
  print(i, rv64_guest_insn_name(base), aqrl, row->operands, text);
}

int rv64_disasm(const GuestInsn *i, char *buf, size_t size) {
  char text[TEXT_MAX];
  GuestInsn again;
  if (i->raw == 0 || i->raw == 0xc0001073) /* the second: csrrw x0,cycle,x0 */
    return snprintf(buf, size, "unimp");
  if (rv64_decode((const uint8_t *)&i->raw, 4, i->pc, &again) != GUEST_DECODE_OK)
    return snprintf(buf, size, i->len == 2 ? ".2byte\t0x%x" : ".4byte\t0x%x", i->raw);
  print_legal(i, text);
  return snprintf(buf, size, "%s", text);
}
