/* Shadow call stack and calling-context tree of one guest thread, executed by cs_call, cs_ret and
 * cs_jump.
 *
 * The tree's nodes are calling contexts: a callee, reached from a call site, in the context of the
 * parent node.
 *
 *   main:  f(); g();         root  calls 1  self 2     callee _start
 *   f, g:  h()                 main           self 10
 *                                f            self 3     call site main+4
 *                                  h          self 20
 *                                g            self 3     call site main+8
 *                                  h          self 20    another node: another context
 *
 * Costs are retired instructions, exactly (the count in slot 0 of the thread's counters must be on:
 * it is complete at calls and returns, which end their blocks). The only cost kept as the program
 * runs is `total`, what was retired in a node's activations, from push to pop; `self` is a node's
 * total less its children's, worked out when somebody reads. `inclusive` counts outermost
 * activations only, so recursion is counted once; every function has its own inclusive count by the
 * same rule (IrCallFunction), since adding up nodes would count some of it twice. The JIT has the
 * common call and return in host code (jit/code.c): it relies on the layout of IrCallFrame,
 * IrCallNode and the first members of IrCallStack.
 *
 * Recursion. A function that is on the path `fold` times already gets no deeper nodes: the call
 * becomes a *folded link*, a child node without self cost or children whose `fold` is the nearest
 * node of that function up the path; execution goes on in that node. The link still has its own
 * calls and inclusive cost, so call edges stay exact. (Without this, fib(40) has 300 million
 * contexts.) When the tree is very large (IR_CALLSTACK_LARGE nodes), the limit falls to 1. Frames
 * are never folded: the stack has real depth.
 *
 * Unwinding. A frame is known by its return address and the stack pointer at the call, which is
 * what it is after the return. A return that fits the top frame pops it, and the tail-called frames
 * above it. Any other return is longjmp, an exception or a coroutine switch: if a frame further
 * down fits, all above it and itself are popped; if none does but the top frame's return address is
 * right, it is popped; else all frames whose stack pointer is at or below the new one: control is
 * now in the code that made those calls. A call pops frames that lie below its stack pointer.
 *
 * Tail calls. A jump to another function's entry pushes a frame that shares the return of the one
 * below. A chain of tail calls that comes back to a context in it continues there, so that state
 * machines made of tail calls run in bounded memory.
 *
 * Signals. A handler runs in a context of its own: its node is a child of the root, its cost is not
 * part of the interrupted functions' inclusive cost. It ends by sigreturn, or when the stack
 * pointer leaves the range in which the handler must be (siglongjmp).
 */
#ifndef IR_CALLSTACK_H
#define IR_CALLSTACK_H

#include "base/map.h"
#include "base/vec.h"
#include "ir/state.h"

#define IR_CALLSTACK_FOLD  3          /* default of IrCallConfig.fold */
#define IR_CALLSTACK_LARGE (1u << 18) /* nodes */

typedef struct IrCallNode IrCallNode;

typedef enum IrCallKind { IR_CALL_ROOT, IR_CALL_CALL, IR_CALL_TAIL, IR_CALL_SIGNAL } IrCallKind;

typedef struct IrCallFunction {
  uint64_t pc;        /* entry */
  uint64_t inclusive; /* outermost activations, whatever their context */
  uint8_t active;     /* it is on the stack of the current signal context */
} IrCallFunction;

struct IrCallNode {
  uint32_t id;     /* index in IrCallStack.nodes */
  uint16_t level;  /* how often its function is on the path, itself included */
  uint8_t kind;    /* IrCallKind: how it was entered first */
  uint8_t active;  /* as in IrCallFunction */
  uint64_t callee; /* entry address */
  uint64_t site;   /* pc of the call or jump instruction in the parent; 0: root, signal */
  IrCallNode *parent, *children, *next; /* next sibling */
  IrCallNode *fold;                     /* a folded link: the node that stands for it; else NULL */
  IrCallNode *node;                     /* fold, or itself: where execution goes on */
  IrCallNode *last;                     /* the child entered last; never NULL */
  IrCallFunction *function;
  uint64_t calls, total, inclusive;
  uint64_t self; /* right after ir_callstack_sync */
};

