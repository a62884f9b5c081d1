/* What programs see of the CPU: the host's, less what cannot be offered, or a model of the psABI's
 * levels (System V ABI, AMD64 supplement, 3.1.1). Bits: Intel SDM vol. 2, CPUID; AMD APM vol. 3,
 * appendix E. */
#include <cpuid.h>
#include <string.h>

#include "guest/x64/x64.h"

#define BIT(n) (1u << (n))

enum { HOST, V1, V2, V3, V4 };
enum { RAX, RCX, RDX, RBX };

typedef struct Words {
  uint32_t a, b, c, d;
} Words;

/* Features of the levels: of leaf 1's ecx, leaf 7's ebx, leaf 0x80000001's ecx; and of XCR0; what
 * Linux calls them in /proc/cpuinfo (the first level's: all of the two edx, which are not masked).
 */
static const struct {
  uint32_t one_c, seven_b, extended_c;
  uint64_t xcr0;
  const char *names; /* each with a space before and behind */
} levels[] = {
    [V1] = {.xcr0 = 3,
            .names = " fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 pn "
                     "clflush dts acpi mmx fxsr sse sse2 ss ht tm ia64 pbe syscall mp nx mmxext "
                     "fxsr_opt pdpe1gb rdtscp lm 3dnowext 3dnow cpuid hypervisor "},
    [V2] = {BIT(0) | BIT(9) | BIT(13) | BIT(19) | BIT(20) | BIT(23), 0, BIT(0), 3,
            " pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm "},
    [V3] = {BIT(12) | BIT(22) | BIT(26) | BIT(27) | BIT(28) | BIT(29), BIT(3) | BIT(5) | BIT(8),
            BIT(5), 7, " fma movbe xsave osxsave avx f16c bmi1 avx2 bmi2 abm "},
    [V4] = {0, BIT(16) | BIT(17) | BIT(28) | BIT(30) | BIT(31), 0, 0xe7,
            " avx512f avx512dq avx512cd avx512bw avx512vl "},
};

static uint64_t xcr0_of(uint64_t cpu) {
  return ir_xsave_features() & (cpu == HOST ? ~0ull : levels[cpu].xcr0);
}

static void mask_level(uint64_t cpu, uint32_t leaf, uint32_t sub, Words *w) {
  uint32_t one_c = 0, seven_b = 0, extended_c = 0;
  for (uint64_t level = V1; level <= cpu; level++) {
    one_c |= levels[level].one_c;
    seven_b |= levels[level].seven_b;
    extended_c |= levels[level].extended_c;
  }
  if (leaf == 1) w->c &= one_c | BIT(31); /* the hypervisor's presence is none of its features */
  if (leaf == 7) *w = (Words){.b = sub ? 0 : w->b & seven_b};
  if (leaf == 0x80000001) w->c &= extended_c;
  if (leaf == 0xd && cpu < V3) *w = (Words){0};
}

static bool listed(const char *names, const char *name) {
  size_t n = strlen(name);
  for (const char *at = names; (at = strstr(at, name)); at += n)
    if (at[-1] == ' ' && at[n] == ' ') return true;
  return false;
}

/* What mask_hidden hides goes by these names. */
bool x64_shows_feature(const IrState *s, const char *name) {
  static const char hidden[] =
      " monitor vmx smx pdcm sgx sgx_lc hle rtm mpx pku ospke waitpkg user_shstk ibt aes_kl kl "
      "uintr rtm_always_abort tsxldtrk pconfig arch_lbr amx_bf16 amx_tile amx_int8 amx_fp16 fred "
      "lkgs svm lwp mwaitx ";
  uint64_t cpu = ((const X64State *)s)->cpu;
  if (cpu == HOST) return !listed(hidden, name);
  for (uint64_t level = V1; level <= cpu; level++)
    if (listed(levels[level].names, name)) return true;
  return false;
}

/* monitor, VMX, SMX, PDCM; SGX, HLE, RTM, MPX; PKU, CET, WAITPKG, key locker; UINTR, AMX;
 * SVM, LWP, mwaitx. */
