// C11 atomics of every size and operation, alone and contended by four threads.
#include <pthread.h>
#include <stdint.h>

#include "guest.h"

#define OPERATIONS(type, name)                                                       \
  static NOINLINE void name(void) {                                                  \
    type x = 5, expected = 5;                                                        \
    CHECK(__atomic_fetch_add(&x, 3, __ATOMIC_SEQ_CST) == 5 && x == 8);               \
    CHECK(__atomic_fetch_sub(&x, 9, __ATOMIC_ACQUIRE) == 8 && x == (type)-1);        \
    CHECK(__atomic_fetch_and(&x, 0x5a, __ATOMIC_RELEASE) == (type)-1 && x == 0x5a);  \
    CHECK(__atomic_fetch_or(&x, 0x05, __ATOMIC_RELAXED) == 0x5a && x == 0x5f);       \
    CHECK(__atomic_fetch_xor(&x, 0x5f, __ATOMIC_ACQ_REL) == 0x5f && x == 0);         \
    CHECK(__atomic_exchange_n(&x, 5, __ATOMIC_SEQ_CST) == 0 && x == 5);              \
    CHECK(__atomic_compare_exchange_n(&x, &expected, 6, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)); \
    CHECK(!__atomic_compare_exchange_n(&x, &expected, 7, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)); \
    CHECK(expected == 6 && x == 6);                                                  \
  }

OPERATIONS(uint8_t, test_8)
OPERATIONS(uint16_t, test_16)
OPERATIONS(uint32_t, test_32)
OPERATIONS(uint64_t, test_64)

static uint32_t sum32;
static uint64_t sum64, product = 1, swapped;
static uint8_t bytes[4];

static void *contend(void *arg) {
  uint64_t id = (uint64_t)(uintptr_t)arg;
  for (int i = 0; i < 1000; i++) {
    __atomic_fetch_add(&sum32, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum64, id, __ATOMIC_RELAXED);
    __atomic_fetch_add(&bytes[id & 3], 1, __ATOMIC_RELAXED);
    uint64_t old = __atomic_load_n(&product, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&product, &old, old * 3, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
    __atomic_fetch_add(&swapped, __atomic_exchange_n(&swapped, 0, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
  }
  return NULL;
}

int main(void) {
  test_8();
  test_16();
  test_32();
  test_64();
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, contend, (void *)i);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  uint64_t power = 1;
  for (int i = 0; i < 4000; i++) power *= 3;
  CHECK(sum32 == 4000 && sum64 == 6000 && product == power);
  for (int i = 0; i < 4; i++) CHECK(bytes[i] == (uint8_t)1000);
  return guest_verdict();
}
