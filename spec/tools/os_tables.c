/* Prints what flags.def and structs.def say, and, of structs, what this architecture's headers say.
 * Built for the host and for each guest: the values must agree, and each architecture has its
 * structs. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utime.h>

typedef struct {
  uint32_t value;
} T_u32;
typedef struct stat T_stat;
typedef struct statx T_statx;
typedef struct statfs T_statfs;
typedef struct timespec T_timespec;
typedef struct timeval T_timeval;
typedef struct timezone T_timezone;
typedef struct itimerspec T_itimerspec;
typedef struct itimerval T_itimerval;
typedef struct rlimit T_rlimit;
typedef struct rusage T_rusage;
typedef struct tms T_tms;
typedef struct sysinfo T_sysinfo;
typedef struct utsname T_utsname;
typedef stack_t T_stack_t;
typedef siginfo_t T_siginfo;
typedef struct sigevent T_sigevent;
typedef struct epoll_event T_epoll_event;
typedef struct open_how T_open_how;
typedef struct mq_attr T_mq_attr;
typedef struct {
  struct {
    int64_t tv_sec, tv_nsec;
  } atime, mtime;
} T_timespec2;
typedef struct {
  struct {
    int64_t tv_sec, tv_usec;
  } atime, mtime;
} T_timeval2;
typedef struct utimbuf T_utimbuf;
typedef struct stat T_stat_x64;
typedef struct epoll_event T_epoll_event_x64;
#undef sa_handler
typedef struct { /* the kernel's, generic */
  uint64_t sa_handler, sa_flags, sa_mask;
} T_sigaction;
typedef struct {
  uint64_t sa_handler, sa_flags, sa_restorer, sa_mask;
} T_sigaction_x64;
#define st_atime_nsec st_atim.tv_nsec
#define st_mtime_nsec st_mtim.tv_nsec
#define st_ctime_nsec st_ctim.tv_nsec

static void flags(void) {
#define FLAGS(name) puts("flags " #name);
#define ENUM(name)  puts("enum " #name);
#define F(name)     printf("  %s %#llx\n", #name, (unsigned long long)name);
#define M(name, mask)                                                                              \
  printf("  %s %#llx %#llx\n", #name, (unsigned long long)name, (unsigned long long)(mask));
#define V(name, value) printf("  %s %#llx\n", #name, (unsigned long long)(value));
#define END
#include "os/flags.def"
}

static int wrong;

/* The layout is meant for this architecture. */
static int applies(const char *type) {
  int x64 = strstr(type, "_x64") != NULL;
#ifdef __x86_64__
  return x64 || (strcmp(type, "stat") && strcmp(type, "sigaction") && strcmp(type, "epoll_event"));
#else
  return !x64;
#endif
}

static void judge(const char *type, const char *field, size_t said, size_t is) {
  if (said == is || !applies(type)) return;
  printf("%s%s%s: %zu in the table, %zu in the headers\n", type, field[0] ? "." : "", field, said,
         is);
  wrong = 1;
}

static void structs(void) {
#define STRUCT(name, size)                                                                         \
  {                                                                                                \
    typedef T_##name T;                                                                            \
    const char *type = #name;                                                                      \
    judge(type, "", size, sizeof(T));
#define FIELD(name, offset, size, count, kind, set) judge(type, #name, offset, FIELD_OFFSET(name));
#define FIELD_OFFSET(name)                          offsetof(T, name)
#define END                                         }
#include "os/structs.def"
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "structs"))
    structs();
  else
    flags();
  return wrong;
}
