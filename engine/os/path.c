/* Paths: the sysroot in front of the host's file system. An absolute path of a foreign guest is
 * tried below the sysroot first, so that its loader finds its own libraries, while everything else
 * (data, /proc, /tmp) is the host's. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

const char *os_host_path(const Emu *emu, const char *path, char *buf, size_t size) {
  if (path[0] != '/' || !emu->sysroot || !emu->sysroot[0] || !strcmp(emu->sysroot, "/"))
    return path;
  if (path[1] == 0 || !strncmp(path, "/proc/", 6) || !strncmp(path, "/dev/", 5) ||
      !strncmp(path, "/tmp/", 5))
    return path;
  int n = snprintf(buf, size, "%s%s", emu->sysroot, path);
  if (n < 0 || (size_t)n >= size || access(buf, F_OK)) return path;
  return buf;
}

bool kit_host_path(KitEmu *emu, const char *guest_path, char *out, size_t size) {
  char buf[PATH_MAX];
  const char *p = os_host_path(emu, guest_path, buf, sizeof buf);
  return snprintf(out, size, "%s", p) < (int)size;
}
