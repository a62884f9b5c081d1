// A global written by three functions, at three sizes, for watchpoints and "who wrote this?".
#include "guest.h"

volatile long watched;
volatile long neighbour;

static NOINLINE void by_store(long value) { watched = value; }
static NOINLINE void by_byte(char value) { ((volatile char *)&watched)[1] = value; }
static NOINLINE void by_copy(const long *from) { memcpy((void *)&watched, from, sizeof *from); }

int main(void) {
  static volatile long source = 0x1122334455667788;
  for (int i = 0; i < 3; i++) {
    neighbour = i;
    by_store(i);
    by_byte((char)i);
  }
  by_copy((const long *)&source);
  printf("%lx\n", watched);
  return 0;
}
