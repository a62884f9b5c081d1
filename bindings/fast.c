/* The fast paths in Lua: emu:count, emu:callgraph, emu:trace, emu:plane. Declared before, read
 * after. */
#include <stdlib.h>
#include <string.h>

#include "bind.h"

/* A handle of any of the four kinds; `obj` is NULL once closed. */
typedef struct Check { /* a function that a plane check calls: in the registry, under this address
                        */
  Bind *bind;
  struct Check *next;
} Check;

typedef struct Handle {
  Bind *bind;
  void *obj;
  int fn;        /* registry reference of a callback, or LUA_NOREF */
  Check *checks; /* of a plane */
  KitCountBy by;
  bool by_function;
  int n_fields;
  KitField fields[KIT_F_FIELDS];
} Handle;

static Handle *new_handle(lua_State *L, Bind *b, const char *class) {
  Handle *h = lua_newuserdatauv(L, sizeof *h, 1);
  *h = (Handle){.bind = b, .fn = LUA_NOREF};
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, class);
  return h;
}

static Handle *check(lua_State *L, const char *class) {
  Handle *h = luaL_checkudata(L, 1, class);
  if (!h->bind->emu) h->obj = NULL;
  if (!h->obj) luaL_error(L, "this %s is closed", class + 4);
  return h;
}

static int raise_last(lua_State *L, Bind *b) {
  return luaL_error(L, "%s", kit_error(b->emu)->message);
}

static int handle_tostring(lua_State *L) {
  const char *class = lua_tostring(L, lua_upvalueindex(1));
  Handle *h = luaL_checkudata(L, 1, class);
  lua_pushfstring(L, "%s (%s)", class + 4, h->obj && h->bind->emu ? "active" : "closed");
  return 1;
}

static int option_string(lua_State *L, int idx, const char *key, const char *const *names) {
  int found = 0;
  if (lua_istable(L, idx) && lua_getfield(L, idx, key) != LUA_TNIL) {
    const char *s = luaL_checkstring(L, -1);
    for (found = 0; names[found] && strcmp(names[found], s); found++) {
    }
    if (!names[found]) luaL_error(L, "'%s' is no value for '%s'", s, key);
  }
  return found;
}

/* The filter may be a field `filter` of the option table. */
static void option_filter(lua_State *L, int idx, Bind *b, KitEventKind event, KitFilter *f) {
  *f = (KitFilter){0};
  if (!lua_istable(L, idx)) return;
  lua_getfield(L, idx, "filter");
  const char *missing = bind_filter(L, lua_gettop(L), b, event, f);
  if (missing) luaL_error(L, "no symbol '%s' (its object may not be loaded yet)", missing);
  lua_pop(L, 1);
}

/* ---- counters -------------------------------------------------------------------------------- */

/* emu:count(event [, {by = "insn"|"block"|"function"|"line"|"edge"|"thread", filter = {...}}]) ->
 * counter by "function" and "line" count blocks' instructions and add them up by symbol when read.
 */
static int emu_count(lua_State *L) {
  static const char *const names[] = {"none",   "insn",     "block", "edge",
                                      "thread", "function", "line",  NULL};
  Bind *b = bind_emu(L, 1);
  lua_settop(L, 3);
  KitCountSpec spec = {.event = (KitEventKind)bind_enum(L, 2, "event", kit_event_find)};
  int by = option_string(L, 3, "by", names);
  spec.by = by >= 5 ? KIT_BY_INSN : (KitCountBy)by;
  option_filter(L, 3, b, spec.event, &spec.filter);
  KitCounter *c;
  if (kit_count(b->emu, &spec, &c)) return raise_last(L, b);
  Handle *h = new_handle(L, b, BIND_COUNTER);
  h->obj = c;
  h->by = spec.by;
  h->by_function = by == 5;
  if (by == 6) h->n_fields = 1; /* by line */
  bind_anchor(L, 1, h);
  return 1;
}

static int counter_total(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)kit_counter_total(check(L, BIND_COUNTER)->obj));
  return 1;
}

static int counter_zero(lua_State *L) {
  kit_counter_zero(check(L, BIND_COUNTER)->obj);
  return 0;
}

