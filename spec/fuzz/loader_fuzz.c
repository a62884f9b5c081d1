/* Hostile programs for the loader: headers of a real ELF file are changed at random, then the file
 * is opened and closed. Nothing may crash the engine; build with MODE=asan. The same seed makes the
 * same files, so a failure repeats.
 *
 *   loader_fuzz SEED-FILE ROUNDS [SEED]        prints how many files were refused, by code, and how
 * many were loaded
 *
 * Without a main of its own (-DFUZZ_LIBRARY) it is a libFuzzer target over whole files. */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/emu.h"

static int results[KIT_E_STATUSES];

static void load(const uint8_t *data, size_t size) {
  char path[64];
  int fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size || fchmod(fd, 0755)) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  KitEmu *emu;
  KitError err = {.code = KIT_OK};
  KitStatus st = kit_open(&(KitOptions){.argv = (const char *const[]){path, NULL}}, &emu, &err);
  results[st]++;
  if (st && !err.message[0]) abort(); /* every refusal has its message */
  if (!st) kit_close(emu);
  close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  load(data, size);
  return 0;
}

#ifndef FUZZ_LIBRARY

static uint64_t state;
static uint64_t next(void) { /* xorshift64 */
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

/* Values at which arithmetic on sizes and addresses goes wrong. */
static uint64_t nasty(uint64_t old) {
  static const uint64_t edges[] = {0,
                                   1,
                                   7,
                                   4095,
                                   4096,
                                   4097,
                                   0xffff,
                                   0x10000,
                                   1u << 20,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   1ull << 45,
                                   (1ull << 46) - 4096,
                                   1ull << 46,
                                   1ull << 47,
                                   INT64_MAX,
                                   1ull << 63,
                                   UINT64_MAX - 4095,
                                   UINT64_MAX};
  switch (next() % 5) {
  case 0: return next();
  case 1: return old + next() % 17 - 8;
  case 2: return old ^ (1ull << next() % 64);
  case 3: return old + 4096 * (next() % 9) - 4 * 4096;
  default: return edges[next() % (sizeof edges / sizeof *edges)];
  }
}

static void change_word(uint8_t *at, size_t width) {
  uint64_t v = 0;
  memcpy(&v, at, width);
  v = nasty(v);
  memcpy(at, &v, width);
}

static void change(uint8_t *data, size_t size) {
  Elf64_Ehdr *eh = (Elf64_Ehdr *)(void *)data;
  static const uint8_t eh_fields[][2] = {{4, 1},  {5, 1},  {16, 2}, {18, 2}, {24, 8},
                                         {32, 8}, {40, 8}, {48, 4}, {52, 2}, {54, 2},
                                         {56, 2}, {58, 2}, {60, 2}, {62, 2}};
  static const uint8_t ph_fields[][2] = {{0, 4},  {4, 4},  {8, 8},  {16, 8},
                                         {24, 8}, {32, 8}, {40, 8}, {48, 8}};
  size_t phoff = eh->e_phoff, phnum = eh->e_phnum;
  for (uint64_t n = 1 + next() % 4; n--;) {
    if (next() % 4 == 0) {
      const uint8_t *f = eh_fields[next() % (sizeof eh_fields / 2)];
      change_word(data + f[0], f[1]);
    } else if (phnum) {
      const uint8_t *f = ph_fields[next() % (sizeof ph_fields / 2)];
      size_t at = phoff + sizeof(Elf64_Phdr) * (next() % phnum) + f[0];
      if (at + f[1] <= size) change_word(data + at, f[1]);
    }
  }
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: loader_fuzz SEED-FILE ROUNDS [SEED]\n"), 2;
  struct stat st;
  int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st)) return perror(argv[1]), 2;
  size_t size = (size_t)st.st_size;
  uint8_t *seed = malloc(size), *data = malloc(size);
  if (!seed || !data || read(fd, seed, size) != (ssize_t)size) return perror(argv[1]), 2;
  state = (argc > 3 ? strtoull(argv[3], NULL, 0) : 1) * 0x9e3779b97f4a7c15ull | 1;
  for (long rounds = strtol(argv[2], NULL, 0); rounds--;) {
    memcpy(data, seed, size);
    change(data, size);
    load(data, next() % 16 ? size : next() % (size + 1));
  }
  for (int s = 0; s < KIT_E_STATUSES; s++)
    if (results[s]) printf("%s %d\n", kit_status_name((KitStatus)s), results[s]);
  free(seed);
  free(data);
  return 0;
}
#endif
