/* The ELF loader: static, static-pie, and dynamic programs with their interpreter.
 *
 * Nothing in the file is trusted: each header field is checked before use, and all mapping goes
 * through core_mmap, which keeps the guest out of the engine's half of the address space. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

#define MAX_PHDRS        256
#define MAX_SCRIPT_DEPTH 5
#define DEFAULT_STACK    (8ull << 20)
#define MAX_STACK        (1ull << 30)

typedef struct ElfFile {
  const char *name; /* for messages */
  int fd;
  uint64_t size;
  Elf64_Ehdr eh;
  Elf64_Phdr ph[MAX_PHDRS];
} ElfFile;

typedef struct Loaded {
  uint64_t bias, entry, phdr, end; /* end: of the highest segment */
  bool has_exec;
} Loaded;

/* ---- reading headers
 * ---------------------------------------------------------------------------------------- */

static bool read_at(int fd, void *buf, uint64_t n, uint64_t off) {
  return off <= INT64_MAX && pread(fd, buf, n, (off_t)off) == (ssize_t)n;
}

static KitStatus bad(Emu *emu, const ElfFile *f, const char *what) {
  return core_fail(emu, KIT_E_BAD_ELF, "%s: damaged ELF file: %s", f->name, what);
}

static const char *machine_name(uint16_t m) {
  switch (m) {
  case EM_X86_64: return "x86-64";
  case EM_386: return "i386";
  case EM_AARCH64: return "aarch64";
  case EM_ARM: return "arm";
  case EM_RISCV: return "riscv";
  case EM_PPC64: return "ppc64";
  case EM_S390: return "s390x";
  default: return "an unknown architecture";
  }
}

static KitStatus open_elf(Emu *emu, ElfFile *f, const char *path, const char *shown) {
  struct stat st;
  f->name = shown;
  f->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (f->fd < 0)
    return core_fail(emu, errno == ENOENT || errno == ENOTDIR ? KIT_E_NOT_FOUND : KIT_E_ACCESS,
                     "%s: %s", shown, strerror(errno));
  if (fstat(f->fd, &st) || !S_ISREG(st.st_mode))
    return core_fail(emu, KIT_E_ACCESS, "%s: not a regular file", shown);
  if (access(path, X_OK))
    return core_fail(emu, KIT_E_ACCESS, "%s: not executable (chmod +x it)", shown);
  f->size = (uint64_t)st.st_size;
  if (!read_at(f->fd, &f->eh, sizeof f->eh, 0) || memcmp(f->eh.e_ident, ELFMAG, SELFMAG))
    return core_fail(emu, KIT_E_NOT_ELF, "%s: not an ELF program", shown);
  if (f->eh.e_ident[EI_CLASS] != ELFCLASS64 || f->eh.e_ident[EI_DATA] != ELFDATA2LSB)
    return core_fail(emu, KIT_E_ARCH, "%s: a %s program; kitlua runs 64-bit little-endian ones",
                     shown, f->eh.e_ident[EI_CLASS] == ELFCLASS32 ? "32-bit" : "big-endian");
  return KIT_OK;
}

static KitStatus read_phdrs(Emu *emu, ElfFile *f) {
  const Elf64_Ehdr *eh = &f->eh;
  if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
    return core_fail(emu, KIT_E_NOT_ELF, "%s: an ELF file, but no program (%s)", f->name,
                     eh->e_type == ET_REL ? "an object file: link it"
                                          : "neither executable nor shared object");
  if (eh->e_phentsize != sizeof(Elf64_Phdr)) return bad(emu, f, "program header size");
  if (!eh->e_phnum || eh->e_phnum > MAX_PHDRS) return bad(emu, f, "number of program headers");
  if (!read_at(f->fd, f->ph, sizeof(Elf64_Phdr) * eh->e_phnum, eh->e_phoff))
    return bad(emu, f, "program headers lie outside of the file");
  for (int i = 0; i < eh->e_phnum; i++) {
    const Elf64_Phdr *p = &f->ph[i];
    if (p->p_type != PT_LOAD) continue;
    if (p->p_filesz > p->p_memsz) return bad(emu, f, "segment larger in the file than in memory");
    if (p->p_offset > f->size || p->p_filesz > f->size - p->p_offset)
      return bad(emu, f, "segment outside of the file (truncated?)");
    if (p->p_memsz > CORE_LINE || p->p_vaddr > CORE_LINE - p->p_memsz)
      return bad(emu, f, "segment address out of range");
    if ((p->p_vaddr - p->p_offset) % CORE_PAGE) return bad(emu, f, "segment alignment");
  }
  return KIT_OK;
}

