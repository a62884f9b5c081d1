/* The first line of a script, for the loader and execve. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

/* Blanks around the interpreter and its one optional argument do not count (Linux,
 * fs/binfmt_script.c). */
bool os_script_line(const char *path, char *line, size_t size, char **interp, char **arg) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);
  if (fd >= 0) close(fd);
  if (n < 3 || line[0] != '#' || line[1] != '!') return false;
  line[n] = 0;
  line[strcspn(line, "\n")] = 0;
  for (size_t end = strlen(line); strchr(" \t", line[end - 1]); end--) line[end - 1] = 0;
  char *p = line + 2 + strspn(line + 2, " \t");
  *interp = p;
  p += strcspn(p, " \t");
  *arg = NULL;
  if (*p) {
    *p++ = 0;
    *arg = p + strspn(p, " \t");
  }
  return **interp != 0;
}
