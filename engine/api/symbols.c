/* Images, symbols, source positions, stacks and variables of kit/emu.h: debug/ with load biases,
 * registers and memory of a guest. */
#include <dlfcn.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "debug/debug.h"

#define MAX_INLINED 64

/* ---- images ---------------------------------------------------------------------------------- */

DebugImage *api_debug(Emu *emu, CoreImageRecord *r) {
  if (!r->debug_tried) r->debug = debug_open(r->pub.host_path, emu->sysroot, emu->debug_folders);
  r->debug_tried = true;
  return r->debug;
}

/* Later images first: one may have taken the place of one that was unmapped. */
CoreImageRecord *api_record_at(Emu *emu, uint64_t pc) {
  for (size_t i = emu->images.n; i-- > 0;)
    if (pc >= emu->images.at[i]->pub.low && pc < emu->images.at[i]->pub.high)
      return emu->images.at[i];
  return NULL;
}

void api_close_images(Emu *emu) {
  for (size_t i = 0; i < emu->images.n; i++) {
    CoreImageRecord *r = emu->images.at[i];
    debug_close(r->debug);
    free((void *)(uintptr_t)r->pub.path);
    free((void *)(uintptr_t)r->pub.host_path);
    free(r);
  }
  vec_free(&emu->images);
}

size_t kit_image_count(KitEmu *emu) { return emu->images.n; }

static const KitImage *public_image(Emu *emu, CoreImageRecord *r) {
  DebugImage *d = api_debug(emu, r);
  if (d && !r->pub.build_id[0]) r->pub.build_id = debug_build_id(d);
  return &r->pub;
}

const KitImage *kit_image(KitEmu *emu, size_t i) {
  return i < emu->images.n ? public_image(emu, emu->images.at[i]) : NULL;
}

const KitImage *kit_image_at(KitEmu *emu, uint64_t pc) {
  CoreImageRecord *r = api_record_at(emu, pc);
  return r ? public_image(emu, r) : NULL;
}

/* ---- symbols --------------------------------------------------------------------------------- */

static void fill(const CoreImageRecord *r, const DebugSymbol *s, KitSymbol *out) {
  *out =
      (KitSymbol){s->name, s->addr + r->pub.bias, s->size, &r->pub, s->is_function, s->is_indirect};
}

static bool named_object(const CoreImageRecord *r, const char *name, size_t n) {
  const char *base = strrchr(r->pub.path, '/');
  base = base ? base + 1 : r->pub.path;
  return strlen(base) == n && !memcmp(base, name, n);
}

KitStatus kit_symbol(KitEmu *emu, const char *name, KitSymbol *out) {
  const char *colon = strchr(name, ':');
  bool qualified = colon && colon[1] && colon[1] != ':';
  for (size_t i = 0; i < emu->images.n; i++) {
    CoreImageRecord *r = emu->images.at[i];
    DebugSymbol s;
    if (r->unloaded || (qualified && !named_object(r, name, (size_t)(colon - name)))) continue;
    DebugImage *d = api_debug(emu, r);
    if (d && debug_symbol_named(d, qualified ? colon + 1 : name, &s)) {
      fill(r, &s, out);
      return KIT_OK;
    }
  }
  return core_fail(emu, KIT_E_NOT_FOUND, "no symbol '%s' in what is loaded", name);
}

bool kit_image_symbol(KitEmu *emu, const KitImage *image, const char *name, KitSymbol *out) {
  CoreImageRecord *r = image->id < emu->images.n ? emu->images.at[image->id] : NULL;
  DebugImage *d = r ? api_debug(emu, r) : NULL;
  DebugSymbol s;
  if (!d || !debug_symbol_named(d, name, &s)) return false;
  fill(r, &s, out);
  return true;
}

KitStatus kit_symbol_at(KitEmu *emu, uint64_t pc, KitSymbol *out) {
  CoreImageRecord *r = api_record_at(emu, pc);
  DebugImage *d = r ? api_debug(emu, r) : NULL;
  DebugSymbol s;
  if (!d || !debug_symbol_at(d, pc - r->pub.bias, &s))
    return core_fail(emu, KIT_E_NOT_FOUND, "no symbol at 0x%llx", (unsigned long long)pc);
  fill(r, &s, out);
  return KIT_OK;
}

