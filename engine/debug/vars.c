/* Variables in scope: parameters and locals of the function at an address, inlined ones first. */
#include <stdio.h>
#include <string.h>

#include "debug/expr.h"
#include "debug/image.h"

typedef struct Frame {
  DebugImage *d;
  uint64_t addr, bias, cfa, base; /* base: DW_AT_frame_base */
  const DebugRegs *regs;
  void (*fn)(void *ctx, const DebugVariable *v);
  void *ctx;
} Frame;

static void drop(DebugImage *d, void *p, Dwarf_Unsigned type) { dwarf_dealloc(d->dwarf, p, type); }

/* ---- types ----------------------------------------------------------------------------------- */

static Dwarf_Die reference(DebugImage *d, Dwarf_Die die, Dwarf_Half name) {
  Dwarf_Attribute a;
  Dwarf_Off off;
  Dwarf_Die to = NULL;
  Dwarf_Error e = NULL;
  if (dwarf_attr(die, name, &a, &e) != DW_DLV_OK) return NULL;
  if (dwarf_global_formref(a, &off, &e) == DW_DLV_OK &&
      dwarf_offdie_b(d->dwarf, off, 1, &to, &e) != DW_DLV_OK)
    to = NULL;
  drop(d, a, DW_DLA_ATTR);
  return to;
}

static const char *keyword(Dwarf_Half tag) {
  return tag == DW_TAG_structure_type     ? "struct "
         : tag == DW_TAG_union_type       ? "union "
         : tag == DW_TAG_enumeration_type ? "enum "
                                          : "";
}

/* Appends the type's name; size and encoding are of the first type that has them. */
static void describe_type(DebugImage *d, Dwarf_Die die, char *buf, size_t size, DebugVariable *v,
                          int depth) {
  Dwarf_Half tag;
  Dwarf_Error e = NULL;
  Dwarf_Unsigned n;
  char *name = NULL;
  size_t used = strlen(buf);
  Dwarf_Die to = die ? reference(d, die, DW_AT_type) : NULL;
  if (!to || depth > 16 || dwarf_tag(to, &tag, &e) != DW_DLV_OK) {
    snprintf(buf + used, size - used, "void");
    if (to) drop(d, to, DW_DLA_DIE);
    return;
  }
  if (!v->size && dwarf_bytesize(to, &n, &e) == DW_DLV_OK) v->size = n;
  bool pointer = tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type ||
                 tag == DW_TAG_rvalue_reference_type;
  if (pointer && !v->encoding) v->encoding = DW_ATE_address;
  Dwarf_Attribute a;
  if (tag == DW_TAG_base_type && !v->encoding &&
      dwarf_attr(to, DW_AT_encoding, &a, &e) == DW_DLV_OK) {
    if (dwarf_formudata(a, &n, &e) == DW_DLV_OK) v->encoding = (uint8_t)n;
    drop(d, a, DW_DLA_ATTR);
  }
  if (tag == DW_TAG_enumeration_type && !v->encoding) v->encoding = DW_ATE_signed;
  if (dwarf_diename(to, &name, &e) == DW_DLV_OK && !pointer) {
    snprintf(buf + used, size - used, "%s%s", keyword(tag), name);
    if (tag == DW_TAG_typedef) { /* its name is the type's, size and encoding are below */
      char rest[128] = "";
      describe_type(d, to, rest, sizeof rest, v, depth + 1);
    }
  } else if (pointer) {
    DebugVariable ignored = {.size = 1, .encoding = 1};
    describe_type(d, to, buf, size, &ignored, depth + 1);
    used = strlen(buf);
    snprintf(buf + used, size - used, tag == DW_TAG_pointer_type ? " *" : " &");
    if (!v->size) v->size = 8;
  } else {
    const char *word = tag == DW_TAG_const_type      ? "const "
                       : tag == DW_TAG_volatile_type ? "volatile "
                                                     : "";
    if (used < strlen(word) || strcmp(buf + used - strlen(word), word))
      snprintf(buf + used, size - used, "%s", word);
    describe_type(d, to, buf, size, v, depth + 1);
    used = strlen(buf);
    if (tag == DW_TAG_array_type) snprintf(buf + used, size - used, "[]");
  }
  drop(d, to, DW_DLA_DIE);
}

/* ---- locations ------------------------------------------------------------------------------- */

typedef struct Bytes {
  uint8_t at[128];
  size_t n;
} Bytes;

static void put_byte(Bytes *b, uint8_t v) {
  if (b->n < sizeof b->at) b->at[b->n++] = v;
}

