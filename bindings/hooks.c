/* emu:on, emu:wrap, emu:replace, emu:events: Lua functions as hooks.
 *
 * A hook whose filter names a symbol that is not loaded yet waits on b->pending and is added when
 * an image with that symbol is. */
#include <stdlib.h>
#include <string.h>

#include "bind.h"

typedef struct Hook {
  Bind *bind;
  KitHook *hook; /* NULL: closed, or waiting for its symbol */
  int fn, leave; /* registry references; LUA_NOREF: none */
  KitEventKind event;
  char kind; /* 'o'n, 'w'rap, 'r'eplace, 'e'vents */
  bool temporary, closed;
  int filter;    /* registry reference of the filter table while it waits */
  char *symbol;  /* wrap and replace: the function */
  uint64_t hits; /* of the closed hook */
  struct Hook *next_pending;
} Hook;

struct BindPending {
  Hook *first;
};

KitVerdict bind_verdict(lua_State *L, Bind *b) {
  KitVerdict v = KIT_CONTINUE;
  if (lua_type(L, -1) == LUA_TSTRING) {
    const char *s = lua_tostring(L, -1);
    if (!strcmp(s, "stop"))
      v = KIT_STOP;
    else if (!strcmp(s, "deny"))
      v = KIT_DENY;
    else if (!strcmp(s, "replace"))
      v = KIT_REPLACE;
    else if (b->failed == LUA_NOREF) {
      lua_pushfstring(
          L,
          "a hook returned '%s': only nothing, \"stop\", \"deny\" and \"replace\" mean something",
          s);
      b->failed = luaL_ref(L, LUA_REGISTRYINDEX);
      v = KIT_STOP;
    }
  }
  lua_pop(L, 1);
  return v;
}

static KitVerdict verdict(lua_State *L, Bind *b, KitEvent *ev) {
  KitVerdict v = bind_verdict(L, b);
  if ((ev->kind == KIT_EV_SYSCALL || ev->kind == KIT_EV_SYSRET) && ev->syscall.replaced)
    v |= KIT_REPLACE;
  return v;
}

/* The branch kind's name; made once, since interning a string costs more than the rest of a call.
 */
static void push_kind(lua_State *L, Bind *b, KitBranchKind kind) {
  if (!b->kind_names[kind]) {
    lua_pushstring(L, bind_branch_names[kind]);
    b->kind_names[kind] = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, b->kind_names[kind]);
}

/* Pushes the arguments a callback of this kind gets; returns how many. */
static int push_arguments(lua_State *L, Bind *b, KitEvent *ev, struct BindEvent **object) {
  switch (ev->kind) {
  case KIT_EV_EXEC: lua_pushinteger(L, (lua_Integer)ev->pc); return 1;
  case KIT_EV_INSN:
    lua_pushinteger(L, (lua_Integer)ev->pc);
    lua_pushstring(L, ev->insn.insn->name);
    return 2;
  case KIT_EV_BLOCK:
    lua_pushinteger(L, (lua_Integer)ev->pc);
    lua_pushinteger(L, ev->block.n_insns);
    return 2;
  case KIT_EV_BRANCH:
  case KIT_EV_CALL:
  case KIT_EV_RET:
  case KIT_EV_JUMP:
  case KIT_EV_COND: {
    lua_pushinteger(L, (lua_Integer)ev->branch.from);
    lua_pushinteger(L, (lua_Integer)ev->branch.to);
    push_kind(L, b, ev->branch.kind);
    lua_pushboolean(L, ev->branch.taken);
    return 4;
  }
  case KIT_EV_LOAD:
  case KIT_EV_STORE:
  case KIT_EV_ACCESS:
    lua_pushinteger(L, (lua_Integer)ev->pc);
    lua_pushinteger(L, (lua_Integer)ev->access.addr);
    lua_pushinteger(L, ev->access.size);
    lua_pushboolean(L, ev->access.is_write);
    return 4;
  default: *object = bind_push_event(L, b, ev); return 1;
  }
}

static KitVerdict on_event(void *user, KitEmu *emu, KitEvent *ev) {
  Hook *h = user;
  Bind *b = h->bind;
  lua_State *L = b->L;
  struct BindEvent *object = NULL;
  (void)emu;
  if (!lua_checkstack(L, 16)) return KIT_STOP;
  int base = lua_gettop(L);
  lua_pushcfunction(
      L, bind_traceback); /* under the function from the start: nothing is moved for it */
  lua_rawgeti(L, LUA_REGISTRYINDEX, h->fn);
  int n = push_arguments(L, b, ev, &object);
  if (object) {
    lua_pushvalue(L, -1); /* keeps it from being collected before it is expired */
    lua_insert(L, base + 1);
    base++;
  }
  bool ok = bind_call_under(b, base + 1, n, 1);
  if (object) object->ev = NULL;
  KitVerdict v = KIT_CONTINUE;
  if (!ok)
    v = KIT_STOP;
  else if (!lua_isnil(L, -1) || ev->kind == KIT_EV_SYSCALL || ev->kind == KIT_EV_SYSRET)
    v = verdict(L, b, ev);
  lua_settop(L, object ? base - 1 : base);
  return v;
}

