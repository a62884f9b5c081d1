// Calls whose decoding depends on their arguments, made the same way on every architecture:
// strace.lua's text of them is compared with strace's. No result matters but as text.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void handler(int signo) { (void)signo; }

static void sigactions(void) {
  struct {
    void (*handler)(int);
    unsigned long flags, restorer_or_mask, mask;
  } action = {.handler = handler};
  for (int bit = 0; bit < 32; bit++) {
    if (bit == 26) continue; // SA_RESTORER is x86-64's
    action.flags = 1u << bit;
    syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
  }
  struct sigaction old,
      new = {.sa_handler = SIG_IGN, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER | SA_ONSTACK};
  sigfillset(&new.sa_mask);
  sigaction(SIGUSR2, &new, &old);
  sigaction(SIGUSR2, NULL, &old);
}

// Every bit of every set, in calls that fail.
static void flags(void) {
  long all = 0xff, none = 0;
  syscall(SYS_wait4, -1, NULL, 0x60000008 | WNOHANG | WUNTRACED, NULL);
  syscall(SYS_mremap, 0, 0, 0, all, 0), syscall(SYS_preadv2, -1, 0, 0, 0, 0, 31);
  syscall(SYS_fallocate, -1, all, 0, 0), syscall(SYS_flock, -1, 0xef),
      syscall(SYS_splice, -1, 0, -1, 0, 0, all);
  syscall(SYS_renameat2, -1, "x", -1, "y", all), syscall(SYS_msync, 0, 0, all),
      syscall(SYS_getrandom, 0, 0, 15);
  syscall(SYS_inotify_add_watch, -1, "x", 0x0eff), syscall(SYS_faccessat, -100, "x", all);
  syscall(SYS_epoll_ctl, -1, 1, -1, (unsigned[4]){0xf00027ff}),
      syscall(SYS_unshare, 0x0c020000 | 0x400);
  syscall(SYS_openat, -100, "x/y", 03777700 & ~O_PATH, 0377),
      syscall(SYS_newfstatat, -100, "", 0, 0x1f00);
  eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE),
      timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  syscall(SYS_memfd_create, "x", 7u), accept4(-1, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  syscall(SYS_signalfd4, -1, &none, 8, 02004000),
      socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  syscall(SYS_sendto, -1, "x", 1, MSG_OOB | MSG_DONTROUTE | MSG_EOR | MSG_MORE | MSG_NOSIGNAL, NULL,
          0);
}

static void names(void) {
  struct statx stx;
  struct timespec times[2] = {{1, UTIME_NOW}, {1, UTIME_OMIT}};
  syscall(SYS_utimensat, AT_FDCWD, "x", times, 0);
  times[1] = (struct timespec){5, 6};
  syscall(SYS_utimensat, AT_FDCWD, "x", times, 0);
  syscall(SYS_utimensat, AT_FDCWD, "x", NULL, AT_SYMLINK_NOFOLLOW);
  syscall(SYS_openat, AT_FDCWD, "x", O_RDWR | O_CREAT, 0);
  syscall(SYS_openat, AT_FDCWD, "a\n\t\"\\\1\0019\377",
          O_WRONLY | O_TRUNC | O_NOFOLLOW | O_DIRECTORY);
  syscall(SYS_openat, AT_FDCWD, ".", O_RDWR | O_TMPFILE, 0600);
  syscall(SYS_openat, AT_FDCWD, ".", O_PATH | O_CLOEXEC);
  syscall(SYS_openat, AT_FDCWD, "x", O_RDONLY | O_SYNC | O_DSYNC | O_NOATIME);
  syscall(SYS_openat, -1, (char *)8, O_RDONLY);
  syscall(SYS_mkdirat, AT_FDCWD, "y", 07);
  syscall(SYS_mkdirat, AT_FDCWD, "y", 01777);
  syscall(SYS_fchmodat, AT_FDCWD, "y", 04755);
  syscall(SYS_umask, 0);
  syscall(SYS_mknodat, AT_FDCWD, "fifo", S_IFIFO | 0600, 0);
  syscall(SYS_fchownat, AT_FDCWD, "x", -1, -1, AT_SYMLINK_NOFOLLOW);
  syscall(SYS_faccessat, AT_FDCWD, "x", R_OK | W_OK | X_OK);
  syscall(SYS_faccessat, AT_FDCWD, "x", F_OK);
  syscall(SYS_statx, AT_FDCWD, "x", AT_STATX_FORCE_SYNC | AT_SYMLINK_NOFOLLOW, STATX_ALL, &stx);
  syscall(SYS_statx, AT_FDCWD, "nothing", AT_STATX_DONT_SYNC, STATX_SIZE | STATX_MODE, &stx);
  syscall(SYS_renameat2, AT_FDCWD, "x", AT_FDCWD, "y", 1u); // RENAME_NOREPLACE
  syscall(SYS_unlinkat, AT_FDCWD, "y", AT_REMOVEDIR);
  struct stat st;
  syscall(SYS_newfstatat, AT_FDCWD, "/dev/null", &st, 0);
  syscall(SYS_newfstatat, AT_FDCWD, "fifo", &st, AT_SYMLINK_NOFOLLOW);
  struct statfs fs;
  statfs("/proc", &fs);
  statfs("/dev/shm", &fs);
}

