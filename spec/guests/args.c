// Prints argc, argv and the environment it was started with (sorted as given).
#include "guest.h"

extern char **environ;

int main(int argc, char **argv) {
  printf("argc = %d\n", argc);
  for (int i = 1; i < argc; i++) printf("argv[%d] = <%s>\n", i, argv[i]);
  CHECK(argv[argc] == NULL);
  for (char **e = environ; *e; e++) printf("env <%s>\n", *e);
  return guest_verdict();
}
