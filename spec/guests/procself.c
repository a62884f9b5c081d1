// What /proc/self says must be about the guest: exe, maps (own code, heap, stack), cmdline, comm, fd.
#include <fcntl.h>
#include <limits.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "guest.h"

// Permissions that /proc/self/maps gives for the page of an address, or "" if it is not listed.
static void permissions_of(const void *address, char out[5]) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long from, to, where = (unsigned long)address;
  out[0] = 0;
  CHECK(maps != NULL);
  while (maps && fgets(line, sizeof line, maps)) {
    char mode[8];
    if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && where >= from && where < to) memcpy(out, mode, 5);
  }
  if (maps) fclose(maps);
}

int main(int argc, char **argv) {
  (void)argc;
  char mode[5], link[PATH_MAX], own[PATH_MAX];
  static int data;
  int local;

  ssize_t n = readlink("/proc/self/exe", link, sizeof link - 1);
  CHECK(n > 0);
  link[n > 0 ? n : 0] = 0;
  CHECK(realpath(argv[0], own) && strcmp(own, link) == 0);
  char by_pid[64];
  snprintf(by_pid, sizeof by_pid, "/proc/%d/exe", getpid());
  n = readlink(by_pid, link, sizeof link - 1);
  link[n > 0 ? n : 0] = 0;
  CHECK(strcmp(own, link) == 0);
  int fd = open("/proc/self/exe", O_RDONLY);
  char magic[4] = "";
  CHECK(read(fd, magic, 4) == 4 && memcmp(magic, "\177ELF", 4) == 0);
  close(fd);

  permissions_of((void *)main, mode);
  CHECK(mode[0] == 'r' && mode[1] == '-' && mode[2] == 'x');
  permissions_of(&data, mode);
  CHECK(strcmp(mode, "rw-p") == 0);
  permissions_of(&local, mode);
  CHECK(strcmp(mode, "rw-p") == 0);
  void *block = malloc(100);
  permissions_of(block, mode);
  CHECK(strcmp(mode, "rw-p") == 0);
  free(block);

  char text[4096] = "";
  fd = open("/proc/self/cmdline", O_RDONLY);
  CHECK(read(fd, text, sizeof text) > 0 && strcmp(text, argv[0]) == 0);
  close(fd);
  return guest_verdict();
}
