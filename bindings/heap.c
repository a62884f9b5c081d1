/* emu:heap: the engine's allocator in the guest's place, its blocks and leaks; emu:stack. */
#include <stdlib.h>
#include <string.h>

#include "bind.h"

typedef struct Heap {
  Bind *bind;
  KitHeap *heap;
  int fn; /* registry reference of on_error, LUA_NOREF: none */
  const char **names;
} Heap;

static const char *const kinds[KIT_ALLOC_KINDS] = {"malloc", "new", "new[]"};

static void set_integer(lua_State *L, const char *key, uint64_t v) {
  lua_pushinteger(L, (lua_Integer)v);
  lua_setfield(L, -2, key);
}

static void push_block(lua_State *L, const KitBlock *b) {
  lua_createtable(L, 0, 8);
  set_integer(L, "addr", b->addr);
  set_integer(L, "size", b->size);
  set_integer(L, "alloc_stack", b->alloc_stack);
  set_integer(L, "free_stack", b->free_stack);
  set_integer(L, "tid", (uint64_t)b->tid);
  lua_pushstring(L, kinds[b->kind]);
  lua_setfield(L, -2, "kind");
  lua_pushboolean(L, b->freed);
  lua_setfield(L, -2, "freed");
}

/* on_error{kind, fn, argument, addr, other, size, is_write, block} */
static KitVerdict on_error(void *user, KitEmu *emu, const KitHeapError *e) {
  Heap *h = user;
  lua_State *L = h->bind->L;
  (void)emu;
  if (!lua_checkstack(L, 16)) return KIT_STOP;
  lua_rawgeti(L, LUA_REGISTRYINDEX, h->fn);
  lua_createtable(L, 0, 8);
  lua_pushstring(L, kit_heap_error_name(e->kind));
  lua_setfield(L, -2, "kind");
  lua_pushstring(L, e->function);
  lua_setfield(L, -2, "fn");
  lua_pushstring(L, e->argument);
  lua_setfield(L, -2, "argument");
  set_integer(L, "addr", e->addr);
  set_integer(L, "other", e->other);
  set_integer(L, "size", e->size);
  set_integer(L, "site", e->site);
  lua_pushboolean(L, e->is_write);
  lua_setfield(L, -2, "is_write");
  if (e->block.addr) {
    push_block(L, &e->block);
    lua_setfield(L, -2, "block");
  }
  if (!bind_call(h->bind, 1, 1)) return KIT_STOP;
  return bind_verdict(L, h->bind);
}

/* ---- making one ------------------------------------------------------------------------------ */

static lua_Integer option(lua_State *L, const char *name, lua_Integer default_value) {
  lua_getfield(L, 2, name);
  lua_Integer v = luaL_optinteger(L, -1, default_value);
  lua_pop(L, 1);
  return v;
}

/* names = {je_malloc = "malloc", ...}: pairs for the engine. */
static const char **names(lua_State *L) {
  size_t n = 0;
  const char **list = NULL;
  if (lua_getfield(L, 2, "names") == LUA_TTABLE)
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      const char **more = realloc(list, sizeof *list * (n + 3));
      if (!more) break;
      list = more;
      list[n++] = strdup(luaL_checkstring(L, -1));
      list[n++] = strdup(luaL_checkstring(L, -2));
      list[n] = NULL;
    }
  lua_pop(L, 1);
  return list;
}

/* emu:heap{plane = p, redzone, callers, freelist, big, malloc_fill, free_fill, ignore_mismatch,
 * names, on_error = fn} -> heap */