/* ---- wrap and replace ------------------------------------------------------------------------ */

static int push_call_arguments(lua_State *L, Bind *b) {
  char role[] = "arg0";
  int n = 0;
  for (; n < 8; n++) {
    role[3] = (char)('0' + n);
    int reg = kit_reg_role(b->emu, role);
    uint64_t v = 0;
    if (reg < 0) break;
    kit_reg_read(b->emu, 0, reg, &v);
    lua_pushinteger(L, (lua_Integer)v);
  }
  return n;
}

/* A callback's integer becomes the function's return value; "stop" stops. */
static KitVerdict wrap_result(lua_State *L, Bind *b, KitEvent *ev) {
  int ok;
  uint64_t v = (uint64_t)lua_tointegerx(L, -1, &ok);
  if (!ok || lua_type(L, -1) != LUA_TNUMBER) return verdict(L, b, ev);
  lua_pop(L, 1);
  kit_reg_write(b->emu, 0, kit_reg_role(b->emu, "ret"), &v);
  return KIT_CONTINUE;
}

static KitVerdict on_enter(void *user, KitEmu *emu, KitEvent *ev) {
  Hook *h = user;
  Bind *b = h->bind;
  (void)emu;
  if (!lua_checkstack(b->L, 16)) return KIT_STOP;
  lua_rawgeti(b->L, LUA_REGISTRYINDEX, h->fn);
  if (!bind_call(b, push_call_arguments(b->L, b), 1)) return KIT_STOP;
  return h->kind == 'r' ? wrap_result(b->L, b, ev) : verdict(b->L, b, ev);
}

static KitVerdict on_leave(void *user, KitEmu *emu, KitEvent *ev) {
  Hook *h = user;
  Bind *b = h->bind;
  uint64_t ret = 0;
  kit_reg_read(emu, 0, kit_reg_role(emu, "ret"), &ret);
  if (!lua_checkstack(b->L, 16)) return KIT_STOP;
  lua_rawgeti(b->L, LUA_REGISTRYINDEX, h->leave);
  lua_pushinteger(b->L, (lua_Integer)ret);
  if (!bind_call(b, 1, 1)) return KIT_STOP;
  return wrap_result(b->L, b, ev);
}

/* ---- adding, now or when the symbol is there ------------------------------------------------- */

static void attach_wrap(lua_State *L, Hook *h, uint64_t address, bool indirect) {
  KitWrapSpec spec = {
      .address = address, .user = h, .replace = h->kind == 'r', .indirect = indirect};
  if (h->fn != LUA_NOREF) spec.enter = on_enter;
  if (h->leave != LUA_NOREF) spec.leave = on_leave;
  if (kit_wrap(h->bind->emu, &spec, &h->hook))
    luaL_error(L, "%s", kit_error(h->bind->emu)->message);
}

static void attach_on(lua_State *L, Hook *h, const KitFilter *f) {
  KitHookSpec spec = {.event = h->event, .filter = *f, .user = h, .temporary = h->temporary};
  if (h->fn != LUA_NOREF) spec.fn = on_event;
  if (kit_hook_add(h->bind->emu, &spec, &h->hook))
    luaL_error(L, "%s", kit_error(h->bind->emu)->message);
}

/* Protected part of on_image: Hook * -> nothing. */
static int try_pending(lua_State *L) {
  Hook *h = lua_touserdata(L, 1);
  Bind *b = h->bind;
  KitFilter f;
  KitSymbol s;
  if (h->symbol) {
    if (bind_try_symbol(b, h->symbol, &s)) attach_wrap(L, h, s.address, s.is_indirect);
    return 0;
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, h->filter);
  if (!bind_filter(L, lua_gettop(L), b, h->event, &f)) attach_on(L, h, &f);
  return 0;
}

static KitVerdict on_image(void *user, KitEmu *emu, KitEvent *ev) {
  Bind *b = user;
  (void)emu;
  if (!ev->image.loaded) return KIT_CONTINUE;
  for (Hook **p = &b->pending->first; *p;) {
    Hook *h = *p;
    lua_pushcfunction(b->L, try_pending);
    lua_pushlightuserdata(b->L, h);
    if (!bind_call(b, 1, 0)) return KIT_STOP;
    if (h->hook || h->closed)
      *p = h->next_pending;
    else
      p = &h->next_pending;
  }
  return KIT_CONTINUE;
}

