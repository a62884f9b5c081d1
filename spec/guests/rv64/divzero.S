# RISC-V's defined results for division by zero and overflow, in all eight forms.
# Exits with 0, or with the number of the first form that went wrong.
    .option norelax             # nobody sets gp here
    .macro form number, op, a, b, result
    li t0, \a
    li t1, \b
    \op t2, t0, t1
    li t3, \result
    li a0, \number
    bne t2, t3, fail
    .endm

    .globl _start
_start:
    form 1, div, 7, 0, -1
    form 2, divu, 7, 0, -1
    form 3, rem, 7, 0, 7
    form 4, remu, 7, 0, 7
    form 5, div, -0x8000000000000000, -1, -0x8000000000000000
    form 6, rem, -0x8000000000000000, -1, 0
    form 7, divw, 7, 0, -1
    form 8, divuw, 7, 0, -1
    form 9, remw, -7, 0, -7
    form 10, remuw, 0x80000000, 0, -0x80000000
    form 11, divw, -0x80000000, -1, -0x80000000
    form 12, remw, -0x80000000, -1, 0
    form 13, divw, 0x100000007, 2, 3
    form 14, divuw, -1, 2, 0x7fffffff
    form 15, remuw, -1, 16, 15
    form 16, mulhsu, -1, -1, -1
    form 17, mulhu, -1, -1, -2
    form 18, mulh, -1, -1, 0
    form 19, mulw, 0x7fffffff, 2, -2
    li a0, 0
fail:
    li a7, 93
    ecall