static int emu_heap(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  KitHeapSpec spec = {.redzone = (uint32_t)option(L, "redzone", 16),
                      .callers = (uint32_t)option(L, "callers", 12),
                      .freelist = (uint64_t)option(L, "freelist", 20000000),
                      .big = (uint64_t)option(L, "big", 1000000),
                      .malloc_fill = (int)option(L, "malloc_fill", -1),
                      .free_fill = (int)option(L, "free_fill", -1)};
  lua_getfield(L, 2, "plane");
  spec.plane = bind_plane(L, 3);
  lua_getfield(L, 2, "ignore_mismatch");
  spec.ignore_mismatch = lua_toboolean(L, 4);
  lua_getfield(L, 2, "on_error");
  bool reports = !lua_isnil(L, 5);
  if (reports) luaL_checktype(L, 5, LUA_TFUNCTION);
  Heap *h = lua_newuserdatauv(L, sizeof *h, 1); /* 6 */
  *h = (Heap){.bind = b, .fn = LUA_NOREF};
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 6, 1);
  luaL_setmetatable(L, BIND_HEAP);
  spec.names = h->names = names(L);
  if (reports) {
    lua_pushvalue(L, 5);
    h->fn = luaL_ref(L, LUA_REGISTRYINDEX);
    spec.fn = on_error;
    spec.user = h;
    b->L = b->running ? b->L : L;
  }
  if (kit_heap(b->emu, &spec, &h->heap)) return luaL_error(L, "%s", kit_error(b->emu)->message);
  bind_anchor(L, 1, h);
  return 1;
}

