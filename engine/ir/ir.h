/* The intermediate representation: regions of typed micro-operations.
 *
 * A region is the unit of translation: one entry, up to a few blocks (internal loops included),
 * about a hundred guest instructions at most. It is one flat array of 16-byte operations, cut into
 * blocks:
 *
 *   guest rv64:  10078: addi a0,a0,1        region 10078
 *                1007a: bne  a0,a1,10078    block 0 (pc 10078, 2 insns)
 *                                            1  insn    10078
 *                                            2  get     a0
 *                                            3  imm     1
 *                                            4  add     %2, %3
 *                                            5  put     a0, %4
 *                                            6  insn    1007a
 *                                            7  get     a0
 *                                            8  get     a1
 *                                            9  ne      %7, %8
 *                                           10  br      %9 -> block 0, exit 1007c
 *
 * An operation's index names the value it makes (a reference); reference 0 is the region's leading
 * nop and means "no value". A value is defined once and lives inside its block only: between blocks
 * everything is in the guest state, which the JIT keeps in pinned host registers. Consequently
 * there are no phis.
 *
 * Rules that lifters keep and the checker checks:
 *  - each guest instruction starts with `insn`; all of its operations that may fault (LOAD, STORE,
 * trap_if) come before its first `put`, except that a later access of a multi-access instruction
 * may follow earlier ones (state stays re-executable);
 *  - operand types are as ops.def says (any integer type where I64 is asked: values are
 * zero-extended);
 *  - an F32 operand is known to be below 2^32 (by its type, or by and/or/xor of such values: sign
 * operations);
 *  - get and put name 64-bit slots of the state; pc is not one of them, and of IrState only fp_rm
 * and fp_flags may be put;
 *  - a value made behind a guard is used behind it only; `insn` and put are never guarded;
 *  - a block ends with exactly one TERM operation, at its end; its ways out are in block->succ;
 *  - instrumentation operations come from the instrumentation pass only.
 *
 * After the terminator left the region, state->pc is the next guest pc. Who makes regions:
 * core/translate.c, by guest->decode and guest->lift through IrBuilder; passes: ir_check,
 * ir_optimise, core_instrument, then ir_interp or the JIT's lowering.
 */
#ifndef IR_IR_H
#define IR_IR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "ir/state.h"

typedef uint16_t IrRef;

typedef enum IrType {
  IR_NONE,
  IR_I8,
  IR_I16,
  IR_I32,
  IR_I64,
  IR_F32,
  IR_F64,
  IR_V128,
  IR_V256,
  IR_RAW
} IrType;

enum {
  IR_PURE = 1,
  IR_STATE = 2,
  IR_LOADS = 4,
  IR_STORES = 8,
  IR_FPENV = 16,
  IR_SIDE = 32,
  IR_TERM = 64
};

typedef enum IrOpcode {
#define OP(name, result, a, b, c, flags, semantics) IR_##name,
#include "ir/ops.def"
  IR_OPCODES
} IrOpcode;

/*   15     8 7      0   16 bits  16 bits  16 bits        64 bits
 *  [ spare  |  code  ] [  a    ][   b   ][   c   ] [      imm       ]   */
typedef struct IrOp {
  uint8_t code; /* IrOpcode */
  uint8_t spare;
  IrRef a, b, c; /* values, or a small number where ops.def says RAW */
  uint64_t imm;
} IrOp;

/* What ops.def says of each opcode. */
typedef struct IrOpInfo {
  const char *name;
  uint8_t result, a, b, c; /* IrType */
  uint8_t flags;
  uint8_t size; /* bytes accessed by LOAD and STORE operations, else 0 */
} IrOpInfo;
extern const IrOpInfo ir_op_info[IR_OPCODES];

typedef enum IrBranch {
  IR_BR_NONE,
  IR_BR_JUMP,
  IR_BR_COND,
  IR_BR_CALL,
  IR_BR_RET,
  IR_BR_SYSCALL,
  IR_BR_TRAP
} IrBranch;

/* Why a trap leaves the region (trap's operand a). */
typedef enum IrTrap {
  IR_TRAP_SYSCALL,    /* execution goes on behind the instruction */
  IR_TRAP_BREAKPOINT, /* ebreak, int3: pc stays at the instruction, whatever next_pc says */
  IR_TRAP_ILLEGAL,    /* pc stays likewise */
  IR_TRAP_FENCE_I,    /* instruction fetch must see earlier stores: goes on behind it */
  IR_TRAP_NEXT,       /* region limit reached: plain exit to succ[0] */
} IrTrap;

/* Faults raised by trap_if (operand b). */
typedef enum IrFault { IR_FAULT_MISALIGNED, IR_FAULT_ILLEGAL, IR_FAULT_DENIED } IrFault;

typedef struct IrInsn {
  uint64_t pc;
  uint64_t target; /* of a direct branch, else 0 */
  uint8_t len;
  uint8_t branch; /* IrBranch */
  uint16_t id;    /* row of the guest's instruction table */
  uint16_t block;
  IrRef first_op; /* its `insn` operation (before instrumentation moved it; passes keep it right) */
} IrInsn;

typedef struct IrSucc {
  uint64_t pc;
  int32_t block;  /* index of a block of this region, or -1: leaves the region */
  IrRegion *link; /* chained region for an exit: valid while link_generation is the cache's */
  uint64_t link_generation;
  uint32_t site;       /* the JIT's exit, 0: none */
  uint16_t dead_flags; /* native: flags (ir/native.h) that nobody reads there */
} IrSucc;

