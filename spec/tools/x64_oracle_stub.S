# Entering and leaving a job with every register set: part of x64_oracle.c.
#   void oracle_enter(void)   loads oracle_now, jumps to oracle_start; returns when the code or a signal handler has got
#                             to oracle_exit, with oracle_now what it left
# Addresses are absolute: no register is free.
  .set FLAGS, 16 * 8
  .set FS, 17 * 8
  .set GS, 18 * 8
  .set IMAGE, 192

  .macro each_gpr do
  \do rcx, 1
  \do rdx, 2
  \do rbx, 3
  \do rbp, 5
  \do rsi, 6
  \do rdi, 7
  \do r8, 8
  \do r9, 9
  \do r10, 10
  \do r11, 11
  \do r12, 12
  \do r13, 13
  \do r14, 14
  \do r15, 15
  \do rsp, 4
  \do rax, 0
  .endm
  .macro load reg, n
  mov oracle_now + \n * 8, %\reg
  .endm
  .macro store reg, n
  mov %\reg, oracle_now + \n * 8
  .endm

  .text
  .globl oracle_enter, oracle_exit, oracle_sigreturn, _start, oracle_stub_end
oracle_enter:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, oracle_rsp
  mov oracle_now + FS, %rax
  wrfsbase %rax
  mov oracle_now + GS, %rax
  wrgsbase %rax
  mov oracle_features, %eax
  xor %edx, %edx
  xrstor64 oracle_now + IMAGE
  pushq oracle_now + FLAGS
  popfq
  each_gpr load
  jmp *oracle_start
oracle_exit:
  each_gpr store
  mov oracle_rsp, %rsp
  pushfq
  popq oracle_now + FLAGS
  pushq $0x202
  popfq
  rdfsbase %rax
  mov %rax, oracle_now + FS
  rdgsbase %rax
  mov %rax, oracle_now + GS
  mov oracle_features, %eax
  xor %edx, %edx
  xsave64 oracle_now + IMAGE
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
oracle_sigreturn:
  mov $15, %eax
  syscall
_start:
  xor %ebp, %ebp
  mov %rsp, %rdi
  and $-16, %rsp
  call oracle_main
  mov %eax, %edi
  mov $231, %eax
  syscall
oracle_stub_end:
  .section .note.GNU-stack, "", @progbits