static void wait_for_symbol(lua_State *L, Hook *h) {
  Bind *b = h->bind;
  if (!b->pending) {
    b->pending = calloc(1, sizeof *b->pending);
    if (!b->pending) luaL_error(L, "out of memory");
    kit_hook_add(b->emu, &(KitHookSpec){.event = KIT_EV_IMAGE, .fn = on_image, .user = b},
                 &b->image_hook);
  }
  h->next_pending = b->pending->first;
  b->pending->first = h;
}

static Hook *new_hook(lua_State *L, Bind *b, char kind) {
  Hook *h = lua_newuserdatauv(L, sizeof *h, 1);
  *h = (Hook){.bind = b, .fn = LUA_NOREF, .leave = LUA_NOREF, .filter = LUA_NOREF, .kind = kind};
  lua_pushvalue(L, 1); /* the emu must outlive its hooks */
  lua_setiuservalue(L, -2, 1);
  luaL_setmetatable(L, BIND_HOOK);
  b->L = b->running ? b->L : L;
  return h;
}

static int keep_function(lua_State *L, int idx) {
  luaL_checktype(L, idx, LUA_TFUNCTION);
  lua_pushvalue(L, idx);
  return luaL_ref(L, LUA_REGISTRYINDEX);
}

/* emu:on(event [, filter] [, fn]) -> hook */
static int emu_on(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  lua_settop(L, 4);
  KitEventKind event = (KitEventKind)bind_enum(L, 2, "event", kit_event_find);
  int fn = lua_isfunction(L, 3) ? 3 : 4, filter = fn == 3 ? 0 : 3;
  KitFilter f = {0};
  const char *missing = filter ? bind_filter(L, filter, b, event, &f) : NULL;
  if (!lua_isnoneornil(L, fn)) luaL_checktype(L, fn, LUA_TFUNCTION);
  Hook *h = new_hook(L, b, 'o');
  h->event = event;
  if (!lua_isnoneornil(L, fn)) h->fn = keep_function(L, fn);
  if (missing) {
    lua_pushvalue(L, filter);
    h->filter = luaL_ref(L, LUA_REGISTRYINDEX);
    wait_for_symbol(L, h);
  } else {
    attach_on(L, h, &f);
  }
  bind_anchor(L, 1, h);
  return 1;
}

static int intercept(lua_State *L, Bind *b, Hook *h) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    KitSymbol s;
    const char *name = lua_tostring(L, 2);
    h->symbol = strdup(name);
    if (bind_try_symbol(b, name, &s))
      attach_wrap(L, h, s.address, s.is_indirect);
    else
      wait_for_symbol(L, h);
  } else {
    attach_wrap(L, h, (uint64_t)luaL_checkinteger(L, 2), false);
  }
  bind_anchor(L, 1, h);
  return 1;
}

/* emu:wrap(function, {enter = f, leave = g}) -> hook */
static int emu_wrap(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  lua_getfield(L, 3, "enter"); /* 4 */
  lua_getfield(L, 3, "leave"); /* 5 */
  luaL_argcheck(L, !lua_isnil(L, 4) || !lua_isnil(L, 5), 3, "needs a function 'enter' or 'leave'");
  Hook *h = new_hook(L, b, 'w');
  if (!lua_isnil(L, 4)) h->fn = keep_function(L, 4);
  if (!lua_isnil(L, 5)) h->leave = keep_function(L, 5);
  return intercept(L, b, h);
}

/* emu:replace(function, fn) -> hook */
static int emu_replace(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  lua_settop(L, 3);
  Hook *h = new_hook(L, b, 'r');
  h->fn = keep_function(L, 3);
  return intercept(L, b, h);
}

/* ---- the handle ------------------------------------------------------------------------------ */

static void unlink_pending(Hook *h) {
  if (!h->bind->pending) return;
  for (Hook **p = &h->bind->pending->first; *p; p = &(*p)->next_pending)
    if (*p == h) {
      *p = h->next_pending;
      return;
    }
}

static void unref(lua_State *L, int *ref) {
  luaL_unref(L, LUA_REGISTRYINDEX, *ref);
  *ref = LUA_NOREF;
}

static int hook_close(lua_State *L) {
  Hook *h = luaL_checkudata(L, 1, BIND_HOOK);
  if (h->closed) return 0;
  h->closed = true;
  if (h->bind->emu) {
    if (h->hook) h->hits = kit_hook_hits(h->hook);
    kit_hook_close(&h->hook);
    unlink_pending(h);
    bind_release(L, h->bind, h);
  }
  unref(L, &h->fn);
  unref(L, &h->leave);
  unref(L, &h->filter);
  free(h->symbol);
  h->symbol = NULL;
  return 0;
}

