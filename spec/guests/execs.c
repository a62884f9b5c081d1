// execs PROGRAM ARG...: replaces itself by PROGRAM with those arguments and a new environment.
#include <unistd.h>

#include "guest.h"

int main(int argc, char **argv) {
  char *environment[] = {"FRESH=yes", NULL};
  if (argc < 2) return 2;
  execve(argv[1], argv + 1, environment);
  perror("execve");
  return 1;
}
