/* Filters: the table that limits a hook, counter or trace, as a KitFilter.
 *
 *   pc, pc_len     where the instruction is: address, or a function name (exec: its entry; else all
 *                  of the function)
 *   from, to       branches: source, target (a name: for `from` the whole function, for `to` its
 *                  entry)
 *   addr, len      accesses and mappings that overlap [addr, addr+len), len 1 by default
 *   size, size_min, size_max   bytes of an access
 *   tid, every     thread; every n-th match
 *   name, nr       system call by name or number
 *   signal         number or name
 */
#include <string.h>

#include "bind.h"

static uint64_t integer_field(lua_State *L, int idx, const char *key, uint64_t otherwise) {
  uint64_t v = otherwise;
  if (lua_getfield(L, idx, key) != LUA_TNIL) {
    int ok;
    v = (uint64_t)lua_tointegerx(L, -1, &ok);
    if (!ok) luaL_error(L, "filter field '%s' must be an integer", key);
  }
  lua_pop(L, 1);
  return v;
}

/* An address or symbol field: start and length. Returns the name of a symbol that is not loaded, or
 * NULL. */
static const char *range_field(lua_State *L, int idx, Bind *b, const char *key, bool whole,
                               uint64_t *start, uint64_t *len) {
  const char *missing = NULL;
  int type = lua_getfield(L, idx, key);
  if (type == LUA_TNUMBER) {
    *start = (uint64_t)luaL_checkinteger(L, -1);
    if (!*len) *len = 1;
  } else if (type == LUA_TSTRING) {
    KitSymbol s;
    if (bind_try_symbol(b, lua_tostring(L, -1), &s)) {
      *start = s.address;
      *len = whole && s.size ? s.size : 1;
    } else {
      missing = lua_tostring(L, -1); /* stays in the filter table, hence valid */
    }
  } else if (type != LUA_TNIL) {
    luaL_error(L, "filter field '%s' must be an address or a symbol", key);
  }
  lua_pop(L, 1);
  return missing;
}

static void syscall_field(lua_State *L, int idx, Bind *b, KitFilter *f) {
  if (lua_getfield(L, idx, "name") != LUA_TNIL) {
    const char *name = luaL_checkstring(L, -1);
    f->syscall_nr = kit_syscall_find(b->emu, name);
    if (f->syscall_nr < 0) luaL_error(L, "no system call '%s' on %s", name, kit_arch(b->emu));
    f->has_syscall = true;
  }
  lua_pop(L, 1);
  if (lua_getfield(L, idx, "nr") != LUA_TNIL) {
    f->syscall_nr = (int)luaL_checkinteger(L, -1);
    f->has_syscall = true;
  }
  lua_pop(L, 1);
}

static int signal_by_name(const char *name) {
  for (int s = 1; s < 65; s++)
    if (!strcmp(kit_signal_name(s), name)) return s;
  return -1;
}

static void signal_field(lua_State *L, int idx, KitFilter *f) {
  int type = lua_getfield(L, idx, "signal");
  if (type == LUA_TSTRING) {
    f->signo = signal_by_name(lua_tostring(L, -1));
    if (f->signo < 0) luaL_error(L, "no signal '%s'", lua_tostring(L, -1));
  } else if (type != LUA_TNIL) {
    f->signo = (int)luaL_checkinteger(L, -1);
  }
  lua_pop(L, 1);
}

static void check_keys(lua_State *L, int idx) {
  static const char *const known[] = {"pc",    "pc_len", "from",     "to",       "addr",
                                      "len",   "size",   "size_min", "size_max", "tid",
                                      "every", "name",   "nr",       "signal",   NULL};
  for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    const char *const *k = known;
    while (*k && strcmp(*k, key)) k++;
    if (!*k) luaL_error(L, "unknown filter field '%s'", key);
  }
}

const char *bind_filter(lua_State *L, int idx, Bind *b, KitEventKind event, KitFilter *f) {
  *f = (KitFilter){0};
  if (lua_isnoneornil(L, idx)) return NULL;
  luaL_checktype(L, idx, LUA_TTABLE);
  check_keys(L, idx);
  f->pc_len = integer_field(L, idx, "pc_len", 0);
  f->addr_len = integer_field(L, idx, "len", 0);
  f->size_min = f->size_max = (uint32_t)integer_field(L, idx, "size", 0);
  f->size_min = (uint32_t)integer_field(L, idx, "size_min", f->size_min);
  f->size_max = (uint32_t)integer_field(L, idx, "size_max", f->size_max);
  f->tid = (int)integer_field(L, idx, "tid", 0);
  f->every = integer_field(L, idx, "every", 0);
  syscall_field(L, idx, b, f);
  signal_field(L, idx, f);
  bool whole = event != KIT_EV_EXEC;
  const char *pc = range_field(L, idx, b, "pc", whole, &f->pc, &f->pc_len);
  const char *from = range_field(L, idx, b, "from", true, &f->from, &f->from_len);
  const char *to = range_field(L, idx, b, "to", false, &f->to, &f->to_len);
  const char *addr = range_field(L, idx, b, "addr", true, &f->addr, &f->addr_len);
  return pc ? pc : from ? from : to ? to : addr;
}
