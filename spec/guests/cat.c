// Copies stdin to stdout with read and write, then reports the byte count on stderr.
#include <unistd.h>

#include "guest.h"

int main(void) {
  char buffer[4096];
  long total = 0;
  for (ssize_t n; (n = read(0, buffer, sizeof buffer)) > 0; total += n) {
    for (ssize_t done = 0; done < n;) {
      ssize_t wrote = write(1, buffer + done, (size_t)(n - done));
      if (wrote < 0) return 1;
      done += wrote;
    }
  }
  fprintf(stderr, "%ld bytes\n", total);
  return 0;
}
