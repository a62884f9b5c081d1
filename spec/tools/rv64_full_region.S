# Regression: a region reached its limit of operations (not of instructions) just before a block that was still to
# be grown; the block stayed empty and jumped to itself. Exits with 7.
.globl _start
_start:
  li s0, 3
  li s1, 1
1:
.rept 70
  fmadd.s fa0, fa1, fa2, fa3
.endr
  beqz s1, 2f
  addi s0, s0, -1
  bnez s0, 1b
2:
  li a0, 7
  li a7, 93
  ecall
