/* Threads, registers, memory and disassembly of kit/emu.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/api.h"

const char *kit_arch(const KitEmu *emu) { return emu->guest->name; }
int kit_pid(const KitEmu *emu) {
  (void)emu;
  return getpid();
}
bool kit_is_child(const KitEmu *emu) { return emu->is_child; }
void kit_stop_on_fault(KitEmu *emu, bool on) { emu->stop_on_fault = on; }
void kit_stats(const KitEmu *emu, KitStats *out) { *out = emu->stats; }

bool kit_insns(const KitEmu *emu, uint64_t *out) {
  if (!emu->opt.count_insns) return false;
  *out = core_insns((KitEmu *)emu);
  return true;
}

KitStatus kit_count_insns(KitEmu *emu) {
  if (emu->started && !emu->opt.count_insns)
    return core_fail(emu, KIT_E_BUSY,
                     "instructions were not counted from the start: ask before the first run");
  if (!emu->opt.count_insns) core_count_retired(emu);
  emu->opt.count_insns = true;
  return KIT_OK;
}

/* ---- threads --------------------------------------------------------------------------------- */

CoreThread *api_thread(Emu *emu, int tid) {
  if (!emu->started) return emu->threads_first;
  CoreThread *t = tid            ? core_find_thread(emu, tid)
                  : emu->current ? emu->current
                                 : emu->last_stopped;
  if (!t && !tid) t = emu->threads;
  if (!t)
    core_fail(emu, emu->ended ? KIT_E_DEAD : KIT_E_ARGUMENT,
              emu->ended ? "the guest has ended" : "no thread %d", tid);
  return t;
}

size_t kit_threads(KitEmu *emu, KitThreadInfo *out, size_t max) {
  static const char *const states[] = {"ready", "running", "blocked", "blocked", "exited"};
  size_t n = 0;
  for (CoreThread *t = emu->started ? emu->threads : emu->threads_first; t; t = t->next, n++)
    if (n < max)
      out[n] = (KitThreadInfo){t->tid, t->state->pc, states[t->run_state], ir_retired(t->state)};
  return n;
}

int kit_current_thread(KitEmu *emu) {
  CoreThread *t = api_thread(emu, 0);
  return t ? t->tid : 0;
}

/* ---- registers: the guest's table, and the pc behind it -------------------------------------- */

size_t kit_reg_count(const KitEmu *emu) { return emu->guest->n_regs + 1; }

const KitRegInfo *kit_reg_info(const KitEmu *emu, size_t i) {
  static const char *const classes[] = {"int", "fp", "vec", "ctrl"};
  static __thread KitRegInfo info;
  if (i > emu->guest->n_regs) return NULL;
  if (i == emu->guest->n_regs) {
    info = (KitRegInfo){"pc", emu->guest->pc_name, "ctrl", 8, -1};
    return &info;
  }
  const GuestReg *r = &emu->guest->regs[i];
  info = (KitRegInfo){r->name, r->alias, classes[r->cls], r->size, r->dwarf};
  return &info;
}

int kit_reg_find(const KitEmu *emu, const char *name) {
  const char *alias = emu->guest->pc_name;
  if (!strcmp(name, "pc") || (alias && !strcmp(name, alias))) return (int)emu->guest->n_regs;
  return guest_find_reg(emu->guest, name);
}

static void *reg_place(KitEmu *emu, CoreThread *t, int reg, size_t *size) {
  if (reg < 0 || (uint32_t)reg > emu->guest->n_regs) return NULL;
  if ((uint32_t)reg == emu->guest->n_regs) {
    *size = 8;
    return &t->state->pc;
  }
  const GuestReg *r = &emu->guest->regs[reg];
  *size = r->size;
  return (char *)t->state + r->offset;
}

KitStatus kit_reg_read(KitEmu *emu, int tid, int reg, void *buf) {
  CoreThread *t = api_thread(emu, tid);
  size_t size;
  if (!t) return emu->error.code;
  void *p = reg_place(emu, t, reg, &size);
  if (!p) return core_fail(emu, KIT_E_ARGUMENT, "no register number %d", reg);
  memcpy(buf, p, size);
  return KIT_OK;
}

KitStatus kit_reg_write(KitEmu *emu, int tid, int reg, const void *buf) {
  CoreThread *t = api_thread(emu, tid);
  size_t size;
  if (!t) return emu->error.code;
  void *p = reg_place(emu, t, reg, &size);
  if (!p) return core_fail(emu, KIT_E_ARGUMENT, "no register number %d", reg);
  memcpy(p, buf, size);
  if (p == &t->state->pc) core_pc_written(t);
  return KIT_OK;
}

