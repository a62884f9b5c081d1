/* The x86-64 oracle: what instructions and short sequences do to random states, natively and under
 * kitlua.
 *
 *   x64_oracle_gen jobs SEED FIRST N STATES | x64_oracle hash
 *   x64_oracle_gen jobs SEED FIRST N STATES | kitlua -- x64_oracle hash
 *
 * must print the same. A job is code and the seed of some states. The generator (x64_oracle_gen.c)
 * makes jobs from what Zydis can decode; job number I of a seed is always the same. The runner
 * (x64_oracle.c) is a static program without libc and without vector instructions of its own: it
 * writes each job's code to a slot, and for each state loads all registers, jumps there, catches
 * whatever signal comes, and mixes everything that can be seen afterwards into a hash: registers,
 * flags, fs and gs base, the XSAVE image, memory, signal, code, address, error code and pc.
 *
 * Memory is at fixed addresses below 2^31:
 *
 *   ORACLE_CODE      slots of 128 bytes; every 32nd lies across two pages
 *   ORACLE_WINDOW    five pages: none, read-write, read-write, read-only, none
 */
#ifndef X64_ORACLE_H
#define X64_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORACLE_CODE   0x10000040ull
#define ORACLE_WINDOW 0x20000000ull
#define ORACLE_MIDDLE                                                                              \
  (ORACLE_WINDOW + 0x2400) /* most memory operands are at or shortly behind it */
#define ORACLE_FS 16       /* numbers of the segments' bases, behind the general registers */
#define ORACLE_GS 17
enum {
  ORACLE_SLOT = 128,
  ORACLE_CHUNK = 1024,
  ORACLE_CODE_MAX = 80,
  ORACLE_FIXES = 12,
  ORACLE_PAGE = 4096
};

/* What a register has to be for the code to make sense. */
enum {
  FIX_POINTER, /* a place in the window, less `add`; mostly aligned to `align` */
  FIX_INDEX,   /* small */
  FIX_BITS,    /* small as a bit offset */
  FIX_COUNT,   /* a number of repetitions */
  FIX_INDEX32, /* a vector register of small elements */
  FIX_INDEX64,
};

typedef struct OracleFix {
  uint8_t reg, kind, align;
  bool is_middle; /* always aligned and in the middle */
  int32_t add;
} OracleFix;

/* Fields of a memory operand that hold the code's own address, which is not the guest's in
 * translated code: x87's instruction pointer. And XSAVE's header: which parts are in their initial
 * state is the CPU's own affair. */
enum { IMAGE_NONE, IMAGE_FXSAVE, IMAGE_ENV, IMAGE_ENV16, IMAGE_XSAVE };

typedef struct OracleJob {
  uint64_t seed;
  uint32_t index;
  uint16_t form, states;
  uint8_t len, start; /* bytes of code; where in the slot they begin */
  uint8_t n_fixes;
  uint8_t image; /* IMAGE_*, at fixes[0]'s place */
  bool no_trap;  /* memory must not have a trap flag to pop */
  uint8_t n_insns;
  uint8_t unused[2];
  OracleFix fixes[ORACLE_FIXES];
  uint8_t code[ORACLE_CODE_MAX];
} OracleJob;

typedef struct OracleRandom {
  uint64_t state;
} OracleRandom;

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t oracle_random(OracleRandom *r) {
  uint64_t z = r->state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static inline uint32_t oracle_below(OracleRandom *r, uint32_t n) {
  return (uint32_t)((oracle_random(r) >> 32) * n >> 32);
}

static inline uint64_t oracle_slot(uint32_t index) {
  return ORACLE_CODE + (uint64_t)(index % ORACLE_CHUNK) * ORACLE_SLOT;
}

#endif
