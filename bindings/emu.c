/* The emu object: opening, running, properties. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bind.h"

/* ---- shared helpers -------------------------------------------------------------------------- */

Bind *bind_emu_any(lua_State *L, int idx) { return luaL_checkudata(L, idx, BIND_EMU); }

Bind *bind_emu(lua_State *L, int idx) {
  Bind *b = bind_emu_any(L, idx);
  if (!b->emu) luaL_error(L, "this emu is closed");
  return b;
}

/* The anchor table is the emu's user value 1: handle address -> handle. */
void bind_anchor(lua_State *L, int emu_idx, const void *key) {
  lua_getiuservalue(L, emu_idx, 1);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, key);
  lua_pop(L, 1);
}

void bind_release(lua_State *L, Bind *b, const void *key) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "kit.emus");
  if (lua_rawgetp(L, -1, b) == LUA_TUSERDATA) {
    lua_getiuservalue(L, -1, 1);
    lua_pushnil(L);
    lua_rawsetp(L, -2, key);
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

bool bind_try_symbol(Bind *b, const char *name, KitSymbol *out) {
  return !kit_symbol(b->emu, name, out);
}

uint64_t bind_address(lua_State *L, Bind *b, int idx) {
  KitSymbol s;
  if (lua_type(L, idx) != LUA_TSTRING) return (uint64_t)luaL_checkinteger(L, idx);
  if (!bind_try_symbol(b, lua_tostring(L, idx), &s))
    luaL_error(L, "no symbol '%s'", lua_tostring(L, idx));
  return s.address;
}

void bind_class(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods) {
  luaL_newmetatable(L, name);
  luaL_setfuncs(L, meta, 0);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

int bind_enum(lua_State *L, int idx, const char *what, int (*find)(const char *name)) {
  const char *s = luaL_checkstring(L, idx);
  int v = find(s);
  if (v < 0) luaL_error(L, "no %s '%s'", what, s);
  return v;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Array of strings at idx as a NULL-terminated vector in a userdata (left on the stack). */
static const char **string_vector(lua_State *L, int idx, const char *what) {
  idx = lua_absindex(L, idx);
  size_t n = lua_rawlen(L, idx);
  const char **v = lua_newuserdatauv(L, (n + 1) * sizeof *v, 0);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, idx, (lua_Integer)i + 1);
    v[i] = lua_tostring(L, -1);
    if (!v[i]) luaL_error(L, "%s must be an array of strings", what);
    lua_pop(L, 1);
  }
  v[n] = NULL;
  return v;
}

static bool flag(lua_State *L, int idx, const char *key) {
  bool v = false;
  if (lua_istable(L, idx)) {
    lua_getfield(L, idx, key);
    v = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  return v;
}

static const char *text(lua_State *L, int idx, const char *key) {
  if (!lua_istable(L, idx)) return NULL;
  lua_getfield(L, idx, key);
  return luaL_optstring(L, -1, NULL); /* stays on the stack, hence valid */
}

/* Puts the options in effect at index 2: the caller's, and for those not given kit.options. */
static void effective_options(lua_State *L) {
  lua_settop(L, 2);
  lua_getfield(L, lua_upvalueindex(1), "options");
  lua_insert(L, 2);
  lua_newtable(L);
  for (int source = 2; source <= 3; source++) {
    if (!lua_istable(L, source)) continue;
    for (lua_pushnil(L); lua_next(L, source); lua_pop(L, 1)) {
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, 4);
    }
  }
  lua_replace(L, 2);
  lua_settop(L, 2);
}

/* kit.open(command [, options]) -> emu, or nil, message, code. command: array of strings, the
 * program first. Options not given are taken from kit.options, which the kitlua command sets. */
int bind_open(lua_State *L) { /* upvalue 1: the module */
  luaL_checktype(L, 1, LUA_TTABLE);
  effective_options(L);
  KitOptions opt = {.argv = string_vector(L, 1, "the command")};
  opt.sysroot = text(L, 2, "sysroot");
  opt.debug_folders = text(L, 2, "debug_folders");
  opt.argv0 = text(L, 2, "argv0");
  opt.cpu = text(L, 2, "cpu");
  opt.dump = text(L, 2, "dump");
  opt.interp = flag(L, 2, "interp");
  opt.one_insn = flag(L, 2, "one_insn");
  opt.lockstep = flag(L, 2, "lockstep");
  opt.no_optimise = flag(L, 2, "no_optimise");
  opt.exact = flag(L, 2, "exact");
  opt.requires_dispatch = flag(L, 2, "requires_dispatch");
  opt.check_ir = flag(L, 2, "check_ir");
  opt.trace_children = flag(L, 2, "trace_children");
  opt.count_insns = flag(L, 2, "count_insns");
  opt.without =
      (flag(L, 2, "no_bmi") ? KIT_WITHOUT_BMI : 0u) | (flag(L, 2, "no_fma") ? KIT_WITHOUT_FMA : 0u);
  if (lua_istable(L, 2)) {
    lua_getfield(L, 2, "max_regions");
    opt.max_regions = (uint32_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, 2, "code_size");
    opt.code_size = (size_t)luaL_optinteger(L, -1, 0);
    if (lua_getfield(L, 2, "reexec") == LUA_TTABLE) opt.reexec = string_vector(L, -1, "reexec");
    if (lua_getfield(L, 2, "env") == LUA_TTABLE) opt.envp = string_vector(L, -1, "env");
  }
  Bind *b = lua_newuserdatauv(L, sizeof *b, 1);
  *b = (Bind){.failed = LUA_NOREF, .L = L, .stats = flag(L, 2, "stats")};
  lua_newtable(L);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, BIND_EMU);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  b->home = b->L = lua_tothread(L, -1);
  lua_pop(L, 1);
  KitError err;
  if (kit_open(&opt, &b->emu, &err)) {
    lua_pushinteger(L, err.code); /* the command's exit status */
    lua_setfield(L, LUA_REGISTRYINDEX, "kit.open_failed");
    lua_pushstring(L, err.message);
    lua_setfield(L, LUA_REGISTRYINDEX, "kit.open_message");
    return bind_fail_with(L, &err);
  }
  /* Weak registry entry: finds the emu again from its Bind. */
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "kit.emus");
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, b);
  lua_pop(L, 1);
  return 1;
}

