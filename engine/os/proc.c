/* Files of /proc in which the guest must see itself, not the engine: made on demand as memory files. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "os/os.h"

/* The part behind /proc/self/, /proc/<our pid>/ or /proc/thread-self/; NULL if it is another path. */
static const char *own_file(const char *path) {
  char own[32];
  size_t n = (size_t)snprintf(own, sizeof own, "/proc/%d/", (int)getpid());
  if (!strncmp(path, "/proc/self/", 11)) return path + 11;
  if (!strncmp(path, own, n)) return path + n;
  if (!strncmp(path, "/proc/thread-self/", 18)) return path + 18;
  return NULL;
}

const char *os_proc_exe(CoreThread *t, const char *path) {
  const char *name = own_file(path);
  return name && !strcmp(name, "exe") ? t->emu->exe_path : NULL;
}

typedef struct Text {
  char *at;
  size_t n;
  FILE *f;
} Text;

static void print_maps(Emu *emu, FILE *f) {
  for (const CoreArea *a = core_area(emu, 0); a; a = core_area(emu, a->end)) {
    int n = fprintf(f, "%08llx-%08llx %c%c%c%c %08llx %02x:%02x %llu ", (unsigned long long)a->start, (unsigned long long)a->end, a->prot & PROT_READ ? 'r' : '-',
                    a->prot & PROT_WRITE ? 'w' : '-', a->prot & PROT_EXEC ? 'x' : '-', a->flags & MAP_SHARED ? 's' : 'p', (unsigned long long)a->offset,
                    major(a->dev), minor(a->dev), (unsigned long long)a->ino);
    fprintf(f, "%*s%s\n", a->name[0] && n < 73 ? 73 - n : 0, "", a->name);
  }
}

/* The host's file with chosen lines replaced: "Name:" of status, the comm of stat. */
static void print_stat(CoreThread *t, FILE *f) {
  char buf[2048];
  FILE *host = fopen("/proc/self/stat", "re");
  size_t n = host ? fread(buf, 1, sizeof buf - 1, host) : 0;
  if (host) fclose(host);
  buf[n] = 0;
  const char *rest = strrchr(buf, ')'), *exe = t->emu->exe_path ? t->emu->exe_path : "?", *base = strrchr(exe, '/');
  if (rest) fprintf(f, "%d (%.15s%s", (int)getpid(), base ? base + 1 : exe, rest);
}

static void print_cpuinfo(Emu *emu, FILE *f) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  if (!emu->guest->generic_syscalls) return;
  for (long i = 0; i < n; i++) fprintf(f, "processor\t: %ld\nhart\t\t: %ld\nisa\t\t: rv64imafdc_zicsr_zifencei_zba_zbb_zbs\nmmu\t\t: sv48\n\n", i, i);
}

static int finish(Text *x, int flags) {
  fclose(x->f);
  int fd = memfd_create("proc", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
  if (fd >= 0) {
    if (write(fd, x->at, x->n) != (ssize_t)x->n) { /* a short file is still a file */ }
    lseek(fd, 0, SEEK_SET);
  }
  free(x->at);
  return fd < 0 ? -errno : fd;
}

int os_proc_open(CoreThread *t, const char *path, int flags) {
  Emu *emu = t->emu;
  const OsProcess *p = os_process(emu);
  if (strncmp(path, "/proc/", 6)) return -1;
  const char *name = own_file(path);
  if (!name) name = !strcmp(path, "/proc/cpuinfo") ? "cpuinfo" : "";
  if (!strcmp(name, "exe")) {
    int fd = open(emu->exe_path, flags & ~(O_NOFOLLOW));
    return fd < 0 ? (errno == 1 ? -EACCES : -errno) : fd;
  }
  if (!strcmp(name, "mem")) return -EACCES; /* would bypass the map's door */
  bool foreign = emu->guest->generic_syscalls;
  const char *const made[] = {"maps", "cmdline", "auxv", "stat", foreign ? "cpuinfo" : "maps"};
  size_t i = 0;
  while (i < sizeof made / sizeof *made && strcmp(made[i], name)) i++;
  if (i == sizeof made / sizeof *made) return -1;
  if ((flags & O_ACCMODE) != O_RDONLY) return -EACCES;
  Text x = {0};
  x.f = open_memstream(&x.at, &x.n);
  if (!x.f) return -ENOMEM;
  switch (i) {
  case 1: fwrite(p->cmdline, 1, p->cmdline_size, x.f); break;
  case 2: fwrite(p->auxv, 1, p->auxv_size, x.f); break;
  case 3: print_stat(t, x.f); break;
  case 4:
    if (foreign) {
      print_cpuinfo(emu, x.f);
      break;
    }
    __attribute__((fallthrough));
  default: print_maps(emu, x.f); break;
  }
  return finish(&x, flags);
}
