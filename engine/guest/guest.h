/* struct Guest: all that the rest of the engine knows of an architecture, as data and a few
 * functions.
 *
 * One constant per guest, made in guest/<arch>/guest.c (`rv64_guest`), listed in guest/registry.c.
 * core/, os/ and debug/ go through it and never test which guest it is; what they need to know is a
 * member here. Example, reading a system call:
 *
 *   uint64_t nr = guest_reg(g, state, g->abi.syscall_nr);
 *   uint64_t a0 = guest_reg(g, state, g->abi.syscall_args[0]);
 */
#ifndef GUEST_GUEST_H
#define GUEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/ir.h"

/* A decoded instruction. `id` is its row in the guest's table; `priv` is the guest's own
 * (operands). */
typedef struct GuestInsn {
  uint64_t pc;
  uint64_t target; /* of a direct branch, else 0 */
  uint16_t id;
  uint8_t len;    /* bytes */
  uint8_t branch; /* IrBranch */
  uint32_t raw;   /* the encoding, if it fits (compressed ones in the low 16 bits) */
  uint64_t priv[5];
} GuestInsn;

typedef enum GuestDecode {
  GUEST_DECODE_OK,
  GUEST_DECODE_ILLEGAL,   /* len is what to skip in a listing */
  GUEST_DECODE_TRUNCATED, /* needs more bytes than were given */
} GuestDecode;

typedef enum GuestRegClass {
  GUEST_REG_INT,
  GUEST_REG_FP,
  GUEST_REG_VEC,
  GUEST_REG_CTRL
} GuestRegClass;

typedef struct GuestReg {
  const char *name;  /* ABI name: "a0" */
  const char *alias; /* "x10", or NULL */
  uint16_t offset;   /* in the state */
  uint8_t size;      /* bytes */
  uint8_t cls;       /* GuestRegClass */
  int16_t dwarf;     /* DWARF register number, -1: none */
} GuestReg;

typedef struct GuestAbi {
  /* Register numbers (indices in regs); -1 where the architecture has none. */
  int16_t sp, ra, fp, tp;
  int16_t args[8]; /* integer arguments of a function call */
  int n_args;
  int16_t ret; /* integer return value */
  int16_t syscall_nr, syscall_args[6], syscall_ret;
  uint32_t stack_align;      /* bytes, at function entry */
  uint32_t red_zone;         /* bytes below the stack pointer that are the function's */
  uint8_t syscall_insn_size; /* bytes */
} GuestAbi;

/* What a signal frame needs to know; os/signal.c fills it. */
typedef struct GuestSignal {
  int signo;
  uint8_t siginfo[128];                    /* kernel layout */
  uint64_t handler, restorer, flags, mask; /* of the sigaction; mask = blocked set to restore */
  uint64_t altstack_sp, altstack_size;     /* sigaltstack as set by the guest */
  uint32_t altstack_flags;
  bool on_altstack;    /* switch to it */
  uint64_t trampoline; /* guest address of code that calls rt_sigreturn: where no restorer is */
  uint64_t trap_no, error_code; /* of a CPU fault (x86: vector and error code), else 0 */
  uint64_t fault_address;       /* of a page fault, else 0 */
} GuestSignal;

/* Guest memory access for code below core/: returns false (and does nothing) on a bad range. */
typedef struct GuestMem {
  void *ctx;
  bool (*read)(void *ctx, uint64_t va, void *buf, size_t n);
  bool (*write)(void *ctx, uint64_t va, const void *buf, size_t n);
} GuestMem;

/* How programs make client requests (valgrind.h): bytes, of which the last `trigger` are the
 * instruction that is one; registers with the address of the arguments and with the result. */
typedef struct GuestRequest {
  const uint8_t *code; /* NULL: they cannot */
  uint8_t size, trigger;
  int16_t args, result;
} GuestRequest;