bool kit_extent(KitEmu *emu, uint64_t pc, uint64_t *start, uint64_t *size) {
  CoreImageRecord *r = api_record_at(emu, pc);
  DebugImage *d = r ? api_debug(emu, r) : NULL;
  if (!d || !debug_extent(d, pc - r->pub.bias, start, size)) return false;
  *start += r->pub.bias;
  return true;
}

/* The C++ library's own demangler, if that is installed. */
char *kit_demangle(const char *name) {
  typedef char *Demangle(const char *, char *, size_t *, int *);
  static bool tried;
  static Demangle *demangle;
  if (strncmp(name, "_Z", 2)) return NULL;
  void *library = tried ? NULL : dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
  if (library) *(void **)&demangle = dlsym(library, "__cxa_demangle");
  tried = true;
  int status;
  return demangle ? demangle(name, NULL, NULL, &status) : NULL;
}

/* For the call graph: core asks through emu->is_entry. */
bool api_is_entry(Emu *emu, uint64_t pc) {
  CoreImageRecord *r = api_record_at(emu, pc);
  DebugImage *d = r ? api_debug(emu, r) : NULL;
  return d && debug_is_function_entry(d, pc - r->pub.bias);
}

typedef struct Match {
  const CoreImageRecord *r;
  const char *pattern;
  void (*fn)(void *ctx, const KitSymbol *s);
  void *ctx;
} Match;

static void match(void *ctx, const DebugSymbol *s) {
  Match *m = ctx;
  KitSymbol out;
  if (fnmatch(m->pattern, s->name, 0)) return;
  fill(m->r, s, &out);
  m->fn(m->ctx, &out);
}

void kit_symbols(KitEmu *emu, const char *pattern, void (*fn)(void *ctx, const KitSymbol *s),
                 void *ctx) {
  for (size_t i = 0; i < emu->images.n; i++) {
    DebugImage *d = api_debug(emu, emu->images.at[i]);
    Match m = {emu->images.at[i], pattern, fn, ctx};
    if (d && !emu->images.at[i]->unloaded) debug_symbols(d, match, &m);
  }
}

/* ---- source positions ------------------------------------------------------------------------ */

/* at: the address to look up, one less than pc for a return address (the call's line, not the next
 * one's). */
static size_t lookup(Emu *emu, uint64_t pc, uint64_t at, KitFrame *out, size_t max) {
  DebugFrame f[MAX_INLINED];
  CoreImageRecord *r = api_record_at(emu, at);
  DebugImage *d = r ? api_debug(emu, r) : NULL;
  if (!r) return 0;
  size_t n = d ? debug_lookup(d, at - r->pub.bias, f, MAX_INLINED) : 0;
  DebugSymbol s;
  uint64_t start = d && debug_symbol_at(d, at - r->pub.bias, &s) ? s.addr + r->pub.bias : 0;
  if (!n) f[n++] = (DebugFrame){0};
  for (size_t i = 0; i < n && i < max; i++)
    out[i] = (KitFrame){.pc = pc,
                        .function = f[i].function ? f[i].function : "",
                        .file = f[i].file ? f[i].file : "",
                        .line = f[i].line,
                        .inlined = f[i].inlined,
                        .function_address = start,
                        .image = &r->pub};
  return n;
}

KitStatus kit_line(KitEmu *emu, uint64_t pc, KitLine *out) {
  CoreImageRecord *r = api_record_at(emu, pc);
  DebugImage *d = r ? api_debug(emu, r) : NULL;
  DebugLine l;
  if (!d || !debug_line_at(d, pc - r->pub.bias, &l) || !l.file || !l.line)
    return core_fail(emu, KIT_E_NOT_FOUND, "no line for 0x%llx", (unsigned long long)pc);
  *out = (KitLine){l.file, l.line, l.end + r->pub.bias};
  return KIT_OK;
}

