/* Text: capstone's, as objdump writes it (AT&T syntax); Zydis's where capstone 4 knows no better
 * (much of AVX-512). */
#include <Zydis/Zydis.h>
#include <capstone/capstone.h>
#include <pthread.h>
#include <stdio.h>

#include "guest/x64/x64.h"

static csh handle;
static bool has_capstone;
static ZydisDecoder decoder;
static ZydisFormatter formatter;

static void make(void) {
  has_capstone = cs_open(CS_ARCH_X86, CS_MODE_64, &handle) == CS_ERR_OK &&
                 cs_option(handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT) == CS_ERR_OK;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_ATT);
}

int x64_disasm(const GuestInsn *i, char *buf, size_t size) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const uint8_t *code = (const uint8_t *)i->priv;
  cs_insn *text;
  pthread_once(&once, make);
  if (has_capstone && cs_disasm(handle, code, i->len, i->pc, 1, &text) == 1) {
    int n = snprintf(buf, size, text->op_str[0] ? "%s\t%s" : "%s", text->mnemonic, text->op_str);
    cs_free(text, 1);
    return n;
  }
  ZydisDecodedInstruction insn;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  char line[128];
  if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, i->len, &insn, operands)) &&
      ZYAN_SUCCESS(ZydisFormatterFormatInstruction(
          &formatter, &insn, operands, insn.operand_count_visible, line, sizeof line, i->pc, NULL)))
    return snprintf(buf, size, "%s", line);
  return snprintf(buf, size, "(bad)");
}
