// Judges the machine's floating point by TestFloat's cases, read from stdin:
//   = FUNCTION FRM          what the following lines are for
//   OPERANDS RESULT FLAGS   in hexadecimal, as testfloat_gen prints them
// The flags' bits happen to be those of fflags. Prints a line for each heading: function, mode, number
// of cases, number wrong; the first few wrong cases go to stderr. Exit status 1 if any was wrong.
#include <stdint.h>
#include <unistd.h>

#include "guest.h"

enum { MAX_SHOWN = 5 };

// What a result is compared as: a single in its NaN box, a word sign-extended, or all 64 bits.
typedef enum Kind { SINGLE, WORD, FULL } Kind;

typedef struct Function {
  const char *name;
  int operands;
  Kind kind;
  uint64_t (*run)(const uint64_t *x);
} Function;

#define CLOBBERS "fa0", "fa1", "fa2"
#define DEFINE(name, text, ...)                                                            \
  static uint64_t run_##name(const uint64_t *x) {                                          \
    uint64_t z;                                                                            \
    __asm__ volatile(text : "=&r"(z) : __VA_ARGS__ : CLOBBERS);                            \
    return z;                                                                              \
  }

#define TO_FP2(w) "fmv." w ".x fa0, %1\n fmv." w ".x fa1, %2\n "
#define FP1(name, w, insn) DEFINE(name, "fmv." w ".x fa0, %1\n " insn " fa0, fa0\n fmv.x.d %0, fa0", "r"(x[0]))
#define FP2(name, w, insn) DEFINE(name, TO_FP2(w) insn " fa0, fa0, fa1\n fmv.x.d %0, fa0", "r"(x[0]), "r"(x[1]))
#define FP3(name, w, insn)                                                                 \
  DEFINE(name, TO_FP2(w) "fmv." w ".x fa2, %3\n " insn " fa0, fa0, fa1, fa2\n fmv.x.d %0, fa0", \
         "r"(x[0]), "r"(x[1]), "r"(x[2]))
#define COMPARE(name, w, insn) DEFINE(name, TO_FP2(w) insn " %0, fa0, fa1", "r"(x[0]), "r"(x[1]))
#define FROM_INT(name, insn) DEFINE(name, insn " fa0, %1\n fmv.x.d %0, fa0", "r"(x[0]))
#define TO_INT(name, w, insn) DEFINE(name, "fmv." w ".x fa0, %1\n " insn " %0, fa0, dyn", "r"(x[0]))

FP2(f32_add, "w", "fadd.s") FP2(f64_add, "d", "fadd.d")
FP2(f32_sub, "w", "fsub.s") FP2(f64_sub, "d", "fsub.d")
FP2(f32_mul, "w", "fmul.s") FP2(f64_mul, "d", "fmul.d")
FP2(f32_div, "w", "fdiv.s") FP2(f64_div, "d", "fdiv.d")
FP1(f32_sqrt, "w", "fsqrt.s") FP1(f64_sqrt, "d", "fsqrt.d")
FP3(f32_mulAdd, "w", "fmadd.s") FP3(f64_mulAdd, "d", "fmadd.d")
COMPARE(f32_eq, "w", "feq.s") COMPARE(f64_eq, "d", "feq.d")
COMPARE(f32_le, "w", "fle.s") COMPARE(f64_le, "d", "fle.d")
COMPARE(f32_lt, "w", "flt.s") COMPARE(f64_lt, "d", "flt.d")
FROM_INT(i32_to_f32, "fcvt.s.w") FROM_INT(i32_to_f64, "fcvt.d.w")
FROM_INT(ui32_to_f32, "fcvt.s.wu") FROM_INT(ui32_to_f64, "fcvt.d.wu")
FROM_INT(i64_to_f32, "fcvt.s.l") FROM_INT(i64_to_f64, "fcvt.d.l")
FROM_INT(ui64_to_f32, "fcvt.s.lu") FROM_INT(ui64_to_f64, "fcvt.d.lu")
TO_INT(f32_to_i32, "w", "fcvt.w.s") TO_INT(f64_to_i32, "d", "fcvt.w.d")
TO_INT(f32_to_ui32, "w", "fcvt.wu.s") TO_INT(f64_to_ui32, "d", "fcvt.wu.d")
TO_INT(f32_to_i64, "w", "fcvt.l.s") TO_INT(f64_to_i64, "d", "fcvt.l.d")
TO_INT(f32_to_ui64, "w", "fcvt.lu.s") TO_INT(f64_to_ui64, "d", "fcvt.lu.d")
FP1(f64_to_f32, "d", "fcvt.s.d") FP1(f32_to_f64, "w", "fcvt.d.s")