static Heap *check(lua_State *L) {
  Heap *h = luaL_checkudata(L, 1, BIND_HEAP);
  if (!h->heap || !h->bind->emu) luaL_error(L, "this heap is closed");
  return h;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* heap:usage() -> {bytes, blocks, allocs, frees, allocated, low, high, limit} */
static int heap_usage(lua_State *L) {
  KitHeapUsage u;
  kit_heap_usage(check(L)->heap, &u);
  lua_createtable(L, 0, 7);
  set_integer(L, "bytes", u.bytes);
  set_integer(L, "blocks", u.blocks);
  set_integer(L, "allocs", u.allocs);
  set_integer(L, "frees", u.frees);
  set_integer(L, "allocated", u.allocated);
  set_integer(L, "low", u.low);
  set_integer(L, "high", u.high);
  set_integer(L, "limit", u.limit);
  return 1;
}

/* heap:block(addr [, reach]) -> block or nil */
static int heap_block(lua_State *L) {
  Heap *h = check(L);
  KitBlock b;
  if (kit_heap_block(h->heap, (uint64_t)luaL_checkinteger(L, 2), (uint64_t)luaL_optinteger(L, 3, 0),
                     &b))
    push_block(L, &b);
  else
    luaL_pushfail(L);
  return 1;
}

/* heap:fn(pc) -> name of the function that is stood in for there, or nil */
static int heap_fn(lua_State *L) {
  lua_pushstring(L, kit_heap_function(check(L)->heap, (uint64_t)luaL_checkinteger(L, 2)));
  return 1;
}

static void collect_block(void *ctx, const KitBlock *b) {
  lua_State *L = ctx;
  push_block(L, b);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* heap:blocks() -> array of live blocks, ascending */
static int heap_blocks(lua_State *L) {
  Heap *h = check(L);
  lua_newtable(L);
  kit_heap_blocks(h->heap, collect_block, L);
  return 1;
}

static void collect_leak(void *ctx, const KitLeak *leak) {
  static const char *const states[] = {"reachable", "possible", "indirect", "definite"};
  lua_State *L = ctx;
  push_block(L, &leak->block);
  lua_pushstring(L, states[leak->state]);
  lua_setfield(L, -2, "state");
  set_integer(L, "indirect_bytes", leak->indirect_bytes);
  set_integer(L, "indirect_blocks", leak->indirect_blocks);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static int heuristic(lua_State *L, const char *name) {
  static const char *const list[] = {"stdstring", "length64", "newarray", "multipleinheritance",
                                     NULL};
  for (int i = 0; list[i]; i++)
    if (!strcmp(list[i], name)) return 1 << i;
  return luaL_error(L, "no heuristic '%s'", name);
}

/* heap:leaks([heuristics]) -> array of blocks with state, indirect_bytes, indirect_blocks */
static int heap_leaks(lua_State *L) {
  Heap *h = check(L);
  uint32_t mask = 0;
  if (!lua_isnoneornil(L, 2)) {
    luaL_checktype(L, 2, LUA_TTABLE);
    for (lua_Integer i = 1; lua_rawgeti(L, 2, i) != LUA_TNIL; i++, lua_pop(L, 1))
      mask |= (uint32_t)heuristic(L, luaL_checkstring(L, -1));
  }
  lua_newtable(L);
  kit_heap_leaks(h->heap, mask, collect_leak, L);
  return 1;
}

static int heap_tostring(lua_State *L) {
  Heap *h = luaL_checkudata(L, 1, BIND_HEAP);
  lua_pushfstring(L, "heap (%s)", h->heap && h->bind->emu ? "active" : "closed");
  return 1;
}

static int heap_gc(lua_State *L) {
  Heap *h = luaL_checkudata(L, 1, BIND_HEAP);
  luaL_unref(L, LUA_REGISTRYINDEX, h->fn);
  for (size_t i = 0; h->names && h->names[i]; i++) free((void *)(uintptr_t)h->names[i]);
  free(h->names);
  *h = (Heap){.bind = h->bind, .fn = LUA_NOREF};
  return 0;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* emu:stack([max [, tid]]) -> number of the call stack */
static int emu_stack(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  uint32_t id =
      kit_stack(b->emu, (int)luaL_optinteger(L, 3, 0), (uint32_t)luaL_optinteger(L, 2, 12));
  if (!id) return luaL_pushfail(L), 1;
  lua_pushinteger(L, id);
  return 1;
}

/* emu:stack_frames(stack) -> array of addresses, innermost first: the pc, then return addresses */
static int emu_stack_frames(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  size_t n;
  const uint64_t *pcs = kit_stack_frames(b->emu, (uint32_t)luaL_checkinteger(L, 2), &n);
  if (!pcs) return luaL_pushfail(L), 1;
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, (lua_Integer)pcs[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

/* ---- client requests --------------------------------------------------------------------------- */

typedef struct Requests {
  Bind *bind;
  int fn;
} Requests;

static void on_request(void *user, KitEmu *emu, KitRequest *r) {
  Requests *q = user;
  lua_State *L = q->bind->L;
  int ok;
  (void)emu;
  if (!lua_checkstack(L, 16)) return;
  lua_rawgeti(L, LUA_REGISTRYINDEX, q->fn);
  lua_pushinteger(L, (lua_Integer)r->code);
  for (int i = 0; i < 5; i++) lua_pushinteger(L, (lua_Integer)r->args[i]);
  if (!bind_call(q->bind, 6, 1)) return;
  uint64_t v = (uint64_t)lua_tointegerx(L, -1, &ok);
  if (ok) r->result = v;
  lua_pop(L, 1);
}

/* emu:requests(fn): fn(code, a1 ... a5) -> integer result, or nothing for the program's default */
static int emu_requests(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  Requests *q = lua_newuserdatauv(L, sizeof *q, 0);
  lua_pushvalue(L, 2);
  *q = (Requests){b, luaL_ref(L, LUA_REGISTRYINDEX)};
  b->L = b->running ? b->L : L;
  if (kit_requests(b->emu, on_request, q)) return bind_failure(L, b);
  bind_anchor(L, 1, q);
  lua_pushboolean(L, 1);
  return 1;
}

const luaL_Reg bind_heap_methods[] = {{"requests", emu_requests},
                                      {"heap", emu_heap},
                                      {"stack", emu_stack},
                                      {"stack_frames", emu_stack_frames},
                                      {NULL, NULL}};

void bind_open_heap(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", heap_gc}, {"__tostring", heap_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"usage", heap_usage},   {"block", heap_block},
                                     {"blocks", heap_blocks}, {"leaks", heap_leaks},
                                     {"fn", heap_fn},         {NULL, NULL}};
  bind_class(L, BIND_HEAP, meta, methods);
}