typedef struct StatRow {
  const char *name;
  uint64_t value;
} StatRow;

enum { STAT_ROWS = 7 };

static void read_stats(const KitEmu *emu, StatRow rows[STAT_ROWS]) {
  KitStats s;
  kit_stats(emu, &s);
  const StatRow now[STAT_ROWS] = {
      {"regions", s.regions}, {"region_insns", s.region_insns},   {"syscalls", s.syscalls},
      {"signals", s.signals}, {"invalidations", s.invalidations}, {"flushes", s.flushes},
      {"lookups", s.lookups}};
  memcpy(rows, now, sizeof now);
}

static int emu_close(lua_State *L) {
  Bind *b = bind_emu_any(L, 1);
  if (!b->emu) return 0;
  if (b->running) return luaL_error(L, "the emu cannot be closed from a hook");
  KitEmu *emu = b->emu;
  StatRow rows[STAT_ROWS];
  read_stats(emu, rows);
  kit_close(emu); /* exit hooks may still run */
  for (int i = 0; b->stats && i < STAT_ROWS; i++)
    fprintf(stderr, "%-14s %12llu\n", rows[i].name, (unsigned long long)rows[i].value);
  b->emu = NULL;
  free(b->pending);
  b->pending = NULL;
  for (size_t i = 0; i < sizeof b->kind_names / sizeof *b->kind_names; i++)
    if (b->kind_names[i]) luaL_unref(L, LUA_REGISTRYINDEX, b->kind_names[i]);
  memset(b->kind_names, 0, sizeof b->kind_names);
  lua_newtable(L); /* lets go of the handles */
  lua_setiuservalue(L, 1, 1);
  return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

/* For the command: its exit status is the guest's. */
static void note_end(lua_State *L, const KitStop *s) {
  if (s->reason != KIT_STOP_EXIT && s->reason != KIT_STOP_SIGNAL) return;
  lua_pushinteger(L, s->reason == KIT_STOP_SIGNAL ? 128 + s->signo : s->status);
  lua_setfield(L, LUA_REGISTRYINDEX, "kit.exit_status");
  lua_pushinteger(L, s->signo);
  lua_setfield(L, LUA_REGISTRYINDEX, "kit.exit_signal");
}

static int push_stop(lua_State *L, Bind *b, const KitStop *s) {
  static const char *const reasons[] = {"exit",  "signal", "hook",      "breakpoint",
                                        "watch", "step",   "interrupt", "fault"};
  note_end(L, s);
  bind_rethrow(L, b);
  lua_createtable(L, 0, 9);
  lua_pushstring(L, reasons[s->reason]);
  lua_setfield(L, -2, "reason");
  lua_pushinteger(L, (lua_Integer)s->pc);
  lua_setfield(L, -2, "pc");
  lua_pushinteger(L, s->tid);
  lua_setfield(L, -2, "tid");
  if (s->reason == KIT_STOP_EXIT) {
    lua_pushinteger(L, s->status);
    lua_setfield(L, -2, "status");
  }
  if (s->reason == KIT_STOP_SIGNAL || s->reason == KIT_STOP_FAULT) {
    lua_pushinteger(L, s->signo);
    lua_setfield(L, -2, "signo");
    lua_pushstring(L, kit_signal_name(s->signo));
    lua_setfield(L, -2, "signal");
  }
  if (s->reason == KIT_STOP_WATCH || s->reason == KIT_STOP_FAULT || s->size) {
    lua_pushinteger(L, (lua_Integer)s->address);
    lua_setfield(L, -2, "addr");
    lua_pushinteger(L, s->size);
    lua_setfield(L, -2, "size");
    lua_pushboolean(L, s->is_write);
    lua_setfield(L, -2, "is_write");
  }
  return 1;
}

/* Runs with this coroutine as the one that callbacks use. */
static int run_with(lua_State *L, Bind *b, bool step, int tid, uint64_t n) {
  KitStop stop;
  lua_State *before = b->L;
  if (b->running) return luaL_error(L, "the guest is running: it cannot be run from a hook");
  b->L = L;
  b->running = true;
  KitStatus st = step ? kit_step(b->emu, tid, n, &stop) : kit_run(b->emu, n, &stop);
  b->running = false;
  b->L = before == L ? L : b->home;
  if (st) {
    bind_rethrow(L, b);
    return bind_failure(L, b);
  }
  return push_stop(L, b, &stop);
}

/* emu:run([max_insns]) -> stop */
static int emu_run(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  return run_with(L, b, false, 0,
                  lua_isnoneornil(L, 2) ? UINT64_MAX : (uint64_t)luaL_checkinteger(L, 2));
}

/* emu:step([n [, tid]]) -> stop */
static int emu_step(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  return run_with(L, b, true, (int)luaL_optinteger(L, 3, 0), (uint64_t)luaL_optinteger(L, 2, 1));
}

static int emu_interrupt(lua_State *L) {
  kit_interrupt(bind_emu(L, 1)->emu);
  return 0;
}

/* emu:stop_on_fault(bool) */
static int emu_stop_on_fault(lua_State *L) {
  kit_stop_on_fault(bind_emu(L, 1)->emu, lua_toboolean(L, 2));
  return 0;
}

/* emu:catch_interrupts(bool): Ctrl-C stops run() instead of being the guest's; for consoles */
static int emu_catch_interrupts(lua_State *L) {
  kit_catch_interrupts(bind_emu(L, 1)->emu, lua_toboolean(L, 2));
  return 0;
}

/* emu:kill([signo]): the guest ends at once, exit hooks run */
static int emu_kill(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  if (kit_kill(b->emu, (int)luaL_optinteger(L, 2, 9))) return bind_failure(L, b);
  if (b->running) return 0;
  return run_with(L, b, false, 0, UINT64_MAX);
}

/* emu:count_insns(): emu.insns will be exact; before the first run */
static int emu_count_insns(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  if (kit_count_insns(b->emu)) return luaL_error(L, "%s", kit_error(b->emu)->message);
  return 0;
}

static int emu_stats(lua_State *L) {
  StatRow rows[STAT_ROWS];
  read_stats(bind_emu(L, 1)->emu, rows);
  lua_createtable(L, 0, STAT_ROWS);
  for (int i = 0; i < STAT_ROWS; i++) {
    lua_pushinteger(L, (lua_Integer)rows[i].value);
    lua_setfield(L, -2, rows[i].name);
  }
  return 1;
}

/* emu:host_path(guest path) -> path as the host sees it */
static int emu_host_path(lua_State *L) {
  char buf[4096];
  if (!kit_host_path(bind_emu(L, 1)->emu, luaL_checkstring(L, 2), buf, sizeof buf))
    return luaL_pushfail(L), 1;
  lua_pushstring(L, buf);
  return 1;
}

/* Moves the file's descriptor out of the guest's sight. */
static bool shield(KitEmu *emu, luaL_Stream *s, const char *mode) {
  int fd = kit_shield_fd(emu, fileno(s->f));
  FILE *f = fd < 0 ? NULL : fdopen(fd, mode);
  if (!f) return false;
  fclose(s->f); /* its number is free already; nothing is buffered yet */
  s->f = f;
  return true;
}

static KitEmu *live_emu(lua_State *L) {
  KitEmu *emu = NULL;
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "kit.emus");
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    Bind *b = luaL_testudata(L, -1, BIND_EMU);
    if (b && b->emu) emu = b->emu;
  }
  lua_pop(L, 1);
  return emu;
}

