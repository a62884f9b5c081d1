/* The one door from the engine into Lua, and how failures look in Lua. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bind.h"

int bind_traceback(lua_State *L) {
  const char *msg = lua_tostring(L, 1);
  if (!msg && luaL_getmetafield(L, 1, "__tostring") != LUA_TNIL) return lua_settop(L, 1), 1;
  if (msg && strstr(msg, "\nstack traceback:")) return 1; /* a hook's error: it has one */
  luaL_traceback(L, L, msg ? msg : "(error object is not a string)", 1);
  return 1;
}

bool bind_call(Bind *b, int n, int results) {
  lua_State *L = b->L;
  int base = lua_gettop(L) - n;
  lua_pushcfunction(L, bind_traceback);
  lua_insert(L, base);
  bool ok = bind_call_under(b, base, n, results);
  lua_remove(L, base);
  return ok;
}

bool bind_call_under(Bind *b, int traceback, int n, int results) {
  lua_State *L = b->L;
  if (lua_pcall(L, n, results, traceback) == LUA_OK) return true;
  if (kit_is_child(b->emu)) { /* nobody is left to raise it to */
    fprintf(stderr, "kitlua: %s\n", luaL_tolstring(L, -1, NULL));
    lua_pop(L, 2);
    return false;
  }
  if (b->failed == LUA_NOREF)
    b->failed = luaL_ref(L, LUA_REGISTRYINDEX);
  else
    lua_pop(L, 1); /* the first error is the one to see */
  return false;
}

void bind_rethrow(lua_State *L, Bind *b) {
  if (b->failed == LUA_NOREF) return;
  lua_rawgeti(L, LUA_REGISTRYINDEX, b->failed);
  luaL_unref(L, LUA_REGISTRYINDEX, b->failed);
  b->failed = LUA_NOREF;
  lua_error(L);
}

int bind_fail_with(lua_State *L, const KitError *err) {
  luaL_pushfail(L);
  lua_pushstring(L, err->message);
  lua_pushstring(L, kit_status_name(err->code));
  return 3;
}

int bind_failure(lua_State *L, Bind *b) { return bind_fail_with(L, kit_error(b->emu)); }
