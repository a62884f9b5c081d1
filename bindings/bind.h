/* Private to bindings/: the Lua side of kit/emu.h. Only the public header and Lua's are used here.
 *
 * One Bind per emu, in the emu's userdata. Handles (hooks, counters, ...) are userdata whose first
 * member points to it; they are anchored in the emu's user value until they are closed, so that a
 * script may drop them. Every call from the engine into Lua goes through bind_call (call.c): one
 * protected door. An error there stops the guest and is raised from emu:run().
 */
#ifndef BIND_H
#define BIND_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "kit/emu.h"

#define BIND_EMU     "kit.emu"
#define BIND_HOOK    "kit.hook"
#define BIND_EVENT   "kit.event"
#define BIND_COUNTER "kit.counter"
#define BIND_GRAPH   "kit.graph"
#define BIND_RING    "kit.ring"
#define BIND_PLANE   "kit.plane"
#define BIND_HEAP    "kit.heap"

typedef struct Bind {
  KitEmu *emu;     /* NULL: closed */
  lua_State *L;    /* runs callbacks: the state that called run, or any that made hooks */
  lua_State *home; /* the main state, for callbacks outside of run */
  int failed;      /* registry reference of a callback's error, LUA_NOREF: none */
  bool running;
  bool stats;                  /* printed when it closes */
  struct BindPending *pending; /* hooks on symbols that are not loaded yet */
  KitHook *image_hook;
  int kind_names[8]; /* registry references of branch kinds' names; 0: not made yet */
} Bind;

/* call.c: the function and n arguments are on b->L; leaves `results` values, or returns false with
 * nothing left. */
bool bind_call(Bind *b, int n, int results);
/* The same with bind_traceback on the stack already, at index `traceback` under the function. */
bool bind_call_under(Bind *b, int traceback, int n, int results);
/* Message handler: adds a traceback to a string that has none yet. An object that can say what it
 * is stays as it is: it is meant for the user as it stands. */
int bind_traceback(lua_State *L);
/* What a callback's result (popped) means: nothing, "stop", "deny", "replace"; anything else is an
 * error of the script. */
KitVerdict bind_verdict(lua_State *L, Bind *b);
/* Raises a callback's pending error, if any. */
void bind_rethrow(lua_State *L, Bind *b);
/* nil, message, code of the emu's last error. */
int bind_failure(lua_State *L, Bind *b);
int bind_fail_with(lua_State *L, const KitError *err);

/* emu.c */
int bind_open(lua_State *L);               /* kit.open; upvalue 1 is the module table */
int bind_io_open(lua_State *L);            /* io.open; upvalue 1 is the original */
Bind *bind_emu(lua_State *L, int idx);     /* raises if closed */
Bind *bind_emu_any(lua_State *L, int idx); /* closed ones too */
void bind_anchor(lua_State *L, int emu_idx,
                 const void *key); /* value on top stays alive with the emu; not popped */
void bind_release(lua_State *L, Bind *b, const void *key);
uint64_t bind_address(lua_State *L, Bind *b, int idx); /* integer or symbol name; raises */
bool bind_try_symbol(Bind *b, const char *name, KitSymbol *out);
/* A metatable named `name`: methods are in __index unless the table has its own. */
void bind_class(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods);
int bind_enum(lua_State *L, int idx, const char *what,
              int (*find)(const char *name)); /* raises on unknown */

/* One opener per file. */
void bind_open_emu(lua_State *L);
void bind_open_hooks(lua_State *L);
void bind_open_event(lua_State *L);
void bind_open_fast(lua_State *L);
void bind_open_heap(lua_State *L);
void bind_open_regs(lua_State *L);
void bind_open_mem(lua_State *L);

KitPlane *bind_plane(lua_State *L, int idx); /* fast.c; raises if closed */

/* Methods of emu that live in other files. */
extern const luaL_Reg bind_hook_methods[], bind_fast_methods[], bind_heap_methods[],
    bind_code_methods[];
int bind_push_images(lua_State *L, Bind *b);
int bind_push_threads(lua_State *L, Bind *b, int emu_idx);
void bind_push_regs(lua_State *L, int emu_idx, int tid);
void bind_push_mem(lua_State *L, int emu_idx);
void bind_push_image(lua_State *L, const KitImage *image);

/* filter.c: reads the filter table at idx. Returns a symbol that is not loaded yet (the filter
 * needs it), or NULL. */
const char *bind_filter(lua_State *L, int idx, Bind *b, KitEventKind event, KitFilter *f);

extern const char *const bind_branch_names[]; /* event.c; by KitBranchKind */

/* event.c: a Lua object over a live event; bind_event_expire makes it useless. */
struct BindEvent {
  KitEvent *ev; /* NULL: expired */
  Bind *bind;
};
struct BindEvent *bind_push_event(lua_State *L, Bind *b, KitEvent *ev);
/* A plain table with the same fields, for events that outlive their callback. */
void bind_event_copy(lua_State *L, Bind *b, const KitEvent *ev);

#endif
