/* The riscv64 guest as struct Guest. */
#include <elf.h>
#include <pthread.h>

#include "guest/rv64/rv64.h"

const GuestReg rv64_regs[] = {
#define REG(name, alias, member, cls, dwarf)                                                       \
  {name, alias, offsetof(Rv64State, member), 8, GUEST_REG_##cls, dwarf},
#include "guest/rv64/regs.def"
};
const uint32_t rv64_n_regs = sizeof rv64_regs / sizeof *rv64_regs;

static void lift(IrBuilder *b, const GuestInsn *insn) { rv64_rows[insn->id].lift(b, insn); }

/* The rows' names with dots. */
static char names[RV64_ROWS][16];

static void make_names(void) {
  for (int id = 0; id < RV64_ROWS; id++)
    for (size_t n = 0; rv64_rows[id].name[n] && n < sizeof names[0] - 1; n++)
      names[id][n] = rv64_rows[id].name[n] == '_' ? '.' : rv64_rows[id].name[n];
}

const char *rv64_guest_insn_name(uint16_t id) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_names);
  return id < RV64_ROWS ? names[id] : "?";
}

static void reset(IrState *s) { ((Rv64State *)s)->lr_addr = RV64_NO_RESERVATION; }

static void clone_thread(IrState *child, uint64_t sp, uint64_t tls) {
  Rv64State *s = (Rv64State *)child;
  s->x[10] = 0; /* clone's result */
  if (sp) s->x[2] = sp;
  if (tls) s->x[4] = tls;
  s->lr_addr = RV64_NO_RESERVATION;
}

/* li a7, 139 (rt_sigreturn); ecall */
/* srli zero, zero, 3, 13, 51, 61; or a0, a0, a0 */
static const uint8_t request_code[] = {0x13, 0x50, 0x30, 0x00, 0x13, 0x50, 0xd0, 0x00, 0x13, 0x50,
                                       0x30, 0x03, 0x13, 0x50, 0xd0, 0x03, 0x33, 0x65, 0xa5, 0x00};
static const uint8_t return_code[] = {0x67, 0x80, 0x00, 0x00};
static const uint8_t sigreturn_code[] = {0x93, 0x08, 0xb0, 0x08, 0x73, 0x00, 0x00, 0x00};

#define HWCAP(letter) (1ull << ((letter) - 'A'))

#define X(n) (offsetof(Rv64State, x) + 8 * (n))
#define F(n) (offsetof(Rv64State, f) + 8 * (n))

const Guest rv64_guest = {
    /* x: a5 a4 a0 a3 sp s0 a1 a2 s1 a6 ra; f: fa5 fa4 fa0 fa3 fa1 fa2 ft0 ft1 fs0 fs1 fa6 fa7 */
    .convention = {.int_pins = {X(15), X(14), X(10), X(13), X(2), X(8), X(11), X(12), X(9), X(16),
                                X(1)},
                   .fp_pins = {F(15), F(14), F(10), F(13), F(11), F(12), F(0), F(1), F(8), F(9),
                               F(16), F(17)},
                   .fp_first = F(0),
                   .fp_count = 32},
    .name = "riscv64",
    .elf_machine = EM_RISCV,
    .elf_class = ELFCLASS64,
    .min_insn = 2,
    .max_insn = 4,
    .sysroot = "/usr/riscv64-linux-gnu",
    .hwcap = HWCAP('I') | HWCAP('M') | HWCAP('A') | HWCAP('F') | HWCAP('D') | HWCAP('C'),
    .uname_machine = "riscv64",
    .generic_syscalls = true,
    .state_size = sizeof(Rv64State),
    .regs = rv64_regs,
    .n_regs = sizeof rv64_regs / sizeof *rv64_regs,
    .abi = {.sp = 2,
            .ra = 1,
            .fp = 8,
            .tp = 4,
            .args = {10, 11, 12, 13, 14, 15, 16, 17},
            .n_args = 8,
            .ret = 10,
            .syscall_nr = 17,
            .syscall_args = {10, 11, 12, 13, 14, 15},
            .syscall_ret = 10,
            .stack_align = 16,
            .syscall_insn_size = 4},
    .sigreturn_code = sigreturn_code,
    .sigreturn_code_size = sizeof sigreturn_code,
    .return_code = return_code,
    .request = {request_code, sizeof request_code, 4, .args = 14, .result = 13},
    .n_ids = RV64_ROWS,
    .decode = rv64_decode,
    .lift = lift,
    .disasm = rv64_disasm,
    .insn_name = rv64_guest_insn_name,
    .reset = reset,
    .clone_thread = clone_thread,
    .signal_push = rv64_signal_push,
    .signal_pop = rv64_signal_pop,
};