static void mask_hidden(uint32_t leaf, uint32_t sub, Words *w) {
  if (leaf == 1) w->c &= ~(BIT(3) | BIT(5) | BIT(6) | BIT(15));
  if (leaf == 7 && !sub) {
    w->b &= ~(BIT(2) | BIT(4) | BIT(11) | BIT(14));
    w->c &= ~(BIT(3) | BIT(4) | BIT(5) | BIT(7) | BIT(23));
    w->d &= ~(BIT(5) | BIT(11) | BIT(13) | BIT(20) | BIT(22) | BIT(24) | BIT(25));
  }
  if (leaf == 7 && sub == 1) w->a &= ~(BIT(21) | BIT(22) | BIT(26));
  if (leaf == 0x80000001) w->c &= ~(BIT(2) | BIT(15) | BIT(29));
}

/* Which processor runs a program changes at any time, and from run to run: it is always the first. */
static void mask_processor(uint32_t leaf, Words *w) {
  if (leaf == 1) w->b &= 0x00ffffff;
  if (leaf == 0xb || leaf == 0x1f) w->d = 0;
  if (leaf == 0x8000001e) w->a = 0;
}

/* XSAVE's components. */
static void mask_xsave(uint64_t cpu, uint32_t sub, Words *w) {
  uint64_t xcr0 = xcr0_of(cpu);
  if (sub == 0) {
    *w = (Words){.a = (uint32_t)xcr0, .b = w->b, .c = (uint32_t)ir_xsave_size()};
    if (w->b > w->c) w->b = w->c;
  } else if (sub == 1) {
    *w = (Words){.a = w->a & 7}; /* not XSAVES */
  } else if (sub > 63 || !(xcr0 >> sub & 1)) {
    *w = (Words){0};
  }
}

static uint64_t cpuid(IrState *st, uint64_t a, uint64_t b) {
  X64State *s = (X64State *)st;
  uint32_t leaf = (uint32_t)s->gpr[RAX], sub = (uint32_t)s->gpr[RCX];
  Words w;
  (void)a, (void)b;
  __cpuid_count(leaf, sub, w.a, w.b, w.c, w.d);
  mask_hidden(leaf, sub, &w);
  mask_processor(leaf, &w);
  if (leaf == 0xd) mask_xsave(s->cpu, sub, &w);
  if (s->cpu != HOST) mask_level(s->cpu, leaf, sub, &w);
  s->gpr[RAX] = w.a;
  s->gpr[RBX] = w.b;
  s->gpr[RCX] = w.c;
  s->gpr[RDX] = w.d;
  return 0;
}

/* ecx = 1: XINUSE. Everything is taken to be in use. */
static uint64_t xgetbv(IrState *st, uint64_t a, uint64_t b) {
  X64State *s = (X64State *)st;
  (void)a, (void)b;
  s->gpr[RAX] = xcr0_of(s->cpu);
  s->gpr[RDX] = 0;
  return 0;
}

const IrHelper x64_cpuid = {"cpuid", cpuid}, x64_xgetbv = {"xgetbv", xgetbv};

bool x64_set_cpu(IrState *s, const char *model) {
  static const char *const names[] = {"host", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  for (uint64_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(model, names[i]) || (i >= V2 && !strcmp(model, names[i] + 7))) {
      ((X64State *)s)->cpu = i;
      return true;
    }
  return false;
}

/* rdfsbase and its kin: a = the register, b = X64_BASE_*. Both bases live in the state: gs: is the
 * engine's. */
static uint64_t base(IrState *st, uint64_t reg, uint64_t how) {
  X64State *s = (X64State *)st;
  uint64_t *at = how & X64_BASE_GS ? &s->gs_base : &s->fs_base;
  uint64_t mask = how & X64_BASE_32 ? 0xffffffff : ~0ull, value = s->gpr[reg] & mask;
  if (how & X64_BASE_WRITE)
    *at = value;
  else
    s->gpr[reg] = *at & mask;
  return 0;
}
const IrHelper x64_base = {"segment_base", base};
