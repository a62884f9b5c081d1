# A mix of integer, compressed, multiply, floating-point, memory and branch instructions around a loop;
# prints a checksum as 16 hex digits. No libc, so that counts can be compared instruction by instruction.
    .option norelax             # nobody sets gp here
    .globl _start
_start:
    li s0, 1000
    li s1, 0x9e3779b97f4a7c15
    lla s2, buffer
    fcvt.d.l fs0, s0
    fcvt.s.l fs1, s0
round:
    mul t0, s1, s0
    mulhu t1, s1, s0
    xor s1, t0, t1
    slli t2, s1, 7
    srli t3, s1, 9
    sraiw t4, s1, 3
    add s1, s1, t2
    sub s1, s1, t3
    addw t4, t4, s0
    andi t5, s1, 0x1f8
    add t5, t5, s2
    ld t6, 0(t5)
    add t6, t6, t4
    sd t6, 0(t5)
    lhu a0, 2(t5)
    lb a1, 3(t5)
    sh a1, 4(t5)
    sltu a2, a0, a1
    slti a3, a1, 5
    add s1, s1, a2
    add s1, s1, a3
    fcvt.d.w fa0, a1
    fmadd.d fs0, fa0, fs0, fs0
    fadd.s fs1, fs1, fs1
    fcvt.s.w fa1, a0
    fdiv.s fs1, fs1, fa1
    fmv.x.d a4, fs0
    fclass.d a5, fs0
    fclass.s a6, fs1
    xor s1, s1, a4
    add s1, s1, a5
    add s1, s1, a6
    blt a1, zero, 1f
    divu s1, s1, s0
    bgeu a0, s0, 1f
    remw t0, a0, s0
    add s1, s1, t0
1:  jal ra, leaf
    addi s0, s0, -1
    bnez s0, round

    li t0, 16                   # sixteen digits, last first
    lla t1, text
2:  addi t0, t0, -1
    andi t2, s1, 15
    srli s1, s1, 4
    addi t3, t2, '0'
    li t4, 10
    blt t2, t4, 3f
    addi t3, t2, 'a' - 10
3:  add t4, t1, t0
    sb t3, 0(t4)
    bnez t0, 2b
    li a0, 1
    mv a1, t1
    li a2, 17
    li a7, 64
    ecall
    li a0, 0
    li a7, 93
    ecall
leaf:
    ori s1, s1, 1
    ret

    .data
    .balign 8
text:
    .ascii "0123456789abcdef\n"
    .balign 8
buffer:
    .fill 64, 8, 0x0102030405060708
