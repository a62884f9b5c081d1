/* Random instructions of the riscv64 table, for the sweeps: what the sweeps' host side
 * (rv64_disasm.c, rv64_exec_host.c) and guest side (rv64_exec_guest.c, which has no C library)
 * share.
 *
 *   GenRandom r = {seed};
 *   uint32_t raw = gen_encode(&r, gen_rows[7].bits);   // fields random, fixed bits as the row has
 * them
 */
#ifndef RV64_GEN_H
#define RV64_GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct GenRow {
  const char *name, *bits, *ext, *operands; /* operands: the format, for compressed rows */
  const char *base; /* the 32-bit row that a compressed one means, else name */
} GenRow;

static const GenRow gen_rows[] = {
#define INSN(name, bits, ext, operands, branch) {#name, bits, #ext, operands, #name},
#define COMPRESSED(name, bits, format, base)    {#name, bits, "C", #format, #base},
#include "guest/rv64/insns.def"
};
enum { GEN_ROWS = sizeof gen_rows / sizeof *gen_rows };

typedef struct GenRandom {
  uint64_t state;
} GenRandom;

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t gen_random(GenRandom *r) {
  uint64_t z = r->state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static inline uint32_t gen_below(GenRandom *r, uint32_t n) {
  return (uint32_t)((gen_random(r) >> 32) * n >> 32);
}

static inline unsigned gen_length(const char *bits) { return bits[16] ? 32 : 16; }

/* The bits of field `letter` in raw, most significant first; *width is their number. */
static inline uint32_t gen_field(const char *bits, uint32_t raw, char letter, unsigned *width) {
  uint32_t v = 0;
  unsigned n = gen_length(bits);
  *width = 0;
  for (unsigned i = 0; i < n; i++)
    if (bits[i] == letter) {
      v = v << 1 | (raw >> (n - 1 - i) & 1);
      ++*width;
    }
  return v;
}

/* raw with field `letter` replaced. */
static inline uint32_t gen_set_field(const char *bits, uint32_t raw, char letter, uint32_t value) {
  unsigned n = gen_length(bits);
  for (unsigned i = n; i-- > 0;)
    if (bits[i] == letter) {
      uint32_t at = 1u << (n - 1 - i);
      raw = value & 1 ? raw | at : raw & ~at;
      value >>= 1;
    }
  return raw;
}

static inline uint32_t gen_encode(GenRandom *r, const char *bits) {
  uint32_t raw = 0, noise = (uint32_t)gen_random(r);
  for (unsigned i = 0; bits[i]; i++, noise = noise << 1 | noise >> 31)
    raw = raw << 1 | (bits[i] == '1' || (bits[i] != '0' && noise >> 31));
  return raw;
}

#endif