/* rows() -> array of {pc =, to =, count =, kind =, tid =} in ascending order of pc. */
static void push_row(void *ctx, const KitCountRow *r) {
  lua_State *L = ((void **)ctx)[0];
  Handle *h = ((void **)ctx)[1];
  lua_createtable(L, 0, 4);
  lua_pushinteger(L, (lua_Integer)r->count);
  lua_setfield(L, -2, "count");
  if (h->by == KIT_BY_THREAD) {
    lua_pushinteger(L, r->tid);
    lua_setfield(L, -2, "tid");
  } else {
    lua_pushinteger(L, (lua_Integer)r->key);
    lua_setfield(L, -2, "pc");
  }
  if (h->by == KIT_BY_EDGE) {
    lua_pushinteger(L, (lua_Integer)r->to);
    lua_setfield(L, -2, "to");
    lua_pushstring(L, bind_branch_names[r->kind]);
    lua_setfield(L, -2, "kind");
  }
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static int counter_rows(lua_State *L) {
  Handle *h = check(L, BIND_COUNTER);
  lua_newtable(L);
  kit_counter_rows(h->obj, push_row, (void *[]){L, h});
  return 1;
}

/* Pairs for `read`: key -> count, added up. */
static void add_pair(void *ctx, const KitCountRow *r) {
  lua_State *L = ((void **)ctx)[0];
  Handle *h = ((void **)ctx)[1];
  KitLine line;
  if (h->by == KIT_BY_THREAD)
    lua_pushinteger(L, r->tid);
  else if (!h->by_function && !h->n_fields)
    lua_pushinteger(L, (lua_Integer)r->key);
  else if (h->by_function) {
    KitSymbol s;
    if (!kit_symbol_at(h->bind->emu, r->key, &s))
      lua_pushstring(L, s.name);
    else
      lua_pushfstring(L, "%p", (void *)(uintptr_t)r->key);
  } else if (!kit_line(h->bind->emu, r->key, &line))
    lua_pushfstring(L, "%s:%d", line.file, line.line);
  else
    lua_pushliteral(L, "?");
  lua_pushvalue(L, -1);
  lua_rawget(L, -3);
  lua_Integer before = lua_tointeger(L, -1);
  lua_pop(L, 1);
  lua_pushinteger(L, before + (lua_Integer)r->count);
  lua_rawset(L, -3);
}

/* read() -> {[pc or function or file:line or tid] = count}; by "none": the total. */
static int counter_read(lua_State *L) {
  Handle *h = check(L, BIND_COUNTER);
  if (h->by == KIT_BY_NONE) return counter_total(L);
  lua_newtable(L);
  kit_counter_rows(h->obj, add_pair, (void *[]){L, h});
  return 1;
}

static int counter_close(lua_State *L) {
  Handle *h = luaL_checkudata(L, 1, BIND_COUNTER);
  if (h->obj && h->bind->emu) {
    kit_counter_close((KitCounter **)&h->obj);
    bind_release(L, h->bind, h);
  }
  h->obj = NULL;
  return 0;
}

/* ---- call graph ------------------------------------------------------------------------------ */

/* emu:callgraph([{by_thread = bool, fold = n}]) -> graph */
static int emu_callgraph(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  KitGraphSpec spec = {0};
  lua_settop(L, 2);
  if (lua_istable(L, 2)) {
    lua_getfield(L, 2, "by_thread");
    spec.by_thread = lua_toboolean(L, -1);
    lua_getfield(L, 2, "fold");
    spec.fold_recursion = (uint32_t)luaL_optinteger(L, -1, 0);
  }
  KitGraph *g;
  if (kit_callgraph(b->emu, &spec, &g)) return raise_last(L, b);
  Handle *h = new_handle(L, b, BIND_GRAPH);
  h->obj = g;
  bind_anchor(L, 1, h);
  return 1;
}

static void set_int(lua_State *L, const char *k, uint64_t v) {
  lua_pushinteger(L, (lua_Integer)v);
  lua_setfield(L, -2, k);
}

static void push_node(void *ctx, const KitGraphNode *n) {
  lua_State *L = ctx;
  lua_createtable(L, 0, 9);
  set_int(L, "id", n->id + 1u);
  if (n->parent != UINT32_MAX) set_int(L, "parent", n->parent + 1u);
  set_int(L, "fn", n->function);
  set_int(L, "call_pc", n->call_pc);
  set_int(L, "calls", n->calls);
  set_int(L, "self", n->self);
  set_int(L, "inclusive", n->inclusive);
  set_int(L, "fn_inclusive", n->function_inclusive);
  if (n->fold != UINT32_MAX) set_int(L, "fold", n->fold + 1u);
  set_int(L, "tid", (uint64_t)n->tid);
  lua_pushboolean(L, n->is_signal);
  lua_setfield(L, -2, "is_signal");
  lua_rawseti(L, -2, (lua_Integer)n->id + 1);
}

/* nodes() -> array of {id, parent, fn, call_pc, calls, self, inclusive, fn_inclusive, fold, tid,
 * is_signal}, parents before children */
static int graph_nodes(lua_State *L) {
  Handle *h = check(L, BIND_GRAPH);
  lua_newtable(L);
  kit_graph_nodes(h->obj, push_node, L);
  return 1;
}

/* stack([tid]) -> array of {fn, call_pc}, innermost first */
static int graph_stack(lua_State *L) {
  Handle *h = check(L, BIND_GRAPH);
  uint64_t pcs[256], fns[256];
  size_t n = kit_graph_stack(h->obj, (int)luaL_optinteger(L, 2, 0), pcs, fns, 256);
  lua_newtable(L);
  for (size_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 2);
    set_int(L, "fn", fns[i]);
    set_int(L, "call_pc", pcs[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int graph_zero(lua_State *L) {
  kit_graph_zero(check(L, BIND_GRAPH)->obj);
  return 0;
}

static int graph_close(lua_State *L) {
  Handle *h = luaL_checkudata(L, 1, BIND_GRAPH);
  if (h->obj && h->bind->emu) {
    kit_graph_close((KitGraph **)&h->obj);
    bind_release(L, h->bind, h);
  }
  h->obj = NULL;
  return 0;
}

/* ---- rings ----------------------------------------------------------------------------------- */

static int field_find(const char *name) {
  for (int f = 0; f < KIT_F_FIELDS; f++)
    if (!strcmp(kit_field_name((KitField)f), name)) return f;
  return -1;
}

static void on_flush(void *user, KitRing *ring) {
  Handle *h = user;
  (void)ring;
  lua_rawgeti(h->bind->L, LUA_REGISTRYINDEX, h->fn);
  if (!bind_call(h->bind, 0, 0)) kit_interrupt(h->bind->emu);
}

/* emu:trace(event, {fields = {...}, filter = {...}, capacity = n, flush = fn}) -> ring */
static int emu_trace(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  KitTraceSpec spec = {.event = (KitEventKind)bind_enum(L, 2, "event", kit_event_find)};
  option_filter(L, 3, b, spec.event, &spec.filter);
  lua_getfield(L, 3, "fields");
  luaL_argcheck(L, lua_istable(L, -1), 3, "needs 'fields', an array of names");
  for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
    luaL_argcheck(L, spec.n_fields < KIT_F_FIELDS, 3, "too many fields");
    spec.fields[spec.n_fields++] = (uint8_t)bind_enum(L, -1, "field", field_find);
    lua_pop(L, 1);
  }
  lua_getfield(L, 3, "capacity");
  spec.capacity = (uint32_t)luaL_optinteger(L, -1, 0);
  Handle *h = new_handle(L, b, BIND_RING);
  if (lua_getfield(L, 3, "flush") != LUA_TNIL) {
    luaL_checktype(L, -1, LUA_TFUNCTION);
    h->fn = luaL_ref(L, LUA_REGISTRYINDEX);
    spec.flush = on_flush;
    spec.user = h;
  } else {
    lua_pop(L, 1);
  }
  h->n_fields = (int)spec.n_fields;
  for (uint32_t i = 0; i < spec.n_fields; i++) h->fields[i] = spec.fields[i];
  if (kit_trace(b->emu, &spec, (KitRing **)&h->obj)) return raise_last(L, b);
  bind_anchor(L, 1, h);
  return 1;
}

#define CURSOR                                                                                     \
  0x6b697463u /* tells our userdata from others: checking a metatable costs a third of the loop */

typedef struct Cursor {
  uint32_t magic;
  Handle *ring;
  size_t at;
} Cursor;

/* Iterator over the records at hand: for pc, addr in ring:records() do. A light function with the
 * cursor as the loop's state: the cheapest call that Lua has. */
static int next_record(lua_State *L) {
  Cursor *c = lua_touserdata(L, 1);
  if (!c || lua_rawlen(L, 1) != sizeof *c || c->magic != CURSOR)
    return luaL_error(L, "call ring:records() in a for loop");
  Handle *h = c->ring;
  if (!h->obj || !h->bind->emu) return luaL_error(L, "this ring is closed");
  const uint64_t *rec = kit_ring_next(h->obj, &c->at);
  if (!rec) return 0;
  for (int f = 0; f < h->n_fields; f++) lua_pushinteger(L, (lua_Integer)rec[f]);
  return h->n_fields;
}

static int ring_records(lua_State *L) {
  Handle *h = check(L, BIND_RING);
  lua_pushcfunction(L, next_record);
  Cursor *c = lua_newuserdatauv(L, sizeof *c, 1);
  *c = (Cursor){.magic = CURSOR, .ring = h};
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 2;
}

static int ring_clear(lua_State *L) {
  kit_ring_clear(check(L, BIND_RING)->obj);
  return 0;
}

static int ring_len(lua_State *L) {
  size_t n;
  kit_ring_records(check(L, BIND_RING)->obj, &n);
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

static int ring_dropped(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)kit_ring_dropped(check(L, BIND_RING)->obj));
  return 1;
}

static int ring_close(lua_State *L) {
  Handle *h = luaL_checkudata(L, 1, BIND_RING);
  if (h->obj && h->bind->emu) {
    kit_ring_close((KitRing **)&h->obj);
    bind_release(L, h->bind, h);
  }
  luaL_unref(L, LUA_REGISTRYINDEX, h->fn);
  h->fn = LUA_NOREF;
  h->obj = NULL;
  return 0;
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* emu:plane{name = s, bits = 1|2|8} -> plane, or nil, message, code */
static int emu_plane(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  lua_getfield(L, 2, "name");
  lua_getfield(L, 2, "bits");
  KitPlaneSpec spec = {luaL_optstring(L, 3, "plane"), (uint32_t)luaL_optinteger(L, 4, 1)};
  KitPlane *p;
  if (kit_plane(b->emu, &spec, &p)) return bind_failure(L, b);
  Handle *h = new_handle(L, b, BIND_PLANE);
  h->obj = p;
  bind_anchor(L, 1, h);
  return 1;
}

KitPlane *bind_plane(lua_State *L, int idx) {
  Handle *h = luaL_checkudata(L, idx, BIND_PLANE);
  if (!h->obj || !h->bind->emu) luaL_error(L, "this plane is closed");
  return h->obj;
}

/* plane:fill(addr, len, value) */
static int plane_fill(lua_State *L) {
  Handle *h = check(L, BIND_PLANE);
  if (kit_plane_fill(h->obj, bind_address(L, h->bind, 2), (uint64_t)luaL_checkinteger(L, 3),
                     (uint8_t)luaL_checkinteger(L, 4)))
    return bind_failure(L, h->bind);
  lua_pushboolean(L, 1);
  return 1;
}

/* plane:get(addr [, n]) -> value, or a string of n values */
static int plane_get(lua_State *L) {
  Handle *h = check(L, BIND_PLANE);
  uint64_t va = bind_address(L, h->bind, 2);
  if (lua_isnoneornil(L, 3)) {
    uint8_t v;
    if (kit_plane_get(h->obj, va, &v, 1)) return bind_failure(L, h->bind);
    lua_pushinteger(L, v);
    return 1;
  }
  lua_Integer n = luaL_checkinteger(L, 3);
  luaL_argcheck(L, n >= 0 && n <= 1 << 30, 3, "length out of range");
  luaL_Buffer buf;
  char *p = luaL_buffinitsize(L, &buf, (size_t)n);
  if (kit_plane_get(h->obj, va, (uint8_t *)p, (size_t)n)) return bind_failure(L, h->bind);
  luaL_pushresultsize(&buf, (size_t)n);
  return 1;
}

/* plane:set(addr, string of values) */
static int plane_set(lua_State *L) {
  Handle *h = check(L, BIND_PLANE);
  size_t n;
  const char *s = luaL_checklstring(L, 3, &n);
  if (kit_plane_set(h->obj, bind_address(L, h->bind, 2), (const uint8_t *)s, n))
    return bind_failure(L, h->bind);
  lua_pushboolean(L, 1);
  return 1;
}

/* plane:find(addr, len) -> address, value of the first byte whose value is not 0; nil */
static int plane_find(lua_State *L) {
  Handle *h = check(L, BIND_PLANE);
  uint64_t where;
  uint8_t value;
  if (!kit_plane_find(h->obj, bind_address(L, h->bind, 2), (uint64_t)luaL_checkinteger(L, 3),
                      &where, &value))
    return luaL_pushfail(L), 1;
  lua_pushinteger(L, (lua_Integer)where);
  lua_pushinteger(L, value);
  return 2;
}

static KitVerdict on_check(void *user, KitEmu *emu, KitEvent *ev) {
  Check *c = user;
  lua_State *L = c->bind->L;
  (void)emu;
  if (!lua_checkstack(L, 16)) return KIT_STOP;
  lua_rawgetp(L, LUA_REGISTRYINDEX, c);
  lua_pushinteger(L, (lua_Integer)ev->pc);
  lua_pushinteger(L, (lua_Integer)ev->access.addr);
  lua_pushinteger(L, ev->access.size);
  lua_pushboolean(L, ev->access.is_write);
  lua_pushboolean(L, ev->access.is_syscall);
  if (!bind_call(c->bind, 5, 1)) return KIT_STOP;
  return bind_verdict(L, c->bind);
}

static uint64_t check_integer(lua_State *L, int options, const char *name) {
  lua_getfield(L, options, name);
  uint64_t v = (uint64_t)luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
  return v;
}

static bool check_flag(lua_State *L, int options, const char *name) {
  lua_getfield(L, options, name);
  bool v = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

/* plane:check("load"|"store"|"access" [, fn [, options]]): fn(pc, addr, size, is_write, is_syscall)
 * at accesses to marked bytes; without fn they stop the run */
static int plane_check(lua_State *L) {
  Handle *h = check(L, BIND_PLANE);
  lua_settop(L, 4);
  KitPlaneCheck spec = {.which = (KitEventKind)bind_enum(L, 2, "event", kit_event_find)};
  KitHook *hook;
  Check *c = NULL;
  if (!lua_isnil(L, 4)) {
    luaL_checktype(L, 4, LUA_TTABLE);
    spec.low = check_integer(L, 4, "low");
    spec.high = check_integer(L, 4, "high");
    spec.not_stack = check_flag(L, 4, "not_stack");
    spec.loose_stop = check_flag(L, 4, "loose_stop");
    spec.unmapped = check_flag(L, 4, "unmapped");
  }
  if (!lua_isnil(L, 3)) {
    luaL_checktype(L, 3, LUA_TFUNCTION);
    c = malloc(sizeof *c);
    if (!c) return luaL_error(L, "out of memory");
    *c = (Check){h->bind, h->checks};
    h->checks = c;
    lua_pushvalue(L, 3);
    lua_rawsetp(L, LUA_REGISTRYINDEX, c);
    h->bind->L = h->bind->running ? h->bind->L : L;
    spec.fn = on_check;
    spec.user = c;
  }
  if (kit_plane_check(h->obj, &spec, &hook)) return raise_last(L, h->bind);
  lua_settop(L, 1);
  return 1;
}

static int plane_close(lua_State *L) {
  Handle *h = luaL_checkudata(L, 1, BIND_PLANE);
  if (h->obj && h->bind->emu) {
    kit_plane_close((KitPlane **)&h->obj);
    bind_release(L, h->bind, h);
  }
  h->obj = NULL;
  for (Check *c = h->checks, *next; c; c = next) {
    next = c->next;
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, c);
    free(c);
  }
  h->checks = NULL;
  return 0;
}

const luaL_Reg bind_fast_methods[] = {{"count", emu_count},
                                      {"callgraph", emu_callgraph},
                                      {"trace", emu_trace},
                                      {"plane", emu_plane},
                                      {NULL, NULL}};

static void open_class(lua_State *L, const char *class, lua_CFunction close, lua_CFunction len,
                       const luaL_Reg *methods) {
  const luaL_Reg meta[] = {
      {"__close", close}, {"__gc", close}, {len ? "__len" : NULL, len}, {NULL, NULL}};
  bind_class(L, class, meta, methods);
  luaL_getmetatable(L, class);
  lua_pushstring(L, class);
  lua_pushcclosure(L, handle_tostring, 1);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}

void bind_open_fast(lua_State *L) {
  static const luaL_Reg counter[] = {{"total", counter_total}, {"rows", counter_rows},
                                     {"read", counter_read},   {"zero", counter_zero},
                                     {"close", counter_close}, {NULL, NULL}};
  static const luaL_Reg graph[] = {{"nodes", graph_nodes},
                                   {"stack", graph_stack},
                                   {"zero", graph_zero},
                                   {"close", graph_close},
                                   {NULL, NULL}};
  static const luaL_Reg ring[] = {{"records", ring_records},
                                  {"clear", ring_clear},
                                  {"dropped", ring_dropped},
                                  {"close", ring_close},
                                  {NULL, NULL}};
  static const luaL_Reg plane[] = {
      {"fill", plane_fill},   {"get", plane_get},     {"set", plane_set}, {"find", plane_find},
      {"check", plane_check}, {"close", plane_close}, {NULL, NULL}};
  open_class(L, BIND_COUNTER, counter_close, NULL, counter);
  open_class(L, BIND_GRAPH, graph_close, NULL, graph);
  open_class(L, BIND_RING, ring_close, ring_len, ring);
  open_class(L, BIND_PLANE, plane_close, NULL, plane);
}
