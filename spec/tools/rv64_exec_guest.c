/* The guest program of the exec sweep (rv64_exec.h): riscv64, no C library. Jobs come on descriptor
 * 0, records go to 1. */
#include "rv64_exec.h"

enum {
  SYS_READ = 63,
  SYS_WRITE = 64,
  SYS_EXIT = 93,
  SYS_SIGALTSTACK = 132,
  SYS_SIGACTION = 134,
  SYS_MMAP = 222
};
enum { SIGILL_ = 4, SIGTRAP_ = 5, SIGBUS_ = 7, SIGFPE_ = 8, SIGSEGV_ = 11 };

ExecState exec_now;
uint64_t exec_outcome, exec_start, exec_sp;

#define WAYS(n)                                                                                    \
  void exec_enter_##n(void), exec_fell_##n(void), exec_taken_##n(void), exec_signal_##n(void);
WAYS(28) WAYS(29) WAYS(30) WAYS(31) typedef void Way(void);
#define EACH(name)                                                                                 \
  { name##_28, name##_29, name##_30, name##_31 }
static Way *const enter[] = EACH(exec_enter), *const fell[] = EACH(exec_fell),
                  *const taken[] = EACH(exec_taken), *const on_signal[] = EACH(exec_signal);

static unsigned base; /* of the job, less 28 */

static long call(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  register uint64_t a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c,
                       a3 __asm__("a3") = d, a4 __asm__("a4") = e, a5 __asm__("a5") = f,
                       a7 __asm__("a7") = (uint64_t)nr;
  __asm__ volatile("ecall"
                   : "+r"(a0)
                   : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7)
                   : "memory");
  return (long)a0;
}

static void die(int status) { call(SYS_EXIT, (uint64_t)status, 0, 0, 0, 0, 0); }

void *memcpy(void *to, const void *from, size_t n) {
  char *t = to;
  for (const char *f = from; n; n--) *t++ = *f++;
  return to;
}

void *memset(void *at, int c, size_t n) {
  for (char *p = at; n; n--) *p++ = (char)c;
  return at;
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

static uint8_t out[1 << 16];
static size_t out_n;

static void flush(void) {
  for (size_t done = 0; done < out_n;) {
    long k = call(SYS_WRITE, 1, (uint64_t)out + done, out_n - done, 0, 0, 0);
    if (k <= 0) die(11);
    done += (size_t)k;
  }
  out_n = 0;
}

/* ---- signals: the instruction trapped; its state is left as the frame has it ----------------- */

static void handler(int signo, const void *info, uint64_t *ucontext) {
  (void)info;
  exec_outcome = EXEC_SIGNAL + (unsigned)signo;
  ucontext[176 / 8] = (uint64_t)on_signal[base]; /* pc, the first word of the sigcontext */
}

/* Where no state's stack pointer leads: one inside the alternate stack would count as being on it.
 */
#define ALT_STACK      0x35a5c000ull
#define ALT_STACK_SIZE 0x8000

static void map(uint64_t at, uint64_t size) {
  long got = call(SYS_MMAP, at, size, 7, 0x32, (uint64_t)-1, 0); /* PRIVATE, ANONYMOUS, FIXED */
  if ((uint64_t)got != at) die(14);
}

static void catch_signals(void) {
  struct {
    void *sp;
    uint64_t flags, size;
  } alt = {(void *)ALT_STACK, 0, ALT_STACK_SIZE};
  static const struct {
    void (*fn)(int, const void *, uint64_t *);
    uint64_t flags, mask;
  } action = {handler, 4 | 0x08000000 | 0x40000000, 0}; /* SA_SIGINFO, SA_ONSTACK, SA_NODEFER */
  static const uint8_t signals[] = {SIGILL_, SIGTRAP_, SIGBUS_, SIGFPE_, SIGSEGV_};
  map(ALT_STACK, ALT_STACK_SIZE);
  if (call(SYS_SIGALTSTACK, (uint64_t)&alt, 0, 0, 0, 0, 0)) die(12);
  for (size_t i = 0; i < sizeof signals; i++)
    if (call(SYS_SIGACTION, signals[i], (uint64_t)&action, 0, 8, 0, 0)) die(13);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* A jump to a way out: lui base; jalr zero, base. */
static void put_jump(uint64_t at, Way *to) {
  uint32_t reg = 28 + base, address = (uint32_t)(uintptr_t)to,
           high = (address + 0x800) & 0xfffff000;
  uint32_t jump[] = {high | reg << 7 | 0x37, (address - high) << 20 | reg << 15 | 0x67};
  memcpy((void *)at, jump, sizeof jump);
}

static void put_code(const ExecJob *job) {
  uint64_t at = EXEC_CODE + EXEC_MIDDLE;
  base = job->base - 28u;
  exec_start = at - job->len[1];
  memcpy((void *)exec_start, &job->code[1], job->len[1]);
  memcpy((void *)at, &job->code[0], job->len[0]);
  put_jump(at + job->len[0], fell[base]);
  if (job->target) put_jump(job->target, taken[base]);
  __asm__ volatile("fence.i" ::: "memory");
}

static void run(const ExecJob *job) {
  GenRandom r = {job->seed};
  uint64_t *words = (uint64_t *)EXEC_WORDS_AT;
  put_code(job);
  for (uint32_t i = 0; i < job->states; i++) {
    ExecState before = {0};
    exec_state(&r, job, &before);
    exec_now = before;
    memcpy(words, before.memory, sizeof before.memory);
    enter[base]();
    memcpy(exec_now.memory, words, sizeof before.memory);
    exec_now.x[0] = exec_now.x[job->base] = 0;
    if (out_n + EXEC_RECORD_MAX > sizeof out) flush();
    out_n += exec_record(&before, &exec_now, (unsigned)exec_outcome, out + out_n);
  }
}

int exec_main(void);
int exec_main(void) {
  ExecJob job;
  map(EXEC_CODE, EXEC_CODE_SIZE);
  map(EXEC_WINDOW, 0x1000);
  catch_signals();
  while (get(&job, sizeof job)) run(&job);
  flush();
  return 0;
}
