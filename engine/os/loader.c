/* Loading a program: finding it, its script's interpreter and its dynamic loader; its stack; its
 * first thread. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/elf.h"

#define MAX_SCRIPT_DEPTH 5
#define DEFAULT_STACK    (8ull << 20)
#define MIN_STACK        (256ull << 10) /* for arguments and environment */
#define MAX_STACK        (1ull << 30)

/* ---- finding the program --------------------------------------------------------------------- */

static bool is_program(const char *path) {
  struct stat st;
  return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* argv[0] with a slash is a path; without one it is looked up in PATH, as execvp does. */
static KitStatus find_program(Emu *emu, const char *name, char *out, size_t size) {
  if (strchr(name, '/')) {
    snprintf(out, size, "%s", name);
    if (is_program(name)) return KIT_OK;
    char buf[PATH_MAX];
    const char *in_root = os_host_path(emu, name, buf, sizeof buf);
    if (is_program(in_root)) {
      snprintf(out, size, "%s", in_root);
      return KIT_OK;
    }
    struct stat st;
    if (!stat(name, &st)) return core_fail(emu, KIT_E_ACCESS, "%s: not a regular file", name);
    return core_fail(emu, KIT_E_NOT_FOUND, "%s: %s", name, strerror(errno));
  }
  const char *path = getenv("PATH");
  for (path = path ? path : "/bin:/usr/bin"; *name && *path;) {
    size_t n = strcspn(path, ":");
    snprintf(out, size, "%.*s/%s", (int)(n ? n : 1), n ? path : ".", name);
    if (is_program(out) && !access(out, X_OK)) return KIT_OK;
    path += n + (path[n] == ':');
  }
  return core_fail(emu, KIT_E_NOT_FOUND,
                   "%s: not found in PATH (write ./%s for one in this folder)", name, name);
}

typedef VEC(char *) Words;

static void free_words(Words *w) {
  for (size_t i = 0; i < w->n; i++) free(w->at[i]);
  vec_free(w);
}

/* Replaces a script by its interpreter: [interp, arg, path, rest of argv]. */
static KitStatus resolve_scripts(Emu *emu, Words *argv, char *path, size_t size) {
  char line[512], *interp, *arg;
  for (int depth = 0; os_script_line(path, line, sizeof line, &interp, &arg); depth++) {
    if (access(path, X_OK))
      return core_fail(emu, KIT_E_ACCESS, "%s: not executable (chmod +x it)", path);
    if (depth == MAX_SCRIPT_DEPTH)
      return core_fail(emu, KIT_E_NOT_ELF, "%s: scripts that interpret scripts, too deep", path);
    Words w = {0};
    vec_push(&w, xstrdup(interp));
    if (arg) vec_push(&w, xstrdup(arg));
    vec_push(&w, xstrdup(path));
    for (size_t i = 1; i < argv->n; i++) vec_push(&w, argv->at[i]);
    free(argv->at[0]);
    vec_free(argv);
    argv->at = w.at;
    argv->n = w.n;
    argv->cap = w.cap;
    char buf[PATH_MAX];
    snprintf(path, size, "%s", os_host_path(emu, interp, buf, sizeof buf));
    if (!is_program(path))
      return core_fail(emu, KIT_E_NOT_FOUND, "%s: the script's interpreter %s is not there",
                       w.at[w.n > 1 ? 1 : 0], interp);
  }
  return KIT_OK;
}

/* ---- putting it together --------------------------------------------------------------------- */

/* The kernel names the main thread after the file that was executed. */
static void name_thread(OsProcess *p, const char *file) {
  const char *slash = strrchr(file, '/');
  snprintf(p->comm, sizeof p->comm, "%.15s", slash ? slash + 1 : file);
}

/* Programs with code on their stack (trampolines of nested functions) say so by an executable
 * PT_GNU_STACK. */
static int stack_prot(const OsElf *f) {
  for (int i = 0; i < f->eh.e_phnum; i++)
    if (f->ph[i].p_type == PT_GNU_STACK && f->ph[i].p_flags & PF_X)
      return PROT_READ | PROT_WRITE | PROT_EXEC;
  return PROT_READ | PROT_WRITE;
}

static KitStatus make_stack(Emu *emu, int prot) {
  OsProcess *p = os_process(emu);
  uint64_t size = p->stack.rlim_cur == RLIM_INFINITY ? DEFAULT_STACK : p->stack.rlim_cur;
  if (size < MIN_STACK) size = MIN_STACK;
  if (size > MAX_STACK) size = MAX_STACK;
  size = (size + CORE_PAGE - 1) & ~(CORE_PAGE - 1);
  p->stack_top = CORE_LINE - (1ull << 32);
  int64_t r = core_mmap(emu, NULL, p->stack_top - size, size, prot,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | MAP_STACK, -1, 0,
                        "[stack]");
  return r < 0 ? core_fail(emu, KIT_E_MEMORY, "no memory for a stack of %llu bytes: %s",
                           (unsigned long long)size, strerror((int)-r))
               : KIT_OK;
}

/* Code that calls rt_sigreturn: the kernel has it in its vdso, we give it a page of its own. */
static KitStatus make_trampoline(Emu *emu) {
  OsProcess *p = os_process(emu);
  int64_t r = core_mmap(emu, NULL, 0, CORE_PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0, "[sigreturn]");
  if (r < 0 ||
      core_poke(emu, (uint64_t)r, emu->guest->sigreturn_code, emu->guest->sigreturn_code_size))
    return core_fail(emu, KIT_E_MEMORY, "no memory for the signal trampoline");
  p->trampoline = (uint64_t)r;
  return KIT_OK;
}

static KitStatus load_program(Emu *emu, const Words *argv, const char *path, const char *execfn,
                              const char *const *envp) {
  OsElf f = {.fd = -1};
  OsLoaded prog = {0}, interp = {0};
  char interp_name[PATH_MAX];
  bool dynamic = false;
  KitStatus st = os_elf_open(emu, &f, path, path);
  if (!st) {
    emu->guest = guest_for_machine(f.eh.e_machine);
    if (!emu->guest)
      st = core_fail(emu, KIT_E_ARCH, "%s: a program for %s, for which kitlua has no guest yet",
                     path, os_elf_machine_name(f.eh.e_machine));
  }
  if (!st && !emu->sysroot && emu->guest->sysroot) emu->sysroot = xstrdup(emu->guest->sysroot);
  emu->exe_path = realpath(path, NULL);
  const char *shown = emu->exe_path ? emu->exe_path : path;
  if (!st) st = os_elf_headers(emu, &f);
  if (!st) st = os_elf_interp(emu, &f, interp_name, sizeof interp_name, &dynamic);
  if (!st) st = os_elf_map(emu, &f, shown, shown, false, &prog);
  if (!st) core_set_brk(emu, prog.end);
  if (!st && dynamic) st = os_elf_load_interp(emu, &f, interp_name, &interp);
  if (!st) st = make_stack(emu, stack_prot(&f));
  if (!st) st = make_trampoline(emu);
  if (f.fd >= 0) close(f.fd);
  if (st) return st;
  OsStackInfo info = {.argv = (const char *const *)argv->at,
                      .envp = envp,
                      .execfn = execfn,
                      .entry = prog.entry,
                      .phdr = prog.phdr,
                      .phent = sizeof(Elf64_Phdr),
                      .phnum = f.eh.e_phnum,
                      .interp_base = dynamic ? interp.bias : 0};
  uint64_t sp = os_make_stack(emu, &info);
  if (!sp)
    return core_fail(emu, KIT_E_MEMORY, "%s: arguments and environment do not fit on the stack",
                     path);
  CoreThread *t = core_thread_new(emu, NULL);
  if (!t) return core_fail(emu, KIT_E_MEMORY, "no memory for the program's first thread");
  t->os = xcalloc(1, sizeof(OsThread));
  ((OsThread *)t->os)->alt_flags = SS_DISABLE;
  emu->guest->reset(t->state);
  const char *cpu = emu->opt.cpu;
  if (cpu && !(emu->guest->set_cpu && emu->guest->set_cpu(t->state, cpu)))
    return core_fail(emu, KIT_E_ARGUMENT,
                     emu->guest->set_cpu
                         ? "no processor model '%s' (host, x86-64, x86-64-v2, -v3, -v4)"
                         : "'%s': a processor model can be chosen for x86-64 programs only",
                     cpu);
  t->state->pc = dynamic ? interp.entry : prog.entry;
  guest_set_reg(emu->guest, t->state, emu->guest->abi.sp, sp);
  emu->threads_first = t;
  return KIT_OK;
}

static void read_limits(OsProcess *p) {
  getrlimit(RLIMIT_NOFILE, &p->nofile);
  getrlimit(RLIMIT_STACK, &p->stack);
  getrlimit(RLIMIT_AS, &p->space);
  if (getenv("KITLUA_STACK"))
    p->stack.rlim_cur = RLIM_INFINITY; /* set by the command when it restarted itself */
}

KitStatus os_load(Emu *emu, const char *const *argv, const char *const *envp) {
  char path[PATH_MAX];
  OsProcess *p = xcalloc(1, sizeof *p);
  emu->os_data = p;
  emu->os = &os_linux;
  if (emu->opt.sysroot) emu->sysroot = xstrdup(emu->opt.sysroot);
  read_limits(p);
  KitStatus st = find_program(emu, argv[0], path, sizeof path);
  if (st) return st;
  Words words = {0};
  for (size_t i = 0; argv[i]; i++)
    vec_push(&words, xstrdup(i == 0 && emu->opt.argv0 ? emu->opt.argv0 : argv[i]));
  char named[PATH_MAX]; /* of a script, AT_EXECFN is its own name */
  snprintf(named, sizeof named, "%s", path);
  st = resolve_scripts(emu, &words, path, sizeof path);
  vec_push(&words, NULL);
  if (!st) st = load_program(emu, &words, path, named, envp);
  words.n--;
  name_thread(p, named);
  free_words(&words);
  if (!st) os_signal_init(emu);
  return st;
}
