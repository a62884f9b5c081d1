// script PROGRAM: writes a script whose interpreter is PROGRAM, runs it with arguments; the interpreter
// gets the optional word, the script's path and the arguments.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

int main(int argc, char **argv) {
  char text[1024];
  if (argc < 2) return 2;
  int n = snprintf(text, sizeof text, "#!%s  one word \nnothing\n", argv[1]);
  int fd = open("a-script", O_CREAT | O_WRONLY | O_TRUNC, 0700);
  CHECK(write(fd, text, (size_t)n) == n);
  close(fd);
  execl("./a-script", "ignored", "two", "", "three", (char *)NULL);
  perror("execl");
  return 1;
}