struct IrBlock {
  uint64_t pc;
  uint32_t first, end; /* operations [first, end) */
  uint16_t first_insn, n_insns;
  uint8_t branch; /* IrBranch of the last instruction; IR_BR_NONE if the block was cut or falls into
                     the next */
  uint8_t n_succ;
  IrSucc succ[2];
  IrRegion *region;
};

struct IrRegion {
  uint64_t pc;
  IrOp *ops; /* with native operations: until the next region is begun */
  IrBlock *blocks;
  IrInsn *insns;
  uint32_t n_ops, n_blocks, n_insns;
  uint64_t low, high;  /* guest bytes [low, high) it was made from */
  struct IrCode *code; /* the interpreter's form of it, made when it is first executed (decode.h) */
  struct JitRegion *host; /* the JIT's form; NULL: none yet */
  void *cookie;           /* the cache's */
  Arena *arena;           /* owns all of the above */
};

/* How a region was left. */
typedef enum IrExitKind {
  IR_EXIT_NEXT,  /* to state->pc */
  IR_EXIT_TRAP,  /* detail: IrTrap */
  IR_EXIT_FAULT, /* detail: IrFault; address; state->pc is the faulting instruction, not retired */
  IR_EXIT_STOP,  /* stop_if_asked: state->pc is the next instruction to execute, possibly inside the
                    block */
  IR_EXIT_BUDGET,    /* budget ran out before the block at state->pc */
  IR_EXIT_INTERRUPT, /* state->interrupt seen; state->pc is next */
  IR_EXIT_SOFT, /* JIT: the block at state->pc is the interpreter's (a rounding mode that the host
                   has not) */
} IrExitKind;

typedef struct IrExit {
  IrExitKind kind;
  uint32_t detail;
  uint64_t address;
  const IrBlock *block; /* the block that was left; for FAULT and STOP needed to undo its counts */
  IrSucc *succ; /* for NEXT: where the caller may link the region at state->pc; NULL: nowhere */
} IrExit;

/* What regions are linked through: one per translation cache. Raising `generation` breaks every
 * link at once. `targets` finds the regions that indirect jumps lead to; it is filled as direct
 * links are: the interpreter leaves with succ pointing to an entry. */
#define IR_TARGETS 4096
typedef struct IrLinks {
  volatile uint64_t generation; /* begins at 1 */
  IrSucc targets[IR_TARGETS];
} IrLinks;

static inline IrSucc *ir_link_target(IrLinks *links, uint64_t pc) {
  return &links->targets[(pc >> 1 ^ pc >> 13) & (IR_TARGETS - 1)];
}

/* ---- builder.c: making a region
 * --------------------------------------------------------------------- */

typedef struct IrBuilder IrBuilder;
#define IR_MAX_OPS    8192 /* operations per region, instrumentation included; references must fit */
#define IR_MAX_BLOCKS 64
#define IR_MAX_INSNS  256

IrBuilder *ir_builder_new(void);
void ir_builder_free(IrBuilder *b);
/* Begins a region at pc. Its storage is a new arena, owned by the region that ir_builder_finish
 * returns; native operations, which nothing needs once they are translated, are the builder's until
 * the next region begins. */
void ir_builder_begin(IrBuilder *b, uint64_t pc);
void ir_builder_block(IrBuilder *b, uint64_t pc);
/* Begins an instruction of the current block: appends its IrInsn and its `insn` operation. */
void ir_builder_insn(IrBuilder *b, const IrInsn *insn);
/* Number of operations so far (to stop before IR_MAX_OPS). */
uint32_t ir_builder_ops(const IrBuilder *b);
/* Resolves succ[].block, computes low/high, returns the region. */
IrRegion *ir_builder_finish(IrBuilder *b);
void ir_region_free(IrRegion *r);

IrRef ir_emit(IrBuilder *b, IrOpcode code, IrRef x, IrRef y, IrRef z, uint64_t imm);
IrRef ir_imm(IrBuilder *b, uint64_t value);
/* Terminators; each ends the current block. */
void ir_br(IrBuilder *b, IrRef cond, uint64_t taken_pc, uint64_t next_pc);
void ir_jump(IrBuilder *b, uint64_t pc);
void ir_jump_ind(IrBuilder *b, IrRef target);
void ir_trap(IrBuilder *b, IrTrap trap, uint64_t next_pc);

/* ---- passes
 * ------------------------------------------------------------------------------------------ */

/* check.c: NULL if the region keeps the rules above, else a message (static buffer) naming
 * operation and rule. */
const char *ir_check(const IrRegion *r);
/* print.c: one operation a line. reg_name maps a state offset to a name (may return NULL); may
 * itself be NULL. */
void ir_print(FILE *f, const IrRegion *r, const char *(*reg_name)(uint64_t offset));
/* optimise.c, before instrumentation: constants, copies and redundant gets, dead pure operations
 * and dead puts (rule 7: never past an operation that may fault, stop or be observed). In place;
 * removed operations become nop and are squeezed out. */
void ir_optimise(IrRegion *r);
/* Evaluates a PURE operation: the folder's and the interpreter's shared semantics. */
uint64_t ir_eval_pure(IrOpcode code, uint64_t a, uint64_t b, uint64_t c, uint64_t imm);

/* interp.c: executes from the region's entry until it is left; follows valid links (link_generation
 * == generation) to other regions without returning, unless links is NULL. Guest faults arrive as
 * host signals: state->pc and state->block say where, and the caller has a sigsetjmp around this
 * call. */
IrExit ir_interp(IrRegion *r, IrState *s, IrLinks *links);

#endif
