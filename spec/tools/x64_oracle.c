/* The runner of the x86-64 oracle (x64_oracle.h): jobs come on descriptor 0, text goes to 1.
 *
 *   x64_oracle hash          a line for each chunk of 1024 jobs: cases, cases that ended in a signal, hash
 *   x64_oracle jobs          a line for each job: number, form, signals seen, hash
 *   x64_oracle states [K]    all of the state before and after each case (or the K-th of each job)
 *
 * Built without vector or x87 instructions, so that nothing disturbs what is loaded. */
#include "x64_oracle.h"

enum {
  SYS_READ = 0,
  SYS_WRITE = 1,
  SYS_MMAP = 9,
  SYS_SIGACTION = 13,
  SYS_SIGALTSTACK = 131,
  SYS_EXIT = 231
};
enum { FLAG_DF = 1 << 10, FLAG_AC = 1 << 18, FLAG_ID = 1 << 21, FLAGS_STATUS = 0x8d5 };
enum { IMAGE_MAX = 2816, X87_FOP = 6, IMAGE_HEADER = 512 };
enum { REG_FLAGS = 16, REG_FS, REG_GS };
#define X64_FEATURES 0xe7u /* x87, SSE, AVX, AVX-512 */

typedef struct OracleState {
  uint64_t gpr[19], unused[5]; /* the general registers, flags, fs and gs base */
  uint64_t image[IMAGE_MAX / 8];
} __attribute__((aligned(64))) OracleState;
_Static_assert(offsetof(OracleState, image) == 192, "IMAGE in x64_oracle_stub.S");

OracleState oracle_now;
uint64_t oracle_rsp, oracle_start;
uint32_t oracle_features;
void oracle_enter(void), oracle_exit(void), oracle_sigreturn(void), oracle_stub_end(void);
int oracle_main(long *stack);
extern char __executable_start[], etext[];

/* What a signal said. */
static struct { uint64_t signo, code, address, error, trap, pc; } ended;
static uint32_t part_offset[8], part_size[8]; /* of the image, by bit of the features */

/* ---- the system ------------------------------------------------------------------------------ */

static long call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  register uint64_t r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "+a"(nr)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return nr;
}

static void die(int status) { call(SYS_EXIT, (uint64_t)status, 0, 0, 0, 0, 0); }

void *memcpy(void *to, const void *from, size_t n) {
  void *start = to;
  size_t words = n / 8, rest = n % 8;
  __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words)::"memory");
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(rest)::"memory");
  return start;
}

void *memset(void *at, int c, size_t n) {
  void *start = at;
  __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(c) : "memory");
  return start;
}

static bool get(void *buf, size_t n) {
  for (size_t done = 0; done < n;) {
    long k = call(SYS_READ, 0, (uint64_t)buf + done, n - done, 0, 0, 0);
    if (k < 0 || (k == 0 && done)) die(10);
    if (k == 0) return false;
    done += (size_t)k;
  }
  return true;
}

static char out[1 << 16];
static size_t out_n;

static void flush(void) {
  for (size_t done = 0; done < out_n;) {
    long k = call(SYS_WRITE, 1, (uint64_t)out + done, out_n - done, 0, 0, 0);
    if (k <= 0) die(11);
    done += (size_t)k;
  }
  out_n = 0;
}

static void put(const char *text) {
  if (out_n + 256 > sizeof out) flush();
  while (*text) out[out_n++] = *text++;
}

static void put_number(uint64_t v, unsigned base) {
  char text[24], *p = text + sizeof text - 1;
  *p = 0;
  do *--p = "0123456789abcdef"[v % base];
  while (v /= base);
  put(p);
}

static void put_field(const char *name, uint64_t v, unsigned base) {
  put(name);
  put_number(v, base);
}

/* ---- signals: the code's state is left as the frame has it ----------------------------------- */

enum {
  GREG_RIP = 5 + 16,
  GREG_FLAGS,
  GREG_SEGMENTS,
  GREG_ERROR,
  GREG_TRAP
}; /* words of struct ucontext */

