/* The kitlua command: finds and runs a script over a program.
 *
 *   kitlua [options] SCRIPT [script options] -- PROGRAM [args]
 *
 * Exit status: the guest's own; 128+N if signal N killed it; 125 kitlua's or the script's failure;
 * 126 the program cannot be executed; 127 it was not found. */
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <fcntl.h>
#include <limits.h>
#include <lualib.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bind.h"

KIT_API int luaopen_kit(lua_State *L);
KIT_API int luaopen_kit_line(lua_State *L);

#define STATUS_FAILURE 125
#define STDERR_MOST    65535
#define STACK_LIMIT                                                                                \
  (8u << 20) /* instead of `ulimit -s unlimited`, which would put libraries below 2^46 */

static const char usage[] =
    "usage: kitlua [options] SCRIPT [script options] -- PROGRAM [args]\n"
    "       kitlua [options] -e CHUNK -- PROGRAM [args]\n"
    "       kitlua [options] -i [-- PROGRAM [args]]\n"
    "       kitlua [options] -- PROGRAM [args]          (no tool)\n"
    "\n"
    "Runs PROGRAM (a Linux program for x86-64 or riscv64) under SCRIPT: a path, or the name of an\n"
    "installed script (callgrind, strace; see --list). `kitlua SCRIPT --help` tells a script's "
    "options.\n"
    "\n"
    "  -e CHUNK           run a Lua chunk; `kit` and `emu` are there, the guest runs when it ends\n"
    "  -i                 interactive console\n"
    "  --list             list the installed scripts\n"
    "  --sysroot DIR      where a foreign program finds its loader and libraries\n"
    "  --cpu MODEL        what x86-64 programs see: host, x86-64, x86-64-v2, -v3, -v4\n"
    "  --debug-file-directory DIR[:DIR]  where separate debug files are, besides /usr/lib/debug\n"
    "  --trace-children   run exec'ed programs under the same script\n"
    "  --interp           interpreter only\n"
    "  --one-insn         translate one instruction at a time\n"
    "  --stats            print engine statistics to stderr at the end\n"
    "  --help, --version\n"
    "For finding faults of the engine (doc/command.md): --lockstep --exact --check-ir "
    "--no-optimise\n"
    "  --dispatch --no-bmi --no-fma --dump FILE --max-regions N --code-size BYTES\n"
    "\n"
    "Exit status: the program's own; 128+N if signal N killed it; 125 failure of kitlua or the\n"
    "script; 126 the program cannot be executed; 127 it was not found.\n"
    "Scripts are looked for in $KITLUA_PATH (colon-separated folders), then among the installed "
    "ones.\n";

typedef struct Command {
  const char *script, *chunk, *sysroot, *cpu, *debug_folders, *argv0, *max_regions, *code_size,
      *dump;
  bool lockstep, interactive, list, interp, one_insn, no_optimise, check_ir, trace_children,
      dispatch, stats, no_bmi, no_fma, exact;
  int script_args; /* argv index of the first script option */
  int program;     /* argv index of PROGRAM; argc if there is none */
  int engine_end;  /* argv index behind kitlua's own options */
} Command;

