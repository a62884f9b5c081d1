// System calls over memory that is mapped, but lies behind the end of its file: EFAULT, as for memory that is not mapped.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define FAULTS(call) CHECK((errno = 0, (call) == -1 && errno == EFAULT))

int main(void) {
  long page = sysconf(_SC_PAGESIZE);
  int fd = open("gone", O_CREAT | O_RDWR | O_TRUNC, 0600);
  CHECK(ftruncate(fd, 2 * page) == 0);
  char *whole = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *gone = whole + page;
  memset(whole, 'a', page);
  CHECK(ftruncate(fd, page) == 0);

  FAULTS(syscall(SYS_nanosleep, gone, NULL));
  FAULTS(uname((struct utsname *)gone));
  FAULTS(open(gone, O_RDONLY));
  FAULTS(open(gone - 10, O_RDONLY)); // a name that goes on where nothing is
  FAULTS(syscall(SYS_newfstatat, AT_FDCWD, "/", gone, 0));
  FAULTS(write(fd, gone, 1));
  FAULTS(writev(fd, (struct iovec *)gone, 1));
  FAULTS(syscall(SYS_ppoll, gone, 1, NULL, NULL, 8));
  FAULTS(syscall(SYS_rt_sigprocmask, SIG_BLOCK, gone, NULL, 8));
  FAULTS(syscall(SYS_rt_sigaction, SIGUSR1, gone, NULL, 8));
  FAULTS(pipe2((int *)gone, 0));
  FAULTS(syscall(SYS_execve, gone, NULL, NULL));
  FAULTS(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, gone, NULL));
  FAULTS(syscall(SYS_futex, gone, 0, 0, NULL));
  int ep = epoll_create1(0);
  FAULTS(epoll_ctl(ep, EPOLL_CTL_ADD, 0, (struct epoll_event *)gone));
  CHECK(getpid() > 0 && write(fd, whole, 10) == 10); // and life goes on
  unlink("gone");
  return guest_verdict();
}