static void handler(int signo, const int *info, uint64_t *uc) {
  uint64_t pc = uc[GREG_RIP];
  bool is_ours = pc >= (uint64_t)__executable_start && pc < (uint64_t)etext;
  if (is_ours && pc != (uint64_t)oracle_exit) die(99);
  ended.signo = (uint64_t)signo;
  ended.code = (uint32_t)info[2];
  ended.address = ((const uint64_t *)info)[2];
  ended.error = uc[GREG_ERROR] & ~1ul; /* whether a page was there yet is the kernel's affair */
  ended.trap = uc[GREG_TRAP];
  ended.pc = pc;
  uc[GREG_RIP] = (uint64_t)oracle_exit;
}

/* Where no state's stack pointer leads: one inside the alternate stack would count as being on it. */
#define ALT_STACK      0x35a5c000ull
#define ALT_STACK_SIZE 0x10000ull

static void map(uint64_t at, uint64_t size, uint64_t prot) {
  if ((uint64_t)call(SYS_MMAP, at, size, prot, 0x32, ~0ull, 0) != at)
    die(14); /* PRIVATE, ANONYMOUS, FIXED */
}

static void catch_signals(void) {
  uint64_t alt[3] = {ALT_STACK, 0, ALT_STACK_SIZE};
  const struct {
    void (*fn)(int, const int *, uint64_t *);
    uint64_t flags;
    void (*restorer)(void);
    uint64_t mask;
  } action = {handler, 0x4c000004, oracle_sigreturn, 0}; /* SIGINFO, RESTORER, ONSTACK, NODEFER */
  static const uint8_t signals[] = {4, 5, 7, 8, 11, 31}; /* ILL TRAP BUS FPE SEGV SYS */
  map(ALT_STACK, ALT_STACK_SIZE, 3);
  if (call(SYS_SIGALTSTACK, (uint64_t)alt, 0, 0, 0, 0, 0)) die(12);
  for (size_t i = 0; i < sizeof signals; i++)
    if (call(SYS_SIGACTION, signals[i], (uint64_t)&action, 0, 8, 0, 0)) die(13);
}

/* ---- random states --------------------------------------------------------------------------- */

static uint64_t random_integer(OracleRandom *r) {
  static const uint64_t corners[] = {
      0,          1,          2,           7,          8,      15,     16,        31,
      32,         63,         64,          0x7f,       0x80,   0xff,   0x7fff,    0x8000,
      0x7fffffff, 0x80000000, 0x100000000, 0xffffffff, 0xffff, 0x1f80, INT64_MAX, 1ull << 63};
  uint64_t v = oracle_random(r);
  switch (oracle_below(r, 8)) {
  case 0:
  case 1: return corners[v % (sizeof corners / sizeof *corners)];
  case 2: return 0 - corners[v % (sizeof corners / sizeof *corners)];
  case 3: return (uint64_t)(int64_t)(int32_t)v;
  case 4: return v >> (oracle_random(r) & 63);
  case 5: return (uint64_t)((int64_t)v >> (oracle_random(r) & 63));
  case 6: return 1ull << (v & 63);
  default: return v;
  }
}

/* A floating-point number of the given widths of fraction and exponent: classes and neighbourhoods
 * more often than chance. */
static uint64_t random_float(OracleRandom *r, unsigned frac, unsigned expo) {
  uint64_t v = oracle_random(r), fraction = v & ((1ull << frac) - 1),
           sign = v >> 63 << (frac + expo);
  uint64_t max = (1ull << expo) - 1, bias = max >> 1, exponent = (v >> frac) & max,
           choice = oracle_random(r);
  bool odd = choice >> 32 & 1;
  switch (choice % 10) {
  case 0: exponent = 0, fraction = odd ? 0 : fraction; break;
  case 1:
    exponent = max, fraction = odd ? 0 : choice >> 33 & 1 ? 1ull << (frac - 1) : fraction;
    break;
  case 2: exponent = max - 1, fraction = odd ? ~0ull : fraction; break;
  case 3:
  case 4: exponent = bias + (choice >> 40) % 66, fraction &= ~0ull << (choice >> 50) % frac; break;
  case 5:
  case 6: exponent = bias - 4 + (choice >> 40) % 8; break;
  case 7: exponent = 1 + odd; break;
  default: break;
  }
  return sign | (exponent & max) << frac | (fraction & ((1ull << frac) - 1));
}

