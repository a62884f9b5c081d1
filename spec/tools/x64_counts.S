# A program without libc whose instructions are counted by hand: repeated string instructions of every kind and end,
# loops, jumps through registers and memory, a system call. Prints nothing; the status is 0.
# The comment at a line's end is how many instructions it retires, where that is not one.
  .globl _start
  .text
_start:
  cld
  lea source(%rip), %rsi
  lea target(%rip), %rdi
  mov $100, %ecx
  rep movsb               # 100
  mov $0, %ecx
  rep movsb               # 1: none are left, the instruction itself retires
  mov $1, %ecx
  rep movsq               # 1
  lea target(%rip), %rdi
  xor %eax, %eax
  mov $33, %ecx
  rep stosl               # 33
  std
  mov $7, %ecx
  rep stosw               # 7
  cld
  lea text(%rip), %rdi
  mov $'x', %al
  mov $50, %ecx
  repne scasb             # 4: found
  lea text(%rip), %rdi
  mov $'a', %al
  mov $50, %ecx
  repe scasb              # 2: the first is one, the second is not
  lea text(%rip), %rsi
  lea text(%rip), %rdi
  mov $6, %ecx
  repe cmpsb              # 6: equal to the end
  lea text(%rip), %rsi
  mov $5, %ecx
  rep lodsb               # 5
  mov $1000, %ecx
1:loop 1b                 # 1000
  mov $10, %ecx
2:dec %ecx
  jnz 2b                  # 20 with the line above
  jrcxz 3f
  ud2
3:call 4f
  lea 5f(%rip), %rax
  jmp *%rax
  ud2
4:ret
5:jmp *there(%rip)
  ud2
6:pushf
  popf
  mov $39, %eax           # getpid
  syscall
  mov $231, %eax          # exit_group
  xor %edi, %edi
  syscall
  .data
there: .quad 6b
text: .ascii "abcxyz--"
source: .fill 256, 1, 7
target: .fill 512, 1, 0
