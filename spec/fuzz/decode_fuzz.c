/* Any bytes through the riscv64 decoder, lifters, IR checker, optimiser, printer and disassembler:
 * nothing may crash, and what is lifted keeps the IR's rules.
 *
 *   decode_fuzz ROUNDS [SEED]        prints how many instructions were decoded
 *
 * Without a main of its own (-DFUZZ_LIBRARY) it is a libFuzzer target. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/guest.h"

static unsigned long decoded;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const Guest *g = guest_for_machine(243);
  static IrBuilder *b;
  char text[64];
  if (!b) b = ir_builder_new();
  for (size_t at = 0; at + 2 <= size;) {
    GuestInsn insn;
    GuestDecode d = g->decode(data + at, size - at, 0x10000 + at, &insn);
    if (d == GUEST_DECODE_TRUNCATED) break;
    if (g->disasm(&insn, text, sizeof text) <= 0) abort();
    if (d == GUEST_DECODE_OK) {
      decoded++;
      ir_builder_begin(b, insn.pc);
      ir_builder_block(b, insn.pc);
      ir_builder_insn(b, &(IrInsn){.pc = insn.pc,
                                   .target = insn.target,
                                   .len = insn.len,
                                   .branch = insn.branch,
                                   .id = insn.id});
      g->lift(b, &insn);
      if (insn.branch == IR_BR_NONE) ir_jump(b, insn.pc + insn.len);
      IrRegion *r = ir_builder_finish(b);
      if (ir_check(r)) abort();
      ir_optimise(r);
      if (ir_check(r)) abort();
      ir_region_free(r);
    }
    at += insn.len;
  }
  return 0;
}

#ifndef FUZZ_LIBRARY
int main(int argc, char **argv) {
  unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
  srandom(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
  for (unsigned long i = 0; i < rounds; i++) {
    uint8_t bytes[256];
    for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (uint8_t)random();
    LLVMFuzzerTestOneInput(bytes, sizeof bytes);
  }
  printf("%lu decoded\n", decoded);
  return 0;
}
#endif
