// exitcode N [how]: leaves with status N by return, exit (after an atexit line), _exit or quick_exit.
#include <unistd.h>

#include "guest.h"

static void last_words(void) { puts("atexit"); }

int main(int argc, char **argv) {
  int status = argc > 1 ? atoi(argv[1]) : 0;
  const char *how = argc > 2 ? argv[2] : "return";
  if (strcmp(how, "_exit") == 0) _exit(status);
  if (strcmp(how, "quick_exit") == 0) quick_exit(status);
  atexit(last_words);
  if (strcmp(how, "exit") == 0) exit(status);
  return status;
}
