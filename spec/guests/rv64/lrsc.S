# LR/SC pairs and every AMO, word and doubleword: results into one sum, which is the exit status's judge.
# Prints nothing; exits with 0, or with the number of the first step that went wrong.
    .option norelax             # nobody sets gp here
    .macro expect number, reg, value
    li t6, \value
    li a0, \number
    bne \reg, t6, fail
    .endm
    .macro amo number, op, start, operand, after, start_read=
    li t0, \start
    sd t0, 0(s0)
    li t1, \operand
    \op t2, t1, (s0)
    ld t3, 0(s0)
    expect \number, t3, \after
    .ifnb \start_read
    expect \number + 100, t2, \start_read
    .else
    expect \number + 100, t2, \start
    .endif
    .endm

    .globl _start
_start:
    lla s0, cell
    amo 1, amoadd.d, 5, 7, 12
    amo 2, amoswap.d, 5, -1, -1
    amo 3, amoxor.d.aq, 0xff, 0x0f, 0xf0
    amo 4, amoand.d.rl, 0xff, 0x3c, 0x3c
    amo 5, amoor.d.aqrl, 0xf0, 0x0f, 0xff
    amo 6, amomin.d, -5, 3, -5
    amo 7, amomax.d, -5, 3, 3
    amo 8, amominu.d, -5, 3, 3
    amo 9, amomaxu.d, -5, 3, -5
    amo 10, amoadd.w, 0x1ffffffff, 2, 0x100000001, -1
    amo 11, amoswap.w, 0x180000000, 1, 0x100000001, -0x80000000
    amo 12, amoxor.w, 0x10, 0x01, 0x11
    amo 13, amoand.w, 0x7fffffff, 0x70000000, 0x70000000
    amo 14, amoor.w, 0x1, 0x80000000, 0x80000001
    amo 15, amomin.w, 0x80000000, 1, 0x80000000, -0x80000000
    amo 16, amomax.w, 0x80000000, 1, 0x00000001, -0x80000000
    amo 17, amominu.w, 0x80000000, 1, 0x00000001, -0x80000000
    amo 18, amomaxu.w, 0x80000000, 1, 0x80000000, -0x80000000

    li t0, 40
    sd t0, 0(s0)
1:  lr.d t1, (s0)               # a plain pair succeeds (sooner or later)
    addi t1, t1, 2
    sc.d t2, t1, (s0)
    bnez t2, 1b
    ld t3, 0(s0)
    expect 30, t3, 42
    sc.d t2, t1, (s0)           # no reservation: must fail and store nothing
    beqz t2, 2f
    j 3f
2:  li a0, 31
    j fail
3:  lr.w t1, (s0)
    expect 32, t1, 42
    li t1, -1
    sc.w t2, t1, (s0)
    bnez t2, 3b
    ld t3, 0(s0)
    expect 33, t3, 0xffffffff
    lr.w t1, (s0)
    expect 34, t1, -1
    lla s1, other               # an SC elsewhere ends the reservation here
    sc.w t2, t1, (s1)
    li a0, 35
    beqz t2, fail
    li a0, 0
fail:
    li a7, 93
    ecall

    .data
    .balign 16
cell: .dword 0, 0
    .balign 4096
other: .dword 0
