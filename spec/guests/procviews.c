// /proc/self beyond procself.c: names, status, limits, environment, threads, and descriptors that are only the program's own.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

static char text[1 << 16];

static const char *contents(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  text[n < 0 ? 0 : n] = 0;
  if (fd >= 0) close(fd);
  return text;
}

static long field(const char *name) {
  const char *at = strstr(contents("/proc/self/status"), name);
  return at ? strtol(at + strlen(name), NULL, 0) : -1;
}

static int entries(const char *path) {
  DIR *dir = opendir(path);
  int n = 0;
  for (struct dirent *d; dir && (d = readdir(dir));) n += d->d_name[0] != '.';
  if (dir) closedir(dir);
  return n;
}

static pthread_barrier_t barrier;

static void *other(void *arg) {
  (void)arg;
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  CHECK(poll(NULL, 0, 20) == 0);
  clock_gettime(CLOCK_MONOTONIC, &after);
  prctl(PR_SET_NAME, "second");
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

int main(int argc, char **argv) {
  (void)argc;
  char path[64];
  struct rlimit limit;
  struct stat st, own;
  const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];

  CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0); // what whoever started us left open
  CHECK(strncmp(contents("/proc/self/comm"), name, strlen(name)) == 0);
  CHECK(strcmp(contents("/proc/self/environ"), "LANG=C") == 0);
  CHECK(strstr(contents("/proc/self/stat"), name) && strtol(text, NULL, 10) == getpid());
  CHECK(strstr(contents("/proc/self/status"), name) != NULL);
  CHECK(field("Pid:") == getpid() && field("Tgid:") == getpid() && field("Threads:") == 1);
  CHECK(stat("/proc/self/exe", &st) == 0 && stat(argv[0], &own) == 0 && st.st_ino == own.st_ino);
  struct statx sx;
  CHECK(statx(AT_FDCWD, "/proc/self/exe", 0, STATX_INO, &sx) == 0 && sx.stx_ino == own.st_ino);

  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  snprintf(path, sizeof path, "Max open files            %llu ", (unsigned long long)limit.rlim_cur);
  CHECK(strstr(contents("/proc/self/limits"), path) != NULL);
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = 1 << 30; // must not starve whoever runs us
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0 && getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == 1 << 30);

  CHECK(entries("/proc/self/fd") == 4); // three, and the directory's
  CHECK(entries("/proc/self/task") == 1);
  CHECK(open("/proc/self/fd/77", O_RDONLY) == -1 && errno == ENOENT);

  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
  pthread_barrier_wait(&barrier);
  CHECK(entries("/proc/self/task") == 2 && field("Threads:") == 2);
  prctl(PR_SET_NAME, "first");
  CHECK(strcmp(contents("/proc/self/comm"), "first\n") == 0);
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", getpid());
  CHECK(strcmp(contents(path), "first\n") == 0);
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  return guest_verdict();
}