/* io.open while a guest lives: the guest must not find the file among its descriptors. Upvalue 1:
 * the original. */
int bind_io_open(lua_State *L) {
  int n = lua_gettop(L);
  const char *mode = luaL_optstring(L, 2, "r");
  lua_pushvalue(L, lua_upvalueindex(1));
  for (int i = 1; i <= n; i++) lua_pushvalue(L, i);
  lua_call(L, n, LUA_MULTRET);
  luaL_Stream *s = luaL_testudata(L, n + 1, LUA_FILEHANDLE);
  KitEmu *emu = s ? live_emu(L) : NULL;
  if (emu && !shield(emu, s, mode))
    return luaL_error(L, "no descriptor left for %s", lua_tostring(L, 1));
  return lua_gettop(L) - n;
}

/* ---- properties ------------------------------------------------------------------------------ */

int bind_push_threads(lua_State *L, Bind *b, int emu_idx) {
  KitThreadInfo info[256];
  size_t n = kit_threads(b->emu, info, 256);
  lua_newtable(L);
  for (size_t i = 0; i < n && i < 256; i++) {
    lua_createtable(L, 0, 5);
    lua_pushinteger(L, info[i].tid);
    lua_setfield(L, -2, "tid");
    lua_pushinteger(L, (lua_Integer)info[i].pc);
    lua_setfield(L, -2, "pc");
    lua_pushstring(L, info[i].state);
    lua_setfield(L, -2, "state");
    bind_push_regs(L, emu_idx, info[i].tid);
    lua_setfield(L, -2, "regs");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int push_insns(lua_State *L, Bind *b) {
  uint64_t n;
  if (!kit_insns(b->emu, &n))
    return luaL_error(L,
                      "instructions are not counted: call emu:count_insns() before the first run");
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

static int emu_index(lua_State *L) {
  const char *k = luaL_checkstring(L, 2);
  Bind *b = bind_emu_any(L, 1);
  lua_getfield(L, lua_upvalueindex(1), k); /* methods */
  if (!lua_isnil(L, -1)) return 1;
  lua_pop(L, 1);
  bind_emu(L, 1);
  if (!strcmp(k, "regs")) return bind_push_regs(L, 1, 0), 1;
  if (!strcmp(k, "mem")) return bind_push_mem(L, 1), 1;
  if (!strcmp(k, "arch")) return lua_pushstring(L, kit_arch(b->emu)), 1;
  if (!strcmp(k, "insns")) return push_insns(L, b);
  if (!strcmp(k, "images")) return bind_push_images(L, b);
  if (!strcmp(k, "threads")) return bind_push_threads(L, b, 1);
  if (!strcmp(k, "tid")) return lua_pushinteger(L, kit_current_thread(b->emu)), 1;
  if (!strcmp(k, "pid")) return lua_pushinteger(L, kit_pid(b->emu)), 1;
  if (!strcmp(k, "is_child")) return lua_pushboolean(L, kit_is_child(b->emu)), 1;
  return luaL_error(L, "an emu has no field '%s'", k);
}

static int emu_newindex(lua_State *L) {
  return luaL_error(L, "field '%s' of an emu cannot be set", luaL_checkstring(L, 2));
}

static int emu_tostring(lua_State *L) {
  Bind *b = bind_emu_any(L, 1);
  if (b->emu)
    lua_pushfstring(L, "emu (%s, pid %d)", kit_arch(b->emu), kit_pid(b->emu));
  else
    lua_pushliteral(L, "emu (closed)");
  return 1;
}

/* ---- what syscall.def says ------------------------------------------------------------------- */

/* emu:syscall_info(name or nr) -> {name, nr, ret, classes, args = {{name, kind, set, len_arg}...}}
 */
static int emu_syscall_info(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  int nr = lua_type(L, 2) == LUA_TSTRING ? kit_syscall_find(b->emu, lua_tostring(L, 2))
                                         : (int)luaL_checkinteger(L, 2);
  const KitSyscallInfo *s = kit_syscall_info(b->emu, nr);
  if (!s) return luaL_pushfail(L), 1;
  lua_createtable(L, 0, 5);
  lua_pushstring(L, s->name);
  lua_setfield(L, -2, "name");
  lua_pushinteger(L, s->nr);
  lua_setfield(L, -2, "nr");
  lua_pushstring(L, s->ret);
  lua_setfield(L, -2, "ret");
  lua_pushstring(L, s->classes);
  lua_setfield(L, -2, "classes");
  lua_createtable(L, (int)s->n_args, 0);
  for (uint32_t i = 0; i < s->n_args; i++) {
    lua_createtable(L, 0, 4);
    lua_pushstring(L, s->args[i].name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, s->args[i].kind);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, s->args[i].set);
    lua_setfield(L, -2, "set");
    lua_pushinteger(L, s->args[i].len_arg);
    lua_setfield(L, -2, "len_arg");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "args");
  return 1;
}

/* emu:flags(set) -> array of {name, value, mask}, is_enum */
static int emu_flags(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  size_t n;
  bool is_enum;
  const KitFlag *f = kit_flag_set(b->emu, luaL_checkstring(L, 2), &n, &is_enum);
  if (!f) return luaL_pushfail(L), 1;
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 3);
    lua_pushstring(L, f[i].name);
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, (lua_Integer)f[i].value);
    lua_setfield(L, -2, "value");
    lua_pushinteger(L, (lua_Integer)f[i].mask);
    lua_setfield(L, -2, "mask");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushboolean(L, is_enum);
  return 2;
}