/* ---- mapping
 * ----------------------------------------------------------------------------------------------------
 */

static uint64_t down(uint64_t n) { return n & ~(CORE_PAGE - 1); }
static uint64_t up(uint64_t n) { return down(n + CORE_PAGE - 1); }

static KitStatus span(Emu *emu, const ElfFile *f, uint64_t *low, uint64_t *high) {
  *low = UINT64_MAX;
  *high = 0;
  for (int i = 0; i < f->eh.e_phnum; i++) {
    const Elf64_Phdr *p = &f->ph[i];
    if (p->p_type != PT_LOAD || !p->p_memsz) continue;
    if (down(p->p_vaddr) < *low) *low = down(p->p_vaddr);
    if (up(p->p_vaddr + p->p_memsz) > *high) *high = up(p->p_vaddr + p->p_memsz);
  }
  return *high ? KIT_OK : bad(emu, f, "nothing to load");
}

static KitStatus map_segment(Emu *emu, const ElfFile *f, const Elf64_Phdr *p, uint64_t bias,
                             const char *name) {
  int prot = (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
             (p->p_flags & PF_X ? PROT_EXEC : 0);
  uint64_t va = bias + p->p_vaddr, start = down(va), file_end = va + p->p_filesz,
           end = va + p->p_memsz;
  if (p->p_filesz) {
    int64_t r = core_mmap(emu, NULL, start, file_end - start, prot, MAP_PRIVATE | MAP_FIXED, f->fd,
                          down(p->p_offset), name);
    if (r < 0)
      return core_fail(emu, KIT_E_MEMORY, "%s: cannot map it at 0x%llx: %s", f->name,
                       (unsigned long long)start, strerror((int)-r));
  }
  if (end > file_end && prot & PROT_WRITE && p->p_filesz &&
      file_end % CORE_PAGE) { /* to the page's end: ld.so uses what is behind its data */
    uint64_t n = up(file_end) - file_end;
    char zeros[CORE_PAGE] = {0};
    if (core_poke(emu, file_end, zeros, n)) return bad(emu, f, "segment cannot be cleared");
  }
  uint64_t bss = p->p_filesz ? up(file_end) : start;
  if (end > bss) {
    int64_t r = core_mmap(emu, NULL, bss, end - bss, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                          -1, 0, "");
    if (r < 0)
      return core_fail(emu, KIT_E_MEMORY, "%s: no memory for %llu bytes of data at 0x%llx: %s",
                       f->name, (unsigned long long)(end - bss), (unsigned long long)bss,
                       strerror((int)-r));
  }
  return KIT_OK;
}

/* The largest alignment that a segment asks for; as in the kernel, only powers of two count. */
static uint64_t alignment(const ElfFile *f) {
  uint64_t most = CORE_PAGE;
  for (int i = 0; i < f->eh.e_phnum; i++) {
    uint64_t a = f->ph[i].p_align;
    if (f->ph[i].p_type == PT_LOAD && a > most && !(a & (a - 1)) && a < 1ull << 32) most = a;
  }
  return most;
}

/* A free range in the mmap area, where the kernel puts the interpreter: behind the program it would
 * be in the heap's way. */
static uint64_t free_range(Emu *emu, uint64_t len) {
  int64_t va = core_mmap(emu, NULL, 0, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0, "");
  if (va > 0) core_munmap(emu, NULL, (uint64_t)va, len);
  return va > 0 ? (uint64_t)va : 0;
}

static KitStatus place(Emu *emu, const ElfFile *f, uint64_t low, uint64_t high, bool is_interp,
                       uint64_t *bias) {
  *bias = 0;
  if (f->eh.e_type == ET_EXEC) {
    if (low < CORE_LOW) return bad(emu, f, "fixed address too low (below 0x10000)");
    return KIT_OK;
  }
  uint64_t align = alignment(f), len = high - low + align - CORE_PAGE;
  uint64_t base =
      is_interp ? free_range(emu, len) : core_place(emu, len, !emu->guest->generic_syscalls);
  if (!base)
    return core_fail(emu, KIT_E_MEMORY, "%s: no address range of %llu bytes for it", f->name,
                     (unsigned long long)(high - low));
  *bias = ((base - low) + align - 1) & ~(align - 1);
  return KIT_OK;
}

static KitStatus map_elf(Emu *emu, const ElfFile *f, const char *path, const char *host_path,
                         bool is_interp, Loaded *out) {
  uint64_t low, high;
  KitStatus st = span(emu, f, &low, &high);
  if (!st) st = place(emu, f, low, high, is_interp, &out->bias);
  for (int i = 0; !st && i < f->eh.e_phnum; i++) {
    const Elf64_Phdr *p = &f->ph[i];
    if (p->p_type == PT_LOAD && p->p_memsz) st = map_segment(emu, f, p, out->bias, host_path);
    if (p->p_type == PT_LOAD && p->p_flags & PF_X) out->has_exec = true;
    if (p->p_type == PT_LOAD && f->eh.e_phoff >= p->p_offset &&
        f->eh.e_phoff - p->p_offset < p->p_filesz)
      out->phdr = out->bias + p->p_vaddr + (f->eh.e_phoff - p->p_offset);
  }
  if (st) return st;
  if (!out->has_exec) return bad(emu, f, "no executable segment");
  out->entry = out->bias + f->eh.e_entry;
  out->end = out->bias + high;
  os_image_add(emu, path, host_path, out->bias + low, out->bias + high, out->bias);
  return KIT_OK;
}

/* ---- the interpreter (dynamic loader)
 * ------------------------------------------------------------------------------- */

static KitStatus find_interp(Emu *emu, const ElfFile *f, char *out, size_t size, bool *found) {
  *found = false;
  for (int i = 0; i < f->eh.e_phnum; i++) {
    const Elf64_Phdr *p = &f->ph[i];
    if (p->p_type != PT_INTERP) continue;
    if (*found) return bad(emu, f, "two interpreters");
    if (!p->p_filesz || p->p_filesz > size || !read_at(f->fd, out, p->p_filesz, p->p_offset))
      return bad(emu, f, "interpreter name");
    if (out[p->p_filesz - 1]) return bad(emu, f, "interpreter name is not terminated");
    *found = true;
  }
  return KIT_OK;
}

static KitStatus load_interp(Emu *emu, const ElfFile *program, const char *interp, Loaded *out) {
  char buf[PATH_MAX];
  const char *path = os_host_path(emu, interp, buf, sizeof buf);
  ElfFile f = {.fd = -1};
  KitStatus st = open_elf(emu, &f, path, interp);
  if (st == KIT_E_NOT_FOUND)
    st = core_fail(emu, KIT_E_NO_LOADER,
                   "%s: its loader %s is not in %s (install %s's libraries, or name their folder "
                   "with --sysroot)",
                   program->name, interp, emu->sysroot ? emu->sysroot : "/", emu->guest->name);
  if (!st && f.eh.e_machine != program->eh.e_machine)
    st = core_fail(emu, KIT_E_NO_LOADER,
                   "%s: its loader %s is for %s, not for %s (name the right folder with --sysroot)",
                   program->name, path, machine_name(f.eh.e_machine), emu->guest->name);
  if (!st) st = read_phdrs(emu, &f);
  if (!st) st = map_elf(emu, &f, interp, path, true, out);
  if (f.fd >= 0) close(f.fd);
  return st;
}

/* ---- finding the program
 * ---------------------------------------------------------------------------------------------- */

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

uint16_t os_elf_machine(const char *path) {
  Elf64_Ehdr eh;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  bool ok = read_at(fd, &eh, sizeof eh, 0) && !memcmp(eh.e_ident, ELFMAG, SELFMAG) &&
            eh.e_ident[EI_CLASS] == ELFCLASS64 && eh.e_ident[EI_DATA] == ELFDATA2LSB;
  close(fd);
  return ok ? eh.e_machine : 0;
}

/* A "#!" line: interpreter and its one optional argument, in place. False: not a script. */
static bool script_line(const char *path, char *line, size_t size, char **interp, char **arg) {
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
    for (size_t end = strlen(p);
         end && (p[end - 1] == ' ' || p[end - 1] == '\t' || p[end - 1] == '\r'); end--)
      p[end - 1] = 0;
    if (*p) *arg = p;
  }
  return **interp != 0;
}

