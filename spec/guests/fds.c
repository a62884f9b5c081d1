// The guest sees just the descriptors that it would see natively: numbers are given from 3 on, /proc/self/fd
// lists what it opened, and closing everything, or using up all numbers, disturbs nothing but itself.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "guest.h"

static int listed(int *highest) {
  DIR *dir = opendir("/proc/self/fd");
  int count = 0;
  *highest = -1;
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    int fd = atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == dirfd(dir)) continue;
    count++;
    if (fd > *highest) *highest = fd;
  }
  if (dir) closedir(dir);
  return count;
}

int main(void) {
  int highest;
  close_range(3, ~0u, 0); // whatever the shell left open
  CHECK(listed(&highest) == 3 && highest == 2);
  int fd = open("/dev/null", O_RDONLY);
  CHECK(fd == 3 && open("/dev/null", O_RDONLY) == 4 && fcntl(3, F_DUPFD, 10) == 10);
  CHECK(listed(&highest) == 6 && highest == 10);
  for (int i = 3; i < 1024; i++) close(i);
  CHECK(listed(&highest) == 3);
  CHECK(open("/dev/null", O_RDONLY) == 3);
  CHECK(close_range(3, ~0u, 0) == 0 && fcntl(3, F_GETFD) == -1 && errno == EBADF);
  CHECK(dup2(0, 500) == 500 && close(500) == 0);

  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 20;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  int opened = 0;
  while (open("/dev/null", O_RDONLY) >= 0) opened++;
  CHECK(errno == EMFILE && opened == 17);
  close_range(3, ~0u, 0);
  close(0);
  CHECK(open("/dev/null", O_RDONLY) == 0);
  return guest_verdict();
}
