/* The exec sweep: what one riscv64 instruction does to random states, here and under qemu-riscv64.
 *
 *   rv64_exec_host jobs SEED N K | qemu-riscv64 rv64_exec_guest | rv64_exec_host check SEED N K
 *
 * A job is an instruction and the seed of K states; N jobs are made of each row of the table. Half
 * of them have another instruction before it, so that results are passed on: a load-reserved for
 * store-conditionals, else any that only computes. The guest program, which is riscv64 code without
 * a C library, executes the job on each state and writes a record of what changed; the host makes
 * the same states, executes the job with decoder, lifter, optimiser (every second job) and
 * interpreter, and compares. The host makes the jobs because it can decode: addresses and branch
 * targets must be sensible.
 *
 * Guest memory is the same in both, by fixed addresses:
 *
 *   EXEC_CODE + EXEC_MIDDLE   the instruction, then a jump out (fell through); a jump out at the
 * branch target too (taken) EXEC_WINDOW               a page; memory operands are within the
 * EXEC_WORDS words in its middle
 */
#ifndef RV64_EXEC_H
#define RV64_EXEC_H

#include "rv64_gen.h"

#define EXEC_CODE      0x50000000ull
#define EXEC_CODE_SIZE 0x400000ull
#define EXEC_MIDDLE    0x200000ull
#define EXEC_WINDOW    0x40000000ull
#define EXEC_WORDS_AT  (EXEC_WINDOW + 0x800)
enum { EXEC_WORDS = 8, EXEC_SLOTS = 32 + 32 + 1 + EXEC_WORDS };

/* Outcomes of an execution; a signal is EXEC_SIGNAL + its number. */
enum { EXEC_FELL_THROUGH, EXEC_TAKEN, EXEC_SIGNAL = 16 };

typedef struct ExecJob {
  uint64_t seed;
  uint64_t target;  /* of a branch, else 0 */
  int64_t imm;      /* of the memory operand or the indirect branch */
  uint32_t code[2]; /* the instruction, and the one before it */
  uint8_t len[2];   /* bytes; 0: none */
  uint8_t base;     /* register that the guest program may use: 28..31, no operand */
  uint8_t pointer;  /* register that points at memory, less imm; 0: none */
  uint8_t align;    /* pointers are mostly multiples of this */
  uint8_t indirect; /* register that points at target, less imm; 0: none */
  uint16_t row;
  uint32_t states;
} ExecJob;

/* A state as an array, in the order in which records number it: x0..x31, f0..f31, fcsr, memory
 * words. */
typedef struct ExecState {
  uint64_t x[32], f[32], fcsr, memory[EXEC_WORDS];
} ExecState;

/* A record: outcome, number of changes, and for each its slot and new value (little-endian,
 * packed). */
enum { EXEC_RECORD_MAX = 2 + EXEC_SLOTS * 9 };

/* ---- random states --------------------------------------------------------------------------- */

