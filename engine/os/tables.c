/* The tables for those who ask: rows by number, flag sets, struct layouts, names of errors and
 * signals. The syntax of a row's arguments is parsed once, on first use. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "os/os.h"

static OsRow rows[] = {
#define SYSCALL(name, generic, x64, how, classes, ret, args)                                       \
  {#name, generic, x64, how, classes, ret, args, .parsed = false},
#include "os/syscall.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows, MAX_NR = 600 };

static const char *const kind_names[OS_KINDS] = {
    "none",    "int",     "uint",     "hex",       "mode",       "sig",   "ptr",     "fd",
    "dirfd",   "tid",     "path",     "pathnull",  "str",        "flags", "enum",    "in",
    "out",     "outstr",  "outp",     "sin",       "sout",       "inout", "iovi",    "iovo",
    "msghdri", "msghdro", "mmsghdri", "mmsghdro",  "sai",        "sao",   "pollfds", "epollevents",
    "fdset",   "fdpair",  "sigset",   "sigsetout", "waitstatus", "argv",  "envp",    "ptrout",
};

/* ---- structs --------------------------------------------------------------------------------- */

typedef struct Struct {
  const char *name;
  size_t size;
  const KitStructField *fields;
  size_t n;
} Struct;

#define STRUCT(name, size)                          static const KitStructField struct_##name[] = {
#define FIELD(name, offset, size, count, kind, set) {#name, offset, size, count, kind, set},
#define END                                                                                        \
  }                                                                                                \
  ;
#include "os/structs.def"

static const Struct structs[] = {
#define STRUCT(name, size)                                                                         \
  {#name, size, struct_##name, sizeof struct_##name / sizeof *struct_##name},
#define FIELD(name, offset, size, count, kind, set)
#define END
#include "os/structs.def"
};

static const Struct *find_struct(const char *name) {
  for (size_t i = 0; i < sizeof structs / sizeof *structs; i++)
    if (!strcmp(structs[i].name, name)) return &structs[i];
  return NULL;
}

const KitStructField *kit_struct_fields(const KitEmu *emu, const char *name, size_t *n,
                                        size_t *size) {
  char own[32];
  snprintf(own, sizeof own, "%s_x64", name);
  const Struct *s = emu->guest->generic_syscalls ? NULL : find_struct(own);
  if (!s) s = find_struct(name);
  if (!s) return NULL;
  *n = s->n;
  *size = s->size;
  return s->fields;
}

/* ---- flag sets ------------------------------------------------------------------------------- */

#define FLAGS(name)    static const KitFlag flags_##name[] = {
#define ENUM(name)     static const KitFlag flags_##name[] = {
#define F(flag)        {#flag, flag, flag},
#define M(flag, mask)  {#flag, flag, mask},
#define V(name, value) {#name, value, value},
#define END                                                                                        \
  }                                                                                                \
  ;
#include "os/flags.def"

static const struct FlagSet {
  const char *name;
  const KitFlag *flags;
  size_t n;
  bool is_enum;
} flag_sets[] = {
#define FLAGS(name) {#name, flags_##name, sizeof flags_##name / sizeof(KitFlag), false},
#define ENUM(name)  {#name, flags_##name, sizeof flags_##name / sizeof(KitFlag), true},
#define F(flag)
#define M(flag, mask)
#define V(name, value)
#define END
#include "os/flags.def"
};

