/* What translated code shares with the rest of the engine: the guest CPU state and the records that
 * instrumentation operations name.
 *
 * A guest's state is one struct per guest thread that begins with IrState and goes on with the
 * guest's registers (guest/rv64/rv64.h: Rv64State). Operations reach it by byte offset: the
 * interpreter through its IrState pointer, the JIT through gs:. It lies in an anonymous mapping of
 * IR_STATE_WINDOW bytes, whose last part holds the thread's counters, so that `count` is one
 * addition to gs:[disp32] and never moves:
 *
 *   +0                 IrState, guest registers
 *   +IR_SCRATCH_AT      values of the block that is being executed: 8 bytes each, so that an
 *                       operand of the interpreter is one slot number, be it a guest register or a
 *                       value; means nothing between blocks
 *   +IR_TARGETS_AT      IrTarget targets[]: where indirect branches have led to (JIT)
 *   +IR_COUNTERS_AT     uint64_t counters[]; offset 0 of this area is the retired-instruction count
 *   +IR_STATE_WINDOW    end (reserved without commit: only touched counters cost memory)
 */
#ifndef IR_STATE_H
#define IR_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IR_SCRATCH_AT                                                                              \
  0x4000 /* byte offset of the value slots from the state; the state proper ends below it */
#define IR_TARGETS_AT 0x15000 /* byte offset of the thread's table of indirect targets */
#define IR_N_TARGETS  4096    /* its entries */
#define IR_NOT_ENTRY_AT                                                                            \
  0x25000 /* byte offset of a table of jump targets that are no function's entry */
#define IR_NOT_ENTRIES  4096         /* its entries, one pc each */
#define IR_COUNTERS_AT  0x2d000      /* byte offset of the counter area */
#define IR_STATE_WINDOW (1ull << 30) /* bytes reserved per thread */
/* Byte offset of the tables of indirect targets of native operations, which end the window and
 * bound the counters: 2^16 entries of a code address by the low 16 bits of the pc, and behind it
 * 2^16 IrTargets by a hash of it. */
#define IR_NATIVE_TARGETS_AT (IR_STATE_WINDOW - (24ull << 16))
#define IR_NATIVE_HASHED_AT  (IR_STATE_WINDOW - (16ull << 16))

typedef struct IrState IrState;
typedef struct IrRegion IrRegion;
typedef struct IrBlock IrBlock;
typedef struct IrCallStack IrCallStack;

struct IrState {
  uint64_t pc; /* guest pc: of the next instruction outside of regions; inside, of the current one
                * wherever somebody may look (an access, a helper, a callout), else possibly of an
                * earlier one */
  uint64_t host_fs; /* the host thread's fs base, for handlers of signals (IR_HOST_FS_AT) */
  volatile uint32_t interrupt; /* non-zero: leave at the next region exit or back-edge (signals,
                                  baton, requests) */
  volatile uint32_t stop;      /* non-zero: a hook asked to stop; tested by stop_if_asked */
  int64_t
      budget; /* instructions left before the budget operation leaves (scheduler, stop counts) */
  uint64_t fp_rm;         /* dynamic rounding mode, RISC-V numbering */
  uint64_t fp_flags;      /* accrued exception flags, RISC-V bits */
  const IrBlock *block;   /* the block being executed (interpreter): where a fault happened */
  IrCallStack *callstack; /* shadow call stack of this thread, NULL if nobody asked */
  void *thread;           /* owner: CoreThread */
  uint64_t tid;           /* guest thread id, for filters */
  struct {                /* the JIT's own: jit/ says what they are for */
    void *self;           /* this state's address */
    uint64_t args[3], result, saved[4], fault_address;
    uint64_t host_sp;
    void *entering; /* JitRegion about to be entered */
    uint32_t guest_mxcsr, host_mxcsr, seen_mxcsr;
    uint64_t vectors[16];
    uint8_t flags[64]; /* MXCSR's exception flags as fp_flags has them */
    uint64_t consts[16] __attribute__((aligned(16)));
    /* Of native operations: the code to enter, the site that was left by, status flags as lahf and
     * seto give them, rcx before a repeated instruction. */
    const void *code;
    uint64_t site, status, repeat_from;
  } jit;
};

#define IR_HOST_FS_AT 8 /* offset of host_fs: for assembly */
_Static_assert(offsetof(IrState, host_fs) == IR_HOST_FS_AT, "assembly reaches it by number");

