/* Event objects: a view of the live KitEvent, valid during its callback only.
 *
 *   ev.kind ev.tid ev.pc   and by kind:
 *   syscall sysret   nr name args (array) result (assignable: replaces the result)
 *   map unmap protect  addr len prot flags fd offset path
 *   signal           signo name code addr sender action (the name is "SIGSEGV")
 *   fault            addr is_write is_exec signo what
 *   thread           created child        image  image loaded
 *   exit             status signo         fork   child vfork
 *   and, in copies for emu:events, those of code: n_insns, from to branch taken, addr size is_write
 */
#include <string.h>

#include "bind.h"

struct BindEvent *bind_push_event(lua_State *L, Bind *b, KitEvent *ev) {
  struct BindEvent *e = lua_newuserdatauv(L, sizeof *e, 0);
  *e = (struct BindEvent){ev, b};
  luaL_setmetatable(L, BIND_EVENT);
  return e;
}

const char *const bind_branch_names[] = {"none", "jump", "cond", "call", "ret", "syscall", "trap"};

static int push_int(lua_State *L, int64_t v) {
  lua_pushinteger(L, (lua_Integer)v);
  return 1;
}
static int push_bool(lua_State *L, bool v) {
  lua_pushboolean(L, v);
  return 1;
}
static int push_text(lua_State *L, const char *s) {
  lua_pushstring(L, s ? s : "");
  return 1;
}

