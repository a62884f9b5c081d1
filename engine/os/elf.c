/* ELF files: headers and segments. Nothing in the file is trusted: each header field is checked
 * before use, and all mapping goes through core_mmap, which keeps the guest out of the engine's
 * half of the address space. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/elf.h"

/* ---- reading headers ------------------------------------------------------------------------- */

static bool read_at(int fd, void *buf, uint64_t n, uint64_t off) {
  return off <= INT64_MAX && pread(fd, buf, n, (off_t)off) == (ssize_t)n;
}

static KitStatus bad(Emu *emu, const OsElf *f, const char *what) {
  return core_fail(emu, KIT_E_BAD_ELF, "%s: damaged ELF file: %s", f->name, what);
}

const char *os_elf_machine_name(uint16_t m) {
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

KitStatus os_elf_open(Emu *emu, OsElf *f, const char *path, const char *shown) {
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

KitStatus os_elf_headers(Emu *emu, OsElf *f) {
  const Elf64_Ehdr *eh = &f->eh;
  if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
    return core_fail(emu, KIT_E_NOT_ELF, "%s: an ELF file, but no program (%s)", f->name,
                     eh->e_type == ET_REL ? "an object file: link it"
                                          : "neither executable nor shared object");
  if (eh->e_phentsize != sizeof(Elf64_Phdr)) return bad(emu, f, "program header size");
  if (!eh->e_phnum || eh->e_phnum > OS_MAX_PHDRS) return bad(emu, f, "number of program headers");
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

/* ---- mapping --------------------------------------------------------------------------------- */

static uint64_t down(uint64_t n) { return n & ~(CORE_PAGE - 1); }
static uint64_t up(uint64_t n) { return down(n + CORE_PAGE - 1); }

static KitStatus span(Emu *emu, const OsElf *f, uint64_t *low, uint64_t *high) {
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

static KitStatus map_segment(Emu *emu, const OsElf *f, const Elf64_Phdr *p, uint64_t bias,
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
static uint64_t alignment(const OsElf *f) {
  uint64_t most = CORE_PAGE;
  for (int i = 0; i < f->eh.e_phnum; i++) {
    uint64_t a = f->ph[i].p_align;
    if (f->ph[i].p_type == PT_LOAD && a > most && !(a & (a - 1)) && a < 1ull << 32) most = a;
  }
  return most;
}

/* A free range in the mmap area, where the kernel puts the interpreter: behind the program it would
 * be in the heap's way. */
static uint64_t free_range(Emu *emu, const OsElf *f, uint64_t len) {
  int64_t va = core_mmap(emu, NULL, 0, len, PROT_NONE, MAP_PRIVATE, f->fd, 0, "");
  if (va > 0) core_munmap(emu, NULL, (uint64_t)va, len);
  return va > 0 ? (uint64_t)va : 0;
}

static KitStatus place(Emu *emu, const OsElf *f, uint64_t low, uint64_t high, bool is_interp,
                       uint64_t *bias) {
  *bias = 0;
  if (f->eh.e_type == ET_EXEC) {
    if (low < CORE_LOW) return bad(emu, f, "fixed address too low (below 0x10000)");
    return KIT_OK;
  }
  uint64_t align = alignment(f), len = high - low + align - CORE_PAGE;
  uint64_t base = is_interp ? free_range(emu, f, len)
                            : core_place(emu, len, emu->guest->convention.native != NULL);
  if (!base)
    return core_fail(emu, KIT_E_MEMORY, "%s: no address range of %llu bytes for it", f->name,
                     (unsigned long long)(high - low));
  *bias = ((base - low) + align - 1) & ~(align - 1);
  return KIT_OK;
}

KitStatus os_elf_map(Emu *emu, const OsElf *f, const char *path, const char *host_path,
                     bool is_interp, OsLoaded *out) {
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

/* ---- the interpreter (dynamic loader) -------------------------------------------------------- */

KitStatus os_elf_interp(Emu *emu, const OsElf *f, char *out, size_t size, bool *found) {
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

KitStatus os_elf_load_interp(Emu *emu, const OsElf *program, const char *interp, OsLoaded *out) {
  char buf[PATH_MAX];
  const char *path = os_host_path(emu, interp, buf, sizeof buf);
  OsElf f = {.fd = -1};
  KitStatus st = os_elf_open(emu, &f, path, interp);
  if (st == KIT_E_NOT_FOUND)
    st = core_fail(emu, KIT_E_NO_LOADER,
                   "%s: its loader %s is not in %s (install %s's libraries, or name their folder "
                   "with --sysroot)",
                   program->name, interp, emu->sysroot ? emu->sysroot : "/", emu->guest->name);
  if (!st && f.eh.e_machine != program->eh.e_machine)
    st = core_fail(emu, KIT_E_NO_LOADER,
                   "%s: its loader %s is for %s, not for %s (name the right folder with --sysroot)",
                   program->name, path, os_elf_machine_name(f.eh.e_machine), emu->guest->name);
  if (!st) st = os_elf_headers(emu, &f);
  if (!st) st = os_elf_map(emu, &f, interp, path, true, out);
  if (f.fd >= 0) close(f.fd);
  return st;
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