static int fail(const char *fmt, const char *what) {
  fputs("kitlua: ", stderr);
  fprintf(stderr, fmt, what);
  fputc('\n', stderr);
  return STATUS_FAILURE;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* The options of kit.open that the command line sets. */
static const struct {
  const char *option, *key; /* on the command line, in kit.options */
  size_t at;                /* in Command */
} flags[] = {
#define FLAG(option, key, field)                                                                   \
  { option, key, offsetof(Command, field) }
    FLAG("--interp", "interp", interp),
    FLAG("--one-insn", "one_insn", one_insn),
    FLAG("--lockstep", "lockstep", lockstep),
    FLAG("--no-optimise", "no_optimise", no_optimise),
    FLAG("--check-ir", "check_ir", check_ir),
    FLAG("--dispatch", "requires_dispatch", dispatch),
    FLAG("--trace-children", "trace_children", trace_children),
    FLAG("--no-bmi", "no_bmi", no_bmi),
    FLAG("--no-fma", "no_fma", no_fma),
    FLAG("--exact", "exact", exact),
    FLAG("--stats", "stats", stats),
#undef FLAG
};

enum { N_FLAGS = sizeof flags / sizeof *flags };

static bool *flag_at(const Command *c, size_t i) { return (bool *)((char *)c + flags[i].at); }

/* Options without a value. */
static bool *plain_option(Command *c, const char *a) {
  if (!strcmp(a, "-i")) return &c->interactive;
  if (!strcmp(a, "--list")) return &c->list;
  for (size_t i = 0; i < N_FLAGS; i++)
    if (!strcmp(a, flags[i].option)) return flag_at(c, i);
  return NULL;
}

/* An exec'ed program's --argv0 stands in front of the options that its parent was started with. */
static void set_option(Command *c, const char **value, const char *word) {
  if (value != &c->argv0 || !c->argv0) *value = word;
}

/* Options with a value, as `--name value` or `--name=value`. Returns how many arguments it took, 0:
 * not one of them. */
static int valued_option(Command *c, int argc, char **argv, int i) {
  const struct {
    const char *name;
    const char **value;
  } rows[] = {{"-e", &c->chunk},
              {"--sysroot", &c->sysroot},
              {"--cpu", &c->cpu},
              {"--debug-file-directory", &c->debug_folders},
              {"--argv0", &c->argv0},
              {"--dump", &c->dump},
              {"--max-regions", &c->max_regions},
              {"--code-size", &c->code_size}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    size_t n = strlen(rows[k].name);
    if (strncmp(argv[i], rows[k].name, n)) continue;
    if (argv[i][n] == '=' && argv[i][1] == '-') {
      set_option(c, rows[k].value, argv[i] + n + 1);
      return 1;
    }
    if (argv[i][n]) continue;
    if (i + 1 >= argc) exit(fail("option %s needs a value", argv[i]));
    set_option(c, rows[k].value, argv[i + 1]);
    return 2;
  }
  return 0;
}

static Command parse(int argc, char **argv) {
  Command c = {.script_args = argc, .program = argc};
  int i = 1;
  while (i < argc && argv[i][0] == '-' && strcmp(argv[i], "--")) {
    bool *flag = plain_option(&c, argv[i]);
    int took = flag ? 1 : valued_option(&c, argc, argv, i);
    if (flag) *flag = true;
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) fputs(usage, stdout), exit(0);
    if (!strcmp(argv[i], "--version"))
      printf("kitlua %s (%s)\n", KIT_VERSION, LUA_RELEASE), exit(0);
    if (!took) exit(fail("unknown option %s (kitlua --help lists them)", argv[i]));
    i += took;
  }
  c.engine_end = i;
  if (i < argc && strcmp(argv[i], "--") && !c.chunk && !c.interactive) c.script = argv[i++];
  c.script_args = i;
  while (i < argc && strcmp(argv[i], "--")) i++;
  if (i < argc) c.program = i + 1;
  return c;
}

/* ---- where things are ------------------------------------------------------------------------ */

static bool readable(const char *path) { return access(path, R_OK) == 0; }

/* The folder that holds scripts/ and lib/: beside the build folder, installed, or the source tree.
 */
static const char *home(void) {
  static char dir[PATH_MAX];
  char exe[PATH_MAX], probe[PATH_MAX + 32];
  static const char *const places[] = {"%s/..", "%s/../share/kitlua", KIT_SOURCE "%.0s",
                                       KIT_PREFIX "/share/kitlua%.0s"};
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[n < 0 ? 0 : n] = 0;
  char *slash = strrchr(exe, '/');
  if (slash) *slash = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(dir, sizeof dir, places[i], exe);
#pragma GCC diagnostic pop
    snprintf(probe, sizeof probe, "%s/lib/kit/options.lua", dir);
    if (readable(probe)) return dir;
  }
  return KIT_SOURCE;
}

