/* One ELF file on its way into the guest's memory: used by the loader, once for the program and
 * once for its interpreter.
 *
 *   OsElf f = {.fd = -1};
 *   KitStatus st = os_elf_open(emu, &f, path, path);
 *   if (!st) st = os_elf_headers(emu, &f);
 *   if (!st) st = os_elf_map(emu, &f, path, path, false, &loaded);
 *   if (f.fd >= 0) close(f.fd);
 *
 * Every function that fails leaves its message in emu->error. */
#ifndef OS_ELF_H
#define OS_ELF_H

#include <elf.h>

#include "os/os.h"

#define OS_MAX_PHDRS 256

typedef struct OsElf {
  const char *name; /* for messages */
  int fd;
  uint64_t size;
  Elf64_Ehdr eh;
  Elf64_Phdr ph[OS_MAX_PHDRS]; /* checked by os_elf_headers */
} OsElf;

typedef struct OsLoaded {
  uint64_t bias, entry, phdr, end; /* end: of the highest segment */
  bool has_exec;
} OsLoaded;

/* Opens the file and checks its ELF header. shown: its name in messages. */
KitStatus os_elf_open(Emu *emu, OsElf *f, const char *path, const char *shown);
/* Reads and checks the program headers. */
KitStatus os_elf_headers(Emu *emu, OsElf *f);
/* Maps the segments and registers the image under path. An interpreter goes to the mmap area, a
 * program has room for its heap behind it. */
KitStatus os_elf_map(Emu *emu, const OsElf *f, const char *path, const char *host_path,
                     bool is_interp, OsLoaded *out);
/* The name in PT_INTERP, if there is one. */
KitStatus os_elf_interp(Emu *emu, const OsElf *f, char *out, size_t size, bool *found);
/* Finds the program's interpreter, in the sysroot first, and maps it. */
KitStatus os_elf_load_interp(Emu *emu, const OsElf *program, const char *interp, OsLoaded *out);
const char *os_elf_machine_name(uint16_t machine);

#endif
