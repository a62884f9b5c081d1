/* Files of /proc in which the guest must see itself, not the engine: made on demand as memory
 * files, one row of `views` each. Two more things about /proc: the engine's descriptors are not in
 * fd/ and fdinfo/, and the main guest thread, whose number is the process's, is another thread of
 * the host's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "os/os.h"

typedef unsigned long long Ull;

/* The part behind /proc/self/, /proc/<our pid>/, /proc/thread-self/ and the like of
 * /proc/self/task/<our thread>/, whose thread *of is then; NULL if it is another path. */
static const char *own_file(CoreThread *t, const char *path, CoreThread **of) {
  char own[32];
  size_t n = (size_t)snprintf(own, sizeof own, "/proc/%d/", (int)getpid());
  const char *name = !strncmp(path, "/proc/self/", 11) ? path + 11
                     : !strncmp(path, own, n)          ? path + n
                                                       : NULL;
  *of = core_find_thread(t->emu, (int)getpid());
  if (!strncmp(path, "/proc/thread-self/", 18)) *of = t, name = path + 18;
  if (name && !strncmp(name, "task/", 5)) {
    char *end;
    CoreThread *other = core_find_thread(t->emu, (int)strtol(name + 5, &end, 10));
    if (other && *end == '/') *of = other, name = end + 1;
  }
  if (!*of) *of = t; /* the main thread has ended */
  return name;
}

const char *os_proc_exe(CoreThread *t, const char *path) {
  CoreThread *of;
  if (strncmp(path, "/proc/", 6)) return NULL;
  const char *name = own_file(t, path, &of);
  return name && !strcmp(name, "exe") ? t->emu->exe_path : NULL;
}

bool os_proc_hidden(CoreThread *t, const char *path) {
  CoreThread *of;
  if (strncmp(path, "/proc/", 6)) return false;
  const char *name = own_file(t, path, &of);
  size_t skip = !name ? 0 : !strncmp(name, "fd/", 3) ? 3 : !strncmp(name, "fdinfo/", 7) ? 7 : 0;
  return skip && name[skip] >= '0' && name[skip] <= '9' &&
         os_is_engine_fd(t->emu, atoi(name + skip));
}

/* ---- the views ------------------------------------------------------------------------------- */

static FILE *host_file(CoreThread *of, const char *name) {
  char path[64];
  if (of)
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", of->host_tid, name);
  else
    snprintf(path, sizeof path, "/proc/self/%s", name);
  return fopen(path, "re");
}

static void print_comm(CoreThread *of, char out[17]) {
  FILE *f = host_file(of, "comm");
  out[0] = 0;
  if (!f) return;
  if (!fgets(out, 17, f)) out[0] = 0;
  out[strcspn(out, "\n")] = 0;
  fclose(f);
}

static void view_maps(CoreThread *t, CoreThread *of, FILE *f) {
  (void)of;
  for (const CoreArea *a = core_area(t->emu, 0); a; a = core_area(t->emu, a->end)) {
    int n = fprintf(f, "%08llx-%08llx %c%c%c%c %08llx %02x:%02x %llu ", (Ull)a->start, (Ull)a->end,
                    a->prot & PROT_READ ? 'r' : '-', a->prot & PROT_WRITE ? 'w' : '-',
                    a->prot & PROT_EXEC ? 'x' : '-', a->flags & MAP_SHARED ? 's' : 'p',
                    (Ull)a->offset, major(a->dev), minor(a->dev), (Ull)a->ino);
    fprintf(f, "%*s%s\n", a->name[0] && n < 73 ? 73 - n : 0, "", a->name);
  }
}

/* The host's blocks, as far as they are the guest's. */
static void view_smaps(CoreThread *t, CoreThread *of, FILE *f) {
  char *line = NULL;
  size_t cap = 0;
  bool ours = false;
  FILE *host = host_file(NULL, "smaps");
  (void)t;
  (void)of;
  while (host && getline(&line, &cap, host) > 0) {
    Ull start, end;
    if (sscanf(line, "%llx-%llx ", &start, &end) == 2) ours = start < CORE_LINE;
    if (ours) fputs(line, f);
  }
  if (host) fclose(host);
  free(line);
}