static bool script_in(const char *dir, size_t n, const char *name, char *out, size_t size) {
  for (int lua = 0; lua < 2; lua++) {
    snprintf(out, size, "%.*s/%s%s", (int)n, dir, name, lua ? ".lua" : "");
    if (readable(out)) return true;
  }
  return false;
}

static bool find_script(const char *name, char *out, size_t size) {
  snprintf(out, size, "%s", name);
  if (strchr(name, '/') || readable(name)) return readable(name);
  const char *path = getenv("KITLUA_PATH");
  while (path && *path) {
    size_t n = strcspn(path, ":");
    if (n && script_in(path, n, name, out, size)) return true;
    path += n + (path[n] == ':');
  }
  char dir[PATH_MAX + 16];
  snprintf(dir, sizeof dir, "%s/scripts", home());
  return script_in(dir, strlen(dir), name, out, size);
}

static int list_scripts(void) {
  char dir[PATH_MAX + 16];
  struct dirent **entries;
  snprintf(dir, sizeof dir, "%s/scripts", home());
  int n = scandir(dir, &entries, NULL, alphasort);
  if (n < 0) return fail("no installed scripts in %s", dir);
  for (int i = 0; i < n; free(entries[i++])) {
    char *dot = strrchr(entries[i]->d_name, '.');
    if (dot && !strcmp(dot, ".lua"))
      printf("%.*s\n", (int)(dot - entries[i]->d_name), entries[i]->d_name);
  }
  free(entries);
  return 0;
}

/* ---- the Lua side ---------------------------------------------------------------------------- */

static void push_strings(lua_State *L, char **v, int from, int to) {
  lua_createtable(L, to - from, 0);
  for (int i = from; i < to; i++) {
    lua_pushstring(L, v[i]);
    lua_rawseti(L, -2, i - from + 1);
  }
}

static void set_flag(lua_State *L, const char *k, bool v) {
  lua_pushboolean(L, v);
  lua_setfield(L, -2, k);
}

static void set_number(lua_State *L, const char *k, const char *v, const char *option) {
  if (!v) return;
  char *end;
  unsigned long long n = strtoull(v, &end, 10);
  if (*end || !*v) exit(fail("%s needs a number", option));
  lua_pushinteger(L, (lua_Integer)n);
  lua_setfield(L, -2, k);
}

/* kit.command and kit.options; the module is on top. */
static void set_defaults(lua_State *L, const Command *c, int argc, char **argv) {
  push_strings(L, argv, c->program, argc);
  lua_setfield(L, -2, "command");
  lua_newtable(L);
  for (size_t i = 0; i < N_FLAGS; i++) set_flag(L, flags[i].key, *flag_at(c, i));
  if (c->dump) lua_pushstring(L, c->dump), lua_setfield(L, -2, "dump");
  set_number(L, "max_regions", c->max_regions, "--max-regions");
  set_number(L, "code_size", c->code_size, "--code-size");
  if (c->sysroot) lua_pushstring(L, c->sysroot), lua_setfield(L, -2, "sysroot");
  if (c->cpu) lua_pushstring(L, c->cpu), lua_setfield(L, -2, "cpu");
  if (c->debug_folders) lua_pushstring(L, c->debug_folders), lua_setfield(L, -2, "debug_folders");
  if (c->argv0) lua_pushstring(L, c->argv0), lua_setfield(L, -2, "argv0");
  /* How an exec'ed guest comes back: this command up to "--", its script the file that it is now,
   * whatever folder the guest is in by then. Without --trace-children it comes back without the
   * script. */
  push_strings(L, argv, 0,
               c->trace_children ? (c->program < argc ? c->program - 1 : argc) : c->engine_end);
  lua_pushstring(L, "/proc/self/exe");
  lua_rawseti(L, -2, 1);
  char path[PATH_MAX], absolute[PATH_MAX];
  if (c->trace_children && c->script && find_script(c->script, path, sizeof path) &&
      realpath(path, absolute)) {
    lua_pushstring(L, absolute);
    lua_rawseti(L, -2, c->script_args); /* counted from 1: the word before them */
  }
  lua_setfield(L, -2, "reexec");
  lua_setfield(L, -2, "options");
}

