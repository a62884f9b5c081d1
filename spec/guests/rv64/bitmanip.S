# Zba, Zbb and Zbs: each instruction once or twice. Exits with 0, or with the number of the failing form.
    .option norelax             # nobody sets gp here
    .option arch, +zba, +zbb, +zbs
    .macro form number, op, a, b, result
    li t0, \a
    li t1, \b
    \op t2, t0, t1
    li t3, \result
    li a0, \number
    bne t2, t3, fail
    .endm
    .macro unary number, op, a, result
    li t0, \a
    \op t2, t0
    li t3, \result
    li a0, \number
    bne t2, t3, fail
    .endm
    .macro immediate number, op, a, b, result
    li t0, \a
    \op t2, t0, \b
    li t3, \result
    li a0, \number
    bne t2, t3, fail
    .endm

    .globl _start
_start:
    form 1, add.uw, -1, 1, 0x100000000
    form 2, sh1add, 5, 100, 110
    form 3, sh2add, 5, 100, 120
    form 4, sh3add, -1, 8, 0
    form 5, sh1add.uw, -1, 0, 0x1fffffffe
    form 6, sh2add.uw, 0x180000000, 1, 0x200000001
    form 7, sh3add.uw, 0x80000000, 0, 0x400000000
    immediate 8, slli.uw, -1, 4, 0xffffffff0
    form 9, andn, 0xff, 0x0f, 0xf0
    form 10, orn, 0, -16, 15
    form 11, xnor, 0xff, 0xff, -1
    unary 12, clz, 1, 63
    unary 13, clz, 0, 64
    unary 14, clzw, 0x100000001, 31
    unary 15, ctz, 0x8000000000000000, 63
    unary 16, ctz, 0, 64
    unary 17, ctzw, 0x100000000, 32
    unary 18, cpop, -1, 64
    unary 19, cpopw, -1, 32
    form 20, max, -1, 1, 1
    form 21, maxu, -1, 1, -1
    form 22, min, -1, 1, -1
    form 23, minu, -1, 1, 1
    unary 24, sext.b, 0x180, -128
    unary 25, sext.h, 0x18000, -32768
    unary 26, zext.h, -1, 0xffff
    form 27, rol, 0x8000000000000001, 4, 0x18
    form 28, rolw, 0x80000001, 4, 0x18
    form 29, ror, 0x18, 4, 0x8000000000000001
    form 30, rorw, 0x18, 4, -0x7fffffff
    immediate 31, rori, 1, 1, 0x8000000000000000
    immediate 32, roriw, 1, 1, -0x80000000
    unary 33, orc.b, 0x0001000200100080, 0x00ff00ff00ff00ff
    unary 34, rev8, 0x0102030405060708, 0x0807060504030201
    form 35, bclr, -1, 67, -9
    immediate 36, bclri, -1, 63, 0x7fffffffffffffff
    form 37, bext, 0x10, 4, 1
    immediate 38, bexti, 0x10, 5, 0
    form 39, binv, 0, 63, 0x8000000000000000
    immediate 40, binvi, 1, 0, 0
    form 41, bset, 0, 32, 0x100000000
    immediate 42, bseti, 0, 63, 0x8000000000000000
    li a0, 0
fail:
    li a7, 93
    ecall
