// What the portable guests share: a check that names the line that failed, and one verdict line.
// A guest built on it prints "ok" and exits 0, or prints each failed condition and exits 1.
#ifndef GUEST_H
#define GUEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

static int guest_failures;

#define CHECK(cond)                                                   \
  do {                                                                \
    if (!(cond)) {                                                    \
      guest_failures++;                                               \
      printf("%s:%d: not true: %s\n", __FILE_NAME__, __LINE__, #cond); \
    }                                                                 \
  } while (0)

static inline int guest_verdict(void) {
  if (!guest_failures) puts("ok");
  return guest_failures != 0;
}

#endif