size_t kit_lookup(KitEmu *emu, uint64_t pc, KitFrame *out, size_t max) {
  return lookup(emu, pc, pc, out, max);
}

KitStatus kit_line_addresses(KitEmu *emu, const char *file, int line, uint64_t *out, size_t max,
                             size_t *n) {
  *n = 0;
  for (size_t i = 0; i < emu->images.n; i++) {
    CoreImageRecord *r = emu->images.at[i];
    DebugImage *d = r->unloaded ? NULL : api_debug(emu, r);
    size_t have = *n < max ? *n : max,
           more = d ? debug_line_addresses(d, file, line, out + have, max - have) : 0;
    for (size_t k = have; k < have + more && k < max; k++) out[k] += r->pub.bias;
    *n += more;
  }
  return *n ? KIT_OK : core_fail(emu, KIT_E_NOT_FOUND, "no code for %s:%d", file, line);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

typedef struct Walker {
  Emu *emu;
  uint64_t pc;
  bool known[DEBUG_MAX_REGS];
  uint64_t value[DEBUG_MAX_REGS];
} Walker;

static bool walker_get(void *ctx, int reg, uint64_t *value) {
  Walker *w = ctx;
  if (reg < 0 || reg >= DEBUG_MAX_REGS || !w->known[reg]) return false;
  *value = w->value[reg];
  return true;
}

static bool walker_read(void *ctx, uint64_t va, void *buf, size_t n) {
  return !core_peek(((Walker *)ctx)->emu, va, buf, n);
}

static void start_walk(Walker *w, Emu *emu, const CoreThread *t) {
  const Guest *g = emu->guest;
  *w = (Walker){.emu = emu, .pc = t->state->pc};
  for (uint32_t i = 0; i < g->n_regs; i++) {
    int r = g->regs[i].dwarf;
    if (r < 0 || r >= DEBUG_MAX_REGS || g->regs[i].size != 8) continue;
    w->known[r] = true;
    w->value[r] = guest_reg(g, t->state, (int)i);
  }
}

static int dwarf_of(const Guest *g, int reg) { return reg >= 0 ? g->regs[reg].dwarf : -1; }

/* Without call frame information: the innermost frame of a leaf returns to the link register;
 * others are followed by the frame pointer, where the compiler kept one (old fp and return address
 * below it on riscv64, psABI "Frame Pointer Convention"). */
static bool step_by_frame_pointer(Walker *w, size_t depth) {
  const Guest *g = w->emu->guest;
  int ra = dwarf_of(g, g->abi.ra), fp = dwarf_of(g, g->abi.fp), sp = dwarf_of(g, g->abi.sp);
  uint64_t frame, saved[2];
  if (depth == 0 && ra >= 0 && w->known[ra] && api_record_at(w->emu, w->value[ra])) {
    w->pc = w->value[ra];
    w->known[ra] = false;
    return true;
  }
  if (fp < 0 || !w->known[fp]) return false;
  frame = w->value[fp];
  bool link = g->abi.ra >= 0;
  if (core_peek(w->emu, link ? frame - 16 : frame, saved, sizeof saved) || saved[0] <= frame ||
      !api_record_at(w->emu, saved[1]))
    return false;
  w->value[sp] = link ? frame : frame + 16;
  w->value[fp] = saved[0];
  w->pc = saved[1];
  return true;
}

/* One frame up; *cfa is the frame's that is left. */
static bool step_up(Walker *w, size_t depth, bool *after_signal, uint64_t *cfa) {
  const Guest *g = w->emu->guest;
  uint64_t at = depth && !*after_signal ? w->pc - 1 : w->pc;
  CoreImageRecord *r = api_record_at(w->emu, at);
  DebugImage *d = r ? api_debug(w->emu, r) : NULL;
  DebugRegs regs = {w, walker_get, walker_read};
  DebugUnwound u;
  *cfa = 0;
  if (!d || !debug_unwind(d, at - r->pub.bias, &regs, &u)) {
    *after_signal = false;
    return step_by_frame_pointer(w, depth);
  }
  *cfa = u.cfa;
  memcpy(w->known, u.known, sizeof w->known);
  memcpy(w->value, u.value, sizeof w->value);
  int sp = dwarf_of(g, g->abi.sp);
  if (!u.signal_frame) {
    w->known[sp] = true;
    w->value[sp] = u.cfa;
  }
  *after_signal = u.signal_frame;
  w->pc = u.ret;
  return w->pc != 0;
}

size_t kit_backtrace(KitEmu *emu, int tid, KitFrame *out, size_t max) {
  CoreThread *t = api_thread(emu, tid);
  Walker w;
  size_t n = 0;
  bool after_signal = false, more = t != NULL;
  if (t) start_walk(&w, emu, t);
  for (size_t depth = 0; more && n < max && depth < 10000; depth++) {
    KitFrame *first = &out[n];
    size_t had = n;
    n += lookup(emu, w.pc, depth && !after_signal ? w.pc - 1 : w.pc, first, max - n);
    if (n > max) n = max;
    if (n == had) out[n++] = (KitFrame){.pc = w.pc, .function = "", .file = ""};
    uint64_t cfa, pc = w.pc, sp = w.value[dwarf_of(emu->guest, emu->guest->abi.sp)];
    more = step_up(&w, depth, &after_signal, &cfa);
    for (size_t i = had; i < n; i++) out[i].cfa = cfa;
    if (w.pc == pc && w.value[dwarf_of(emu->guest, emu->guest->abi.sp)] == sp)
      more = false; /* no progress */
  }
  return n;
}

size_t api_walk(Emu *emu, const CoreThread *t, uint64_t *pcs, size_t max) {
  Walker w;
  size_t n = 0;
  bool after_signal = false, more = true;
  int sp = dwarf_of(emu->guest, emu->guest->abi.sp);
  start_walk(&w, emu, t);
  while (more && n < max) {
    uint64_t cfa, pc = w.pc, at = w.value[sp];
    pcs[n++] = pc;
    more = step_up(&w, n - 1, &after_signal, &cfa) && (w.pc != pc || w.value[sp] != at);
  }
  return n;
}

/* ---- variables ------------------------------------------------------------------------------- */

typedef struct Collect {
  void (*fn)(void *ctx, const KitVariable *v);
  void *ctx;
} Collect;

static void collect(void *ctx, const DebugVariable *v) {
  Collect *c = ctx;
  KitVariable out = {.name = v->name,
                     .type = v->type,
                     .is_argument = v->is_argument,
                     .size = v->size,
                     .address = v->address,
                     .encoding = v->encoding,
                     .available = v->available};
  memcpy(out.value, v->value, sizeof out.value);
  c->fn(c->ctx, &out);
}

/* frame counts real frames, as kit_backtrace does without the inlined ones. */
KitStatus kit_locals(KitEmu *emu, int tid, size_t frame,
                     void (*fn)(void *ctx, const KitVariable *v), void *ctx) {
  CoreThread *t = api_thread(emu, tid);
  Walker w, here;
  bool after_signal = false;
  uint64_t cfa = 0;
  if (!t) return emu->error.code;
  start_walk(&w, emu, t);
  for (size_t depth = 0; depth < frame; depth++)
    if (!step_up(&w, depth, &after_signal, &cfa))
      return core_fail(emu, KIT_E_NOT_FOUND, "there is no frame %zu", frame + 1);
  here = w;
  uint64_t at = frame && !after_signal ? here.pc - 1 : here.pc;
  bool signal = after_signal;
  step_up(&w, frame, &signal, &cfa);
  CoreImageRecord *r = api_record_at(emu, at);
  DebugImage *d = r ? api_debug(emu, r) : NULL;
  if (!d)
    return core_fail(emu, KIT_E_NOT_FOUND, "no debug information at 0x%llx",
                     (unsigned long long)here.pc);
  DebugRegs regs = {&here, walker_get, walker_read};
  debug_variables(d, at - r->pub.bias, r->pub.bias, cfa, &regs, collect, &(Collect){fn, ctx});
  return KIT_OK;
}
