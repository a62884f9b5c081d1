/* Line editing for the console, by libedit: module `kit.line` of the kitlua command.
 *
 *   line.read(prompt)       -> the line without its newline; nil at end of input
 *   line.add(text)          adds to the history        line.load(file), line.save(file)
 *   line.complete(fn)       fn(text before the cursor, word) -> array of candidates
 */
#include <stdio.h>
#include <editline/readline.h>
#include <stdlib.h>
#include <string.h>

#include "bind.h"

KIT_API int luaopen_kit_line(lua_State *L);

static lua_State *completer_state;
static int completer = LUA_NOREF;

static int line_read(lua_State *L) {
  const char *prompt = luaL_optstring(L, 1, "");
  completer_state = L;
  char *s = readline(prompt);
  if (!s) return luaL_pushfail(L), 1;
  lua_pushstring(L, s);
  free(s);
  return 1;
}

static int line_add(lua_State *L) {
  add_history(luaL_checkstring(L, 1));
  return 0;
}

static int line_load(lua_State *L) {
  using_history();
  lua_pushboolean(L, read_history(luaL_checkstring(L, 1)) == 0);
  return 1;
}

static int line_save(lua_State *L) {
  stifle_history(1000);
  lua_pushboolean(L, write_history(luaL_checkstring(L, 1)) == 0);
  return 1;
}

/* Candidates for the word, from the table on top of the Lua stack. */
static char **candidates(lua_State *L, const char *word) {
  size_t n = lua_rawlen(L, -1);
  if (!n) return NULL;
  char **list = calloc(n + 2, sizeof *list);
  if (!list) return NULL;
  size_t common = SIZE_MAX;
  for (size_t i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, (lua_Integer)i);
    list[i] = strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
    size_t same = 0;
    while (same < common && list[1][same] && list[1][same] == list[i][same]) same++;
    common = same;
  }
  list[0] = strndup(list[1], common > strlen(word) ? common : strlen(word));
  return list;
}

static char **complete(const char *word, int start, int end) {
  lua_State *L = completer_state;
  (void)end;
  rl_attempted_completion_over = 1;
  lua_rawgeti(L, LUA_REGISTRYINDEX, completer);
  lua_pushlstring(L, rl_line_buffer, (size_t)start);
  lua_pushstring(L, word);
  char **list = NULL;
  if (lua_pcall(L, 2, 1, 0) == LUA_OK && lua_istable(L, -1)) list = candidates(L, word);
  lua_pop(L, 1);
  return list;
}

static int line_complete(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  luaL_unref(L, LUA_REGISTRYINDEX, completer);
  completer = luaL_ref(L, LUA_REGISTRYINDEX);
  rl_attempted_completion_function = complete;
  return 0;
}

int luaopen_kit_line(lua_State *L) {
  static const luaL_Reg functions[] = {{"read", line_read},         {"add", line_add},
                                       {"load", line_load},         {"save", line_save},
                                       {"complete", line_complete}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
