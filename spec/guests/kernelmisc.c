// Calls that programs make now and then: memfd, sendfile, splice, copy_file_range, inotify, ioctl, pidfd,
// descriptor flags, scheduling queries, extended attributes.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "guest.h"

static void test_copying(void) {
  char text[32] = "";
  int memory = memfd_create("memory", MFD_CLOEXEC), ends[2];
  CHECK(memory >= 0 && write(memory, "0123456789", 10) == 10);
  CHECK(pipe(ends) == 0);
  off_t offset = 2;
  CHECK(sendfile(ends[1], memory, &offset, 4) == 4 && offset == 6);
  int pending = 0;
  CHECK(ioctl(ends[0], FIONREAD, &pending) == 0 && pending == 4);
  CHECK(read(ends[0], text, 32) == 4 && memcmp(text, "2345", 4) == 0);
  loff_t from = 7;
  CHECK(splice(memory, &from, ends[1], NULL, 3, 0) == 3 && from == 10);
  CHECK(read(ends[0], text, 32) == 3 && memcmp(text, "789", 3) == 0);
  int file = open("copied", O_RDWR | O_CREAT | O_TRUNC, 0600), other = open("copied2", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(write(file, "0123456789", 10) == 10);
  from = 1;
  CHECK(copy_file_range(file, &from, other, NULL, 5, 0) == 5);
  CHECK(pread(other, text, 32, 0) == 5 && memcmp(text, "12345", 5) == 0);
  CHECK(fallocate(file, 0, 0, 4096) == 0 && lseek(file, 0, SEEK_END) == 4096);
  CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL) == 0 && readahead(file, 0, 4096) == 0);
  CHECK(fgetxattr(file, "user.none", text, 32) == -1 && (errno == ENODATA || errno == EOPNOTSUPP));
  CHECK(unlink("copied") == 0 && unlink("copied2") == 0);
  CHECK(fcntl(ends[1], F_SETPIPE_SZ, 65536) == 65536 && fcntl(ends[0], F_GETPIPE_SZ) == 65536);
  CHECK(fcntl(ends[0], F_DUPFD_CLOEXEC, 30) == 30 && fcntl(30, F_GETFD) == FD_CLOEXEC);
}

static void test_inotify(void) {
  int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  char buffer[512] __attribute__((aligned(8)));
  CHECK(mkdir("watched", 0700) == 0);
  int watch = inotify_add_watch(fd, "watched", IN_CREATE);
  CHECK(watch > 0);
  close(open("watched/file", O_CREAT | O_WRONLY, 0600));
  CHECK(read(fd, buffer, sizeof buffer) > 0);
  const struct inotify_event *event = (const struct inotify_event *)buffer;
  CHECK(event->wd == watch && (event->mask & IN_CREATE) && strcmp(event->name, "file") == 0);
  CHECK(inotify_rm_watch(fd, watch) == 0);
  CHECK(unlink("watched/file") == 0 && rmdir("watched") == 0);
}

static void test_terminal(void) {
  struct winsize size;
  int fd = open("/dev/null", O_RDWR);
  CHECK(ioctl(fd, TIOCGWINSZ, &size) == -1 && errno == ENOTTY);
  CHECK(!isatty(fd));
}

static void test_scheduling(void) {
  CHECK(sched_getscheduler(0) == SCHED_OTHER);
  CHECK(sched_get_priority_max(SCHED_FIFO) == 99);
  unsigned cpu;
  CHECK(getcpu(&cpu, NULL) == 0);
  pid_t child = fork();
  if (child == 0) _exit(4);
  int fd = (int)syscall(SYS_pidfd_open, child, 0), status;
  CHECK(fd >= 0);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
}

int main(void) {
  test_copying();
  test_inotify();
  test_terminal();
  test_scheduling();
  return guest_verdict();
}