static int hook_hits(lua_State *L) {
  Hook *h = luaL_checkudata(L, 1, BIND_HOOK);
  lua_pushinteger(L, (lua_Integer)(h->hook && h->bind->emu ? kit_hook_hits(h->hook) : h->hits));
  return 1;
}

static int hook_tostring(lua_State *L) {
  Hook *h = luaL_checkudata(L, 1, BIND_HOOK);
  const char *what = h->kind == 'w'   ? "wrap"
                     : h->kind == 'r' ? "replace"
                                      : kit_event_name(h->event);
  lua_pushfstring(L, "%s hook (%s)", what,
                  h->closed ? "closed"
                  : h->hook ? "active"
                            : "waits for its symbol");
  return 1;
}

/* ---- emu:events: pull style ------------------------------------------------------------------ */

#define BIND_EVENTS "kit.events"

typedef struct Events {
  Bind *bind;
  KitHook *hooks[KIT_EV_EVENTS];
  int queue; /* registry reference: an array of copied events */
} Events;

static KitVerdict on_pulled(void *user, KitEmu *emu, KitEvent *ev) {
  Events *e = user;
  lua_State *L = e->bind->L;
  (void)emu;
  if (!lua_checkstack(L, 8)) return KIT_STOP;
  lua_rawgeti(L, LUA_REGISTRYINDEX, e->queue);
  bind_event_copy(L, e->bind, ev);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 1);
  return KIT_STOP;
}

static bool shift(lua_State *L, int ref) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  lua_rawgeti(L, -1, 1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -2, i + 1);
    lua_rawseti(L, -3, i);
  }
  lua_remove(L, -2);
  if (n == 0) lua_pop(L, 1);
  return n > 0;
}

static int events_next(lua_State *L) {
  Events *e = luaL_checkudata(L, 1, BIND_EVENTS);
  Bind *b = e->bind;
  while (!shift(L, e->queue)) {
    KitStop stop;
    b->L = L;
    b->running = true;
    KitStatus st = kit_run(b->emu, UINT64_MAX, &stop);
    b->running = false;
    bind_rethrow(L, b);
    if (st == KIT_E_DEAD) return 0;
    if (st) return luaL_error(L, "%s", kit_error(b->emu)->message);
  }
  return 1;
}

static int events_close(lua_State *L) {
  Events *e = luaL_checkudata(L, 1, BIND_EVENTS);
  if (e->queue == LUA_NOREF) return 0;
  if (e->bind->emu)
    for (int i = 0; i < KIT_EV_EVENTS; i++) kit_hook_close(&e->hooks[i]);
  unref(L, &e->queue);
  return 0;
}

/* for ev in emu:events{"syscall", "signal"} do ... end */
static int emu_events(lua_State *L) {
  Bind *b = bind_emu(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_pushcfunction(L, events_next);
  Events *e = lua_newuserdatauv(L, sizeof *e, 1);
  *e = (Events){.bind = b, .queue = LUA_NOREF};
  luaL_setmetatable(L, BIND_EVENTS);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_newtable(L);
  e->queue = luaL_ref(L, LUA_REGISTRYINDEX);
  for (lua_Integer i = 1; lua_rawgeti(L, 2, i) != LUA_TNIL; i++) {
    KitEventKind kind = (KitEventKind)bind_enum(L, -1, "event", kit_event_find);
    if (!e->hooks[kind])
      kit_hook_add(b->emu, &(KitHookSpec){.event = kind, .fn = on_pulled, .user = e},
                   &e->hooks[kind]);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  lua_pushnil(L);
  lua_pushvalue(L, -2);
  return 4;
}

const luaL_Reg bind_hook_methods[] = {{"on", emu_on},
                                      {"wrap", emu_wrap},
                                      {"replace", emu_replace},
                                      {"events", emu_events},
                                      {NULL, NULL}};

void bind_open_hooks(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__close", hook_close}, {"__gc", hook_close}, {"__tostring", hook_tostring}, {NULL, NULL}};
  static const luaL_Reg methods[] = {{"close", hook_close}, {"hits", hook_hits}, {NULL, NULL}};
  static const luaL_Reg events_meta[] = {
      {"__close", events_close}, {"__gc", events_close}, {NULL, NULL}};
  bind_class(L, BIND_HOOK, meta, methods);
  luaL_newmetatable(L, BIND_EVENTS);
  luaL_setfuncs(L, events_meta, 0);
  lua_pop(L, 1);
}
