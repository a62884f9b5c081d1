/* Vector and x87 state in the form that signal frames have. */
#include <cpuid.h>
#include <string.h>

#include "ir/native.h"

enum { LEGACY = 512, HEADER = 64, XMM_AT = 160, MAGIC_AT = 464 };
enum { X87, SSE, AVX, OPMASK = 5, ZMM_HI256, HI16_ZMM, COMPONENTS };
#define FP_XSTATE_MAGIC1 0x46505853u /* Linux, asm/sigcontext.h */

static struct {
  uint64_t features;
  uint32_t at[COMPONENTS];
  size_t size;
} xsave;

static uint64_t xcr0(void) {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

static void look(void) {
  uint32_t a, b, c, d;
  if (xsave.features) return;
  size_t size = LEGACY + HEADER;
  uint64_t features = 3;
  if (__get_cpuid(1, &a, &b, &c, &d) && c & bit_OSXSAVE) features = xcr0() & 0xe7;
  for (int i = AVX; i < COMPONENTS; i++) {
    if (!(features >> i & 1) || !__get_cpuid_count(0xd, (uint32_t)i, &a, &b, &c, &d)) continue;
    xsave.at[i] = b;
    if (b + a > size) size = b + a;
  }
  xsave.size = size;
  xsave.features = features;
}

size_t ir_xsave_size(void) {
  look();
  return xsave.size;
}

uint64_t ir_xsave_features(void) {
  look();
  return xsave.features;
}

static bool has(unsigned component) { return ir_xsave_features() >> component & 1; }

void ir_xsave_from(const IrVectors *v, uint8_t *image) {
  memset(image, 0, ir_xsave_size());
  memcpy(image, v->legacy, XMM_AT);
  for (int i = 0; i < 16; i++) memcpy(image + XMM_AT + 16 * i, v->v[i], 16);
  for (int i = 0; has(AVX) && i < 16; i++) memcpy(image + xsave.at[AVX] + 16 * i, v->v[i] + 16, 16);
  if (has(OPMASK)) memcpy(image + xsave.at[OPMASK], v->k, sizeof v->k);
  for (int i = 0; has(ZMM_HI256) && i < 16; i++)
    memcpy(image + xsave.at[ZMM_HI256] + 32 * i, v->v[i] + 32, 32);
  if (has(HI16_ZMM)) memcpy(image + xsave.at[HI16_ZMM], v->v[16], 16 * sizeof v->v[0]);
  memcpy(image + LEGACY, &xsave.features, sizeof xsave.features);
}

void ir_vectors_reset(IrVectors *v) {
  static const uint16_t fcw = 0x37f;
  static const uint32_t mxcsr = 0x1f80, mxcsr_mask = 0xffff;
  memset(v, 0, sizeof *v);
  memcpy(v->legacy, &fcw, sizeof fcw);
  memcpy(v->legacy + IR_LEGACY_MXCSR, &mxcsr, sizeof mxcsr);
  memcpy(v->legacy + IR_LEGACY_MXCSR + 4, &mxcsr_mask, sizeof mxcsr_mask);
}

size_t ir_xsave_frame_size(const uint8_t *image) {
  uint32_t magic[4]; /* magic, bytes with what follows, features (64 bits) */
  memcpy(magic, image + MAGIC_AT, sizeof magic);
  return magic[0] == FP_XSTATE_MAGIC1 && magic[1] >= LEGACY + HEADER ? magic[1] : LEGACY;
}

/* The image has this component, all of it. */
static bool holds(uint64_t bv, size_t size, unsigned component, size_t bytes) {
  return bv >> component & has(component) && xsave.at[component] + bytes <= size;
}

void ir_xsave_to(IrVectors *v, const uint8_t *image, size_t size) {
  uint64_t bv = 1 << X87 | 1 << SSE;
  ir_vectors_reset(v);
  look();
  if (size >= LEGACY + HEADER) memcpy(&bv, image + LEGACY, sizeof bv);
  if (bv >> X87 & 1)
    memcpy(v->legacy, image, IR_LEGACY_MXCSR), memcpy(v->legacy + 32, image + 32, XMM_AT - 32);
  if (bv >> SSE & 1 || bv >> AVX & 1)
    memcpy(v->legacy + IR_LEGACY_MXCSR, image + IR_LEGACY_MXCSR, 4);
  for (int i = 0; bv >> SSE & 1 && i < 16; i++) memcpy(v->v[i], image + XMM_AT + 16 * i, 16);
  for (int i = 0; holds(bv, size, AVX, 256) && i < 16; i++)
    memcpy(v->v[i] + 16, image + xsave.at[AVX] + 16 * i, 16);
  if (holds(bv, size, OPMASK, sizeof v->k)) memcpy(v->k, image + xsave.at[OPMASK], sizeof v->k);
  for (int i = 0; holds(bv, size, ZMM_HI256, 512) && i < 16; i++)
    memcpy(v->v[i] + 32, image + xsave.at[ZMM_HI256] + 32 * i, 32);
  if (holds(bv, size, HI16_ZMM, 1024)) memcpy(v->v[16], image + xsave.at[HI16_ZMM], 1024);
}
