/* Code, symbols and stacks: emu:symbol, lookup, disasm, backtrace, locals; images. */
#include <string.h>

#include "bind.h"

static void set_int(lua_State *L, const char *k, uint64_t v) {
  lua_pushinteger(L, (lua_Integer)v);
  lua_setfield(L, -2, k);
}

static void set_text(lua_State *L, const char *k, const char *v) {
  lua_pushstring(L, v ? v : "");
  lua_setfield(L, -2, k);
}

/* {path, host_path, low, high, bias, build_id} */
void bind_push_image(lua_State *L, const KitImage *image) {
  lua_createtable(L, 0, 6);
  set_text(L, "path", image->path);
  set_text(L, "host_path", image->host_path);
  set_text(L, "build_id", image->build_id);
  set_int(L, "low", image->low);
  set_int(L, "high", image->high);
  set_int(L, "bias", image->bias);
}

int bind_push_images(lua_State *L, Bind *b) {
  lua_newtable(L);
  for (size_t i = 0; i < kit_image_count(b->emu); i++) {
    bind_push_image(L, kit_image(b->emu, i));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static void push_symbol(lua_State *L, const KitSymbol *s) {
  lua_createtable(L, 0, 5);
  set_text(L, "name", s->name);
  set_int(L, "address", s->address);
  set_int(L, "size", s->size);
  set_text(L, "object", s->image ? s->image->path : "");
  lua_pushboolean(L, s->is_function);
  lua_setfield(L, -2, "is_function");
}

/* emu:symbol(name or address) -> {name, address, size, object, is_function} */
static int emu_symbol(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  KitSymbol s;
  KitStatus st = lua_type(L, 2) == LUA_TNUMBER
                     ? kit_symbol_at(b->emu, (uint64_t)luaL_checkinteger(L, 2), &s)
                     : kit_symbol(b->emu, luaL_checkstring(L, 2), &s);
  if (st) return bind_failure(L, b);
  push_symbol(L, &s);
  return 1;
}

static void collect_symbol(void *ctx, const KitSymbol *s) {
  lua_State *L = ctx;
  push_symbol(L, s);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* emu:symbols(pattern) -> array; * and ? are wildcards */
static int emu_symbols(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  const char *pattern = luaL_checkstring(L, 2);
  lua_newtable(L);
  kit_symbols(b->emu, pattern, collect_symbol, L);
  return 1;
}

static void push_frame(lua_State *L, const KitFrame *f) {
  lua_createtable(L, 0, 8);
  set_int(L, "pc", f->pc);
  set_int(L, "cfa", f->cfa);
  set_text(L, "fn", f->function);
  set_text(L, "file", f->file);
  set_int(L, "line", (uint64_t)f->line);
  set_int(L, "address", f->function_address);
  set_text(L, "object", f->image ? f->image->path : "");
  lua_pushboolean(L, f->inlined);
  lua_setfield(L, -2, "inlined");
}

static int push_frames(lua_State *L, const KitFrame *f, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    push_frame(L, &f[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* emu:lookup(pc) -> array of frames, the innermost inlined function first; nil if nothing is known
 * of pc */
static int emu_lookup(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  KitFrame f[32];
  size_t n = kit_lookup(b->emu, bind_address(L, b, 2), f, 32);
  if (!n) return luaL_pushfail(L), 1;
  return push_frames(L, f, n > 32 ? 32 : n);
}

/* emu:extent(pc) -> start and size of the function around pc, stripped or not; nil if unknown */
static int emu_extent(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  uint64_t start, size;
  if (!kit_extent(b->emu, bind_address(L, b, 2), &start, &size)) return luaL_pushfail(L), 1;
  lua_pushinteger(L, (lua_Integer)start);
  lua_pushinteger(L, (lua_Integer)size);
  return 2;
}

/* emu:source(pc) -> file, line, end: the next address that may be of another line; nil if unknown */
static int emu_source(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  KitLine line;
  if (kit_line(b->emu, bind_address(L, b, 2), &line)) return luaL_pushfail(L), 1;
  lua_pushstring(L, line.file);
  lua_pushinteger(L, line.line);
  lua_pushinteger(L, (lua_Integer)line.end);
  return 3;
}

/* emu:backtrace([tid]) -> array of frames */
static int emu_backtrace(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  KitFrame f[256];
  size_t n = kit_backtrace(b->emu, (int)luaL_optinteger(L, 2, 0), f, 256);
  return push_frames(L, f, n > 256 ? 256 : n);
}

/* emu:disasm(pc [, n]) -> array of {pc, len, text, name, bytes, target} */
static int emu_disasm(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  uint64_t pc = bind_address(L, b, 2);
  lua_Integer n = luaL_optinteger(L, 3, 1);
  lua_newtable(L);
  for (lua_Integer i = 1; i <= n; i++) {
    KitInsn insn;
    if (kit_disasm(b->emu, pc, &insn)) {
      if (i == 1) return bind_failure(L, b);
      break;
    }
    lua_createtable(L, 0, 6);
    set_int(L, "pc", insn.pc);
    set_int(L, "len", insn.len);
    set_text(L, "text", insn.text);
    set_text(L, "name", insn.name);
    lua_pushlstring(L, (const char *)insn.bytes, insn.len);
    lua_setfield(L, -2, "bytes");
    if (insn.target) set_int(L, "target", insn.target);
    lua_rawseti(L, -2, i);
    pc += insn.len;
  }
  return 1;
}

/* emu:line(file, line) -> array of addresses */
static int emu_line(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  uint64_t at[64];
  size_t n;
  if (kit_line_addresses(b->emu, luaL_checkstring(L, 2), (int)luaL_checkinteger(L, 3), at, 64, &n))
    return bind_failure(L, b);
  lua_newtable(L);
  for (size_t i = 0; i < n && i < 64; i++) {
    lua_pushinteger(L, (lua_Integer)at[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* DWARF 5, 7.8: encodings of base types. */
enum {
  ATE_ADDRESS = 1,
  ATE_BOOLEAN = 2,
  ATE_FLOAT = 4,
  ATE_SIGNED = 5,
  ATE_SIGNED_CHAR = 6,
  ATE_UNSIGNED = 7,
  ATE_UNSIGNED_CHAR = 8
};

static void push_value(lua_State *L, const KitVariable *v) {
  uint64_t raw = 0;
  size_t n = v->size < 8 ? v->size : 8;
  memcpy(&raw, v->value, n);
  int shift = (int)(64 - 8 * n);
  if (!v->available || !n)
    lua_pushnil(L);
  else if (v->encoding == ATE_FLOAT && v->size == 4) {
    float f;
    memcpy(&f, &raw, 4);
    lua_pushnumber(L, (double)f);
  } else if (v->encoding == ATE_FLOAT && v->size == 8) {
    double d;
    memcpy(&d, &raw, 8);
    lua_pushnumber(L, d);
  } else if (v->encoding == ATE_BOOLEAN)
    lua_pushboolean(L, raw != 0);
  else if ((v->encoding == ATE_SIGNED || v->encoding == ATE_SIGNED_CHAR) && v->size <= 8)
    lua_pushinteger(L, (lua_Integer)((int64_t)(raw << shift) >> shift));
  else if (v->encoding && v->size <= 8)
    lua_pushinteger(L, (lua_Integer)raw);
  else
    lua_pushlstring(L, (const char *)v->value, v->size < 16 ? v->size : 16);
}

static void collect_variable(void *ctx, const KitVariable *v) {
  lua_State *L = ctx;
  lua_createtable(L, 0, 6);
  set_text(L, "name", v->name);
  set_text(L, "type", v->type);
  set_int(L, "size", v->size);
  if (v->address) set_int(L, "address", v->address);
  lua_pushboolean(L, v->is_argument);
  lua_setfield(L, -2, "is_argument");
  push_value(L, v);
  lua_setfield(L, -2, "value");
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* emu:locals([frame [, tid]]) -> array of {name, type, value, size, address, is_argument}; frame 1
 * is the innermost */
static int emu_locals(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  lua_Integer frame = luaL_optinteger(L, 2, 1);
  luaL_argcheck(L, frame >= 1, 2, "frames count from 1");
  int tid = (int)luaL_optinteger(L, 3, 0);
  lua_newtable(L);
  if (kit_locals(b->emu, tid, (size_t)frame - 1, collect_variable, L)) return bind_failure(L, b);
  return 1;
}

const luaL_Reg bind_code_methods[] = {{"symbol", emu_symbol}, {"symbols", emu_symbols},
                                      {"lookup", emu_lookup}, {"source", emu_source},
                                      {"extent", emu_extent}, {"backtrace", emu_backtrace},
                                      {"disasm", emu_disasm}, {"line", emu_line},
                                      {"locals", emu_locals}, {NULL, NULL}};
