/* emu.mem: guest memory. mem.u32[addr] and its kin read and write one value; the methods copy
 * ranges. */
#include <stdlib.h>
#include <string.h>

#include "bind.h"

#define BIND_MEM  "kit.mem"
#define BIND_VIEW "kit.mem.view"

typedef struct ViewType {
  const char *name;
  char kind; /* u i f */
  uint8_t size;
} ViewType;

static const ViewType view_types[] = {
    {"u8", 'u', 1},  {"u16", 'u', 2}, {"u32", 'u', 4}, {"u64", 'u', 8}, {"i8", 'i', 1},
    {"i16", 'i', 2}, {"i32", 'i', 4}, {"i64", 'i', 8}, {"f32", 'f', 4}, {"f64", 'f', 8}};

static void push_child(lua_State *L, int emu_idx, const char *class, const ViewType *type) {
  emu_idx = lua_absindex(L, emu_idx);
  const ViewType **p = lua_newuserdatauv(L, sizeof *p, 1);
  *p = type;
  lua_pushvalue(L, emu_idx);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, class);
}

void bind_push_mem(lua_State *L, int emu_idx) { push_child(L, emu_idx, BIND_MEM, NULL); }

static Bind *owner(lua_State *L, const char *class) {
  luaL_checkudata(L, 1, class);
  lua_getiuservalue(L, 1, 1);
  Bind *b = bind_emu(L, -1);
  lua_pop(L, 1);
  return b;
}

static int view_index(lua_State *L) {
  Bind *b = owner(L, BIND_VIEW);
  const ViewType *t = *(const ViewType **)lua_touserdata(L, 1);
  uint64_t raw = 0;
  if (kit_mem_read(b->emu, bind_address(L, b, 2), &raw, t->size)) return bind_failure(L, b);
  if (t->kind == 'f') {
    float f;
    double d;
    memcpy(&f, &raw, 4);
    memcpy(&d, &raw, 8);
    lua_pushnumber(L, t->size == 4 ? (double)f : d);
  } else {
    int shift = 64 - 8 * t->size;
    lua_pushinteger(L, t->kind == 'i' ? (int64_t)(raw << shift) >> shift : (int64_t)raw);
  }
  return 1;
}

static int view_newindex(lua_State *L) {
  Bind *b = owner(L, BIND_VIEW);
  const ViewType *t = *(const ViewType **)lua_touserdata(L, 1);
  uint64_t raw = 0;
  if (t->kind == 'f') {
    double d = luaL_checknumber(L, 3);
    float f = (float)d;
    if (t->size == 4)
      memcpy(&raw, &f, 4);
    else
      memcpy(&raw, &d, 8);
  } else {
    raw = (uint64_t)luaL_checkinteger(L, 3);
  }
  if (kit_mem_write(b->emu, bind_address(L, b, 2), &raw, t->size))
    return luaL_error(L, "%s", kit_error(b->emu)->message);
  return 0;
}

/* mem:read(addr, n) -> string */
static int mem_read(lua_State *L) {
  Bind *b = owner(L, BIND_MEM);
  uint64_t va = bind_address(L, b, 2);
  lua_Integer n = luaL_checkinteger(L, 3);
  luaL_argcheck(L, n >= 0 && n <= 1 << 30, 3, "length out of range");
  luaL_Buffer buf;
  char *p = luaL_buffinitsize(L, &buf, (size_t)n);
  if (kit_mem_read(b->emu, va, p, (size_t)n)) return bind_failure(L, b);
  luaL_pushresultsize(&buf, (size_t)n);
  return 1;
}

/* mem:write(addr, string) -> true */
static int mem_write(lua_State *L) {
  Bind *b = owner(L, BIND_MEM);
  uint64_t va = bind_address(L, b, 2);
  size_t n;
  const char *s = luaL_checklstring(L, 3, &n);
  if (kit_mem_write(b->emu, va, s, n)) return bind_failure(L, b);
  lua_pushboolean(L, 1);
  return 1;
}

/* mem:cstring(addr [, max]) -> string */
static int mem_cstring(lua_State *L) {
  Bind *b = owner(L, BIND_MEM);
  uint64_t va = bind_address(L, b, 2);
  lua_Integer max = luaL_optinteger(L, 3, 1 << 20);
  luaL_argcheck(L, max >= 0, 3, "length out of range");
  size_t n;
  if (kit_mem_strlen(b->emu, va, (size_t)max, &n)) return bind_failure(L, b);
  luaL_Buffer buf;
  char *p = luaL_buffinitsize(L, &buf, n);
  if (kit_mem_read(b->emu, va, p, n)) return bind_failure(L, b);
  luaL_pushresultsize(&buf, n);
  return 1;
}