typedef struct Guest {
  const char *name;           /* "riscv64", as emu.arch shows it */
  uint16_t elf_machine;       /* EM_* */
  uint8_t elf_class;          /* ELFCLASS64 */
  uint8_t min_insn, max_insn; /* bytes */
  const char *pc_name;        /* what the manuals call the pc, as another name for it; NULL: pc */
  const char *sysroot;        /* Debian's cross sysroot */
  const char *platform;       /* AT_PLATFORM, or NULL */
  uint64_t hwcap;             /* AT_HWCAP */
  const char *uname_machine;
  bool generic_syscalls; /* Linux's generic ABI (riscv64, aarch64); else x86-64's */
  size_t state_size;     /* bytes, IrState included */
  const GuestReg *regs;
  uint32_t n_regs;
  GuestAbi abi;
  const uint8_t *sigreturn_code; /* instructions that call rt_sigreturn, for the trampoline */
  size_t sigreturn_code_size;
  const uint8_t *return_code; /* an instruction that returns to the caller; max_insn bytes */
  GuestRequest request;
  IrConvention convention; /* what lives in host registers in lifted code */
  uint32_t n_ids;          /* rows of the instruction table */
  bool coherent_code;      /* a store changes code at once (x86); else only a fence makes it seen */
  bool breakpoint_behind;  /* a breakpoint trap leaves the pc behind the instruction */

  GuestDecode (*decode)(const uint8_t *code, size_t avail, uint64_t pc, GuestInsn *out);
  /* Appends the instruction's operations after its `insn`; a branch, trap or syscall ends the
   * block. */
  void (*lift)(IrBuilder *b, const GuestInsn *insn);
  /* Text as objdump prints it, without address and symbols: "add\ta0,a0,1". Returns its length,
   * like snprintf. */
  int (*disasm)(const GuestInsn *insn, char *buf, size_t size);
  const char *(*insn_name)(uint16_t id);
  void (*reset)(IrState *s); /* state at process start (after zeroing) */
  /* The child's view after clone; registers are copied already. */
  void (*clone_thread)(IrState *child, uint64_t sp, uint64_t tls);
  /* Builds a signal frame and points the state at the handler; false: the stack cannot
   * be written. */
  bool (*signal_push)(IrState *s, const GuestSignal *sig, const GuestMem *mem);
  /* Undoes it; gives back the blocked mask and the sigaltstack. false: bad frame (the guest gets
   * SIGSEGV). */
  bool (*signal_pop)(IrState *s, GuestSignal *out, const GuestMem *mem);
  /* What the system call instruction itself does to registers (x86-64: rcx, r11), pc being behind
   * it; NULL: nothing. */
  void (*enter_syscall)(IrState *s);
  /* The CPU model that the program is to see ("x86-64-v2"); false: there is no such. NULL: no choice.
   */
  bool (*set_cpu)(IrState *s, const char *model);
  /* Does the program see this feature of the host's /proc/cpuinfo ("avx2")? NULL: cpuinfo is not the
   * host's. */
  bool (*shows_feature)(const IrState *s, const char *name);
  /* Flags that are dead at pc, as the code there (`avail` bytes) overwrites them before it reads
   * them: IR_FLAG_* (ir/native.h). NULL: not a guest of native operations. */
  uint16_t (*dead_flags)(const uint8_t *code, size_t avail, uint64_t pc);
} Guest;

static inline uint64_t guest_reg(const Guest *g, const IrState *s, int reg) {
  return *(const uint64_t *)((const char *)s + g->regs[reg].offset);
}
static inline void guest_set_reg(const Guest *g, IrState *s, int reg, uint64_t value) {
  *(uint64_t *)((char *)s + g->regs[reg].offset) = value;
}

/* registry.c */
const Guest *guest_for_machine(uint16_t elf_machine); /* NULL: not supported */
const Guest *const *guest_all(void);                  /* NULL-terminated */
/* Number of the register called name (or alias); -1. "pc" is not in the table. */
int guest_find_reg(const Guest *g, const char *name);

#endif
