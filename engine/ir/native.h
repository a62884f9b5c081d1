/* Native operations: how a guest whose instructions the host can execute describes them to the JIT.
 * Made by guest/x64, consumed by jit/: they meet here and know nothing else of each other. Shaped
 * by the spike in doc/spike-native-op.md.
 *
 * An instruction is copied into the code cache as it is, unless `fix` names what has to change. The
 * rest says what the instrumentation pass and the scratch allocation need: which registers and
 * flags it reads and writes, and its memory accesses (IrAccess, ir.h). Example:
 *
 *   401136: add rax, [rip+0x2ee4]      {.bytes = 48 03 05 e4 2e 00 00, .len = 7, .modrm = 2, .disp
 * = 3, .fix = IR_FIX_RIP, .reads = 1 << RAX, .writes = 1 << RAX, .flags_written = all six,
 *                                       .accesses = {{.base = -1, .index = -1, .size = 8, .is_read
 * = 1, .disp = 0x404020}}} becomes 48 03 04 25 20 40 40 00    add rax, [0x404020]
 *
 * Rules: reads, writes and flags are complete (hidden operands too); flags_read are those whose
 * value matters, flags_written those that are overwritten or undefined afterwards; an access's
 * address is computed from the registers before the instruction. */
#ifndef IR_NATIVE_H
#define IR_NATIVE_H

#include "ir/ir.h"

/* What must be changed in a copied instruction, or emitted in its place. */
typedef enum IrFix {
  IR_FIX_NONE, /* copied */
  IR_FIX_RIP,  /* rip-relative operand: absolute disp32 if the target is below 2^31, else through a
                  scratch register */
  IR_FIX_JUMP, /* direct jump, conditional or not: a site */
  IR_FIX_COUNTED,  /* jrcxz, loop: short only; copied over a jump */
  IR_FIX_CALL,     /* direct call: pushes the guest's return address */
  IR_FIX_INDIRECT, /* jump or call through a register or memory: target into a scratch register,
                      then the probe */
  IR_FIX_RETURN,   /* ret, ret n: the same, target from the stack */
  IR_FIX_SYSCALL,  /* leaves to the dispatcher */
  IR_FIX_TRAP,     /* int3, ud2, hlt and other privileged ones: a guest fault at this pc */
  IR_FIX_FS_BASE,  /* rd/wr fs/gs base, and gs: operands: the guest's gs base is a slot of the state
                    */
  IR_FIX_CPUID,    /* cpuid, xgetbv, rdpid: what the guest is to see */
  IR_FIX_HELPER,   /* by a C function: the rest */
} IrFix;

/* The six status flags and DF, by their bits in rflags. */
enum {
  IR_FLAG_CF = 1,
  IR_FLAG_PF = 1 << 2,
  IR_FLAG_AF = 1 << 4,
  IR_FLAG_ZF = 1 << 6,
  IR_FLAG_SF = 1 << 7,
  IR_FLAG_DF = 1 << 10,
  IR_FLAG_OF = 1 << 11
};

#define IR_NATIVE_MAX_LEN 15 /* Intel SDM vol. 2, 2.3.11 */
#define IR_NATIVE_ACCESSES                                                                         \
  2 /* more (gathers, fxsave) are described by `repeats` or left to the helper */

typedef struct IrNative {
  uint8_t bytes[IR_NATIVE_MAX_LEN];
  uint8_t len;
  uint8_t fix;              /* IrFix */
  uint8_t modrm, disp, imm; /* offsets in bytes; 0: there is none */
  uint8_t n_accesses;
  bool repeats; /* rep prefix: accesses are one element's, direction by DF */
  bool locked;
  uint16_t reads, writes;             /* general registers, by number */
  uint32_t vec_reads, vec_writes;     /* vector registers likewise */
  uint16_t flags_read, flags_written; /* IR_FLAG_* */
  IrAccess accesses[IR_NATIVE_ACCESSES];
  uint64_t target; /* of a direct branch; what a rip-relative operand addresses */
} IrNative;

#endif