/* mem:unpack(fmt, addr) -> values as string.unpack gives them (without the position). */
static int mem_unpack(lua_State *L) {
  Bind *b = owner(L, BIND_MEM);
  luaL_checkstring(L, 2);
  uint64_t va = bind_address(L, b, 3);
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "packsize");
  lua_pushvalue(L, 2);
  lua_call(L, 1, 1); /* raises on variable-size formats */
  size_t n = (size_t)lua_tointeger(L, -1);
  luaL_Buffer buf;
  char *p = luaL_buffinitsize(L, &buf, n);
  if (kit_mem_read(b->emu, va, p, n)) return bind_failure(L, b);
  luaL_pushresultsize(&buf, n);
  int data = lua_gettop(L);
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "unpack");
  lua_remove(L, -2);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, data);
  lua_call(L, 2, LUA_MULTRET);
  lua_pop(L, 1); /* the position */
  return lua_gettop(L) - data;
}

/* mem:pack(fmt, addr, ...) -> true */
static int mem_pack(lua_State *L) {
  Bind *b = owner(L, BIND_MEM);
  uint64_t va = bind_address(L, b, 3);
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "pack");
  lua_remove(L, -2);
  lua_pushvalue(L, 2);
  int top = lua_gettop(L);
  for (int i = 4; i < top - 1; i++) lua_pushvalue(L, i);
  lua_call(L, lua_gettop(L) - top + 1, 1);
  size_t n;
  const char *s = lua_tolstring(L, -1, &n);
  if (kit_mem_write(b->emu, va, s, n)) return bind_failure(L, b);
  lua_pushboolean(L, 1);
  return 1;
}

/* mem:find(addr, len, needle) -> address */
static int mem_find(lua_State *L) {
  Bind *b = owner(L, BIND_MEM);
  uint64_t va = bind_address(L, b, 2), where;
  lua_Integer len = luaL_checkinteger(L, 3);
  size_t n;
  const char *needle = luaL_checklstring(L, 4, &n);
  if (kit_mem_find(b->emu, va, (size_t)len, needle, n, &where)) return bind_failure(L, b);
  lua_pushinteger(L, (lua_Integer)where);
  return 1;
}

static void push_mapping(lua_State *L, const KitMapping *m) {
  char prot[5] = {m->prot & 1 ? 'r' : '-', m->prot & 2 ? 'w' : '-', m->prot & 4 ? 'x' : '-',
                  m->shared ? 's' : 'p', 0};
  lua_createtable(L, 0, 5);
  lua_pushinteger(L, (lua_Integer)m->start);
  lua_setfield(L, -2, "start");
  lua_pushinteger(L, (lua_Integer)m->end);
  lua_setfield(L, -2, "stop");
  lua_pushstring(L, prot);
  lua_setfield(L, -2, "prot");
  lua_pushinteger(L, (lua_Integer)m->offset);
  lua_setfield(L, -2, "offset");
  lua_pushstring(L, m->name);
  lua_setfield(L, -2, "name");
}

/* mem:maps() -> array of {start, stop, prot, offset, name} */
static int mem_maps(lua_State *L) {
  Bind *b = owner(L, BIND_MEM);
  KitMapping m;
  lua_newtable(L);
  for (uint64_t at = 0; kit_mapping_next(b->emu, at, &m); at = m.end) {
    push_mapping(L, &m);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  return 1;
}

static const luaL_Reg methods[] = {
    {"read", mem_read}, {"write", mem_write}, {"cstring", mem_cstring}, {"unpack", mem_unpack},
    {"pack", mem_pack}, {"find", mem_find},   {"maps", mem_maps},       {NULL, NULL}};

static int mem_index(lua_State *L) {
  owner(L, BIND_MEM);
  const char *key = luaL_checkstring(L, 2);
  for (size_t i = 0; i < sizeof view_types / sizeof *view_types; i++)
    if (!strcmp(key, view_types[i].name)) {
      lua_getiuservalue(L, 1, 1);
      push_child(L, -1, BIND_VIEW, &view_types[i]);
      return 1;
    }
  for (const luaL_Reg *m = methods; m->name; m++)
    if (!strcmp(key, m->name)) {
      lua_pushcfunction(L, m->func);
      return 1;
    }
  return luaL_error(L, "no field '%s' in emu.mem", key);
}

static int mem_tostring(lua_State *L) {
  lua_pushliteral(L, "guest memory");
  return 1;
}

void bind_open_mem(lua_State *L) {
  static const luaL_Reg mem_meta[] = {
      {"__index", mem_index}, {"__tostring", mem_tostring}, {NULL, NULL}};
  static const luaL_Reg view_meta[] = {
      {"__index", view_index}, {"__newindex", view_newindex}, {NULL, NULL}};
  luaL_newmetatable(L, BIND_MEM);
  luaL_setfuncs(L, mem_meta, 0);
  luaL_newmetatable(L, BIND_VIEW);
  luaL_setfuncs(L, view_meta, 0);
  lua_pop(L, 2);
}