static void set_path(lua_State *L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "path");
  lua_pushfstring(L, "%s/lib/?.lua;%s", home(), lua_tostring(L, -1));
  lua_setfield(L, -3, "path");
  lua_pop(L, 2);
}

static const char plain_run[] = "local kit = require 'kit'\n"
                                "local emu <close> = assert(kit.open(kit.command))\n"
                                "emu:run()\n";
static const char chunk_run[] = "local kit, chunk = require 'kit', ...\n"
                                "local emu_ <close> = assert(kit.open(kit.command))\n"
                                "_G.kit, _G.emu = kit, emu_\n"
                                "chunk()\n"
                                "emu_:run()\n";

static bool is_elf(const char *path) {
  char magic[4];
  FILE *f = fopen(path, "rb");
  bool elf = f && fread(magic, sizeof magic, 1, f) && !memcmp(magic, "\177ELF", sizeof magic);
  if (f) fclose(f);
  return elf;
}

static int load_main(lua_State *L, const Command *c) {
  char path[PATH_MAX];
  if (c->interactive) return luaL_loadstring(L, "require 'kit.console'.main()");
  if (c->chunk) {
    int st = luaL_loadbuffer(L, chunk_run, sizeof chunk_run - 1, "=kitlua");
    return st ? st : luaL_loadbuffer(L, c->chunk, strlen(c->chunk), "=-e");
  }
  if (!c->script) return luaL_loadbuffer(L, plain_run, sizeof plain_run - 1, "=kitlua");
  if (!find_script(c->script, path, sizeof path)) {
    lua_pushfstring(L, "no script '%s' (a path, in KITLUA_PATH, or one of kitlua --list)",
                    c->script);
    return LUA_ERRFILE;
  }
  if (is_elf(path)) {
    lua_pushfstring(L, "%s is a program, not a script: write it after --", path);
    return LUA_ERRFILE;
  }
  return luaL_loadfile(L, path);
}

typedef struct Main {
  Command *c;
  int argc;
  char **argv;
} Main;

static int protected_main(lua_State *L) {
  Main *m = lua_touserdata(L, 1);
  Command *c = m->c;
  luaL_openlibs(L);
  luaL_requiref(L, "kit", luaopen_kit, 0);
  set_defaults(L, c, m->argc, m->argv);
  lua_pop(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_kit_line);
  lua_setfield(L, -2, "kit.line");
  lua_pop(L, 1);
  set_path(L);
  push_strings(L, m->argv, c->script_args, c->program < m->argc ? c->program - 1 : m->argc);
  lua_pushstring(L, c->script);
  lua_rawseti(L, -2, 0);
  lua_setglobal(L, "arg");
  if (load_main(L, c)) { /* no script, or not Lua: where we are says nothing */
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "kit.load_failed");
    return lua_error(L);
  }
  int n = c->chunk ? 1 : 0;
  if (!c->chunk)
    for (int i = c->script_args; i < (c->program < m->argc ? c->program - 1 : m->argc); i++, n++)
      lua_pushstring(L, m->argv[i]);
  lua_call(L, n, 0);
  return 0;
}

static int registry_int(lua_State *L, const char *key, int otherwise) {
  lua_getfield(L, LUA_REGISTRYINDEX, key);
  int v = (int)luaL_optinteger(L, -1, otherwise);
  lua_pop(L, 1);
  return v;
}

/* The exit status for a program that kit.open could not open. */
static int open_status(int code) {
  switch (code) {
  case KIT_E_NOT_FOUND: return 127;
  case KIT_E_BUSY:
  case KIT_E_MEMORY:
  case KIT_E_ARGUMENT:
  case KIT_E_IO:
  case KIT_E_UNSUPPORTED: return STATUS_FAILURE;
  default: return 126;
  }
}

/* A script that failed: its message, with position and traceback unless it is just that the program
 * could not be opened, or the script not loaded. */
