/* What the IR's test programs share: a check counter, a guest state, regions from a few lines. */
#ifndef SPEC_ENGINE_IR_TEST_H
#define SPEC_ENGINE_IR_TEST_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/ir.h"

static int test_passed, test_failed;

#define CHECK(ok, ...)                                                                             \
  do {                                                                                             \
    if (ok) {                                                                                      \
      test_passed++;                                                                               \
    } else if (++test_failed <= 20) {                                                              \
      fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                              \
      fprintf(stderr, __VA_ARGS__);                                                                \
      fputc('\n', stderr);                                                                         \
    }                                                                                              \
  } while (0)
#define CHECK_EQ(got, want, what)                                                                  \
  CHECK((uint64_t)(got) == (uint64_t)(want), "%s: got %" PRIx64 ", want %" PRIx64, what,           \
        (uint64_t)(got), (uint64_t)(want))

static inline int test_end(void) {
  if (test_failed) {
    printf("%d FAILED, %d passed\n", test_failed, test_passed);
    return 1;
  }
  printf("%d passed\n", test_passed);
  return 0;
}

/* The guest of these tests has 32 registers behind IrState. */
#define TEST_REGS   32
#define TEST_REG(n) ((sizeof(IrState) + 7) / 8 * 8 + 8 * (uint64_t)(n))

static inline IrState *test_state(void) {
  IrState *s = mmap(NULL, IR_STATE_WINDOW, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (s == MAP_FAILED) abort();
  return s;
}
static inline uint64_t *test_reg(IrState *s, int n) {
  return (uint64_t *)((char *)s + TEST_REG(n));
}

static inline uint64_t test_random(uint64_t *seed) { /* xorshift64 */
  uint64_t x = *seed;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *seed = x;
}

static inline void test_insn(IrBuilder *b, uint64_t pc, IrBranch branch) {
  ir_builder_insn(b, &(IrInsn){.pc = pc, .len = 4, .branch = (uint8_t)branch});
}

#endif