/* 64 bits of a vector: two singles, a double, or integers. */
static uint64_t random_lane(OracleRandom *r, unsigned kind) {
  switch (kind) {
  case 0:
  case 1: return random_float(r, 52, 11);
  case 2:
  case 3: return random_float(r, 23, 8) | random_float(r, 23, 8) << 32;
  case 4: return random_integer(r);
  case 5: return oracle_random(r) & oracle_random(r);
  default: return oracle_random(r);
  }
}

static void random_x87(OracleRandom *r, uint64_t *image) {
  uint64_t v = oracle_random(r);
  uint64_t control = (v & 0xf00) | 0x40 | (v >> 60 ? 0x3f : v >> 40 & 0x3f);
  uint64_t status = v >> 16 & (v >> 59 & 1 ? 0x7fff : 0x7f00);
  if (status & ~control & 0x3f) status |= 0x8080; /* a pending exception shows as ES and B */
  uint64_t tags = v >> 48 & (v >> 58 & 1 ? 0xff : 0);
  image[0] = control | status << 16 | tags << 32 | (oracle_random(r) & 0x7ff) << 48;
  image[1] = 0;
  image[2] = oracle_random(r) & 0x7fffffffffff;
  for (int i = 0; i < 8; i++) {
    uint64_t kind = oracle_random(r), fraction = random_integer(r),
             exponent = random_float(r, 48, 15) >> 48;
    image[4 + 2 * i] = kind & 1 ? fraction | 1ull << 63 : fraction;
    image[5 + 2 * i] =
        kind & 2 ? (kind & 4 ? 0xffff : 0x3fff + (kind >> 8 & 31)) : exponent & 0xffff;
  }
}

static uint64_t random_mxcsr(OracleRandom *r) {
  uint64_t v = oracle_random(r);
  return (v & 0xe07f) * (v >> 63) | (v & 0x603f) * !(v >> 63) |
         (v >> 60 & 7 ? 0x1f80 : v >> 16 & 0x1f80);
}

static void random_vectors(OracleRandom *r, uint64_t *image) {
  static const uint8_t parts[] = {2, 5, 6, 7};
  for (int i = 20; i < 52; i += 2) { /* xmm */
    unsigned kind = oracle_below(r, 8);
    image[i] = random_lane(r, kind), image[i + 1] = random_lane(r, kind);
  }
  for (size_t p = 0; p < sizeof parts; p++) {
    unsigned bit = parts[p], kind = 0;
    if (!(oracle_features >> bit & 1)) continue;
    for (uint32_t i = 0; i < part_size[bit] / 8; i++) {
      if (!(i & 3)) kind = bit == 5 ? 4 + oracle_below(r, 4) : oracle_below(r, 8);
      image[part_offset[bit] / 8 + i] = random_lane(r, kind);
    }
  }
}

static uint64_t random_place(OracleRandom *r, const OracleFix *fix) {
  uint64_t choice = oracle_random(r), near = choice >> 32 & 63,
           align = fix->align ? fix->align : 1u;
  if (fix->is_middle) return (ORACLE_MIDDLE + near) & ~(align - 1);
  uint64_t at = ORACLE_MIDDLE + near, edge = ORACLE_WINDOW;
  switch (choice & 31) {
  case 0:
  case 1: at = edge + 2 * ORACLE_PAGE - near / 2; break; /* two pages */
  case 2: at = edge + 3 * ORACLE_PAGE - near / 2; break; /* writing the second faults */
  case 3: at = edge + 4 * ORACLE_PAGE - near / 2; break;
  case 4: at = edge + ORACLE_PAGE - near / 8; break;
  case 5: at = choice >> 40 & 1 ? oracle_random(r) : choice >> 41 & 1 ? near : 1ull << 47; break;
  default: break;
  }
  if (choice >> 20 & 7) at &= ~(align - 1);
  return at;
}

static uint64_t *vector_lane(uint64_t *image, unsigned reg, unsigned lane) {
  if (reg >= 16) return image + part_offset[7] / 8 + (reg - 16) * 8 + lane;
  if (lane < 2) return image + 20 + reg * 2 + lane;
  if (lane < 4) return image + part_offset[2] / 8 + reg * 2 + lane - 2;
  return image + part_offset[6] / 8 + reg * 4 + lane - 4;
}