/* What the program has written over its arguments (setproctitle) shows, as it does natively. */
static void print_guest(CoreThread *t, uint64_t from, uint64_t to, FILE *f) {
  char *bytes = xmalloc(to - from + 1);
  if (to > from && !core_peek(t->emu, from, bytes, to - from)) fwrite(bytes, 1, to - from, f);
  free(bytes);
}

static void view_cmdline(CoreThread *t, CoreThread *of, FILE *f) {
  (void)of;
  print_guest(t, os_process(t->emu)->arg_start, os_process(t->emu)->arg_end, f);
}

static void view_environ(CoreThread *t, CoreThread *of, FILE *f) {
  (void)of;
  print_guest(t, os_process(t->emu)->arg_end, os_process(t->emu)->env_end, f);
}

static void view_auxv(CoreThread *t, CoreThread *of, FILE *f) {
  (void)of;
  fwrite(os_process(t->emu)->auxv, 1, os_process(t->emu)->auxv_size, f);
}

/* proc(5) numbers the fields: 1 is the pid, 2 the name in parentheses. */
static void view_stat(CoreThread *t, CoreThread *of, FILE *f) {
  char buf[2048], comm[17], *save, *rest;
  FILE *host = host_file(of == t && of->tid != getpid() ? of : NULL, "stat");
  size_t n = host ? fread(buf, 1, sizeof buf - 1, host) : 0;
  if (host) fclose(host);
  buf[n] = 0;
  rest = strrchr(buf, ')');
  if (!rest) return;
  print_comm(of, comm);
  fprintf(f, "%d (%s)", of->tid, comm);
  int field = 3;
  for (char *word = strtok_r(rest + 1, " \n", &save); word;
       word = strtok_r(NULL, " \n", &save), field++) {
    if (field == 3)
      fprintf(f, " R");
    else if (field == 20)
      fprintf(f, " %u", t->emu->n_threads);
    else if (field == 28)
      fprintf(f, " %llu", (Ull)os_process(t->emu)->stack_sp);
    else
      fprintf(f, " %s", word);
  }
  fputc('\n', f);
}

static void view_status(CoreThread *t, CoreThread *of, FILE *f) {
  const OsProcess *p = os_process(t->emu);
  Ull ignored = 0, caught = 0;
  char *line = NULL;
  size_t cap = 0;
  for (int s = 1; s < OS_SIGNALS; s++) {
    if (p->actions[s].handler == 1)
      ignored |= 1ull << (s - 1); /* SIG_IGN */
    else if (p->actions[s].handler)
      caught |= 1ull << (s - 1);
  }
  FILE *host = host_file(of, "status");
  while (host && getline(&line, &cap, host) > 0) {
    if (!strncmp(line, "Pid:", 4))
      fprintf(f, "Pid:\t%d\n", of->tid);
    else if (!strncmp(line, "Threads:", 8))
      fprintf(f, "Threads:\t%u\n", t->emu->n_threads);
    else if (!strncmp(line, "SigBlk:", 7))
      fprintf(f, "SigBlk:\t%016llx\n", (Ull)os_thread(of)->mask);
    else if (!strncmp(line, "SigIgn:", 7))
      fprintf(f, "SigIgn:\t%016llx\n", ignored);
    else if (!strncmp(line, "SigCgt:", 7))
      fprintf(f, "SigCgt:\t%016llx\n", caught);
    else
      fputs(line, f);
  }
  if (host) fclose(host);
  free(line);
}

static void print_limit(FILE *f, const char *name, const struct rlimit *r, const char *unit) {
  char words[2][24];
  for (int i = 0; i < 2; i++) {
    rlim_t v = i ? r->rlim_max : r->rlim_cur;
    if (v == RLIM_INFINITY)
      snprintf(words[i], sizeof words[i], "unlimited");
    else
      snprintf(words[i], sizeof words[i], "%llu", (Ull)v);
  }
  fprintf(f, "%-25s %-20s %-20s %-10s\n", name, words[0], words[1], unit);
}

