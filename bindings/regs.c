/* emu.regs and thread.regs: registers by name.
 *
 * 64-bit registers are Lua integers (bit patterns, floating-point ones too: regs:f64 and regs:f32
 * convert); wider ones are strings. */
#include <string.h>

#include "bind.h"

#define BIND_REGS "kit.regs"

typedef struct Regs {
  int tid; /* 0: the current thread */
} Regs;

void bind_push_regs(lua_State *L, int emu_idx, int tid) {
  emu_idx = lua_absindex(L, emu_idx);
  Regs *r = lua_newuserdatauv(L, sizeof *r, 1);
  r->tid = tid;
  lua_pushvalue(L, emu_idx);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, BIND_REGS);
}

static Bind *owner(lua_State *L, Regs **r) {
  *r = luaL_checkudata(L, 1, BIND_REGS);
  lua_getiuservalue(L, 1, 1);
  Bind *b = bind_emu(L, -1);
  lua_pop(L, 1);
  return b;
}

static int reg_named(lua_State *L, Bind *b, int idx) {
  const char *name = luaL_checkstring(L, idx);
  int reg = kit_reg_find(b->emu, name);
  if (reg < 0) luaL_error(L, "no register '%s' on %s", name, kit_arch(b->emu));
  return reg;
}

static int push_reg(lua_State *L, Bind *b, int tid, int reg) {
  uint8_t buf[64] = {0};
  size_t size = kit_reg_info(b->emu, (size_t)reg)->size;
  if (kit_reg_read(b->emu, tid, reg, buf)) return bind_failure(L, b);
  if (size <= 8) {
    lua_Integer v = 0;
    memcpy(&v, buf, size);
    lua_pushinteger(L, v);
  } else {
    lua_pushlstring(L, (const char *)buf, size);
  }
  return 1;
}

static int regs_float(lua_State *L) {
  Regs *r;
  Bind *b = owner(L, &r);
  uint8_t buf[64] = {0};
  double d;
  float f;
  if (kit_reg_read(b->emu, r->tid, reg_named(L, b, 2), buf)) return bind_failure(L, b);
  memcpy(&d, buf, 8);
  memcpy(&f, buf, 4);
  lua_pushnumber(L, lua_toboolean(L, lua_upvalueindex(1)) ? (double)f : d);
  return 1;
}

static int regs_index(lua_State *L) {
  Regs *r;
  Bind *b = owner(L, &r);
  const char *name = luaL_checkstring(L, 2);
  if (!strcmp(name, "f64") || !strcmp(name, "f32")) {
    lua_pushboolean(L, name[1] == '3');
    lua_pushcclosure(L, regs_float, 1);
    return 1;
  }
  return push_reg(L, b, r->tid, reg_named(L, b, 2));
}

static int regs_newindex(lua_State *L) {
  Regs *r;
  Bind *b = owner(L, &r);
  int reg = reg_named(L, b, 2);
  size_t size = kit_reg_info(b->emu, (size_t)reg)->size, len = 8;
  uint8_t buf[64] = {0};
  if (size <= 8) {
    lua_Integer v = luaL_checkinteger(L, 3);
    memcpy(buf, &v, 8);
  } else {
    const char *s = luaL_checklstring(L, 3, &len);
    luaL_argcheck(L, len == size, 3, "wrong length for this register");
    memcpy(buf, s, len);
  }
  if (kit_reg_write(b->emu, r->tid, reg, buf))
    return luaL_error(L, "%s", kit_error(b->emu)->message);
  return 0;
}

static int regs_next(lua_State *L) {
  Regs *r;
  Bind *b = owner(L, &r);
  lua_Integer i = lua_isnil(L, 2) ? 0 : reg_named(L, b, 2) + 1;
  const KitRegInfo *info = kit_reg_info(b->emu, (size_t)i);
  if (!info) return 0;
  lua_pushstring(L, info->name);
  return 1 + push_reg(L, b, r->tid, (int)i);
}

static int regs_pairs(lua_State *L) {
  lua_pushcfunction(L, regs_next);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

static int regs_tostring(lua_State *L) {
  Regs *r = luaL_checkudata(L, 1, BIND_REGS);
  if (r->tid)
    lua_pushfstring(L, "registers of thread %d", r->tid);
  else
    lua_pushliteral(L, "registers of the current thread");
  return 1;
}

void bind_open_regs(lua_State *L) {
  static const luaL_Reg meta[] = {{"__index", regs_index},
                                  {"__newindex", regs_newindex},
                                  {"__pairs", regs_pairs},
                                  {"__tostring", regs_tostring},
                                  {NULL, NULL}};
  luaL_newmetatable(L, BIND_REGS);
  luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
}
