/* Counts the instructions of a static x86-64 program by single-stepping it.
 *
 *   x64_singlestep [-a MACHINE] COUNT-FILE PROGRAM [args]
 *
 * An instruction counts when it retires: one that faults does not, each iteration of a repeated
 * string instruction does, system calls do (the one that ends the program too). Threads and
 * children are not followed.
 *
 * -a MACHINE: the program sees the machine that x64_machine, run under kitlua, has written to that
 * file: cpuid and xgetbv, which entries the auxiliary vector has and what those about the CPU say,
 * no restartable sequences. What libc does at the start depends on all of these. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static void die(const char *what) {
  fprintf(stderr, "x64_singlestep: %s: %s\n", what, strerror(errno));
  if (child) kill(child, SIGKILL);
  exit(125);
}

/* ---- the machine ----------------------------------------------------------------------------- */

enum { MAX_ROWS = 4096, MAX_AUX = 64 };
static struct { uint32_t leaf, sub, out[4]; } cpuid_rows[MAX_ROWS];
static struct {
  uint64_t type, value;
  bool is_set;
} aux_rows[MAX_AUX];
static size_t n_cpuid, n_aux;
static uint32_t xcr0[2];

static void read_machine(const char *path) {
  FILE *f = fopen(path, "r");
  char line[160];
  if (!f) die(path);
  while (fgets(line, sizeof line, f)) {
    uint32_t v[6];
    unsigned long type, value;
    if (n_cpuid < MAX_ROWS &&
        sscanf(line, "cpuid %x %x %x %x %x %x", v, v + 1, v + 2, v + 3, v + 4, v + 5) == 6) {
      cpuid_rows[n_cpuid].leaf = v[0], cpuid_rows[n_cpuid].sub = v[1];
      memcpy(cpuid_rows[n_cpuid++].out, v + 2, 16);
    } else if (sscanf(line, "xgetbv %x %x", xcr0, xcr0 + 1) == 2) {
    } else if (n_aux < MAX_AUX) {
      int n = sscanf(line, "auxv %lu %lx", &type, &value);
      if (n >= 1)
        aux_rows[n_aux].type = type, aux_rows[n_aux].value = value,
        aux_rows[n_aux++].is_set = n == 2;
    }
  }
  fclose(f);
}

static const uint32_t *cpuid_of(uint32_t leaf, uint32_t sub) {
  static const uint32_t none[4];
  const uint32_t *first = none;
  for (size_t i = 0; i < n_cpuid; i++)
    if (cpuid_rows[i].leaf == leaf) {
      if (cpuid_rows[i].sub == sub) return cpuid_rows[i].out;
      if (cpuid_rows[i].sub == 0) first = cpuid_rows[i].out;
    }
  return first;
}

static uint64_t peek(uint64_t at) {
  errno = 0;
  long v = ptrace(PTRACE_PEEKDATA, child, at, 0);
  if (errno) die("peek");
  return (uint64_t)v;
}

static void poke(uint64_t at, uint64_t v) {
  if (ptrace(PTRACE_POKEDATA, child, at, v)) die("poke");
}

/* Entries that the machine does not have go, the others move up. */
static void edit_auxv(void) {
  struct user_regs_struct regs;
  if (ptrace(PTRACE_GETREGS, child, 0, &regs)) die("registers");
  uint64_t at = regs.rsp + 8 * (peek(regs.rsp) + 2);
  while (peek(at)) at += 8;
  at += 8;
  uint64_t to = at, type;
  do {
    type = peek(at);
    for (size_t i = 0; i < n_aux; i++)
      if (aux_rows[i].type == type) {
        poke(to, type);
        poke(to + 8, aux_rows[i].is_set ? aux_rows[i].value : peek(at + 8));
        to += 16;
      }
    at += 16;
  } while (type != AT_NULL);
  for (; to < at; to += 8) poke(to, 0);
}

/* ---- instructions that see the machine ------------------------------------------------------- */

enum { SEES_NOTHING, SEES_CPUID, SEES_XCR0, SEES_KERNEL };
static uint8_t *sees; /* by address less text_start */
static uint64_t text_start, text_size;

