/* execve. The new program runs under kitlua again, this command with its script, if children are
 * traced. Else a program of the host's own architecture is executed by the host, and another one by
 * kitlua without a script. All that can fail is found out before the point of no return,
 * with the kernel's error numbers. */
#include <dlfcn.h>
#include <elf.h>
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

#define HOST_MACHINE EM_X86_64

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

typedef struct OsExec {
  char path[PATH_MAX + 64]; /* on the host */
  Strings argv, envp;
} Exec;

void os_exec_free(Exec *e) {
  if (!e) return;
  free_strings(&e->argv);
  free_strings(&e->envp);
  free(e);
}

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
    if (!os_script_line(e->path, line, sizeof line, &interp, &arg))
      return os_elf_machine(e->path) ? 0 : -ENOEXEC;
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

/* A dynamically linked program needs its loader (kernel: ENOENT without; ELIBBAD if it is no
 * program). */
static int check_loader(CoreThread *t, const char *path) {
  Elf64_Ehdr eh;
  Elf64_Phdr ph;
  char name[PATH_MAX], buf[PATH_MAX + 64];
  int err = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0; /* executable but not readable: the host's execve knows */
  bool ok = pread(fd, &eh, sizeof eh, 0) == sizeof eh && eh.e_phentsize == sizeof ph;
  for (int i = 0; ok && !err && i < eh.e_phnum; i++) {
    if (pread(fd, &ph, sizeof ph, (off_t)(eh.e_phoff + (uint64_t)i * sizeof ph)) != sizeof ph)
      break;
    if (ph.p_type != PT_INTERP) continue;
    bool named = ph.p_filesz > 1 && ph.p_filesz <= sizeof name &&
                 pread(fd, name, ph.p_filesz, (off_t)ph.p_offset) == (ssize_t)ph.p_filesz &&
                 !name[ph.p_filesz - 1];
    if (!named)
      err = -ENOEXEC;
    else if (!(err = executable(os_host_path(t->emu, name, buf, sizeof buf))) &&
             !os_elf_machine(os_host_path(t->emu, name, buf, sizeof buf)))
      err = -ELIBBAD;
  }
  close(fd);
  return err;
}

static bool is_kitlua(const char *path) {
  const char *base = strrchr(path, '/');
  return !strcmp(base ? base + 1 : path, "kitlua") && !access(path, X_OK);
}

/* The kitlua command: as the options have it; ourselves, if we are it; what the variable KITLUA
 * names; the one beside kit.so; the one in PATH. */
static bool find_kitlua(const Emu *emu, char *out, size_t size) {
  Dl_info here;
  const char *const *given = emu->opt.reexec;
  if (given && given[0] && strcmp(given[0], "/proc/self/exe"))
    return snprintf(out, size, "%s", given[0]) < (int)size;
  ssize_t n = readlink("/proc/self/exe", out, size - 1);
  out[n < 0 ? 0 : n] = 0;
  if (is_kitlua(out) || (given && given[0])) return true;
  const char *named = getenv("KITLUA"), *path = getenv("PATH");
  if (named) return snprintf(out, size, "%s", named) < (int)size;
  if (dladdr(&os_linux, &here) && here.dli_fname && strrchr(here.dli_fname, '/')) {
    snprintf(out, size, "%.*s/kitlua", (int)(strrchr(here.dli_fname, '/') - here.dli_fname),
             here.dli_fname);
    if (is_kitlua(out)) return true;
  }
  while (path && *path) {
    size_t len = strcspn(path, ":");
    snprintf(out, size, "%.*s/kitlua", (int)len, path);
    if (is_kitlua(out)) return true;
    path += len + (path[len] == ':');
  }
  return false;
}

static void add(Strings *s, const char *word) { vec_push(s, xstrdup(word)); }

/* Variables that the loader, the C library and Lua obey, if the guest gives them another value than
 * we were started with, are the guest's alone: LD_TRACE_LOADED_OBJECTS (ldd) would list kitlua's
 * own libraries. They go under another name that os_make_stack takes off again. */
static void set_aside(Strings *envp) {
  static const char *const ours[] = {"LD_", "GLIBC_TUNABLES=", "MALLOC_", "LUA_"};
  for (size_t i = 0; i < envp->n; i++) {
    const char *word = envp->at[i], *value = strchr(word, '=');
    bool obeyed = false;
    for (size_t k = 0; k < sizeof ours / sizeof *ours; k++)
      obeyed |= !strncmp(word, ours[k], strlen(ours[k]));
    if (!obeyed || !value) continue;
    char *name = xstrdup(word);
    name[value - word] = 0;
    const char *own = getenv(name);
    free(name);
    if (own && !strcmp(own, value + 1)) continue;
    char *renamed = xmalloc(strlen(word) + sizeof OS_SET_ASIDE);
    sprintf(renamed, "%s%s", OS_SET_ASIDE, word);
    free(envp->at[i]);
    envp->at[i] = renamed;
  }
}

/* kitlua [options] [script and its options] -- path args: as opt.reexec says, argv[0] kept apart.
 */
