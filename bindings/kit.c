/* The Lua module `kit`: kit.open, kit.top and a few constants; everything else is a method of an
 * emu (emu.c). */
#include <stdlib.h>
#include <time.h>

#include "bind.h"

KIT_API int luaopen_kit(lua_State *L);

/* Pairs are compared by count, larger first, then by the key's text, so that the order is stable.
 */
static int pair_less(lua_State *L) {
  lua_rawgeti(L, 1, 2);
  lua_rawgeti(L, 2, 2);
  lua_Integer a = lua_tointeger(L, -2), b = lua_tointeger(L, -1);
  if (a != b) return lua_pushboolean(L, a > b), 1;
  lua_rawgeti(L, 1, 1);
  luaL_tolstring(L, -1, NULL);
  lua_rawgeti(L, 2, 1);
  luaL_tolstring(L, -1, NULL);
  lua_pushboolean(L, lua_compare(L, -3, -1, LUA_OPLT));
  return 1;
}

/* upvalues: sorted array of {key, count}, index */
static int next_top(lua_State *L) {
  lua_Integer i = lua_tointeger(L, lua_upvalueindex(2)) + 1;
  if (i > lua_tointeger(L, lua_upvalueindex(3)) ||
      lua_rawgeti(L, lua_upvalueindex(1), i) == LUA_TNIL)
    return 0;
  lua_pushinteger(L, i);
  lua_replace(L, lua_upvalueindex(2));
  lua_rawgeti(L, -1, 1);
  lua_rawgeti(L, -2, 2);
  return 2;
}

/* for key, count in kit.top(counter or table, n) do: the n largest, in descending order */
static int kit_top(lua_State *L) {
  lua_Integer n = luaL_optinteger(L, 2, 10);
  if (luaL_testudata(L, 1, BIND_COUNTER)) {
    luaL_getmetafield(L, 1, "__index");
    lua_getfield(L, -1, "read");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    lua_replace(L, 1);
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    lua_createtable(L, 2, 0);
    lua_pushvalue(L, -3);
    lua_rawseti(L, -2, 1);
    lua_pushvalue(L, -2);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, 2, (lua_Integer)lua_rawlen(L, 2) + 1);
  }
  lua_getglobal(L, "table");
  lua_getfield(L, -1, "sort");
  lua_pushvalue(L, 2);
  lua_pushcfunction(L, pair_less);
  lua_call(L, 2, 0);
  lua_settop(L, 2);
  lua_pushinteger(L, 0);
  lua_pushinteger(L, n);
  lua_pushcclosure(L, next_top, 3);
  return 1;
}

/* kit.errno_name(n) -> "ENOENT", "No such file or directory" */
static int errno_name(lua_State *L) {
  int n = (int)luaL_checkinteger(L, 1);
  lua_pushstring(L, kit_errno_name(n));
  lua_pushstring(L, kit_errno_text(n));
  return 2;
}

/* kit.demangle(name) -> the C++ name, or name as it is */
static int demangle(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  char *shown = kit_demangle(name);
  lua_pushstring(L, shown ? shown : name);
  free(shown);
  return 1;
}

/* kit.clock() -> seconds since 1970, with fractions */
static int wall_clock(lua_State *L) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  lua_pushnumber(L, (lua_Number)ts.tv_sec + (lua_Number)ts.tv_nsec / 1e9);
  return 1;
}

/* kit.signal_name(n) -> "SIGCHLD" */
static int signal_name(lua_State *L) {
  lua_pushstring(L, kit_signal_name((int)luaL_checkinteger(L, 1)));
  return 1;
}

static void push_events(lua_State *L) {
  lua_createtable(L, KIT_EV_EVENTS, 0);
  for (int e = 0; e < KIT_EV_EVENTS; e++) {
    lua_pushstring(L, kit_event_name((KitEventKind)e));
    lua_rawseti(L, -2, e + 1);
  }
}

static void wrap_io_open(lua_State *L) {
  if (lua_getglobal(L, "io") == LUA_TTABLE) {
    lua_getfield(L, -1, "open");
    lua_pushcclosure(L, bind_io_open, 1);
    lua_setfield(L, -2, "open");
  }
  lua_pop(L, 1);
}

int luaopen_kit(lua_State *L) {
  static const luaL_Reg functions[] = {{"top", kit_top},       {"errno_name", errno_name},
                                       {"demangle", demangle}, {"signal_name", signal_name},
                                       {"clock", wall_clock},  {NULL, NULL}};
  luaL_checkversion(L);
  bind_open_event(L);
  bind_open_regs(L);
  bind_open_mem(L);
  bind_open_hooks(L);
  bind_open_fast(L);
  bind_open_heap(L);
  bind_open_heap(L);
  bind_open_emu(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "kit.emus"); /* Bind * -> emu, weak */
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
  wrap_io_open(L);
  luaL_newlib(L, functions);
  lua_pushliteral(L, KIT_VERSION);
  lua_setfield(L, -2, "version");
  push_events(L);
  lua_setfield(L, -2, "event_names");
  lua_newtable(L); /* kit.command: the program after `--`, set by the kitlua command */
  lua_setfield(L, -2, "command");
  lua_newtable(L); /* kit.options: defaults of kit.open, set by the kitlua command */
  lua_setfield(L, -2, "options");
  lua_pushvalue(L, -1);
  lua_pushcclosure(L, bind_open, 1);
  lua_setfield(L, -2, "open");
  return 1;
}