static void view_limits(CoreThread *t, CoreThread *of, FILE *f) {
  const OsProcess *p = os_process(t->emu);
  char *line = NULL;
  size_t cap = 0;
  FILE *host = host_file(NULL, "limits");
  (void)of;
  while (host && getline(&line, &cap, host) > 0) {
    if (!strncmp(line, "Max open files", 14))
      print_limit(f, "Max open files", &p->nofile, "files");
    else if (!strncmp(line, "Max stack size", 14))
      print_limit(f, "Max stack size", &p->stack, "bytes");
    else
      fputs(line, f);
  }
  if (host) fclose(host);
  free(line);
}

/* The host's, less the features that the guest is not shown. */
static void filter_cpuinfo(CoreThread *t, FILE *f) {
  FILE *host = fopen("/proc/cpuinfo", "re");
  char *line = NULL, *save;
  size_t cap = 0;
  while (host && getline(&line, &cap, host) > 0) {
    char *colon = strchr(line, ':');
    if (!colon || (strncmp(line, "flags", 5) && strncmp(line, "vmx flags", 9))) {
      fputs(line, f);
    } else if (line[0] == 'f') {
      fprintf(f, "%.*s:", (int)(colon - line), line);
      for (char *word = strtok_r(colon + 1, " \n", &save); word;
           word = strtok_r(NULL, " \n", &save))
        if (t->emu->guest->shows_feature(t->state, word)) fprintf(f, " %s", word);
      fputc('\n', f);
    }
  }
  if (host) fclose(host);
  free(line);
}

static void view_cpuinfo(CoreThread *t, CoreThread *of, FILE *f) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  (void)of;
  if (t->emu->guest->shows_feature) {
    filter_cpuinfo(t, f);
    return;
  }
  for (long i = 0; i < n; i++)
    fprintf(f,
            "processor\t: %ld\nhart\t\t: %ld\nisa\t\t: "
            "rv64imafdc_zicsr_zifencei_zba_zbb_zbs\nmmu\t\t: sv48\n\n",
            i, i);
}

static const struct View {
  const char *name;
  void (*print)(CoreThread *t, CoreThread *of, FILE *f);
} views[] = {
    {"maps", view_maps},       {"smaps", view_smaps},   {"cmdline", view_cmdline},
    {"environ", view_environ}, {"auxv", view_auxv},     {"stat", view_stat},
    {"status", view_status},   {"limits", view_limits},
};

/* ---- opening --------------------------------------------------------------------------------- */

static int make_file(CoreThread *t, CoreThread *of, const struct View *view, int flags) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  if (!f) return -ENOMEM;
  view->print(t, of, f);
  fclose(f);
  int fd = memfd_create(view->name, flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
  if (fd >= 0 && write(fd, text, n) != (ssize_t)n) {
    close(fd);
    fd = -1;
    errno = ENOMEM;
  }
  if (fd >= 0) lseek(fd, 0, SEEK_SET);
  free(text);
  return fd < 0 ? -errno : fd;
}

/* An errno of 1 would look like "not one of ours". */
static int opened(int fd) { return fd >= 0 ? fd : errno == EPERM ? -EACCES : -errno; }

int os_proc_open(CoreThread *t, const char *path, int flags) {
  CoreThread *of;
  if (strncmp(path, "/proc/", 6)) return -1;
  if (os_proc_hidden(t, path)) return -ENOENT;
  const char *name = own_file(t, path, &of);
  const struct View cpuinfo = {"cpuinfo", view_cpuinfo};
  const struct View *view = !strcmp(path, "/proc/cpuinfo") ? &cpuinfo : NULL;
  for (size_t i = 0; name && i < sizeof views / sizeof *views; i++)
    if (!strcmp(views[i].name, name)) view = &views[i];
  if (view) return (flags & O_ACCMODE) != O_RDONLY ? -EACCES : make_file(t, of, view, flags);
  if (!name) return -1;
  if (!strcmp(name, "exe")) return opened(open(t->emu->exe_path, flags & ~O_NOFOLLOW));
  if (!strcmp(name, "mem")) return -EACCES; /* would bypass the map's door */
  if (!strcmp(name, "comm")) {
    char host[64];
    snprintf(host, sizeof host, "/proc/self/task/%d/comm", of->host_tid);
    return opened(open(host, flags));
  }
  return -1;
}
