/* execve. The new program runs under kitlua again: this command with its script if children are traced, else without a script. A program of the
 * host's own architecture, which a foreign guest may call, is executed by the host. All that can fail is found out before the
 * point of no return, with the kernel's error numbers. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

#define MAX_STRINGS 100000
#define MAX_DEPTH   5

#define HOST_MACHINE 62 /* EM_X86_64 */

typedef VEC(char *) Strings;

static void free_strings(Strings *s) {
  for (size_t i = 0; i < s->n; i++) free(s->at[i]);
  vec_free(s);
}

static int read_strings(CoreThread *t, uint64_t va, Strings *out) {
  for (uint64_t p; va; va += 8) {
    size_t len;
    if (guest_read(t->emu, t, va, &p, 8)) return -EFAULT;
    if (!p) break;
    const char *s = guest_string(t->emu, t, p, &len);
    if (!s) return -EFAULT;
    if (out->n >= MAX_STRINGS) return -E2BIG;
    vec_push(out, xstrdup(s));
  }
  return 0;
}

/* 0 if path can be executed, else the kernel's error. */
static int executable(const char *path) {
  struct stat st;
  if (stat(path, &st)) return -errno;
  if (!S_ISREG(st.st_mode)) return -EACCES;
  return access(path, X_OK) ? -errno : 0;
}

/* The first line of a script: interpreter and argument. */
static bool script_interpreter(const char *path, char *line, size_t size, char **interp, char **arg) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);
  if (fd >= 0) close(fd);
  if (n < 3 || line[0] != '#' || line[1] != '!') return false;
  line[n] = 0;
  line[strcspn(line, "\n")] = 0;
  char *p = line + 2 + strspn(line + 2, " \t");
  *interp = p;
  p += strcspn(p, " \t");
  *arg = NULL;
  if (*p) {
    *p++ = 0;
    p += strspn(p, " \t");
    if (*p) *arg = p;
  }
  return **interp != 0;
}

typedef struct Exec {
  char path[PATH_MAX + 64]; /* on the host */
  Strings argv, envp;
} Exec;

static void insert(Strings *s, size_t at, const char *word) {
  vec_push(s, NULL);
  memmove(&s->at[at + 1], &s->at[at], (s->n - 1 - at) * sizeof *s->at);
  s->at[at] = xstrdup(word);
}

/* Follows "#!" lines until there is an ELF file. */
static int resolve(CoreThread *t, Exec *e, const char *shown) {
  char line[256], *interp, *arg, script[PATH_MAX];
  snprintf(script, sizeof script, "%s", shown);
  for (int depth = 0; depth < MAX_DEPTH; depth++) {
    int err = executable(e->path);
    if (err) return err;
    if (!script_interpreter(e->path, line, sizeof line, &interp, &arg)) return os_elf_machine(e->path) ? 0 : -ENOEXEC;
    if (e->argv.n) {
      free(e->argv.at[0]);
      e->argv.at[0] = xstrdup(script);
    } else {
      vec_push(&e->argv, xstrdup(script));
    }
    if (arg) insert(&e->argv, 0, arg);
    insert(&e->argv, 0, interp);
    snprintf(script, sizeof script, "%s", interp);
    char buf[PATH_MAX + 64];
    snprintf(e->path, sizeof e->path, "%s", os_host_path(t->emu, interp, buf, sizeof buf));
  }
  return -ELOOP;
}

/* The kitlua command: ourselves, if we are it. */
static bool find_kitlua(char *out, size_t size) {
  ssize_t n = readlink("/proc/self/exe", out, size - 1);
  out[n < 0 ? 0 : n] = 0;
  const char *base = strrchr(out, '/');
  if (base && !strcmp(base + 1, "kitlua")) return true;
  const char *named = getenv("KITLUA"), *path = getenv("PATH");
  if (named) return snprintf(out, size, "%s", named) < (int)size;
  while (path && *path) {
    size_t len = strcspn(path, ":");
    snprintf(out, size, "%.*s/kitlua", (int)len, path);
    if (!access(out, X_OK)) return true;
    path += len + (path[len] == ':');
  }
  return false;
}