static void find_special(const char *program) {
  Elf64_Ehdr e;
  Elf64_Phdr p;
  int fd = open(program, O_RDONLY);
  if (fd < 0 || pread(fd, &e, sizeof e, 0) != sizeof e) die(program);
  for (int i = 0; i < e.e_phnum; i++) {
    if (pread(fd, &p, sizeof p, (off_t)(e.e_phoff + (size_t)i * sizeof p)) != sizeof p)
      die(program);
    if (p.p_type != PT_LOAD || !(p.p_flags & PF_X)) continue;
    uint8_t *text = malloc(p.p_filesz + 2);
    sees = calloc(p.p_filesz, 1);
    if (!text || !sees || pread(fd, text, p.p_filesz, (off_t)p.p_offset) != (ssize_t)p.p_filesz)
      die(program);
    text_start = p.p_vaddr, text_size = p.p_filesz;
    text[text_size] = text[text_size + 1] = 0;
    for (size_t k = 0; k < text_size; k++) {
      if (text[k] != 0x0f) continue;
      sees[k] = text[k + 1] == 0xa2                          ? SEES_CPUID
                : text[k + 1] == 0x01 && text[k + 2] == 0xd0 ? SEES_XCR0
                : text[k + 1] == 0x05                        ? SEES_KERNEL
                                                             : SEES_NOTHING;
    }
    free(text);
  }
  close(fd);
}

/* Does the instruction in the program's place; false: step it. */
static bool stand_in(uint64_t pc) {
  struct user_regs_struct r;
  unsigned kind = pc - text_start < text_size ? sees[pc - text_start] : SEES_NOTHING;
  if (!kind) return false;
  if (ptrace(PTRACE_GETREGS, child, 0, &r)) die("registers");
  if (kind == SEES_CPUID) {
    const uint32_t *out = cpuid_of((uint32_t)r.rax, (uint32_t)r.rcx);
    r.rax = out[0], r.rbx = out[1], r.rcx = out[2], r.rdx = out[3], r.rip += 2;
  } else if (kind == SEES_XCR0) {
    r.rax = xcr0[0], r.rdx = xcr0[1], r.rip += 3;
  } else {
    if (r.rax != SYS_rseq) return false;
    r.rax = (uint64_t)-ENOSYS, r.rip += 2, r.rcx = r.rip, r.r11 = r.eflags;
  }
  if (ptrace(PTRACE_SETREGS, child, 0, &r)) die("registers");
  return true;
}

/* ---- stepping -------------------------------------------------------------------------------- */

/* After a signal was handed on, the kernel stops once more at the handler's first instruction. */
static bool is_handler_entry(void) {
  siginfo_t info;
  if (ptrace(PTRACE_GETSIGINFO, child, 0, &info)) die("siginfo");
  return info.si_code != TRAP_TRACE && info.si_code != TRAP_BRKPT;
}

static uint64_t count_all(bool has_machine, int *status) {
  uint64_t n = 0;
  int give = 0;
  for (;;) {
    if (has_machine && !give) {
      errno = 0;
      uint64_t pc =
          (uint64_t)ptrace(PTRACE_PEEKUSER, child, offsetof(struct user_regs_struct, rip), 0);
      if (stand_in(pc)) {
        n++;
        continue;
      }
    }
    if (ptrace(PTRACE_SINGLESTEP, child, 0, give)) die("step");
    if (waitpid(child, status, 0) < 0) die("wait");
    if (WIFEXITED(*status)) return n + 1;
    if (WIFSIGNALED(*status)) return n;
    if (WSTOPSIG(*status) != SIGTRAP) {
      give = WSTOPSIG(*status);
    } else {
      if (!give || !is_handler_entry()) n++;
      give = 0;
    }
  }
}

int main(int argc, char **argv) {
  bool has_machine = argc > 2 && !strcmp(argv[1], "-a");
  if (has_machine) read_machine(argv[2]), argv += 2, argc -= 2;
  if (argc < 3)
    return fprintf(stderr, "usage: x64_singlestep [-a MACHINE] COUNT-FILE PROGRAM [args]\n"), 125;
  if (has_machine) find_special(argv[2]);
  child = fork();
  if (child < 0) die("fork");
  if (!child) {
    personality(ADDR_NO_RANDOMIZE);
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    execv(argv[2], argv + 2);
    die(argv[2]);
  }
  int status;
  if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) die("start");
  if (has_machine) edit_auxv();
  uint64_t n = count_all(has_machine, &status);
  FILE *f = fopen(argv[1], "w");
  if (!f) die(argv[1]);
  fprintf(f, "%lu\n", n);
  fclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