static inline uint64_t exec_integer(GenRandom *r) {
  static const uint64_t corners[] = {0,
                                     1,
                                     2,
                                     31,
                                     32,
                                     63,
                                     64,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x7fff,
                                     0x8000,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
  uint64_t v = gen_random(r);
  switch (gen_below(r, 8)) {
  case 0:
  case 1: return corners[v % (sizeof corners / sizeof *corners)];
  case 2: return 0 - corners[v % (sizeof corners / sizeof *corners)];
  case 3: return (uint64_t)(int64_t)(int32_t)v;
  case 4: return v >> gen_below(r, 64);
  case 5: return (uint64_t)((int64_t)v >> gen_below(r, 64));
  case 6: return 1ull << (v & 63);
  default: return v;
  }
}

/* A floating-point number of the given widths of fraction and exponent: classes and neighbourhoods
 * more often than chance. */
static inline uint64_t exec_float(GenRandom *r, int frac, int expo) {
  uint64_t v = gen_random(r), fraction = v & ((1ull << frac) - 1), sign = v >> 63 << (frac + expo);
  uint64_t max = (1ull << expo) - 1, bias = max >> 1, exponent = (v >> frac) & max;
  switch (gen_below(r, 12)) {
  case 0:
    exponent = 0, fraction = gen_below(r, 2) ? 0 : fraction >> gen_below(r, (uint32_t)frac);
    break;
  case 1:
    exponent = max, fraction = gen_below(r, 2)   ? 0
                               : gen_below(r, 2) ? 1ull << (frac - 1)
                                                 : fraction;
    break;
  case 2: exponent = 1 + gen_below(r, 2), fraction = gen_below(r, 2) ? 0 : fraction; break;
  case 3:
    exponent = max - 1 - gen_below(r, 2),
    fraction = gen_below(r, 2) ? (1ull << frac) - 1 : fraction;
    break;
  case 4:
    exponent = bias + gen_below(r, 66), fraction &= ~0ull << gen_below(r, (uint32_t)frac);
    break; /* integers and halves */
  case 5:
    exponent = bias + 30 + gen_below(r, 3), fraction = gen_below(r, 2) ? 0 : ~fraction >> 40;
    break;
  case 6: exponent = bias + 62 + gen_below(r, 3), fraction = gen_below(r, 2) ? 0 : ~fraction; break;
  case 7:
  case 8:
    exponent = bias - 4 + gen_below(r, 8),
    fraction = gen_below(r, 2) ? fraction : (1ull << frac) - 1 - gen_below(r, 4);
    break;
  default: break;
  }
  return sign | (exponent & max) << frac | (fraction & ((1ull << frac) - 1));
}

static inline uint64_t exec_float_register(GenRandom *r) {
  switch (gen_below(r, 8)) {
  case 0: return gen_random(r);
  case 1:
  case 2:
  case 3: return exec_float(r, 52, 11);
  default: return 0xffffffff00000000 | exec_float(r, 23, 8);
  }
}

/* Makes the next state of a job. */
static inline void exec_state(GenRandom *r, const ExecJob *job, ExecState *s) {
  for (int i = 1; i < 32; i++) s->x[i] = exec_integer(r);
  if (!gen_below(r, 4)) s->x[gen_below(r, 31) + 1] = s->x[gen_below(r, 31) + 1];
  for (int i = 0; i < 32; i++) s->f[i] = exec_float_register(r);
  uint64_t rm = gen_below(r, 16) ? gen_below(r, 5) : gen_below(r, 8);
  s->fcsr = rm << 5 | (gen_below(r, 4) ? 0 : gen_below(r, 32));
  for (int i = 0; i < EXEC_WORDS; i++)
    s->memory[i] = gen_below(r, 2) ? exec_integer(r) : exec_float_register(r);
  if (job->pointer) {
    uint64_t at = EXEC_WORDS_AT + 8 + gen_below(r, 40);
    if (gen_below(r, 8)) at &= ~(uint64_t)(job->align - 1);
    s->x[job->pointer] = at - (uint64_t)job->imm;
  }
  if (job->indirect) s->x[job->indirect] = job->target - (uint64_t)job->imm + gen_below(r, 2);
  s->x[0] = s->x[job->base] = 0;
}

/* Writes what differs between two states; returns the record's length. */
static inline size_t exec_record(const ExecState *before, const ExecState *after, unsigned outcome,
                                 uint8_t *out) {
  const uint64_t *a = (const uint64_t *)before, *b = (const uint64_t *)after;
  size_t n = 2;
  out[0] = (uint8_t)outcome;
  out[1] = 0;
  for (int i = 0; i < EXEC_SLOTS; i++) {
    if (a[i] == b[i]) continue;
    out[1]++;
    out[n++] = (uint8_t)i;
    for (int k = 0; k < 8; k++) out[n++] = (uint8_t)(b[i] >> 8 * k);
  }
  return n;
}

#endif