typedef VEC(char *) Words;

static void free_words(Words *w) {
  for (size_t i = 0; i < w->n; i++) free(w->at[i]);
  vec_free(w);
}

/* Replaces a script by its interpreter: [interp, arg, path, rest of argv]. */
static KitStatus resolve_scripts(Emu *emu, Words *argv, char *path, size_t size) {
  char line[512], *interp, *arg;
  for (int depth = 0; script_line(path, line, sizeof line, &interp, &arg); depth++) {
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

/* ---- putting it together
 * ---------------------------------------------------------------------------------------------------
 */

/* The kernel names the main thread after the file that was executed. */
static void name_thread(OsProcess *p, const char *file) {
  const char *slash = strrchr(file, '/');
  snprintf(p->comm, sizeof p->comm, "%.15s", slash ? slash + 1 : file);
}

static KitStatus make_stack(Emu *emu) {
  OsProcess *p = os_process(emu);
  uint64_t size = p->stack.rlim_cur == RLIM_INFINITY ? DEFAULT_STACK : up(p->stack.rlim_cur);
  if (size < 64 * CORE_PAGE) size = 64 * CORE_PAGE;
  if (size > MAX_STACK) size = MAX_STACK;
  p->stack_top = CORE_LINE - (1ull << 32);
  int64_t r = core_mmap(emu, NULL, p->stack_top - size, size, PROT_READ | PROT_WRITE,
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
  ElfFile f = {.fd = -1};
  Loaded prog = {0}, interp = {0};
  char interp_name[PATH_MAX];
  bool dynamic = false;
  KitStatus st = open_elf(emu, &f, path, path);
  if (!st) {
    emu->guest = guest_for_machine(f.eh.e_machine);
    if (!emu->guest)
      st = core_fail(emu, KIT_E_ARCH, "%s: a program for %s, for which kitlua has no guest yet",
                     path, machine_name(f.eh.e_machine));
  }
  if (!st && !emu->sysroot && emu->guest->sysroot) emu->sysroot = xstrdup(emu->guest->sysroot);
  emu->exe_path = realpath(path, NULL);
  const char *shown = emu->exe_path ? emu->exe_path : path;
  if (!st) st = read_phdrs(emu, &f);
  if (!st) st = find_interp(emu, &f, interp_name, sizeof interp_name, &dynamic);
  if (!st) st = map_elf(emu, &f, shown, shown, false, &prog);
  if (!st) core_set_brk(emu, prog.end);
  if (!st && dynamic) st = load_interp(emu, &f, interp_name, &interp);
  if (!st) st = make_stack(emu);
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
