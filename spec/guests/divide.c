// Integer division at its corners through C (where defined), and shifts, multiplies, rotations, counts.
#include <stdint.h>

#include "guest.h"

static NOINLINE int64_t quotient(int64_t a, int64_t b) { return a / b; }
static NOINLINE int64_t rest(int64_t a, int64_t b) { return a % b; }
static NOINLINE uint64_t uquotient(uint64_t a, uint64_t b) { return a / b; }
static NOINLINE int32_t quotient32(int32_t a, int32_t b) { return a / b; }
static NOINLINE int32_t rest32(int32_t a, int32_t b) { return a % b; }
static NOINLINE uint64_t high(uint64_t a, uint64_t b) { return (uint64_t)(((unsigned __int128)a * b) >> 64); }
static NOINLINE int64_t shigh(int64_t a, int64_t b) { return (int64_t)(((__int128)a * b) >> 64); }
static NOINLINE __int128 wide(__int128 a, __int128 b) { return a / b; }

int main(void) {
  CHECK(quotient(-7, 2) == -3 && rest(-7, 2) == -1 && rest(7, -2) == 1);
  CHECK(quotient(INT64_MIN, 1) == INT64_MIN && rest(INT64_MIN, 3) == -2);
  CHECK(uquotient(UINT64_MAX, 10) == 1844674407370955161u);
  CHECK(quotient32(INT32_MIN, 3) == -715827882 && rest32(INT32_MIN, 10) == -8);
  CHECK(high(UINT64_MAX, UINT64_MAX) == UINT64_MAX - 1);
  CHECK(shigh(INT64_MIN, INT64_MIN) == (1l << 62) && shigh(-1, 1) == -1);
  CHECK(wide((__int128)1 << 100, 3) * 3 + 1 == (__int128)1 << 100);
  volatile uint64_t x = 0x00f0000000000800;
  CHECK(__builtin_clzl(x) == 8 && __builtin_ctzl(x) == 11 && __builtin_popcountl(x) == 5);
  CHECK(__builtin_bswap64(x) == 0x000800000000f000);
  volatile int by = 37;
  CHECK(((x << by) | (x >> (64 - by))) == ((x >> (64 - by)) | (x << by)));
  return guest_verdict();
}