#define ROW(name, operands, kind) {#name, operands, kind, run_##name}
static const Function functions[] = {
    ROW(f32_add, 2, SINGLE), ROW(f64_add, 2, FULL), ROW(f32_sub, 2, SINGLE), ROW(f64_sub, 2, FULL),
    ROW(f32_mul, 2, SINGLE), ROW(f64_mul, 2, FULL), ROW(f32_div, 2, SINGLE), ROW(f64_div, 2, FULL),
    ROW(f32_sqrt, 1, SINGLE), ROW(f64_sqrt, 1, FULL), ROW(f32_mulAdd, 3, SINGLE), ROW(f64_mulAdd, 3, FULL),
    ROW(f32_eq, 2, FULL), ROW(f64_eq, 2, FULL), ROW(f32_le, 2, FULL), ROW(f64_le, 2, FULL),
    ROW(f32_lt, 2, FULL), ROW(f64_lt, 2, FULL),
    ROW(i32_to_f32, 1, SINGLE), ROW(i32_to_f64, 1, FULL), ROW(ui32_to_f32, 1, SINGLE), ROW(ui32_to_f64, 1, FULL),
    ROW(i64_to_f32, 1, SINGLE), ROW(i64_to_f64, 1, FULL), ROW(ui64_to_f32, 1, SINGLE), ROW(ui64_to_f64, 1, FULL),
    ROW(f32_to_i32, 1, WORD), ROW(f64_to_i32, 1, WORD), ROW(f32_to_ui32, 1, WORD), ROW(f64_to_ui32, 1, WORD),
    ROW(f32_to_i64, 1, FULL), ROW(f64_to_i64, 1, FULL), ROW(f32_to_ui64, 1, FULL), ROW(f64_to_ui64, 1, FULL),
    ROW(f64_to_f32, 1, SINGLE), ROW(f32_to_f64, 1, FULL),
};

static const Function *find(const char *name) {
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
    if (strcmp(functions[i].name, name) == 0) return &functions[i];
  return NULL;
}

// A reader of its own: stdio would be most of the work.
static char buffer[65536];
static size_t at, filled;

static int next_char(void) {
  if (at == filled) {
    ssize_t n = read(0, buffer, sizeof buffer);
    if (n <= 0) return -1;
    filled = (size_t)n;
    at = 0;
  }
  return (unsigned char)buffer[at++];
}

static size_t read_line(char *line, size_t size) {
  size_t n = 0;
  for (int c; (c = next_char()) >= 0 && c != '\n';)
    if (n < size - 1) line[n++] = (char)c;
  line[n] = 0;
  return n;
}

static int hex_words(const char *line, uint64_t *out, int max) {
  int count = 0;
  while (*line && count < max) {
    uint64_t value = 0;
    for (; *line && *line != ' '; line++) value = value << 4 | (uint64_t)(*line <= '9' ? *line - '0' : (*line | 32) - 'a' + 10);
    out[count++] = value;
    while (*line == ' ') line++;
  }
  return count;
}

static uint64_t as_register(uint64_t value, Kind kind) {
  if (kind == SINGLE) return value | 0xffffffff00000000;
  return kind == WORD ? (uint64_t)(int64_t)(int32_t)value : value;
}

typedef struct Heading {
  const Function *function;
  unsigned long mode, cases, wrong;
} Heading;

static void report(const Heading *h) {
  if (h->function) printf("%s %lu: %lu cases, %lu wrong\n", h->function->name, h->mode, h->cases, h->wrong);
}

static void judge(Heading *h, const char *line) {
  uint64_t x[5], flags, z;
  int operands = h->function->operands;
  h->cases++;
  if (hex_words(line, x, 5) != operands + 2) {
    fprintf(stderr, "bad line: %s\n", line);
    h->wrong++;
    return;
  }
  __asm__ volatile("fsrm %0\n fsflags zero" ::"r"(h->mode));
  z = h->function->run(x);
  __asm__ volatile("frflags %0\n fsrm zero" : "=r"(flags));
  if (z == as_register(x[operands], h->function->kind) && flags == x[operands + 1]) return;
  if (h->wrong++ < MAX_SHOWN)
    fprintf(stderr, "%s %lu: %s: got %016lx %02lx\n", h->function->name, h->mode, line, z, flags);
}

int main(void) {
  Heading heading = {0};
  char line[256], name[64];
  unsigned long wrong = 0;
  while (read_line(line, sizeof line)) {
    if (line[0] != '=') {
      if (!heading.function) return 2;
      judge(&heading, line);
      continue;
    }
    report(&heading);
    wrong += heading.wrong;
    heading = (Heading){0};
    if (sscanf(line, "= %63s %lu", name, &heading.mode) != 2 || !(heading.function = find(name))) {
      fprintf(stderr, "no such function: %s\n", line);
      return 2;
    }
  }
  report(&heading);
  return wrong + heading.wrong != 0;
}
