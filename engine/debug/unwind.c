/* Unwinding one frame by call frame information (.eh_frame or .debug_frame), through libdwarf. */
#include <string.h>

#include "debug/cursor.h"
#include "debug/image.h"
#include "debug/expr.h"

static void load_frames(DebugImage *d) {
  if (d->frames_tried) return;
  d->frames_tried = true;
  Dwarf_Error e = NULL;
  DebugFrames *f = &d->eh;
  Dwarf_Debug dwarf = debug_unwind_dwarf(d);
  if (!dwarf) return;
  dwarf_set_frame_cfa_value(dwarf, DW_FRAME_CFA_COL3);
  dwarf_set_frame_rule_initial_value(dwarf, DW_FRAME_SAME_VAL);
  dwarf_set_frame_same_value(dwarf, DW_FRAME_SAME_VAL);
  dwarf_set_frame_undefined_value(dwarf, DW_FRAME_UNDEFINED_VAL);
  if (dwarf_get_fde_list_eh(dwarf, &f->cies, &f->n_cies, &f->fdes, &f->n_fdes, &e) != DW_DLV_OK)
    f->fdes = NULL;
  f = &d->debug;
  if (dwarf_get_fde_list(dwarf, &f->cies, &f->n_cies, &f->fdes, &f->n_fdes, &e) != DW_DLV_OK)
    f->fdes = NULL;
}

static bool find_fde(DebugImage *d, uint64_t addr, Dwarf_Fde *fde) {
  Dwarf_Addr low, high;
  Dwarf_Error e = NULL;
  load_frames(d);
  return (d->eh.fdes && dwarf_get_fde_at_pc(d->eh.fdes, addr, fde, &low, &high, &e) == DW_DLV_OK) ||
         (d->debug.fdes &&
          dwarf_get_fde_at_pc(d->debug.fdes, addr, fde, &low, &high, &e) == DW_DLV_OK);
}

/* The rule of one register. */
static bool apply(DebugImage *d, Dwarf_Fde fde, uint64_t addr, int reg, const DebugRegs *regs,
                  uint64_t cfa, uint64_t *out) {
  Dwarf_Small type;
  Dwarf_Signed relevant, from, offset;
  Dwarf_Ptr block;
  Dwarf_Addr row;
  Dwarf_Error e = NULL;
  (void)d;
  if (dwarf_get_fde_info_for_reg3(fde, (Dwarf_Half)reg, addr, &type, &relevant, &from, &offset,
                                  &block, &row, &e) != DW_DLV_OK)
    return false;
  if (type == DW_EXPR_EXPRESSION || type == DW_EXPR_VAL_EXPRESSION) {
    uint64_t v;
    if (!debug_expression(block, (size_t)offset, regs, cfa, 0, cfa, true, &v)) return false;
    if (type == DW_EXPR_EXPRESSION) return regs->read(regs->ctx, v, out, 8);
    *out = v;
    return true;
  }
  if (from == DW_FRAME_UNDEFINED_VAL) return false;
  if (from == DW_FRAME_SAME_VAL) return regs->get(regs->ctx, reg, out);
  uint64_t base = 0;
  if (from == DW_FRAME_CFA_COL3)
    base = cfa;
  else if (!regs->get(regs->ctx, (int)from, &base))
    return false;
  if (relevant && type == DW_EXPR_OFFSET)
    return regs->read(regs->ctx, base + (uint64_t)offset, out, 8);
  *out = base + (relevant ? (uint64_t)offset : 0);
  return true;
}

static bool find_cfa(Dwarf_Fde fde, uint64_t addr, const DebugRegs *regs, uint64_t *cfa) {
  Dwarf_Small type;
  Dwarf_Signed relevant, reg, offset;
  Dwarf_Ptr block;
  Dwarf_Addr row;
  Dwarf_Error e = NULL;
  if (dwarf_get_fde_info_for_cfa_reg3(fde, addr, &type, &relevant, &reg, &offset, &block, &row,
                                      &e) != DW_DLV_OK)
    return false;
  if (type == DW_EXPR_EXPRESSION || type == DW_EXPR_VAL_EXPRESSION)
    return debug_expression(block, (size_t)offset, regs, 0, 0, 0, false, cfa);
  if (!regs->get(regs->ctx, (int)reg, cfa)) return false;
  *cfa += relevant ? (uint64_t)offset : 0;
  return true;
}

/* The return address column, and whether it is a signal frame. */
static bool return_column(Dwarf_Fde fde, Dwarf_Half *ra, bool *signal_frame) {
  Dwarf_Cie cie;
  Dwarf_Unsigned bytes, code_align, init_len;
  Dwarf_Signed data_align;
  Dwarf_Half offset_size;
  Dwarf_Small version;
  Dwarf_Ptr init;
  char *augmenter = NULL;
  Dwarf_Error e = NULL;
  if (dwarf_get_cie_of_fde(fde, &cie, &e) != DW_DLV_OK ||
      dwarf_get_cie_info_b(cie, &bytes, &version, &augmenter, &code_align, &data_align, ra, &init,
                           &init_len, &offset_size, &e) != DW_DLV_OK)
    return false;
  *signal_frame = augmenter && strchr(augmenter, 'S');
  return true;
}

bool debug_unwind(DebugImage *d, uint64_t addr, const DebugRegs *regs, DebugUnwound *out) {
  Dwarf_Fde fde;
  if (!find_fde(d, addr, &fde)) return false;
  memset(out, 0, sizeof *out);
  if (!find_cfa(fde, addr, regs, &out->cfa)) return false;
  Dwarf_Half ra = 1;
  return_column(fde, &ra, &out->signal_frame);
  for (int r = 0; r < DEBUG_MAX_REGS; r++)
    out->known[r] = apply(d, fde, addr, r, regs, out->cfa, &out->value[r]);
  out->ret = ra < DEBUG_MAX_REGS ? out->value[ra] : 0;
  return ra < DEBUG_MAX_REGS && out->known[ra];
}