static bool wrap(Emu *emu, Exec *e, char *kitlua, size_t size) {
  if (!find_kitlua(emu, kitlua, size)) return false;
  Strings w = {0};
  const char *const *pre = emu->opt.reexec;
  add(&w, "kitlua");
  add(&w, "--argv0");
  add(&w, e->argv.n ? e->argv.at[0] : "");
  if (!pre && emu->opt.sysroot) {
    add(&w, "--sysroot");
    add(&w, emu->sysroot);
  }
  if (!pre && emu->debug_folders) {
    add(&w, "--debug-file-directory");
    add(&w, emu->debug_folders);
  }
  size_t first = pre && pre[0] && pre[1] && pre[2] && !strcmp(pre[1], "--argv0")
                     ? 3
                     : 1; /* ours, if we were exec'ed */
  for (size_t i = first; pre && pre[0] && pre[i] && strcmp(pre[i], "--"); i++) add(&w, pre[i]);
  add(&w, "--");
  if (strchr(e->path, '/')) {
    add(&w, e->path);
  } else { /* in the present folder, not in PATH */
    char here[sizeof e->path + 2];
    snprintf(here, sizeof here, "./%s", e->path);
    add(&w, here);
  }
  for (size_t i = 1; i < e->argv.n; i++) add(&w, e->argv.at[i]);
  set_aside(&e->envp);
  free_strings(&e->argv);
  e->argv.at = w.at;
  e->argv.n = w.n;
  e->argv.cap = w.cap;
  return true;
}

/* The host's execve. Ignored signals are the guest's already; the blocked ones become exactly so,
 * and limits that the engine changed for itself go back. A signal that comes first is delivered
 * first. */
static int64_t host_execve(CoreThread *t, const char *path, Exec *e) {
  OsProcess *p = os_process(t->emu);
  struct rlimit files, stack;
  fflush(NULL);
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_STACK, &stack);
  setrlimit(RLIMIT_NOFILE, &p->nofile);
  setrlimit(RLIMIT_STACK, &p->stack);
  os_signal_before_exec(t->emu);
  if (p->vfork_child) p->exec = e; /* if it succeeds, only the parent can free it */
  uint64_t before;
  os_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)(uintptr_t)&os_thread(t)->mask,
         (long)(uintptr_t)&before, 8, 0, 0);
  int64_t r = os_thread(t)->pending
                  ? OS_ENOTRUN
                  : os_safe_call(&t->state->interrupt, SYS_execve,
                                 (long[6]){(long)(uintptr_t)path, (long)(uintptr_t)e->argv.at,
                                           (long)(uintptr_t)e->envp.at});
  if (!os_thread(t)->pending)
    os_restore_mask(before);
  else
    os_block_all(NULL);
  p->exec = NULL;
  os_signal_after_exec(t->emu);
  setrlimit(RLIMIT_NOFILE, &files);
  setrlimit(RLIMIT_STACK, &stack);
  return r;
}

static int64_t execute(CoreThread *t, Exec *e, const char *shown) {
  char kitlua[PATH_MAX];
  if (os_thread(t)->pending) return OS_ENOTRUN;
  int err = resolve(t, e, shown);
  if (err) return err;
  uint16_t machine = os_elf_machine(e->path);
  bool host = machine == HOST_MACHINE,
       ours = guest_for_machine(machine) && (!host || t->emu->opt.trace_children);
  if (!ours && !host) return -ENOEXEC;
  const char *path = e->path;
  if (ours) {
    err = check_loader(t, e->path);
    if (err) return err;
    if (!wrap(t->emu, e, kitlua, sizeof kitlua)) {
      fprintf(stderr,
              "kitlua: cannot run %s: the kitlua command is not in PATH (name it in the variable "
              "KITLUA)\n",
              e->path);
      return -ENOEXEC;
    }
    path = kitlua;
  }
  vec_push(&e->argv, NULL);
  vec_push(&e->envp, NULL);
  return host_execve(t, path, e);
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
  os_exec_free(e);
  return err;
}

int64_t os_execve(CoreThread *t, uint64_t a[6]) {
  size_t len;
  const char *path = guest_string(t->emu, t, a[0], &len);
  return path ? exec_path(t, path, a[1], a[2]) : -EFAULT;
}

/* The path of what a descriptor is open on; of a file without a name (a memfd, an unlinked one) the
 * descriptor's own, in a copy that is there still after the exec. */
static int fd_path(CoreThread *t, int fd, char *out, size_t size) {
  char link[64];
  struct stat st;
  if (os_is_engine_fd(t->emu, fd)) return -EBADF;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, out, size - 1);
  if (n < 0) return errno == ENOENT ? -EBADF : -errno;
  out[n] = 0;
  if (out[0] == '/' && !stat(out, &st)) return 0;
  int copy = fcntl(fd, F_DUPFD, 100);
  if (copy < 0) return -errno;
  snprintf(out, size, "/proc/self/fd/%d", copy);
  return copy;
}

int64_t os_execveat(CoreThread *t, uint64_t a[6]) {
  char dir[PATH_MAX], buf[2 * PATH_MAX];
  size_t len;
  struct stat st;
  int fd = (int)a[0], flags = (int)a[4];
  const char *path = guest_string(t->emu, t, a[1], &len);
  if (!path) return -EFAULT;
  if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) return -EINVAL;
  if (!path[0] && !(flags & AT_EMPTY_PATH)) return -ENOENT;
  if (flags & AT_SYMLINK_NOFOLLOW && path[0] && !fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) &&
      S_ISLNK(st.st_mode))
    return -ELOOP;
  if (path[0] == '/' || fd == AT_FDCWD) return exec_path(t, path, a[2], a[3]);
  int copy = fd_path(t, fd, dir, sizeof dir);
  if (copy < 0) return copy;
  snprintf(buf, sizeof buf, path[0] ? "%s/%s" : "%s", dir, path);
  int64_t r = strlen(buf) < PATH_MAX ? exec_path(t, buf, a[2], a[3]) : -ENAMETOOLONG;
  if (copy) close(copy);
  return r;
}
