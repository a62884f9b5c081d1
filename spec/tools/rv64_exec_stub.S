# Entering and leaving an instruction under test with every register set: part of rv64_exec_guest.c.
#
#   void exec_enter_28(void) ... exec_enter_31(void)    the suffix is the register that the instruction does not use
#
# They load exec_now (struct ExecState), jump to the address in exec_start, and return when the instruction got to
# exec_fell_N or exec_taken_N (exec_outcome is set) or a signal handler to exec_signal_N (it has set exec_outcome).
# Only register N can be used on the way in and out.

.equ F, 32 * 8
.equ FCSR, 64 * 8

.macro each_x op, base
  .irp i, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27
  \op x\i, \i * 8(\base)
  .endr
  .irp i, 28,29,30,31
  .ifnc x\i, \base
  \op x\i, \i * 8(\base)
  .endif
  .endr
.endm

.macro each_f op, base
  .irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  \op f\i, F + \i * 8(\base)
  .endr
.endm

.macro each_saved op
  .irp i, 1,3,4,8,9,18,19,20,21,22,23,24,25,26,27
  \op x\i, \i * 8(sp)
  .endr
.endm

.macro absolute reg, symbol
  lui \reg, %hi(\symbol)
  addi \reg, \reg, %lo(\symbol)
.endm

.macro way_out name, n, outcome
  .globl exec_\name\()_\n
exec_\name\()_\n:
  absolute x\n, exec_now
  each_x sd, x\n
  li t0, \outcome
  absolute t1, exec_outcome
  sd t0, 0(t1)
  absolute t0, exec_now
  j leave
.endm

.text
.irp n, 28,29,30,31
  .globl exec_enter_\n
exec_enter_\n:
  addi sp, sp, -256
  each_saved sd
  absolute t0, exec_sp
  sd sp, 0(t0)
  sc.w t1, x0, (t0)   # no reservation
  absolute x\n, exec_now
  ld t0, FCSR(x\n)
  fscsr t0
  each_f fld, x\n
  each_x ld, x\n
  absolute x\n, exec_start
  ld x\n, 0(x\n)
  jr x\n
  way_out fell, \n, 0
  way_out taken, \n, 1
  .globl exec_signal_\n
exec_signal_\n:
  absolute x\n, exec_now
  each_x sd, x\n
  absolute t0, exec_now
  j leave
.endr

leave: # t0: exec_now
  each_f fsd, t0
  frcsr t1
  sd t1, FCSR(t0)
  absolute t0, exec_sp
  ld sp, 0(t0)
  each_saved ld
  addi sp, sp, 256
  ret

  .globl exec_sigreturn
exec_sigreturn:
  li a7, 139
  ecall

  .globl _start
_start:
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  andi sp, sp, -16
  call exec_main
  li a7, 93
  ecall
