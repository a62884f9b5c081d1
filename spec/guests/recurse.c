// recurse N (default 10000): recursion N deep with a frame of some hundred bytes, three times over.
#include "guest.h"

static NOINLINE long descend(long depth) {
  volatile char frame[100];
  for (int i = 0; i < 100; i += 25) frame[i] = (char)depth;
  if (depth == 0) return 0;
  long below = descend(depth - 1);
  return below + 1 + (frame[0] != (char)depth);
}

int main(int argc, char **argv) {
  long depth = argc > 1 ? atol(argv[1]) : 10000;
  for (int i = 0; i < 3; i++) CHECK(descend(depth) == depth);
  return guest_verdict();
}