static void put_leb(Bytes *b, uint64_t v, bool is_signed) {
  for (;;) {
    uint8_t byte = v & 127;
    v = is_signed ? (uint64_t)((int64_t)v >> 7) : v >> 7;
    bool last = is_signed ? (v == 0 && !(byte & 64)) || (v == ~0ull && byte & 64) : v == 0;
    put_byte(b, last ? byte : byte | 128);
    if (last) return;
  }
}

/* libdwarf hands a list's expression out decoded; back to bytes, for the one evaluator there is.
 * False: an operation we do not evaluate. */
static bool encode(Dwarf_Locdesc_c desc, Dwarf_Unsigned n, Bytes *b) {
  Dwarf_Error e = NULL;
  for (Dwarf_Unsigned i = 0; i < n; i++) {
    Dwarf_Small op;
    Dwarf_Unsigned o1, o2, o3, r1, r2, r3, branch;
    if (dwarf_get_location_op_value_d(desc, i, &op, &o1, &o2, &o3, &r1, &r2, &r3, &branch, &e) !=
        DW_DLV_OK)
      return false;
    put_byte(b, op);
    if (op == DW_OP_addr || op == DW_OP_const8u || op == DW_OP_const8s)
      for (int k = 0; k < 64; k += 8) put_byte(b, (uint8_t)(o1 >> k));
    else if (op == DW_OP_fbreg || op == DW_OP_consts || (op >= DW_OP_breg0 && op <= DW_OP_breg31))
      put_leb(b, o1, true);
    else if (op == DW_OP_constu || op == DW_OP_plus_uconst || op == DW_OP_regx)
      put_leb(b, o1, false);
    else if (op == DW_OP_const1u || op == DW_OP_const1s || op == DW_OP_deref_size)
      put_byte(b, (uint8_t)o1);
    else if (op == DW_OP_const2u || op == DW_OP_const2s)
      put_byte(b, (uint8_t)o1), put_byte(b, (uint8_t)(o1 >> 8));
    else if (op == DW_OP_const4u || op == DW_OP_const4s)
      for (int k = 0; k < 32; k += 8) put_byte(b, (uint8_t)(o1 >> k));
    else if (op == DW_OP_skip || op == DW_OP_bra || op == DW_OP_piece || op == DW_OP_bregx ||
             op >= DW_OP_implicit_value) {
      if (op != DW_OP_stack_value) return false;
    }
  }
  return true;
}

/* The expression in force at f->addr. */
static bool location(Frame *f, Dwarf_Attribute a, Bytes *out) {
  Dwarf_Loc_Head_c head;
  Dwarf_Unsigned n, raw_low, raw_high, ops, expr_off, desc_off;
  Dwarf_Error e = NULL;
  bool found = false;
  if (dwarf_get_loclist_c(a, &head, &n, &e) != DW_DLV_OK) return false;
  for (Dwarf_Unsigned i = 0; i < n && !found; i++) {
    Dwarf_Small lle, source;
    Dwarf_Bool missing;
    Dwarf_Addr low, high;
    Dwarf_Locdesc_c desc;
    if (dwarf_get_locdesc_entry_d(head, i, &lle, &raw_low, &raw_high, &missing, &low, &high, &ops,
                                  &desc, &source, &expr_off, &desc_off, &e) != DW_DLV_OK)
      break;
    bool always = source == 0; /* a plain expression, no list */
    if (!ops || (!always && (f->addr < low || f->addr >= high))) continue;
    found = encode(desc, ops, out);
  }
  dwarf_loc_head_c_dealloc(head);
  return found;
}