/* The host code of the region at pc; pc is odd (no instruction's) where there is none (lifted guests). */
typedef struct IrTarget {
  uint64_t pc;
  const void *code;
} IrTarget;

/* The register convention of a guest's lifted code: which state slots (byte offsets, the most used
 * first) live in host registers from region to region, and where the floating-point registers are.
 * 0: none. */
#define IR_INT_PINS 11
#define IR_FP_PINS  12
typedef struct IrNativeState IrNativeState;
typedef struct IrConvention {
  const IrNativeState
      *native; /* native operations (ir/native.h): registers are in place; NULL: lifted */
  uint16_t int_pins[IR_INT_PINS], fp_pins[IR_FP_PINS];
  uint16_t fp_first, fp_count;
} IrConvention;

/* A counter of the thread, by byte offset in the counter area. The first IR_RETIRED slots add up to
 * the retired-instruction count: blocks take turns in adding to them, as an addition to memory that
 * waits for the one before takes longer than most blocks. */
#define IR_RETIRED 4
static inline uint64_t *ir_counter(IrState *s, uint64_t offset) {
  return (uint64_t *)((char *)s + IR_COUNTERS_AT + offset);
}

static inline uint64_t ir_retired(const IrState *s) {
  const uint64_t *n = (const uint64_t *)(const void *)((const char *)s + IR_COUNTERS_AT);
  return n[0] + n[1] + n[2] + n[3];
}

/* Where a jump target is noted that is known not to be a function's entry: jumps there are no tail
 * calls. */
static inline uint64_t *ir_not_entry(IrState *s, uint64_t pc) {
  return (uint64_t *)((char *)s + IR_NOT_ENTRY_AT) + (pc >> 1 & (IR_NOT_ENTRIES - 1));
}

/* A rare instruction's C implementation; `name` is what the printer shows. */
typedef struct IrHelper {
  const char *name;
  uint64_t (*fn)(IrState *s, uint64_t a, uint64_t b);
} IrHelper;

/* A call from translated code to whoever observes. The result is non-zero for DENY where the event
 * can be denied (the pass emits a trap_if on it), else ignored. `pc` is the observed instruction's
 * (or block's). */
typedef struct IrCallout IrCallout;
struct IrCallout {
  uint64_t (*fn)(IrState *s, const IrCallout *site, uint64_t a, uint64_t b, uint32_t size);
  uint64_t pc;
  uint32_t aux;  /* event-specific: instruction count of a block, branch kind, ... */
  uint32_t kind; /* event kind, for the printer and the owner */
  void *owner;   /* the hook */
  bool
      light; /* stands for a call that the guest makes: what its ABI lets a callee change may change */
};

/* `nth` gives 1 when `left` reaches 0, which then starts again from `every`. Begin with left =
 * every. */
typedef struct IrNth {
  uint64_t every, left;
} IrNth;

/* A ring of fixed-size records. `flush` is called when it is full; afterwards `next` has room for
 * one record. */
typedef struct IrRing IrRing;
struct IrRing {
  char *next, *end;
  uint32_t record_size; /* bytes, a multiple of 8 */
  void (*flush)(IrRing *ring, IrState *s);
  void *owner;
};

/* A shadow plane of 1 or 2 bits per guest byte as a flat window: the bits of guest byte va are in
 * host byte window[va >> shift] (shift 3 for one bit, 2 for two), lowest address in the lowest
 * bits. Zero = unmarked. */
typedef struct IrPlane {
  uint8_t *window;
  uint32_t shift;
  uint32_t bits;
  uint64_t limit; /* no byte at or above this guest address is marked or looked up; 0: no limit */
} IrPlane;

/* An indirect branch whose targets are counted: the last target's count is at hand, others are
 * looked up by `miss`, which returns the counter to increase and sets last/counter. */
typedef struct IrEdgeSite IrEdgeSite;
struct IrEdgeSite {
  uint64_t last;
  uint64_t *counter;
  uint64_t *(*miss)(IrEdgeSite *site, IrState *s, uint64_t target);
  uint64_t pc;
  void *owner;
};

/* A static call or jump site, for the call stack. */
typedef struct IrCallSite {
  uint64_t pc;     /* of the call instruction */
  uint64_t ret_pc; /* where the callee returns to */
  void *owner;     /* the call graph */
  /* The last call from here: in which node's context, and the node it entered (callstack.c). They
   * are some thread's: a call stack that is freed takes the translations with it. */
  const void *parent;
  void *link;
} IrCallSite;

#endif
