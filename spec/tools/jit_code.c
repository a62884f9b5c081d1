/* Prints the host code of a riscv64 instruction sequence, as hex bytes without what is put aside
 * (exits, cold cases). Usage: jit_code HEX... : each argument is one sequence of instruction words
 * ("00b50533 00008067"), one line each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/guest.h"
#include "jit/jit.h"

static IrRegion *region_of(const Guest *g, IrBuilder *b, const uint8_t *code, size_t n) {
  uint64_t pc = 0x10000;
  ir_builder_begin(b, pc);
  ir_builder_block(b, pc);
  for (size_t at = 0; at < n;) {
    GuestInsn insn;
    if (g->decode(code + at, n - at, pc + at, &insn) != GUEST_DECODE_OK) {
      fprintf(stderr, "jit_code: no instruction at byte %zu\n", at);
      exit(1);
    }
    ir_builder_insn(b, &(IrInsn){.pc = insn.pc,
                                 .target = insn.target,
                                 .len = insn.len,
                                 .branch = insn.branch,
                                 .id = insn.id});
    g->lift(b, &insn);
    at += insn.len;
    if (at >= n && insn.branch == IR_BR_NONE) ir_jump(b, pc + at);
  }
  return ir_builder_finish(b);
}

int main(int argc, char **argv) {
  const Guest *g = guest_for_machine(243); /* EM_RISCV */
  Jit *j =
      jit_new(&g->convention, JIT_CODE_SIZE, JIT_NO_BMI | JIT_NO_FMA); /* the same on every host */
  IrBuilder *b = ir_builder_new();
  for (int i = 1; i < argc; i++) {
    uint8_t code[256];
    size_t n = 0;
    for (char *word = strtok(argv[i], " "); word; word = strtok(NULL, " ")) {
      uint32_t w = (uint32_t)strtoul(word, NULL, 16);
      size_t size = strlen(word) / 2;
      memcpy(code + n, &w, size);
      n += size;
    }
    IrRegion *r = region_of(g, b, code, n);
    ir_optimise(r);
    if (!jit_compile(j, r)) return 1;
    size_t size, hot;
    const uint8_t *host = jit_code(j, r, &size, &hot);
    for (size_t k = 0; k < hot; k++) printf("%02x", host[k]);
    putchar('\n');
    jit_forget(j, r);
    ir_region_free(r);
  }
  ir_builder_free(b);
  jit_free(j);
  return 0;
}