static void read_value(Frame *f, Dwarf_Die die, DebugVariable *v) {
  Dwarf_Attribute a;
  Dwarf_Error e = NULL;
  Dwarf_Signed c;
  if (dwarf_attr(die, DW_AT_location, &a, &e) == DW_DLV_OK) {
    Bytes expr = {.n = 0};
    bool ok = location(f, a, &expr);
    int reg = ok ? debug_expression_reg(expr.at, expr.n) : -1;
    uint64_t where;
    if (ok && reg >= 0) {
      v->available = f->regs->get(f->regs->ctx, reg, &where);
      memcpy(v->value, &where, 8);
    } else if (ok &&
               debug_expression(expr.at, expr.n, f->regs, f->base, f->bias, 0, false, &where)) {
      bool is_value = expr.at[expr.n - 1] == DW_OP_stack_value;
      if (is_value)
        memcpy(v->value, &where, 8);
      else
        v->address = where;
      v->available =
          is_value || f->regs->read(f->regs->ctx, where, v->value,
                                    v->size < sizeof v->value ? v->size : sizeof v->value);
    }
    drop(f->d, a, DW_DLA_ATTR);
  } else if (dwarf_attr(die, DW_AT_const_value, &a, &e) == DW_DLV_OK) {
    v->available = dwarf_formsdata(a, &c, &e) == DW_DLV_OK;
    memcpy(v->value, &c, 8);
    drop(f->d, a, DW_DLA_ATTR);
  }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void report(Frame *f, Dwarf_Die die, bool is_argument) {
  DebugVariable v = {.is_argument = is_argument};
  char type[256] = "", *name = NULL;
  Dwarf_Error e = NULL;
  Dwarf_Die origin = reference(f->d, die, DW_AT_abstract_origin), named = origin ? origin : die;
  if (dwarf_diename(named, &name, &e) == DW_DLV_OK) {
    v.name = debug_intern(f->d, name);
    describe_type(f->d, named, type, sizeof type, &v, 0);
    v.type = type;
    if (!v.size) v.size = 8;
    read_value(f, die, &v);
    f->fn(f->ctx, &v);
  }
  if (origin) drop(f->d, origin, DW_DLA_DIE);
}

static bool covers(Frame *f, Dwarf_Die die) {
  Dwarf_Addr low, high;
  Dwarf_Half form;
  enum Dwarf_Form_Class cls;
  Dwarf_Error e = NULL;
  if (dwarf_lowpc(die, &low, &e) != DW_DLV_OK ||
      dwarf_highpc_b(die, &high, &form, &cls, &e) != DW_DLV_OK)
    return true; /* ranges: shown, if in doubt */
  if (cls == DW_FORM_CLASS_CONSTANT) high += low;
  return f->addr >= low && f->addr < high;
}

static void scope(Frame *f, Dwarf_Die parent, int depth) {
  Dwarf_Die die, next;
  Dwarf_Error e = NULL;
  if (depth > 32 || dwarf_child(parent, &die, &e) != DW_DLV_OK) return;
  for (;;) {
    Dwarf_Half tag = 0;
    dwarf_tag(die, &tag, &e);
    if (tag == DW_TAG_formal_parameter || tag == DW_TAG_variable)
      report(f, die, tag == DW_TAG_formal_parameter);
    if (tag == DW_TAG_lexical_block && covers(f, die)) scope(f, die, depth + 1);
    int r = dwarf_siblingof_b(f->d->dwarf, die, 1, &next, &e);
    drop(f->d, die, DW_DLA_DIE);
    if (r != DW_DLV_OK) return;
    die = next;
  }
}

/* DW_AT_frame_base of the function: mostly DW_OP_call_frame_cfa. */
static void find_base(Frame *f, Dwarf_Die die) {
  Dwarf_Attribute a;
  Dwarf_Error e = NULL;
  f->base = f->cfa;
  if (dwarf_attr(die, DW_AT_frame_base, &a, &e) != DW_DLV_OK) return;
  Bytes expr = {.n = 0};
  if (location(f, a, &expr) && expr.n) {
    int reg = debug_expression_reg(expr.at, expr.n);
    if (reg >= 0)
      f->regs->get(f->regs->ctx, reg, &f->base);
    else
      debug_expression(expr.at, expr.n, f->regs, f->cfa, f->bias, 0, false, &f->base);
  }
  drop(f->d, a, DW_DLA_ATTR);
}

void debug_variables(DebugImage *d, uint64_t addr, uint64_t bias, uint64_t cfa,
                     const DebugRegs *regs, void (*fn)(void *ctx, const DebugVariable *v),
                     void *ctx) {
  DebugUnit *u = debug_unit_at(d, addr);
  Frame f = {.d = d, .addr = addr, .bias = bias, .cfa = cfa, .regs = regs, .fn = fn, .ctx = ctx};
  const DebugScope *s = u ? debug_scope_at(u, addr) : NULL;
  const DebugScope *function = s;
  while (function && function->inlined && function->parent >= 0)
    function = &u->scopes.at[function->parent];
  if (!function) return;
  Dwarf_Error e = NULL;
  Dwarf_Die die;
  if (dwarf_offdie_b(d->dwarf, function->die, 1, &die, &e) != DW_DLV_OK) return;
  find_base(&f, die);
  drop(d, die, DW_DLA_DIE);
  for (; s; s = s->parent >= 0 && s != function ? &u->scopes.at[s->parent] : NULL) {
    if (dwarf_offdie_b(d->dwarf, s->die, 1, &die, &e) != DW_DLV_OK) continue;
    scope(&f, die, 0);
    drop(d, die, DW_DLA_DIE);
  }
}