/* Sets what a fix asks for; returns a pointer's place. */
static uint64_t apply_fix(OracleRandom *r, const OracleFix *fix, OracleState *s) {
  uint64_t v = oracle_random(r), place = 0;
  if (fix->kind == FIX_INDEX32 || fix->kind == FIX_INDEX64) {
    for (unsigned lane = 0; lane < 8; lane++) {
      uint64_t x = oracle_random(r);
      uint64_t small = fix->kind == FIX_INDEX64 ? x & 63 : (x & 63) | (x >> 8 & 63) << 32;
      if (part_size[lane < 2 ? 1 : lane < 4 ? 2 : 6] || lane < 2)
        *vector_lane(s->image, fix->reg, lane) = small;
    }
    return 0;
  }
  switch (fix->kind) {
  case FIX_POINTER: v = (place = random_place(r, fix)) - (uint64_t)(int64_t)fix->add; break;
  case FIX_INDEX: v = v >> 60 ? v & 15 : (uint64_t)(int64_t)(int8_t)v; break;
  case FIX_BITS: v = (v & 1023) - 512; break;
  case FIX_COUNT: v = v >> 59 ? v >> 8 & 15 : v >> 8 & 511; break;
  }
  if (fix->reg < 16)
    s->gpr[fix->reg] = v;
  else if ((int64_t)v >> 47 == 0 || (int64_t)v >> 47 == -1)
    s->gpr[fix->reg == ORACLE_FS ? REG_FS : REG_GS] = v;
  return place;
}

