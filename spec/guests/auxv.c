// Checks the auxiliary vector: what the dynamic loader and libc rely on must be there and make sense.
#include <elf.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "guest.h"

extern char **environ;
int main(int argc, char **argv);

int main(int argc, char **argv) {
  (void)argc;
  CHECK(getauxval(AT_PAGESZ) == (unsigned long)sysconf(_SC_PAGESIZE));
  CHECK(getauxval(AT_PHENT) == sizeof(Elf64_Phdr));
  CHECK(getauxval(AT_UID) == getuid() && getauxval(AT_EUID) == geteuid());
  CHECK(getauxval(AT_GID) == getgid() && getauxval(AT_EGID) == getegid());
  CHECK(getauxval(AT_SECURE) == 0);
  CHECK(getauxval(AT_CLKTCK) == 100);
  CHECK(getauxval(AT_ENTRY) != 0);

  const Elf64_Phdr *headers = (const Elf64_Phdr *)getauxval(AT_PHDR);
  unsigned long loads = 0;
  CHECK(headers != NULL);
  for (unsigned long i = 0; headers && i < getauxval(AT_PHNUM); i++)
    loads += headers[i].p_type == PT_LOAD;
  CHECK(loads >= 2);

  const unsigned char *seed = (const unsigned char *)getauxval(AT_RANDOM);
  unsigned any = 0;
  for (int i = 0; seed && i < 16; i++) any |= seed[i];
  CHECK(any != 0);

  const char *file = (const char *)getauxval(AT_EXECFN);
  CHECK(file && strcmp(file, argv[0]) == 0);
  // The strings lie above the vectors, and the vectors in the order argv, envp, auxv.
  CHECK((char *)environ > (char *)argv && argv[0] > (char *)environ);
  return guest_verdict();
}