const KitFlag *kit_flag_set(const KitEmu *emu, const char *set, size_t *n, bool *is_enum) {
  (void)emu;
  for (size_t i = 0; i < sizeof flag_sets / sizeof *flag_sets; i++)
    if (!strcmp(flag_sets[i].name, set)) {
      *n = flag_sets[i].n;
      *is_enum = flag_sets[i].is_enum;
      return flag_sets[i].flags;
    }
  return NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static char *intern(const char *from, size_t n) { /* lives as long as the process: once per row */
  char *s = xmalloc(n + 1);
  memcpy(s, from, n);
  s[n] = 0;
  return s;
}

/* One argument, "name:kind[=set][/len]". */
static void parse_arg(OsRow *row, int i, const char *spec, size_t len) {
  const char *end = spec + len, *colon = memchr(spec, ':', len), *slash = memchr(spec, '/', len),
             *eq = memchr(spec, '=', len);
  const char *kind_end = eq ? eq : slash ? slash : end;
  KitArgInfo *info = &row->info.args[i];
  info->name = intern(spec, (size_t)(colon - spec));
  for (uint8_t k = 0; k < OS_KINDS; k++)
    if (strlen(kind_names[k]) == (size_t)(kind_end - colon - 1) &&
        !memcmp(kind_names[k], colon + 1, strlen(kind_names[k])))
      row->arg[i].kind = k;
  info->kind = kind_names[row->arg[i].kind];
  if (eq) {
    char *set = intern(eq + 1, (size_t)((slash ? slash : end) - eq - 1));
    const Struct *s = find_struct(set);
    info->set = set;
    row->arg[i].size = (uint16_t)(s ? s->size : (size_t)atoi(set));
  }
  row->arg[i].len = (int8_t)(!slash ? -1 : slash[1] == 'r' ? -2 : slash[1] - '0');
  info->len_arg = row->arg[i].len;
}

static void parse(OsRow *row) {
  int n = 0;
  for (const char *p = row->args; *p && n < 6; n++) {
    size_t len = strcspn(p, ",");
    parse_arg(row, n, p, len);
    p += len + (p[len] == ',');
  }
  row->n_args = (uint8_t)n;
  row->info.name = row->name;
  row->info.n_args = (uint32_t)n;
  row->info.ret = row->ret;
  row->info.classes = row->classes;
  row->parsed = true;
}

static int row_nr(const Emu *emu, const OsRow *row) {
  return emu->guest->generic_syscalls ? row->nr_generic : row->nr_x64;
}

OsRow *os_row(const Emu *emu, int nr) {
  static OsRow *by_nr[2][MAX_NR];
  static bool filled[2];
  int which = emu->guest->generic_syscalls;
  if (!filled[which]) {
    for (int i = 0; i < N_ROWS; i++) {
      int n = row_nr(emu, &rows[i]);
      if (n >= 0 && n < MAX_NR) by_nr[which][n] = &rows[i];
    }
    filled[which] = true;
  }
  if (nr < 0 || nr >= MAX_NR || !by_nr[which][nr]) return NULL;
  OsRow *row = by_nr[which][nr];
  if (!row->parsed) parse(row);
  row->info.nr = nr;
  return row;
}

const KitSyscallInfo *kit_syscall_info(const KitEmu *emu, int nr) {
  OsRow *row = os_row(emu, nr);
  return row ? &row->info : NULL;
}

int kit_syscall_find(const KitEmu *emu, const char *name) {
  for (int i = 0; i < N_ROWS; i++)
    if (!strcmp(rows[i].name, name) && row_nr(emu, &rows[i]) >= 0) return row_nr(emu, &rows[i]);
  return -1;
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *kit_errno_name(int err) {
  const char *name = strerrorname_np(err);
  return name ? name : err == 512 ? "ERESTARTSYS" : "E?";
}

const char *kit_errno_text(int err) {
  static __thread char buf[64];
  return strerror_r(err, buf, sizeof buf);
}

const char *kit_signal_name(int signo) {
  static const char *const names[] = {
      "SIG0",      "SIGHUP",  "SIGINT",    "SIGQUIT", "SIGILL",   "SIGTRAP", "SIGABRT", "SIGBUS",
      "SIGFPE",    "SIGKILL", "SIGUSR1",   "SIGSEGV", "SIGUSR2",  "SIGPIPE", "SIGALRM", "SIGTERM",
      "SIGSTKFLT", "SIGCHLD", "SIGCONT",   "SIGSTOP", "SIGTSTP",  "SIGTTIN", "SIGTTOU", "SIGURG",
      "SIGXCPU",   "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO",   "SIGPWR",  "SIGSYS"};
  static __thread char rt[24];
  if (signo >= 0 && signo < 32) return names[signo];
  if (signo == 32) return "SIGRTMIN";
  snprintf(rt, sizeof rt, "SIGRT_%d", signo - 32);
  return rt;
}