/* emu:struct(name) -> array of {name, offset, size, count, kind, set}, size */
static int emu_struct(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  size_t n, size;
  const KitStructField *f = kit_struct_fields(b->emu, luaL_checkstring(L, 2), &n, &size);
  if (!f) return luaL_pushfail(L), 1;
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 6);
    lua_pushstring(L, f[i].name);
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, f[i].offset);
    lua_setfield(L, -2, "offset");
    lua_pushinteger(L, f[i].size);
    lua_setfield(L, -2, "size");
    lua_pushinteger(L, f[i].count);
    lua_setfield(L, -2, "count");
    lua_pushstring(L, f[i].kind);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, f[i].set);
    lua_setfield(L, -2, "set");
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_pushinteger(L, (lua_Integer)size);
  return 2;
}

void bind_open_emu(lua_State *L) {
  static const luaL_Reg meta[] = {{"__close", emu_close},
                                  {"__gc", emu_close},
                                  {"__newindex", emu_newindex},
                                  {"__tostring", emu_tostring},
                                  {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", emu_close},
                                     {"run", emu_run},
                                     {"step", emu_step},
                                     {"interrupt", emu_interrupt},
                                     {"catch_interrupts", emu_catch_interrupts},
                                     {"kill", emu_kill},
                                     {"stop_on_fault", emu_stop_on_fault},
                                     {"count_insns", emu_count_insns},
                                     {"stats", emu_stats},
                                     {"host_path", emu_host_path},
                                     {"syscall_info", emu_syscall_info},
                                     {"flags", emu_flags},
                                     {"struct", emu_struct},
                                     {NULL, NULL}};
  luaL_newmetatable(L, BIND_EMU);
  luaL_setfuncs(L, meta, 0);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  luaL_setfuncs(L, bind_hook_methods, 0);
  luaL_setfuncs(L, bind_fast_methods, 0);
  luaL_setfuncs(L, bind_heap_methods, 0);
  luaL_setfuncs(L, bind_code_methods, 0);
  lua_pushcclosure(L, emu_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
