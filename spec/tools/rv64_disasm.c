/* The disassembler's side of the sweep against objdump (rv64_disasm_spec.lua).
 *
 *   rv64_disasm encodings SEED N   writes encodings: every compressed one, N random ones of each
 * 32-bit row, every row with each fixed bit flipped, 64 N random words rv64_disasm list reads lines
 * "address encoding" (hex), writes "address encoding text"
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/rv64/rv64.h"
#include "rv64_gen.h"

static void emit(uint32_t raw, size_t len) {
  /* Longer encodings than 32 bits exist (opcode bits 4..2 all ones); objdump takes their length
   * from there. */
  if (len == 4 && (raw & 3) == 3 && (raw >> 2 & 7) != 7) fwrite(&raw, 4, 1, stdout);
  if (len == 2 && (raw & 3) != 3) fwrite(&raw, 2, 1, stdout);
}

static void encodings(uint64_t seed, int n) {
  GenRandom r = {seed};
  for (uint32_t raw = 0; raw < 0x10000; raw++) emit(raw, 2);
  for (int row = 0; row < GEN_ROWS; row++) {
    const char *bits = gen_rows[row].bits;
    if (gen_length(bits) == 16) continue;
    for (int i = 0; i < n; i++) {
      uint32_t raw = gen_encode(&r, bits);
      if (!gen_below(&r, 4))
        raw =
            gen_set_field(bits, raw, 's', gen_below(&r, 4) ? 0 : 1); /* aliases hang on x0 and ra */
      if (!gen_below(&r, 4)) raw = gen_set_field(bits, raw, 'd', gen_below(&r, 4) ? 0 : 1);
      if (!gen_below(&r, 4))
        raw = gen_set_field(bits, raw, 't', gen_below(&r, 2) ? 0 : (raw >> 15) & 31);
      if (!gen_below(&r, 4)) raw = gen_set_field(bits, raw, 'i', gen_below(&r, 4) - 1);
      emit(raw, 4);
    }
    for (int i = 0; i < 30; i++)
      if (bits[i] == '0' || bits[i] == '1') emit(gen_encode(&r, bits) ^ 1u << (31 - i), 4);
  }
  for (int i = 0; i < 64 * n; i++) emit((uint32_t)gen_random(&r) | 3, 4);
}

static void list(void) {
  uint64_t va;
  char hex[16], text[128];
  while (scanf("%" SCNx64 " %15s", &va, hex) == 2) {
    uint32_t raw = (uint32_t)strtoul(hex, NULL, 16);
    GuestInsn insn;
    rv64_decode((const uint8_t *)&raw, strlen(hex) / 2, va, &insn);
    rv64_disasm(&insn, text, sizeof text);
    printf("%" PRIx64 " %s %s\n", va, hex, text);
  }
}

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "encodings"))
    encodings(strtoull(argv[2], NULL, 0), atoi(argv[3]));
  else if (argc == 2 && !strcmp(argv[1], "list"))
    list();
  else
    return fprintf(stderr, "usage: rv64_disasm encodings SEED N | list\n"), 2;
  return 0;
}