int kit_reg_role(const KitEmu *emu, const char *role) {
  const GuestAbi *abi = &emu->guest->abi;
  const struct {
    const char *role;
    int16_t reg;
  } roles[] = {{"sp", abi->sp},
               {"ra", abi->ra},
               {"fp", abi->fp},
               {"tp", abi->tp},
               {"ret", abi->ret},
               {"syscall_nr", abi->syscall_nr},
               {"syscall_ret", abi->syscall_ret}};
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (!strcmp(role, roles[i].role)) return roles[i].reg;
  if (!strncmp(role, "arg", 3) && role[3] >= '0' && role[3] < '0' + abi->n_args && !role[4])
    return abi->args[role[3] - '0'];
  return -1;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static KitStatus unmapped(KitEmu *emu, uint64_t va, uint64_t n) {
  return core_fail(emu, KIT_E_UNMAPPED, "guest memory 0x%llx (%llu bytes) is not mapped",
                   (unsigned long long)va, (unsigned long long)n);
}

KitStatus kit_mem_read(KitEmu *emu, uint64_t va, void *buf, size_t n) {
  return n && core_peek(emu, va, buf, n) ? unmapped(emu, va, n) : KIT_OK;
}

KitStatus kit_mem_write(KitEmu *emu, uint64_t va, const void *buf, size_t n) {
  return n && core_poke(emu, va, buf, n) ? unmapped(emu, va, n) : KIT_OK;
}

KitStatus kit_mem_strlen(KitEmu *emu, uint64_t va, size_t max, size_t *len) {
  char page[CORE_PAGE];
  for (*len = 0; *len < max;) {
    uint64_t at = va + *len, n = CORE_PAGE - at % CORE_PAGE;
    if (n > max - *len) n = max - *len;
    if (core_peek(emu, at, page, n)) return unmapped(emu, at, 1);
    size_t here = strnlen(page, n);
    *len += here;
    if (here < n) break;
  }
  return KIT_OK;
}

KitStatus kit_mem_find(KitEmu *emu, uint64_t va, size_t len, const void *needle, size_t n,
                       uint64_t *out) {
  char window[2 * CORE_PAGE];
  if (!n || n > CORE_PAGE)
    return core_fail(emu, KIT_E_ARGUMENT, "the needle must have 1 to %d bytes", (int)CORE_PAGE);
  for (uint64_t off = 0; off + n <= len; off += CORE_PAGE) {
    uint64_t have = len - off < CORE_PAGE + n - 1 ? len - off : CORE_PAGE + n - 1;
    if (core_peek(emu, va + off, window, have)) return unmapped(emu, va + off, have);
    const char *hit = memmem(window, have, needle, n);
    if (hit) {
      *out = va + off + (uint64_t)(hit - window);
      return KIT_OK;
    }
  }
  return core_fail(emu, KIT_E_NOT_FOUND, "not found in the range");
}

bool kit_mapping_next(KitEmu *emu, uint64_t from, KitMapping *out) {
  const CoreArea *a = core_area(emu, from);
  if (!a) return false;
  *out = (KitMapping){a->start, a->end, a->prot, a->flags & MAP_SHARED, a->offset, a->name};
  return true;
}

/* ---- ending, disassembly --------------------------------------------------------------------- */

KitStatus kit_kill(KitEmu *emu, int signo) {
  if (emu->ended) return core_fail(emu, KIT_E_DEAD, "the guest has ended");
  emu->kill_asked = signo;
  CoreThread *t = api_thread(emu, 0);
  if (t) {
    core_interrupt(t);
    emu->os->kick(t); /* it may be in a host call */
  }
  return KIT_OK;
}

KitStatus kit_disasm(KitEmu *emu, uint64_t pc, KitInsn *out) {
  uint8_t code[16];
  size_t n = emu->guest->max_insn;
  while (n && core_peek(emu, pc, code, n)) n -= emu->guest->min_insn;
  if (!n) return unmapped(emu, pc, emu->guest->min_insn);
  GuestInsn insn;
  GuestDecode d = emu->guest->decode(code, n, pc, &insn);
  if (d == GUEST_DECODE_TRUNCATED) return unmapped(emu, pc + n, 1);
  *out = (KitInsn){.pc = pc, .target = insn.target, .len = insn.len, .branch = insn.branch};
  memcpy(out->bytes, code, insn.len);
  out->name = d == GUEST_DECODE_OK ? emu->guest->insn_name(insn.id) : "illegal";
  emu->guest->disasm(&insn, out->text, sizeof out->text);
  return KIT_OK;
}
