// Branchy interpreter: a register machine in one switch, running a bytecode program that counts
// primes by trial division and the longest Collatz sequence. One indirect branch an instruction,
// few of them predictable.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { SET, MOVE, ADDI, MUL3, HALF, MOD, ODD, LESS, ZERO, JUMP, PRINT, HALT } Code;
typedef struct {
  uint8_t code, a, b, c; // LESS, ZERO and ODD skip the next instruction unless they hold
  int32_t value;
} Insn;

enum { N, I, D, T, COUNT, BEST, WHERE, STEPS, REGS };

static const Insn program[] = {
    /*  0 */ {SET, I, 0, 0, 2},
    /*  1 next number */ {SET, D, 0, 0, 2},
    /*  2 next divisor */ {LESS, 0, D, I, 0},
    /*  3 */ {JUMP, 0, 0, 0, 5},
    /*  4 */ {JUMP, 0, 0, 0, 10},
    /*  5 divides? */ {MOD, T, I, D, 0},
    /*  6 */ {ZERO, 0, T, 0, 0},
    /*  7 */ {JUMP, 0, 0, 0, 11},
    /*  8 */ {ADDI, D, D, 0, 1},
    /*  9 */ {JUMP, 0, 0, 0, 2},
    /* 10 a prime */ {ADDI, COUNT, COUNT, 0, 1},
    /* 11 Collatz sequence of I */ {MOVE, T, I, 0, 0},
    /* 12 */ {SET, STEPS, 0, 0, 0},
    /* 13 */ {SET, D, 0, 0, 2},
    /* 14 */ {LESS, 0, T, D, 0},
    /* 15 */ {JUMP, 0, 0, 0, 23},
    /* 16 */ {ADDI, STEPS, STEPS, 0, 1},
    /* 17 */ {ODD, 0, T, 0, 0},
    /* 18 */ {JUMP, 0, 0, 0, 21},
    /* 19 */ {HALF, T, T, 0, 0},
    /* 20 */ {JUMP, 0, 0, 0, 14},
    /* 21 */ {MUL3, T, T, 0, 1},
    /* 22 */ {JUMP, 0, 0, 0, 14},
    /* 23 longest so far? */ {LESS, 0, BEST, STEPS, 0},
    /* 24 */ {JUMP, 0, 0, 0, 26},
    /* 25 */ {JUMP, 0, 0, 0, 28},
    /* 26 */ {MOVE, BEST, STEPS, 0, 0},
    /* 27 */ {MOVE, WHERE, I, 0, 0},
    /* 28 */ {ADDI, I, I, 0, 1},
    /* 29 */ {LESS, 0, I, N, 0},
    /* 30 */ {JUMP, 0, 0, 0, 1},
    /* 31 */ {PRINT, COUNT, 0, 0, 0},
    /* 32 */ {PRINT, BEST, 0, 0, 0},
    /* 33 */ {PRINT, WHERE, 0, 0, 0},
    /* 34 */ {HALT, 0, 0, 0, 0},
};

// A test that holds goes on with the next instruction, one that does not skips it.
static void run(int64_t *r) {
  for (const Insn *i = program;; i++) {
    switch ((Code)i->code) {
    case SET: r[i->a] = i->value; break;
    case MOVE: r[i->a] = r[i->b]; break;
    case ADDI: r[i->a] = r[i->b] + i->value; break;
    case MUL3: r[i->a] = 3 * r[i->b] + i->value; break;
    case HALF: r[i->a] = r[i->b] >> 1; break;
    case MOD: r[i->a] = r[i->b] % r[i->c]; break;
    case ODD: i += !(r[i->b] & 1); break;
    case LESS: i += r[i->b] >= r[i->c]; break;
    case ZERO: i += r[i->b] != 0; break;
    case JUMP: i = &program[i->value - 1]; break;
    case PRINT: printf("%lld\n", (long long)r[i->a]); break;
    case HALT: return;
    }
  }
}

int main(int argc, char **argv) {
  int64_t r[REGS] = {0};
  r[N] = argc > 1 ? atol(argv[1]) : 1000;
  run(r);
}
