/* The x86-64 guest as struct Guest. */
#include <elf.h>

#include "guest/x64/x64.h"

#define GPR(n)    offsetof(X64State, gpr[n])
#define VECTOR(n) (offsetof(X64State, vectors) + offsetof(IrVectors, v[n]))

/* DWARF numbers: System V ABI, AMD64 supplement, figure 3.36. The first 16 go by the number that
 * encodings use. */
static const GuestReg regs[] = {
#define REG(name, alias, offset, size, cls, dwarf)                                                 \
  {name, alias, (uint16_t)(offset), size, GUEST_REG_##cls, dwarf},
#include "guest/x64/regs.def"
};
enum { FS_BASE = 17 };

static void reset(IrState *st) {
  X64State *s = (X64State *)st;
  s->rflags = 0x202; /* IF and the bit that is always set */
  ir_vectors_reset(&s->vectors);
}

static void clone_thread(IrState *child, uint64_t sp, uint64_t tls) {
  X64State *s = (X64State *)child;
  s->gpr[0] = 0; /* clone's result */
  if (sp) s->gpr[4] = sp;
  if (tls) s->fs_base = tls;
}

/* rcx and r11 are what `syscall` leaves in them. */
static void enter_syscall(IrState *st) {
  X64State *s = (X64State *)st;
  s->gpr[1] = st->pc;
  s->gpr[11] = s->rflags;
}

/* mov eax, 15 (rt_sigreturn); syscall */
/* rol $3, $13, $61, $51, %rdi; xchg %rbx, %rbx */
static const uint8_t request_code[] = {0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7, 0x0d, 0x48, 0xc1,
                                       0xc7, 0x3d, 0x48, 0xc1, 0xc7, 0x33, 0x48, 0x87, 0xdb};
static const uint8_t return_code[IR_NATIVE_MAX_LEN] = {0xc3};
static const uint8_t sigreturn_code[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

static const IrNativeState native = {.gpr = GPR(0),
                                     .flags = offsetof(X64State, rflags),
                                     .fs_base = offsetof(X64State, fs_base),
                                     .gs_base = offsetof(X64State, gs_base),
                                     .vectors = offsetof(X64State, vectors)};

const Guest x64_guest = {
    /* In the order of the JIT's pinned registers, which they are. */
    .convention = {.native = &native,
                   .int_pins = {GPR(3), GPR(5), GPR(7), GPR(8), GPR(9), GPR(10), GPR(11), GPR(12),
                                GPR(13), GPR(14), GPR(15)}},
    .name = "x86-64",
    .elf_machine = EM_X86_64,
    .elf_class = ELFCLASS64,
    .min_insn = 1,
    .max_insn = IR_NATIVE_MAX_LEN,
    .pc_name = "rip",
    .sysroot = "/",
    .platform = "x86_64",
    .uname_machine = "x86_64",
    .state_size = sizeof(X64State),
    .regs = regs,
    .n_regs = sizeof regs / sizeof *regs,
    .abi = {.sp = 4,
            .ra = -1,
            .fp = 5,
            .tp = FS_BASE,
            .args = {7, 6, 2, 1, 8, 9},
            .n_args = 6,
            .ret = 0,
            .syscall_nr = 0,
            .syscall_args = {7, 6, 2, 10, 8, 9},
            .red_zone = 128,
            .syscall_ret = 0,
            .stack_align = 16,
            .syscall_insn_size = 2},
    .sigreturn_code = sigreturn_code,
    .sigreturn_code_size = sizeof sigreturn_code,
    .return_code = return_code,
    .request = {request_code, sizeof request_code, 3, .args = 0, .result = 2},
    .n_ids = X64_MNEMONICS,
    .coherent_code = true,
    .breakpoint_behind = true,
    .decode = x64_decode,
    .lift = x64_lift,
    .disasm = x64_disasm,
    .insn_name = x64_insn_name,
    .reset = reset,
    .clone_thread = clone_thread,
    .signal_push = x64_signal_push,
    .signal_pop = x64_signal_pop,
    .enter_syscall = enter_syscall,
    .set_cpu = x64_set_cpu,
    .shows_feature = x64_shows_feature,
    .dead_flags = x64_dead_flags,
};
