/* Native operations: how a guest whose instructions the host can execute describes them to the JIT.
 * Made by guest/x64, consumed by jit/: they meet here and know nothing else of each other. Shaped
 * by the spike in doc/spike-native-op.md.
 *
 * An instruction is copied into the code cache as it is, unless `fix` names what has to change. The
 * rest says what the instrumentation pass and the allocation of scratch registers need: which
 * registers and flags it reads and writes, and its memory accesses. Example:
 *
 *   401136: add rax, [rip+0x2ee4]      {.bytes = 48 03 05 e4 2e 00 00, .len = 7, .modrm = 2,
 *                                       .disp = 3, .fix = IR_FIX_RIP, .target = 0x404020,
 *                                       .reads = 1 << 0, .writes = 1 << 0, .flags_written = all,
 *                                       .accesses = {{.base = -1, .index = -1, .size = 8,
 *                                                     .is_read = 1, .disp = 0x404020}}}
 *   becomes 48 03 04 25 20 40 40 00     add rax, [0x404020]
 *
 * Rules: reads, writes and flags are complete (hidden operands too). flags_read: whose value
 * matters, and those that may come through unchanged although they are in flags_written (a shift
 * by cl); flags_written: overwritten or undefined afterwards. An access's address is computed from
 * the registers as they are before the instruction. Registers go by the number that encodings use:
 * rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8 .. r15. */
#ifndef IR_NATIVE_H
#define IR_NATIVE_H

#include "ir/ir.h"

/* What must be changed in a copied instruction, or emitted in its place. */
typedef enum IrFix {
  IR_FIX_NONE,     /* copied */
  IR_FIX_RIP,      /* a rip-relative operand: it addresses `target` */
  IR_FIX_BRANCH,   /* conditional jump: bytes are its opcode's low nibble */
  IR_FIX_COUNTED,  /* jrcxz, loop: bytes (prefix and opcode) are copied, the displacement is ours */
  IR_FIX_CALL,     /* direct call: pushes the guest's return address, goes to `target` */
  IR_FIX_JUMP_IND, /* through a register or memory: modrm says which */
  IR_FIX_CALL_IND,
  IR_FIX_RETURN, /* ret, ret n: `pops` bytes in all */
} IrFix;

/* The six status flags and DF, by their bits in rflags. */
enum {
  IR_FLAG_CF = 1,
  IR_FLAG_PF = 1 << 2,
  IR_FLAG_AF = 1 << 4,
  IR_FLAG_ZF = 1 << 6,
  IR_FLAG_SF = 1 << 7,
  IR_FLAG_DF = 1 << 10,
  IR_FLAG_OF = 1 << 11,
  IR_FLAG_AC = 1 << 18,
  IR_FLAGS_STATUS = IR_FLAG_CF | IR_FLAG_PF | IR_FLAG_AF | IR_FLAG_ZF | IR_FLAG_SF | IR_FLAG_OF,
};

#define IR_NATIVE_MAX_LEN  15 /* Intel SDM vol. 2, 2.3.11 */
#define IR_NATIVE_ACCESSES 2

typedef struct IrAccess {
  int8_t base, index; /* registers, -1: none */
  uint8_t scale;      /* 1, 2, 4, 8 */
  bool is_read, is_write;
  bool address32;    /* the sum is cut to 32 bits (before the segment's base is added) */
  int16_t base_slot; /* state offset of a segment's base (fs:, gs:), 0: none */
  uint16_t size;     /* bytes */
  int64_t disp;
} IrAccess;

typedef struct IrNative IrNative;
struct IrNative {
  uint8_t bytes[IR_NATIVE_MAX_LEN];
  uint8_t len;
  uint8_t fix;         /* IrFix */
  uint8_t prefixes;    /* bytes before the first opcode byte: legacy and REX, or VEX/EVEX */
  uint8_t modrm, disp; /* offsets in bytes; 0: there is none */
  bool by_gs;          /* an operand goes by gs:; `bytes` say fs:, which has gs's base meanwhile */
  uint8_t n_accesses;
  uint8_t repeats; /* the rep prefix (0xf3, 0xf2), 0: none; accesses are one element's */
  uint8_t step;    /* of a string instruction: bytes of an element */
  bool locked;
  bool may_fault;                     /* its signal handler sees the flags */
  uint16_t pops;                      /* IR_FIX_RETURN */
  uint16_t reads, writes;             /* general registers, bit n for number n */
  uint16_t overwrites;                /* those of `writes` that are new for sure, and not read */
  uint16_t flags_read, flags_written; /* IR_FLAG_* */
  uint64_t target; /* of a direct branch; what a rip-relative operand addresses */
  IrAccess accesses[IR_NATIVE_ACCESSES];
  /* Gathers, scatters, masked moves: which elements are accessed depends on vector registers. The
   * n-th element's address, or IR_NO_ELEMENT; all state is up to date. accesses[0] has an
   * element's size and direction. NULL: accesses are as they are. */
  uint64_t (*element)(const IrState *s, const IrNative *native, unsigned n);
  uint8_t n_elements;
  uint8_t span;   /* bytes from accesses[0]'s address on in which all elements lie; 0: anywhere */
  uint8_t vector; /* number of the index register (gathers) or of the mask; `element`'s own */
  uint8_t mask, lane; /* `element`'s own */
};

#define IR_NO_ELEMENT (~0ull)

/* Vector and x87 state while no translated code runs. `legacy` is FXSAVE's image: its x87 part and
 * MXCSR are valid, its xmm part is not (v has them). */
typedef struct IrVectors {
  uint8_t v[32][64]; /* xmm, ymm, zmm are their beginnings */
  uint64_t k[8];
  uint8_t legacy[512];
} __attribute__((aligned(64))) IrVectors;
#define IR_LEGACY_MXCSR 24 /* offset in legacy */

/* Where the state of a guest of native operations has its registers (byte offsets). */
struct IrNativeState {
  uint16_t gpr; /* 16 of them */
  uint16_t flags, fs_base, gs_base, vectors;
};

/* vectors.c: the XSAVE image (standard format, Intel SDM vol. 1, 13.4) that signal frames have. */
/* Bytes of an image with the components that the host has and guests may see. */
size_t ir_xsave_size(void);
/* Those components (bits of XCR0): x87, SSE, AVX, AVX-512. */
uint64_t ir_xsave_features(void);
void ir_xsave_from(const IrVectors *v, uint8_t *image);
/* Components that the image's header does not have, or beyond size, become their initial values. */
void ir_xsave_to(IrVectors *v, const uint8_t *image, size_t size);
void ir_vectors_reset(IrVectors *v);
/* Bytes of the image in a signal frame that the host's kernel made (its sw_reserved part says). */
size_t ir_xsave_frame_size(const uint8_t *image);

/* builder.c: appended after the instruction's `insn`. The IrNative is copied. */
void ir_native(IrBuilder *b, const IrNative *n);
/* Block ends: IR_FIX_BRANCH and IR_FIX_COUNTED; the others. */
void ir_native_br(IrBuilder *b, const IrNative *n, uint64_t taken_pc, uint64_t next_pc);
void ir_native_jump(IrBuilder *b, const IrNative *n);

/* The lifter's own: the rest of the operations on an IrNative come from instrumentation. */
static inline bool ir_is_native(unsigned code) {
  return code == IR_native || code == IR_native_br || code == IR_native_jump;
}
static inline const IrNative *ir_native_of(const IrOp *op) {
  return (const IrNative *)(uintptr_t)op->imm;
}

#endif
