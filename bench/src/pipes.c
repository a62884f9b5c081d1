// Syscall-heavy: short messages through a pipe, with poll and small calls in between.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  long messages = argc > 1 ? atol(argv[1]) : 1000, sum = 0;
  int ends[2];
  if (pipe(ends)) return 1;
  for (long i = 0; i < messages; i++) {
    char out[2][16] = {"message", "number"}, in[32];
    struct iovec parts[2] = {{out[0], 16}, {out[1], 16}};
    out[1][7] = (char)(i & 63);
    struct pollfd ready = {.fd = ends[0], .events = POLLIN};
    if (i % 2 ? writev(ends[1], parts, 2) != 32 : write(ends[1], out, 32) != 32) return 2;
    if (i % 4 == 0 && (poll(&ready, 1, -1) != 1 || getppid() <= 0)) return 3;
    if (read(ends[0], in, sizeof in) != 32) return 4;
    sum += in[23];
  }
  printf("%ld\n", sum);
}