/* kitlua [options] [script and its options] -- path args: as opt.reexec says, argv[0] kept apart. */
static bool wrap(Emu *emu, Exec *e, char *kitlua, size_t size) {
  if (!find_kitlua(kitlua, size)) return false;
  Strings w = {0};
  const char *const *pre = emu->opt.reexec;
  vec_push(&w, xstrdup("kitlua"));
  vec_push(&w, xstrdup("--argv0"));
  vec_push(&w, xstrdup(e->argv.n ? e->argv.at[0] : ""));
  if (!pre && emu->sysroot) {
    vec_push(&w, xstrdup("--sysroot"));
    vec_push(&w, xstrdup(emu->sysroot));
  }
  for (size_t i = 1; pre && pre[0] && pre[i]; i++) vec_push(&w, xstrdup(pre[i]));
  vec_push(&w, xstrdup("--"));
  vec_push(&w, xstrdup(e->path));
  for (size_t i = 1; i < e->argv.n; i++) vec_push(&w, xstrdup(e->argv.at[i]));
  free_strings(&e->argv);
  e->argv.at = w.at;
  e->argv.n = w.n;
  e->argv.cap = w.cap;
  return true;
}

static int64_t execute(CoreThread *t, Exec *e, const char *shown) {
  Emu *emu = t->emu;
  char kitlua[PATH_MAX];
  int err = resolve(t, e, shown);
  if (err) return err;
  uint16_t machine = os_elf_machine(e->path);
  bool ours = guest_for_machine(machine) != NULL;
  if (!ours && machine != HOST_MACHINE) return -ENOEXEC;
  const char *path = e->path;
  if (ours) {
    if (!wrap(emu, e, kitlua, sizeof kitlua)) {
      fprintf(stderr, "kitlua: cannot run %s: the kitlua command is not in PATH (name it in the variable KITLUA)\n", e->path);
      return -ENOEXEC;
    }
    path = kitlua;
  }
  vec_push(&e->argv, NULL);
  vec_push(&e->envp, NULL);
  fflush(NULL);
  /* The host's mask and ignored signals are the guest's already; the limits that we raised go back. */
  struct rlimit host, own = os_process(emu)->nofile;
  getrlimit(RLIMIT_NOFILE, &host);
  setrlimit(RLIMIT_NOFILE, &own);
  execve(path, e->argv.at, e->envp.at);
  err = -errno;
  setrlimit(RLIMIT_NOFILE, &host);
  return err;
}

static int64_t exec_path(CoreThread *t, const char *path, uint64_t argv, uint64_t envp) {
  Exec *e = xcalloc(1, sizeof *e);
  char buf[PATH_MAX + 64], shown[PATH_MAX];
  const char *exe = os_proc_exe(t, path);
  snprintf(shown, sizeof shown, "%s", path);
  snprintf(e->path, sizeof e->path, "%s", exe ? exe : os_host_path(t->emu, path, buf, sizeof buf));
  int64_t err = read_strings(t, argv, &e->argv);
  if (!err) err = read_strings(t, envp, &e->envp);
  if (!err && !path[0]) err = -ENOENT;
  if (!err) err = execute(t, e, shown);
  free_strings(&e->argv);
  free_strings(&e->envp);
  free(e);
  return err;
}

int64_t os_execve(CoreThread *t, uint64_t a[6]) {
  size_t len;
  const char *path = guest_string(t->emu, t, a[0], &len);
  return path ? exec_path(t, path, a[1], a[2]) : -EFAULT;
}

int64_t os_execveat(CoreThread *t, uint64_t a[6]) {
  char buf[PATH_MAX];
  size_t len;
  const char *path = guest_string(t->emu, t, a[1], &len);
  if (!path) return -EFAULT;
  if (path[0] == '/' || (int)a[0] == AT_FDCWD) return exec_path(t, path, a[2], a[3]);
  if (!path[0] && !(a[4] & AT_EMPTY_PATH)) return -ENOENT;
  snprintf(buf, sizeof buf, path[0] ? "/proc/self/fd/%d/%s" : "/proc/self/fd/%d", (int)a[0], path);
  return exec_path(t, buf, a[2], a[3]);
}