static int push_args(lua_State *L, const KitEvent *ev) {
  lua_createtable(L, 6, 0);
  for (int i = 0; i < 6; i++) {
    lua_pushinteger(L, (lua_Integer)ev->syscall.args[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* Pushes field `k`; returns 0 if this kind of event has none of that name. */
static int push_field(lua_State *L, const KitEvent *ev, const char *k) {
#define IS(name) (!strcmp(k, name))
  if (IS("kind")) return push_text(L, kit_event_name(ev->kind));
  if (IS("tid")) return push_int(L, ev->tid);
  if (IS("pc")) return push_int(L, (int64_t)ev->pc);
  switch (ev->kind) {
  case KIT_EV_SYSCALL:
  case KIT_EV_SYSRET:
    if (IS("nr")) return push_int(L, ev->syscall.nr);
    if (IS("name")) return push_text(L, ev->syscall.name);
    if (IS("args")) return push_args(L, ev);
    if (IS("result")) return push_int(L, ev->syscall.result);
    if (IS("restarted")) return push_bool(L, ev->syscall.restarted);
    break;
  case KIT_EV_MAP:
  case KIT_EV_UNMAP:
  case KIT_EV_PROTECT:
    if (IS("addr")) return push_int(L, (int64_t)ev->map.addr);
    if (IS("len")) return push_int(L, (int64_t)ev->map.len);
    if (IS("prot")) return push_int(L, ev->map.prot);
    if (IS("flags")) return push_int(L, ev->map.flags);
    if (IS("fd")) return push_int(L, ev->map.fd);
    if (IS("offset")) return push_int(L, (int64_t)ev->map.offset);
    if (IS("path")) return push_text(L, ev->map.path);
    break;
  case KIT_EV_SIGNAL:
    if (IS("signo")) return push_int(L, ev->signal.signo);
    if (IS("name")) return push_text(L, kit_signal_name(ev->signal.signo));
    if (IS("code")) return push_int(L, ev->signal.code);
    if (IS("addr")) return push_int(L, (int64_t)ev->signal.addr);
    if (IS("sender")) return push_int(L, ev->signal.sender);
    if (IS("action")) return push_text(L, ev->signal.action);
    if (IS("siginfo")) {
      if (ev->signal.siginfo)
        lua_pushlstring(L, ev->signal.siginfo, 128);
      else
        lua_pushnil(L);
      return 1;
    }
    break;
  case KIT_EV_FAULT:
    if (IS("addr")) return push_int(L, (int64_t)ev->fault.addr);
    if (IS("is_write")) return push_bool(L, ev->fault.is_write);
    if (IS("is_exec")) return push_bool(L, ev->fault.is_exec);
    if (IS("signo")) return push_int(L, ev->fault.signo);
    if (IS("what")) return push_text(L, ev->fault.what);
    break;
  case KIT_EV_THREAD:
    if (IS("created")) return push_bool(L, ev->thread.created);
    if (IS("child")) return push_int(L, ev->thread.child);
    break;
  case KIT_EV_IMAGE:
    if (IS("image")) return bind_push_image(L, ev->image.image), 1;
    if (IS("loaded")) return push_bool(L, ev->image.loaded);
    break;
  case KIT_EV_EXIT:
    if (IS("status")) return push_int(L, ev->exit.status);
    if (IS("signo")) return push_int(L, ev->exit.signo);
    break;
  case KIT_EV_FORK:
    if (IS("child")) return push_int(L, ev->fork.child);
    if (IS("vfork")) return push_bool(L, ev->fork.vfork);
    break;
  case KIT_EV_BLOCK:
    if (IS("n_insns")) return push_int(L, ev->block.n_insns);
    break;
  case KIT_EV_BRANCH:
  case KIT_EV_CALL:
  case KIT_EV_RET:
  case KIT_EV_JUMP:
  case KIT_EV_COND:
    if (IS("from")) return push_int(L, (int64_t)ev->branch.from);
    if (IS("to")) return push_int(L, (int64_t)ev->branch.to);
    if (IS("branch")) return push_text(L, bind_branch_names[ev->branch.kind]);
    if (IS("taken")) return push_bool(L, ev->branch.taken);
    break;
  case KIT_EV_LOAD:
  case KIT_EV_STORE:
  case KIT_EV_ACCESS:
    if (IS("addr")) return push_int(L, (int64_t)ev->access.addr);
    if (IS("size")) return push_int(L, ev->access.size);
    if (IS("is_write")) return push_bool(L, ev->access.is_write);
    break;
  default: break;
  }
#undef IS
  return 0;
}

static KitEvent *live(lua_State *L) {
  struct BindEvent *e = luaL_checkudata(L, 1, BIND_EVENT);
  if (!e->ev) luaL_error(L, "this event is over: copy what you need during its callback");
  return e->ev;
}

static int event_index(lua_State *L) {
  KitEvent *ev = live(L);
  const char *k = luaL_checkstring(L, 2);
  if (push_field(L, ev, k)) return 1;
  return luaL_error(L, "a %s event has no field '%s'", kit_event_name(ev->kind), k);
}

static int event_newindex(lua_State *L) {
  KitEvent *ev = live(L);
  const char *k = luaL_checkstring(L, 2);
  if ((ev->kind != KIT_EV_SYSCALL && ev->kind != KIT_EV_SYSRET) || strcmp(k, "result"))
    return luaL_error(L, "field '%s' of a %s event cannot be set", k, kit_event_name(ev->kind));
  ev->syscall.result = luaL_checkinteger(L, 3);
  ev->syscall.replaced = true;
  return 0;
}

static int event_tostring(lua_State *L) {
  struct BindEvent *e = luaL_checkudata(L, 1, BIND_EVENT);
  if (e->ev)
    lua_pushfstring(L, "%s event at %p", kit_event_name(e->ev->kind), (void *)(uintptr_t)e->ev->pc);
  else
    lua_pushliteral(L, "event (over)");
  return 1;
}

void bind_event_copy(lua_State *L, Bind *b, const KitEvent *ev) {
  static const char *const fields[] = {
      "kind",   "tid",      "pc",      "nr",   "name",    "args",  "result", "restarted", "addr",
      "len",    "prot",     "flags",   "fd",   "offset",  "path",  "signo",  "code",      "sender",
      "action", "is_write", "is_exec", "what", "created", "child", "image",  "loaded",    "status",
      "vfork",  "n_insns",  "from",    "to",   "branch",  "taken", "size"};
  (void)b;
  lua_newtable(L);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (push_field(L, ev, fields[i])) lua_setfield(L, -2, fields[i]);
}

void bind_open_event(lua_State *L) {
  static const luaL_Reg meta[] = {{"__index", event_index},
                                  {"__newindex", event_newindex},
                                  {"__tostring", event_tostring},
                                  {NULL, NULL}};
  luaL_newmetatable(L, BIND_EVENT);
  luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
}