/* ---- simple rules ---------------------------------------------------------------------------- */

typedef struct Where { /* of a saved register */
  bool simple, kept, lost;
  int32_t offset; /* from the CFA */
} Where;

static Where where(Dwarf_Fde fde, uint64_t addr, int reg) {
  Dwarf_Small type;
  Dwarf_Signed relevant, from, offset;
  Dwarf_Ptr block;
  Dwarf_Addr row;
  Dwarf_Error e = NULL;
  Where w = {0};
  if (dwarf_get_fde_info_for_reg3(fde, (Dwarf_Half)reg, addr, &type, &relevant, &from, &offset,
                                  &block, &row, &e) != DW_DLV_OK ||
      type == DW_EXPR_EXPRESSION || type == DW_EXPR_VAL_EXPRESSION)
    return w;
  w.lost = from == DW_FRAME_UNDEFINED_VAL;
  w.kept = from == DW_FRAME_SAME_VAL;
  w.offset = (int32_t)offset;
  w.simple = w.lost || w.kept || (from == DW_FRAME_CFA_COL3 && relevant && type == DW_EXPR_OFFSET);
  return w;
}

static bool simple_cfa(Dwarf_Fde fde, uint64_t addr, int sp, int fp, DebugRule *rule) {
  Dwarf_Small type;
  Dwarf_Signed relevant, reg, offset;
  Dwarf_Ptr block;
  Dwarf_Addr row;
  Dwarf_Error e = NULL;
  if (dwarf_get_fde_info_for_cfa_reg3(fde, addr, &type, &relevant, &reg, &offset, &block, &row,
                                      &e) != DW_DLV_OK ||
      type == DW_EXPR_EXPRESSION || type == DW_EXPR_VAL_EXPRESSION || (reg != sp && reg != fp))
    return false;
  rule->by_fp = reg != sp;
  rule->cfa = relevant ? (int32_t)offset : 0;
  return true;
}

DebugRule debug_rule(DebugImage *d, uint64_t addr, int sp, int fp, int ra) {
  Dwarf_Fde fde;
  Dwarf_Half column;
  bool signal_frame;
  DebugRule rule = {0};
  if (!find_fde(d, addr, &fde) || !return_column(fde, &column, &signal_frame) || signal_frame ||
      !simple_cfa(fde, addr, sp, fp, &rule))
    return rule;
  Where back = where(fde, addr, column), frame = where(fde, addr, fp);
  rule.end = back.lost;
  rule.ra_kept = back.kept;
  rule.ra = back.offset;
  rule.fp_kept = frame.kept || frame.lost;
  rule.fp = frame.offset;
  rule.known = back.simple && frame.simple && !(back.kept && column != ra);
  return rule;
}

/* ---- extents --------------------------------------------------------------------------------- */

/* The binary search table of .eh_frame_hdr (LSB core, section 10.6.2) as all linkers make it: pairs
 * of start and FDE, both 32 bits from the section's address on. */
typedef struct Table {
  const uint8_t *at;
  uint64_t base, n;
} Table;

enum { SDATA4_PCREL = 0x1b, UDATA4 = 0x03, SDATA4_DATAREL = 0x3b };

static bool find_table(DebugImage *d, Table *t) {
  const Elf64_Shdr *header;
  size_t size;
  const uint8_t *p = debug_section(d, ".eh_frame_hdr", &size, &header);
  Cursor c = {p, p ? p + size : p, false};
  if (!p || cursor_u8(&c) != 1 || cursor_u8(&c) != SDATA4_PCREL || cursor_u8(&c) != UDATA4 ||
      cursor_u8(&c) != SDATA4_DATAREL)
    return false;
  cursor_u32(&c); /* .eh_frame */
  t->n = cursor_u32(&c);
  t->at = c.at;
  t->base = header->sh_addr;
  return !c.bad && t->n <= (uint64_t)(c.end - c.at) / 8;
}

static uint64_t entry(const Table *t, uint64_t i, unsigned field) {
  int32_t v;
  memcpy(&v, t->at + 8 * i + 4 * field, 4);
  return t->base + (uint64_t)(int64_t)v;
}

bool debug_extent(DebugImage *d, uint64_t addr, uint64_t *start, uint64_t *size) {
  Table t;
  const Elf64_Shdr *header;
  size_t n;
  const uint8_t *frames = debug_section(d, ".eh_frame", &n, &header);
  if (!frames || !find_table(d, &t)) return false;
  uint64_t low = 0, high = t.n;
  while (low < high) {
    uint64_t mid = (low + high) / 2;
    if (entry(&t, mid, 0) > addr)
      high = mid;
    else
      low = mid + 1;
  }
  if (!low) return false;
  *start = entry(&t, low - 1, 0);
  uint64_t fde = entry(&t, low - 1, 1) - header->sh_addr, begin = header->sh_addr + fde + 8;
  if (fde >= n) return false;
  Cursor c = {frames + fde, frames + n, false};
  cursor_u64(&c); /* length, CIE */
  begin += (uint64_t)(int64_t)(int32_t)cursor_u32(&c);
  *size = cursor_u32(&c);
  if (c.bad || begin != *start || addr - *start >= *size) return false;
  uint64_t next = debug_next_symbol(d, addr); /* one FDE describes a whole PLT */
  if (next - *start < *size) *size = next - *start;
  return true;
}