typedef struct IrCallFrame {
  IrCallNode *link; /* as entered: possibly a folded link */
  IrCallNode *node; /* link->node */
  uint64_t sp, ret_pc;
  uint64_t start; /* retired count at entry, or at the last ir_callstack_sync; without what signal
                     handlers retired since */
  uint8_t tail;   /* shares the return of the frame below */
  uint8_t inner_link, inner_function; /* not the outermost activation: it was active already */
} IrCallFrame;

typedef struct IrCallSignal { /* a handler that has not returned */
  size_t frame;               /* index of its frame */
  uint64_t low, high;         /* its stack pointer stays in [low, high) */
  uint64_t clock;             /* at entry */
} IrCallSignal;

typedef struct IrCallConfig {
  uint32_t fold;                              /* levels of one function on a path; 0: default */
  bool (*is_entry)(void *owner, uint64_t pc); /* pc is a function's entry (asked once for each jump
                                                 target); NULL: no tail calls */
  void *owner;
} IrCallConfig;

struct IrCallStack {
  IrCallFrame *top;        /* the current frame; base[0] is the root's */
  IrCallFrame *base, *end; /* there is room for a frame behind top as long as top < end */
  VEC(IrCallSignal) signals;
  IrCallConfig config;
  IrCallNode *root;
  VEC(IrCallNode *) nodes; /* parents before children; nodes[0] is the root */
  VEC(IrCallFunction *) functions;
  Arena *arena;
  IrCallNode **table; /* (parent, site, callee) -> node */
  size_t table_size;
  Map by_pc, entries; /* pc -> IrCallFunction; jump target -> 1 no, 2 yes */
};

/* A new stack whose root is the function (or code) at `entry`. The caller puts it into
 * state->callstack. To merge stacks into: s and config NULL. */
IrCallStack *ir_callstack_new(const IrState *s, uint64_t entry, const IrCallConfig *config);
void ir_callstack_free(IrCallStack *cs);
/* Makes all costs right as of now, with the thread between two instructions. Call it before reading
 * the tree. */
void ir_callstack_sync(IrCallStack *cs, const IrState *s);
/* Costs and calls become 0; the stack stays. */
void ir_callstack_zero(IrCallStack *cs, const IrState *s);
/* Adds `from` (synced) to `into`, whose root stands above all threads: from's root becomes (or is
 * added to) a child of it. */
void ir_callstack_merge(IrCallStack *into, const IrCallStack *from);
/* The node that executes now. */
IrCallNode *ir_callstack_top(const IrCallStack *cs);

/* Makes room behind top. */
void ir_callstack_room(IrCallStack *cs);

/* The instrumentation operations. */
void ir_callstack_call(IrCallStack *cs, IrState *s, IrCallSite *site, uint64_t callee, uint64_t sp);
void ir_callstack_ret(IrCallStack *cs, IrState *s, uint64_t ret_pc, uint64_t sp);
void ir_callstack_jump(IrCallStack *cs, IrState *s, IrCallSite *site, uint64_t target, uint64_t sp);
/* The same for translated code that has saved only what a function of general registers alone may
 * change; state->callstack is there. 0: not done, as that needs more: do the operation above (what
 * was done already is not done twice). The signature is JitFn's (jit/code.h). */
uint64_t ir_callstack_quick_call(IrState *s, uint64_t site, uint64_t callee, uint64_t sp,
                                 uint64_t unused);
uint64_t ir_callstack_quick_ret(IrState *s, uint64_t site, uint64_t ret_pc, uint64_t sp,
                                uint64_t unused);
uint64_t ir_callstack_quick_jump(IrState *s, uint64_t site, uint64_t target, uint64_t sp,
                                 uint64_t unused);
/* A signal handler is entered, its frame built. Its stack pointer will be in [low, high): from 0 or
 * the alternate stack's start, to the interrupted stack pointer or the alternate stack's end if it
 * was switched to. */
void ir_callstack_enter_signal(IrCallStack *cs, IrState *s, uint64_t handler, uint64_t low,
                               uint64_t high);
/* sigreturn. */
void ir_callstack_leave_signal(IrCallStack *cs, IrState *s);

#endif
