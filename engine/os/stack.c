/* The initial stack: strings, then auxv, envp, argv and argc, as the kernel lays them out (Linux,
 * fs/binfmt_elf.c). */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

#include "os/os.h"

typedef VEC(uint64_t) Words64;

static bool push_bytes(Emu *emu, uint64_t *sp, const void *bytes, size_t n) {
  *sp -= n;
  return !core_poke(emu, *sp, bytes, n);
}

/* Strings are pushed last first; their addresses come back in order. */
static bool push_strings(Emu *emu, uint64_t *sp, const char *const *list, Words64 *addresses) {
  size_t n = 0;
  while (list[n]) n++;
  vec_reserve(addresses, n + 1);
  addresses->n = n;
  for (size_t i = n; i-- > 0;) {
    if (!push_bytes(emu, sp, list[i], strlen(list[i]) + 1)) return false;
    addresses->at[i] = *sp;
  }
  return true;
}

uint64_t os_make_stack(Emu *emu, const OsStackInfo *info) {
  OsProcess *p = os_process(emu);
  uint64_t sp = p->stack_top - 8;
  Words64 argv = {0}, envp = {0}, block = {0};
  uint8_t random[16];
  if (getrandom(random, sizeof random, 0) != sizeof random) memset(random, 7, sizeof random);
  VEC(const char *) env = {0};
  for (size_t i = 0; info->envp[i]; i++) {
    const char *word = info->envp[i];
    if (!strncmp(word, OS_SET_ASIDE, sizeof OS_SET_ASIDE - 1)) word += sizeof OS_SET_ASIDE - 1;
    if (strncmp(word, "KITLUA_STACK=", 13)) vec_push(&env, word);
  }
  vec_push(&env, NULL);

  bool ok = push_bytes(emu, &sp, info->execfn, strlen(info->execfn) + 1);
  uint64_t execfn = p->env_end = sp;
  ok = ok && push_strings(emu, &sp, env.at, &envp);
  p->arg_end = sp;
  ok = ok && push_strings(emu, &sp, info->argv, &argv);
  p->arg_start = sp;
  uint64_t platform = 0;
  if (ok && emu->guest->platform) {
    ok = push_bytes(emu, &sp, emu->guest->platform, strlen(emu->guest->platform) + 1);
    platform = sp;
  }
  sp &= ~15ull;
  ok = ok && push_bytes(emu, &sp, random, sizeof random);

  bool native = emu->guest->convention.native; /* the host's own processor, all told */
  const uint64_t auxv[][2] = {{native ? AT_MINSIGSTKSZ : AT_IGNORE, getauxval(AT_MINSIGSTKSZ)},
                              {AT_HWCAP, native ? getauxval(AT_HWCAP) : emu->guest->hwcap},
                              {AT_PAGESZ, CORE_PAGE},
                              {AT_CLKTCK, (uint64_t)sysconf(_SC_CLK_TCK)},
                              {AT_PHDR, info->phdr},
                              {AT_PHENT, info->phent},
                              {AT_PHNUM, info->phnum},
                              {AT_BASE, info->interp_base},
                              {AT_FLAGS, 0},
                              {AT_ENTRY, info->entry},
                              {AT_UID, getuid()},
                              {AT_EUID, geteuid()},
                              {AT_GID, getgid()},
                              {AT_EGID, getegid()},
                              {AT_SECURE, 0},
                              {AT_RANDOM, sp},
                              {AT_HWCAP2, native ? getauxval(AT_HWCAP2) : 0},
                              {AT_EXECFN, execfn},
                              {platform ? AT_PLATFORM : AT_IGNORE, platform},
                              {AT_NULL, 0}};
  vec_push(&block, argv.n);
  for (size_t i = 0; i < argv.n; i++) vec_push(&block, argv.at[i]);
  vec_push(&block, 0);
  for (size_t i = 0; i < envp.n; i++) vec_push(&block, envp.at[i]);
  vec_push(&block, 0);
  for (size_t i = 0; i < sizeof auxv / sizeof *auxv; i++) {
    vec_push(&block, auxv[i][0]);
    vec_push(&block, auxv[i][1]);
  }
  sp = (sp - block.n * 8) & ~15ull;
  ok = ok && !core_poke(emu, sp, block.at, block.n * 8);
  p->auxv = xmalloc(sizeof auxv);
  memcpy(p->auxv, auxv, sizeof auxv);
  p->auxv_size = sizeof auxv;
  p->stack_sp = sp;
  vec_free(&argv);
  vec_free(&envp);
  vec_free(&block);
  vec_free(&env);
  return ok ? sp : 0;
}
