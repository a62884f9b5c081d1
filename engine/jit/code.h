/* Private to jit/: the code memory, sites and stubs (code.c), the lowering (lower*.c). */
#ifndef JIT_CODE_H
#define JIT_CODE_H

#include "base/vec.h"
#include "ir/native.h"
#include "ir/place.h"
#include "jit/jit.h"
#include "jit/x64.h"

/* A place where a fault may happen, or somebody asks for the guest pc. */
typedef struct JitPoint {
  uint32_t offset; /* of the host instruction after the operation began, from the region's start */
  uint16_t insn;
  uint16_t block;
  uint32_t resume;  /* a fault here means nothing: go on at this offset; 0: it is the guest's */
  uint16_t lost;    /* native: guest registers that are in the state, not in their own */
  bool flags_saved; /* likewise the status flags */
} JitPoint;

typedef struct JitRegion {
  IrRegion *region;
  uint8_t *start; /* executable; native: where indirect branches enter */
  uint8_t *entry;
  uint8_t *gone;      /* the stub where the entry leads once the region is dead */
  uint32_t size, hot; /* bytes; hot: without what is put aside */
  uint32_t first_site, n_sites, n_points;
  JitPoint *points;
  bool broken, dead;
} JitRegion;

typedef struct JitSite {
  uint8_t *jump; /* its rel32 (executable address); NULL: a stub only */
  uint8_t *stub;
  uint8_t *target; /* where it should lead now */
  JitRegion *from; /* NULL: it outlives its region, or has none */
  IrSucc *succ;    /* IR_EXIT_NEXT: where it leads */
  uint64_t pc;     /* of the guest, when it is left there; unless the stub stores it */
  uint32_t detail;
  uint16_t block;
  uint8_t kind; /* IrExitKind */
  uint8_t pc_in_state;
} JitSite;

enum { JIT_SITE_INDIRECT, JIT_FIRST_SITE };

#define JIT_CONSTANTS 8

struct Jit {
  IrConvention pins;
  const IrNativeState *native; /* of a guest of native operations, else NULL */
  unsigned vector_width;       /* bytes of the host's vector registers */
  bool count_retired; /* the last integer pin holds the retired-instruction count instead */
  uint8_t pin_of[IR_STATE_SLOTS]; /* state slot -> host register (16 and up: xmm), X64_NONE */
  bool bmi, fma, lzcnt, restart;
  bool exact;                           /* native: flags at every fault as the guest has them */
  uint8_t *rx, *rw, *fork_rx, *fork_rw; /* fork_: the child's, while there is a fork */
  size_t size, used, first_free;
  uint64_t *constants; /* JIT_CONSTANTS, in the code memory (writable address) */
  unsigned n_constants;
  /* Stubs, executable addresses. native_indirect: what an indirect branch does that finds
   * another region than its target's; from native_checked on it has seen that nobody interrupts. */
  uint8_t *native_indirect, *native_checked, *native_missed;
  uint8_t *enter, *enter_end, *leave, *call_full, *call_keep, *call_light, *cs_call, *cs_ret,
      *cs_jump, *calls_end, *indirect, *indirect_even;

  VEC(JitSite) sites;
  VEC(JitRegion *) regions; /* in code order */
  VEC(JitRegion *) broken;
  IrPlace *place;
  struct Lower *lower;
};

/* Where translated code finds the value by rip; NULL: there is no room for it. */
const uint8_t *jit_constant(Jit *j, uint64_t value);

static inline uint8_t *jit_rw(const Jit *j, const uint8_t *rx) { return j->rw + (rx - j->rx); }

extern const uint8_t jit_int_pin[IR_INT_PINS], jit_fp_pin[IR_FP_PINS]; /* host registers */

/* A function that operations call: see call_full and call_keep in code.c. */
typedef uint64_t JitFn(IrState *s, uint64_t imm, uint64_t a, uint64_t b, uint64_t c);
/* fns.c: an operation's semantics as a function (NULL: it has none), and the hand-written ones. */
extern JitFn *const jit_fns[IR_OPCODES];
JitFn jit_callstack_room;

/* code.c, for native.c */
uint8_t *jit_rx_of(const Jit *j, const X64 *x);
void jit_jump_to(Jit *j, X64 *x, const uint8_t *rx);
void jit_move_pins(Jit *j, X64 *x, bool to_state);
void jit_move_retired(Jit *j, X64 *x, bool to_state);
void jit_load_args(X64 *x);
void jit_call_c(X64 *x, const void *fn);
void jit_was_interrupted(Jit *j, X64 *x, int32_t back_at);

/* native.c: the ways in and out of native operations */
void jit_native_enter(Jit *j, X64 *x);
void jit_native_leave(Jit *j, X64 *x);
void jit_native_call(Jit *j, X64 *x);
void jit_native_branches(Jit *j, X64 *x);
void jit_native_open(Jit *j);
void jit_native_before(const Jit *j, IrState *s);
void jit_native_fault(const Jit *j, IrState *s, const JitPoint *point, const void *ucontext);
void jit_native_forget_targets(const Jit *j, IrState *s, bool all);
void jit_native_target(IrState *s, const JitRegion *r);
/* Restores status flags from the state; rax is lost. */
void jit_native_load_flags(X64 *x);
void jit_native_save_flags(X64 *x); /* likewise */

/* lower.c: emits r at the end of the code; false: no room. */
bool jit_lower(Jit *j, JitRegion *jr);
struct Lower *jit_lower_new(Jit *j);
void jit_lower_free(struct Lower *l);

/* Constants in the state, for vector operands: indices in IrState.jit.consts, each repeated in both
 * halves. */
#define JIT_MXCSR_FLAGS 0x3f
#define JIT_RETIRED     R15 /* the register of the last integer pin */

enum { JIT_C_SIGN64, JIT_C_SIGN32 = 2, JIT_C_BOX = 4, JIT_C_NAN64 = 6, JIT_C_NAN32 = 8 };

#endif