static int report(lua_State *L) {
  const char *msg = luaL_tolstring(L, -1, NULL);
  lua_getfield(L, LUA_REGISTRYINDEX, "kit.open_message");
  const char *open_message = lua_tostring(L, -1);
  if (open_message && strstr(msg, open_message)) {
    fprintf(stderr, "kitlua: %s\n", open_message);
    return open_status(registry_int(L, "kit.open_failed", KIT_OK));
  }
  bool plain = lua_getfield(L, LUA_REGISTRYINDEX, "kit.load_failed") != LUA_TNIL;
  const char *end = plain ? strstr(msg, "\nstack traceback:") : NULL;
  fprintf(stderr, "kitlua: %.*s\n", end ? (int)(end - msg) : (int)strlen(msg), msg);
  return STATUS_FAILURE;
}

/* A program that the guest executed: whoever waits for it must see how it died. */
static void die_of(int signo) {
  const struct rlimit no_core = {0, 0};
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signo);
  setrlimit(RLIMIT_CORE, &no_core);
  signal(signo, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &only, NULL);
  raise(signo);
}

/* The process is about to end: closing the state runs finalizers, and no more. */
static void *keep_memory(void *ud, void *p, size_t old_size, size_t new_size) {
  (void)ud;
  if (!new_size) return NULL;
  return p && new_size <= old_size ? p : realloc(p, new_size);
}

/* Guest threads run on host threads, one at a time: an arena for each of them would grow by a page
 * and a system call at a time. */
static void tune_malloc(void) {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TOP_PAD, 1 << 20);
}

static int run(Command *c, int argc, char **argv) {
  tune_malloc();
  lua_State *L = luaL_newstate();
  if (!L) return fail("%s", "out of memory");
  Main m = {c, argc, argv};
  lua_pushcfunction(L, bind_traceback);
  lua_pushcfunction(L, protected_main);
  lua_pushlightuserdata(L, &m);
  int status = lua_pcall(L, 1, 0, 1) ? report(L) : registry_int(L, "kit.exit_status", 0);
  int signo = registry_int(L, "kit.exit_signal", 0);
  lua_setallocf(L, keep_memory, NULL);
  lua_close(L);
  if (fflush(stdout)) status = fail("cannot write to stdout: %s", strerror(errno));
  if (c->argv0 && signo && status == 128 + signo) die_of(signo);
  return status;
}

/* Under an unlimited stack the kernel puts libraries low, where the guest must live: start again
 * with a finite limit. The guest is shown the original one (os/ reads KITLUA_STACK and hides it).
 */
static void need_finite_stack(char **argv) {
  struct rlimit lim;
  if (getrlimit(RLIMIT_STACK, &lim) || lim.rlim_cur != RLIM_INFINITY || getenv("KITLUA_STACK"))
    return;
  lim.rlim_cur = STACK_LIMIT;
  if (setrlimit(RLIMIT_STACK, &lim)) return;
  setenv("KITLUA_STACK", "unlimited", 1);
  execv("/proc/self/exe", argv);
}

/* The program may close its stderr, which coreutils do at their end: ours is a descriptor of our
 * own, out of the way (kit_open hides it). */
static void own_stderr(void) {
  struct rlimit lim;
  if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur < 64) return;
  int high = lim.rlim_cur > STDERR_MOST ? STDERR_MOST : (int)lim.rlim_cur - 1;
  int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, high);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) return;
  setvbuf(f, NULL, _IONBF, 0);
  stderr = f;
}

int main(int argc, char **argv) {
  need_finite_stack(argv);
  own_stderr();
  Command c = parse(argc, argv);
  if (c.list) return list_scripts();
  if (c.interactive && c.script_args < argc && strcmp(argv[c.script_args], "--"))
    return fail("unexpected '%s': the program goes after --", argv[c.script_args]);
  if (!c.script && !c.chunk && !c.interactive && c.program >= argc) {
    fputs(usage, stderr);
    return STATUS_FAILURE;
  }
  return run(&c, argc, argv);
}