static void files(void) {
  char buf[200];
  memset(buf, 'a', sizeof buf);
  int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644), v = 0;
  write(fd, buf, 31), write(fd, buf, 32), write(fd, buf, 33), write(fd, (char *)8, 5),
      write(fd, buf, 0);
  pread(fd, buf, sizeof buf, 90), pread(fd, buf, sizeof buf, 1000);
  struct iovec iov[2] = {{buf, 3}, {buf + 3, 40}};
  writev(fd, iov, 2), preadv(fd, iov, 2, 0), writev(fd, NULL, 1), writev(fd, iov, 0);
  lseek(fd, 0, SEEK_HOLE), lseek(fd, -1, SEEK_SET);
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 2};
  fcntl(fd, F_GETLK, &lock), fcntl(fd, F_OFD_SETLK, &lock), fcntl(fd, F_GET_SEALS),
      fcntl(fd, F_ADD_SEALS, 3);
  fcntl(fd, F_SETLEASE, F_RDLCK), fcntl(fd, F_GETLEASE), fcntl(fd, F_SETSIG, SIGUSR1),
      fcntl(fd, 1055, 0x123456);
  fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND), fcntl(fd, F_GETFL), fcntl(999, F_GETFL);
  fcntl(fd, F_SETFD, FD_CLOEXEC), fcntl(fd, F_GETFD), fcntl(fd, F_SETFD, 0), fcntl(fd, F_GETFD);
  fcntl(fd, F_DUPFD, 50), fcntl(fd, F_DUPFD_CLOEXEC, 50), dup3(fd, 60, O_CLOEXEC), dup3(fd, 61, 0);
  ioctl(fd, TCGETS, buf), ioctl(fd, TIOCGWINSZ, buf), ioctl(fd, FIONBIO, &v),
      ioctl(fd, 0x12345678, &v);
  getrandom(buf, 40, 0), getrandom(buf, 3, GRND_RANDOM | GRND_NONBLOCK);
  syscall(SYS_getcwd, buf, sizeof buf), syscall(SYS_getcwd, buf, 1);
  syscall(SYS_close_range, 62, ~0u, 0), syscall(SYS_close_range, 62, 70, 4);
  close(fd), close(fd);
}

static void sockets(void) {
  char buf[128];
  int v = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP);
  socklen_t len = sizeof buf;
  struct sockaddr_in any = {.sin_family = AF_INET};
  bind(s, (void *)&any, sizeof any), getsockname(s, (void *)buf, &len),
      getpeername(s, (void *)buf, &len);
  static const int options[][2] = {{SOL_SOCKET, SO_TYPE},
                                   {SOL_SOCKET, SO_ERROR},
                                   {SOL_SOCKET, SO_KEEPALIVE},
                                   {IPPROTO_TCP, TCP_NODELAY},
                                   {SOL_SOCKET, SO_ACCEPTCONN}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    len = sizeof v;
    getsockopt(s, options[i][0], options[i][1], &v, &len);
  }
  len = 8, getsockopt(s, SOL_SOCKET, SO_LINGER, buf, &len);
  struct timeval tv = {1, 2};
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv),
      setsockopt(s, SOL_SOCKET, 777, &tv, sizeof tv);
  setsockopt(s, IPPROTO_IPV6, 26, &v, sizeof v), setsockopt(s, SOL_SOCKET, SO_REUSEADDR, NULL, 4);
  socket(AF_UNIX, SOCK_DGRAM, 0), socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0),
      socket(77, SOCK_RAW, 1);
  struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "socket"};
  int u = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(u, (void *)&local, sizeof local), listen(u, 5);
  len = sizeof buf, getsockname(u, (void *)buf, &len), connect(s, (void *)&local, 2);
  struct sockaddr_in6 six = {
      .sin6_family = AF_INET6, .sin6_port = htons(80), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  connect(s, (void *)&six, sizeof six);
  inet_pton(AF_INET6, "2001:db8::1:0:0:7", &six.sin6_addr), connect(s, (void *)&six, sizeof six);
  int pair[2];
  socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair);
  send(pair[0], "hello", 5, MSG_DONTWAIT | MSG_NOSIGNAL),
      recv(pair[1], buf, sizeof buf, MSG_PEEK | MSG_DONTWAIT);
  struct iovec iov = {"ab", 2};
  struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}},
                                {.msg_hdr = {.msg_iov = &iov, .msg_iovlen = 1}}};
  sendmmsg(pair[0], messages, 2, 0), shutdown(pair[0], SHUT_RDWR);
}