/* Makes the next state of a job; returns where the image of IMAGE_* will be. */
static uint64_t random_state(OracleRandom *r, const OracleJob *job, OracleState *s) {
  uint64_t v = oracle_random(r), place = 0;
  for (int i = 0; i < 16; i++) s->gpr[i] = random_integer(r);
  s->gpr[REG_FLAGS] = 0x202 | (v & FLAGS_STATUS) | (v >> 62 ? 0 : FLAG_DF) |
                      (v >> 48 & 63 ? 0 : FLAG_AC) | (v >> 54 & 3 ? 0 : FLAG_ID);
  /* Above 2^46 is kitlua's own memory (doc/design.md). */
  s->gpr[REG_FS] = oracle_random(r) >> 18, s->gpr[REG_GS] = oracle_random(r) >> 18;
  random_x87(r, s->image);
  s->image[3] = random_mxcsr(r) | 0xffffull << 32;
  random_vectors(r, s->image);
  s->image[IMAGE_HEADER / 8] = oracle_features;
  for (int i = 1; i < 8; i++) s->image[IMAGE_HEADER / 8 + i] = 0;
  for (unsigned i = 0; i < job->n_fixes; i++) {
    uint64_t at = apply_fix(r, &job->fixes[i], s);
    if (i == 0) place = at;
  }
  return place;
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { WORDS = 3 * ORACLE_PAGE / 8, WRITABLE = 2 * ORACLE_PAGE / 8, FIRST = (0x2400 - 0x1000) / 8 };
static uint64_t pristine[WORDS];
static uint64_t *const window = (uint64_t *)(ORACLE_WINDOW + ORACLE_PAGE);

static void make_window(void) {
  OracleRandom r = {1};
  map(ORACLE_WINDOW, ORACLE_PAGE, 0);
  map(ORACLE_WINDOW + ORACLE_PAGE, 3 * ORACLE_PAGE, 3);
  map(ORACLE_WINDOW + 4 * ORACLE_PAGE, ORACLE_PAGE, 0);
  for (int i = 0; i < WORDS; i++) pristine[i] = random_lane(&r, oracle_below(&r, 8));
  memcpy(window, pristine, sizeof pristine);
  if (call(10, ORACLE_WINDOW + 3 * ORACLE_PAGE, ORACLE_PAGE, 1, 0, 0, 0)) die(15);
}

/* New contents around the middle. */
static void refresh_window(OracleRandom *r, bool no_trap) {
  for (int i = FIRST - 8; i < FIRST + 40; i++) {
    pristine[i] = random_lane(r, oracle_below(r, 8)) & (no_trap ? ~0x100ull : ~0ull);
    window[i] = pristine[i];
  }
}

static void undo(uint64_t from, uint64_t size) {
  uint64_t base = (uint64_t)window;
  for (uint64_t i = from; i < from + size; i++)
    if (i - base < WRITABLE * 8) *(uint8_t *)i = ((uint8_t *)pristine)[i - base];
}

/* Hides the last x87 instruction's opcode and pointers in the job's memory operand, which IMAGE_* tells: translated code runs
 * elsewhere, and AMD's processors load the data pointer only while an exception is pending, so that
 * after an instruction without an operand in memory it is whoever's. */
static void hide_image(const OracleJob *job, uint64_t place) {
  static const uint8_t at[] = {0, X87_FOP, 12, 6, X87_FOP}, size[] = {0, 18, 16, 8, 18};
  undo(place + at[job->image], size[job->image]);
  if (job->image == IMAGE_XSAVE) undo(place + IMAGE_HEADER, 8);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9fb21c651e98df25;
  return h ^ h >> 32;
}

/* Parts that XSAVE says are in their initial state count as zero, its header not at all: what the
 * CPU makes of them is its own affair. */
static void normalise(uint64_t *image) {
  static const uint8_t parts[] = {2, 5, 6, 7};
  uint64_t have = image[IMAGE_HEADER / 8];
  for (size_t p = 0; p < sizeof parts; p++)
    if (!(have >> parts[p] & 1))
      memset((char *)image + part_offset[parts[p]], 0, part_size[parts[p]]);
  if (!(have & 1)) {
    image[0] = 0x37f, image[1] = image[2] = 0;
    memset(image + 4, 0, 128);
  }
  if (!(have & 2)) memset(image + 20, 0, 256);
  image[0] = image[0] << 16 >> 16; /* FOP, FIP, FDP: see hide_image */
  image[1] = image[2] = 0;
  image[IMAGE_HEADER / 8] = 0;
}

static uint64_t hash_state(uint64_t h, const OracleState *s, uint32_t image_size) {
  for (int i = 0; i < 19; i++) h = mix(h, s->gpr[i]);
  for (uint32_t i = 0; i < 52; i++) h = mix(h, s->image[i]);
  for (uint32_t i = 576 / 8; i < image_size / 8; i++) h = mix(h, s->image[i]);
  return h;
}

/* Mixes changes of memory, and undoes them. */
static uint64_t hash_memory(uint64_t h, bool print) {
  for (uint32_t i = 0; i < WRITABLE; i++) {
    if (window[i] == pristine[i]) continue;
    h = mix(mix(h, i), window[i]);
    if (print) {
      put_field("memory ", (uint64_t)(window + i), 16);
      put_field(" ", pristine[i], 16);
      put_field(" ", window[i], 16);
      put("\n");
    }
    window[i] = pristine[i];
  }
  return h;
}

static void print_state(const char *what, const OracleState *s, uint32_t image_size) {
  static const char *const names[] = {"rax", "rcx", "rdx",    "rbx", "rsp", "rbp", "rsi",
                                      "rdi", "r8",  "r9",     "r10", "r11", "r12", "r13",
                                      "r14", "r15", "rflags", "fs",  "gs"};
  for (int i = 0; i < 19; i++) {
    put(what);
    put(names[i]);
    put_field(" ", s->gpr[i], 16);
    put("\n");
  }
  for (uint32_t i = 0; i < image_size / 8; i++) {
    put(what);
    put_field("image+", i * 8, 10);
    put_field(" ", s->image[i], 16);
    put("\n");
  }
}

static uint32_t image_size = 576;
static int only_state = -1;
static bool prints_states;
static uint64_t n_cases, n_signals;

static void print_end(const OracleJob *job, unsigned state) {
  put_field("case ", job->index, 10);
  put_field(" ", state, 10);
  put_field(" signal ", ended.signo, 10);
  put_field(" code ", ended.code, 16);
  put_field(" address ", ended.address, 16);
  put_field(" error ", ended.error, 16);
  put_field(" trap ", ended.trap, 10);
  put_field(" pc ", ended.pc, 16);
  put_field(" start ", oracle_start, 16);
  put("\n");
}

static uint64_t run_case(uint64_t h, const OracleJob *job, OracleRandom *r, unsigned state) {
  uint64_t place = random_state(r, job, &oracle_now);
  bool print = prints_states && (only_state < 0 || only_state == (int)state);
  if (print) print_state("before ", &oracle_now, image_size);
  if (print) flush();
  memset(&ended, 0, sizeof ended);
  oracle_enter();
  if (job->image) hide_image(job, place);
  normalise(oracle_now.image);
  if (print) print_end(job, state), print_state("after ", &oracle_now, image_size);
  const uint64_t *words = (const uint64_t *)&ended;
  for (size_t i = 0; i < sizeof ended / 8; i++) h = mix(h, words[i]);
  h = hash_memory(hash_state(h, &oracle_now, image_size), print);
  n_cases++, n_signals += ended.signo != 0;
  return h;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void put_code(const OracleJob *job) {
  uint64_t at = oracle_slot(job->index) + job->start;
  uint32_t jump = (uint32_t)((uint64_t)oracle_exit - (at + job->len + 5));
  memcpy((void *)at, job->code, job->len);
  *(uint8_t *)(at + job->len) = 0xe9;
  memcpy((void *)(at + job->len + 1), &jump, 4);
}

/* Signals that the job's cases ended in: bit n for signal n, bit 0 for none. */
static uint64_t run_job(const OracleJob *job, uint64_t *signals) {
  OracleRandom r = {job->seed};
  uint64_t h = job->index;
  refresh_window(&r, job->no_trap);
  oracle_start = oracle_slot(job->index) + job->start;
  for (unsigned i = 0; i < job->states; i++) {
    h = run_case(h, job, &r, i);
    *signals |= 1ull << (ended.signo & 63);
    if (ended.signo == 4 && ended.pc == oracle_start && !prints_states)
      break; /* will be illegal again */
  }
  return h;
}

static OracleJob jobs[ORACLE_CHUNK];

static void run_chunk(const OracleJob *chunk, unsigned n, bool each) {
  uint64_t h = 0;
  n_cases = n_signals = 0;
  for (unsigned i = 0; i < n; i++) put_code(&chunk[i]);
  for (unsigned i = 0; i < n; i++) {
    uint64_t signals = 0, one = run_job(&chunk[i], &signals);
    h = mix(h, one);
    if (!each) continue;
    put_field("job ", chunk[i].index, 10);
    put_field(" form ", chunk[i].form, 10);
    put_field(" signals ", signals, 16);
    put_field(" hash ", one, 16);
    put("\n");
    flush();
  }
  if (each || prints_states) return;
  put_field("chunk ", chunk[0].index / ORACLE_CHUNK, 10);
  put_field(" cases ", n_cases, 10);
  put_field(" signals ", n_signals, 10);
  put_field(" hash ", h, 16);
  put("\n");
  flush();
}

static void cpuid(uint32_t leaf, uint32_t sub, uint32_t out4[4]) {
  __asm__ volatile("cpuid"
                   : "=a"(out4[0]), "=b"(out4[1]), "=c"(out4[2]), "=d"(out4[3])
                   : "a"(leaf), "c"(sub));
}

static void find_features(void) {
  uint32_t v[4], bit;
  cpuid(13, 0, v);
  oracle_features = v[0] & X64_FEATURES;
  for (bit = 2; bit < 8; bit++) {
    if (!(oracle_features >> bit & 1)) continue;
    cpuid(13, bit, v);
    part_size[bit] = v[0], part_offset[bit] = v[1];
    if (v[0] + v[1] > image_size) image_size = v[0] + v[1];
  }
  if (image_size > IMAGE_MAX) die(16);
}

int oracle_main(long *stack) {
  const char *mode = stack[0] > 1 ? (const char *)stack[2] : "hash",
             *number = stack[0] > 2 ? (const char *)stack[3] : NULL;
  prints_states = *mode == 's';
  if (number)
    for (only_state = 0; *number; number++) only_state = only_state * 10 + *number - '0';
  find_features();
  map(ORACLE_CODE & ~4095ull, ORACLE_CHUNK * ORACLE_SLOT + ORACLE_PAGE, 7);
  make_window();
  catch_signals();
  unsigned n = 0;
  for (bool more = true; more;) {
    more = get(&jobs[n], sizeof jobs[n]);
    if (more && ++n < ORACLE_CHUNK && (jobs[n - 1].index + 1) % ORACLE_CHUNK) continue;
    if (n) run_chunk(jobs, n, *mode == 'j');
    n = 0;
  }
  flush();
  return 0;
}
