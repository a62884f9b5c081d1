/* kit_open and kit_close: putting a machine together and taking it apart. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "os/os.h"

static KitEmu *live; /* one guest per process: addresses are the host's */

static const char *const status_names[KIT_E_STATUSES] = {
    "OK",     "NOT_FOUND", "ACCESS", "NOT_ELF", "BAD_ELF",     "ARCH",     "NO_LOADER",
    "MEMORY", "UNMAPPED",  "BUSY",   "DEAD",    "UNSUPPORTED", "ARGUMENT", "IO",
};

const char *kit_status_name(KitStatus s) { return s < KIT_E_STATUSES ? status_names[s] : "?"; }
const KitError *kit_error(const KitEmu *emu) { return &emu->error; }

static KitStatus refuse(KitError *err, KitStatus code, const char *message) {
  if (err) {
    err->code = code;
    snprintf(err->message, sizeof err->message, "%s", message);
  }
  return code;
}

/* The guest's addresses are the host's below CORE_LINE: the engine and its libraries must lie
 * above. */
static bool placed_low(void) {
  static int data;
  void *heap = malloc(1);
  bool low = (uint64_t)(uintptr_t)&data < CORE_LINE || (uint64_t)(uintptr_t)heap < CORE_LINE ||
             (uint64_t)(uintptr_t)&malloc < CORE_LINE || (uint64_t)(uintptr_t)&low < CORE_LINE;
  free(heap);
  return low;
}

/* The options are the caller's; what is needed after kit_open is copied. */
static const char *const *copy_words(const char *const *words) {
  size_t n = 0;
  if (!words) return NULL;
  while (words[n]) n++;
  char **copy = xcalloc(n + 1, sizeof *copy);
  for (size_t i = 0; i < n; i++) copy[i] = xstrdup(words[i]);
  return (const char *const *)copy;
}

static void free_words(const char *const *words) {
  for (size_t i = 0; words && words[i]; i++) free((void *)(uintptr_t)words[i]);
  free((void *)(uintptr_t)words);
}

static void destroy(KitEmu *emu) {
  if (emu->os && emu->os_data) emu->os->close(emu);
  api_close_images(emu);
  if (emu->cache) core_cache_free(emu->cache);
  emu->cache = NULL;
  core_free_owned(emu);
  if (emu->hooks) core_hooks_free(emu->hooks);
  emu->hooks = NULL;
  map_free(&emu->replaced);
  api_stacks_free(emu);
  if (emu->map) core_map_free(emu->map);
  vec_free(&emu->finished);
  free_words(emu->opt.reexec);
  free(emu->exe_path);
  free(emu->sysroot);
  free(emu->debug_folders);
  free(emu);
  live = NULL;
}

/* The guest must not find the file among its descriptors. */
static KitStatus open_dump(KitEmu *emu, const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd >= 0) fd = kit_shield_fd(emu, fd);
  emu->dump = fd < 0 ? NULL : fdopen(fd, "w");
  return emu->dump ? KIT_OK
                   : core_fail(emu, KIT_E_IO, "cannot write %s: %s", path, strerror(errno));
}

KitStatus kit_open(const KitOptions *opt, KitEmu **out, KitError *err) {
  *out = NULL;
  if (!opt->argv || !opt->argv[0])
    return refuse(err, KIT_E_ARGUMENT, "no program given (write it after --)");
  if (live) return refuse(err, KIT_E_BUSY, "a guest lives already in this process: close it first");
  if (placed_low())
    return refuse(err, KIT_E_UNSUPPORTED,
                  "this process has code or data below 2^46, where the guest must live (a non-PIE "
                  "host program, or "
                  "`ulimit -s unlimited`): run it under a finite stack limit");
  KitEmu *emu = live = xcalloc(1, sizeof *emu);
  emu->opt = *opt;
  emu->opt.reexec = copy_words(opt->reexec);
  emu->debug_folders = opt->debug_folders ? xstrdup(opt->debug_folders) : NULL;
  emu->limit_left = UINT64_MAX;
  emu->is_entry = api_is_entry;
  emu->stack_here = api_stack_here;
  pthread_mutex_init(&emu->lock, NULL);
  emu->hooks = core_hooks_new(emu);
  emu->map = core_map_new(emu);
  emu->cache = core_cache_new(emu);
  KitStatus st = os_load(emu, opt->argv, opt->envp ? opt->envp : (const char *const *)environ);
  if (!st && opt->dump) st = open_dump(emu, opt->dump);
  if (!st && emu->guest->convention.native && (opt->interp || opt->lockstep))
    st = core_fail(emu, KIT_E_UNSUPPORTED,
                   "%s programs run on the JIT only: --interp and --lockstep are for riscv64",
                   emu->guest->name);
  if (st) {
    if (err) *err = emu->error;
    if (emu->threads_first) core_thread_discard(emu->threads_first);
    destroy(emu);
    return st;
  }
  if (fileno(stderr) > STDERR_FILENO) kit_hide_fd(emu, fileno(stderr));
  core_jit_open(emu);
  *out = emu;
  return KIT_OK;
}

void kit_close(KitEmu *emu) {
  if (!emu || emu != live) return;
  KitStop stop;
  if (emu->started && !emu->ended) kit_kill(emu, SIGKILL);
  while (emu->started && !emu->ended && !kit_run(emu, UINT64_MAX, &stop)) {
  }
  core_join_finished(emu);
  if (!emu->started && emu->threads_first) core_thread_discard(emu->threads_first);
  destroy(emu);
}