static void waiting(void) {
  int p[2], v;
  pipe2(p, O_NONBLOCK);
  struct pollfd fds[2] = {{p[1], POLLOUT | POLLIN, 0}, {-1, 0, 0}};
  struct timespec second = {1, 0}, none = {0, 0};
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGUSR1), sigaddset(&set, 40);
  ppoll(fds, 2, &second, NULL), fds[0].events = 0, ppoll(fds, 1, &none, NULL);
  fds[0].events = POLLOUT, ppoll(fds, 1, NULL, &set);
  fd_set in, out;
  FD_ZERO(&in);
  FD_ZERO(&out);
  FD_SET(p[0], &in);
  FD_SET(p[1], &out);
  second.tv_sec = 1, pselect(p[1] + 1, &in, &out, NULL, &second, &set),
  pselect(0, NULL, NULL, NULL, &none, &set);
  ioctl(p[0], FIONREAD, &v), fcntl(p[0], F_GETPIPE_SZ), fcntl(p[0], F_SETPIPE_SZ, 8192);
  int ep = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event ev = {EPOLLOUT | EPOLLET | EPOLLONESHOT, {.u64 = 0x100000002}};
  epoll_ctl(ep, EPOLL_CTL_ADD, p[1], &ev), epoll_pwait(ep, &ev, 1, 0, &set),
      epoll_ctl(ep, EPOLL_CTL_DEL, p[1], NULL);
  eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK), inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  int t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct itimerspec timer = {{0, 5}, {100, 0}};
  timerfd_settime(t, TFD_TIMER_ABSTIME, &timer, NULL);
  nanosleep(&none, NULL), clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &none, NULL);
}

static void memory(void) {
  char *m = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mmap(NULL, 4096, PROT_NONE, MAP_SHARED, -1, 0),
      mprotect(m, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
  madvise(m, 4096, MADV_DONTNEED), msync(m, 4096, MS_SYNC), madvise(m, 4096, 12345);
  m = mremap(m, 4096, 8192, MREMAP_MAYMOVE);
  mremap(m, 8192, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, m + 0x100000), munmap(m, 4096),
      munmap(m + 1, 4096);
}

static void processes(void) {
  char buf[300];
  prctl(PR_SET_NAME, "name"), prctl(PR_GET_NAME, buf), prctl(PR_SET_PDEATHSIG, SIGKILL),
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  struct sched_param param;
  cpu_set_t cpus;
  syscall(SYS_sched_getscheduler, 0), syscall(SYS_sched_get_priority_min, SCHED_RR),
      syscall(SYS_sched_getparam, 0, &param);
  syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &param),
      syscall(SYS_sched_getaffinity, 0, sizeof cpus, &cpus);
  struct rusage usage;
  struct rlimit limit = {4096, RLIM_INFINITY};
  getrusage(RUSAGE_SELF, &usage), prlimit(0, RLIMIT_CORE, &limit, NULL),
      prlimit(0, RLIMIT_NOFILE, NULL, &limit);
  setpriority(PRIO_PROCESS, 0, 0), getpriority(PRIO_PROCESS, 0);
  sigset_t usr1;
  sigemptyset(&usr1), sigaddset(&usr1, SIGUSR1), sigprocmask(SIG_BLOCK, &usr1, NULL);
  kill(getpid(), SIGUSR1), sigpending(&usr1);
  siginfo_t info;
  struct timespec none = {0, 0};
  sigtimedwait(&usr1, &info, &none), sigtimedwait(&usr1, &info, &none);
  union sigval value = {.sival_ptr = (void *)0x1267};
  sigqueue(getpid(), SIGUSR1, value), sigprocmask(SIG_SETMASK, NULL, &usr1);
  if (!fork()) _exit(3);
  int status;
  waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), wait4(-1, &status, WNOHANG, &usage),
      wait4(-1, &status, WUNTRACED, NULL);
  if (!fork()) raise(SIGTERM);
  wait4(-1, &status, 0, NULL);
  kill(0, 0), syscall(SYS_tgkill, 1 << 22, 1 << 22, SIGRTMIN), kill(getpid(), 77);
  stack_t stack = {.ss_flags = SS_DISABLE}, old;
  sigaltstack(&stack, &old), uname((void *)(uintptr_t)8), syscall(SYS_getresuid, buf, buf, buf);
  syscall(1000, 1, 2, 3, 0, 0x1234, 6);
}

int main(void) {
  sigactions(), flags(), names(), files(), sockets(), waiting(), memory(), processes();
  return 7;
}
