/* Delivery: the guest's signal frames, its death by a signal, and what becomes of the call that was
 * interrupted. */
#include <signal.h>
#include <string.h>

#include "ir/callstack.h"
#include "os/signal.h"

static bool mem_read(void *ctx, uint64_t va, void *buf, size_t n) {
  CoreThread *t = ctx;
  return !guest_read(t->emu, t, va, buf, n);
}
static bool mem_write(void *ctx, uint64_t va, const void *buf, size_t n) {
  CoreThread *t = ctx;
  return !guest_write(t->emu, t, va, buf, n);
}

/* (kernel: on_sig_stack, which grows downward: its lowest address is not on it) */
bool os_on_altstack(const OsThread *o, uint64_t sp) {
  if (o->alt_flags & (SS_DISABLE | (uint32_t)SS_AUTODISARM_FLAG)) return false;
  return sp > o->alt_sp && sp - o->alt_sp <= o->alt_size;
}

/* Of the CPU's making, not sent. */
static bool is_fault(int signo, const siginfo_t *info) {
  return BIT(signo) & SYNCHRONOUS && info->si_code > 0;
}

/* Builds the handler's frame. mask: what sigreturn goes back to. */
static bool enter_handler(CoreThread *t, int signo, const siginfo_t *info, const OsAction *a,
                          uint64_t mask) {
  OsThread *o = os_thread(t);
  const Guest *g = t->emu->guest;
  GuestSignal sig = {.signo = signo,
                     .handler = a->handler,
                     .restorer = a->restorer,
                     .flags = a->flags,
                     .mask = mask,
                     .altstack_sp = o->alt_sp,
                     .altstack_size = o->alt_size,
                     .trampoline = os_process(t->emu)->trampoline};
  uint64_t sp = guest_reg(g, t->state, g->abi.sp), low = 0, high = sp;
  memcpy(sig.siginfo, info, sizeof sig.siginfo);
  if (is_fault(signo, info)) {
    sig.trap_no = t->host_fault.trap_no;
    sig.error_code = t->host_fault.error_code;
    sig.fault_address = (uint64_t)(uintptr_t)info->si_addr;
  }
  sig.altstack_flags = o->alt_flags;
  sig.on_altstack = a->flags & SA_ONSTACK && !(o->alt_flags & SS_DISABLE) && !os_on_altstack(o, sp);
  GuestMem mem = {t, mem_read, mem_write};
  if (!g->signal_push(t->state, &sig, &mem)) return false;
  if (sig.on_altstack) {
    low = o->alt_sp;
    high = o->alt_sp + o->alt_size;
    if (o->alt_flags & (uint32_t)SS_AUTODISARM_FLAG) {
      o->alt_flags = SS_DISABLE;
      o->alt_sp = o->alt_size = 0;
    }
  }
  if (t->state->callstack)
    ir_callstack_enter_signal(t->state->callstack, t->state, a->handler, low, high);
  return true;
}

/* A call that was interrupted is made again. */
static void restart(CoreThread *t, bool handled) {
  OsThread *o = os_thread(t);
  const Guest *g = t->emu->guest;
  t->state->pc = o->call_pc;
  guest_set_reg(g, t->state, g->abi.syscall_ret, o->call_ret);
  o->again = OS_DONE;
  o->rewound = !handled;
}

static const char *action_name(const OsAction *a, int signo) {
  if (a->handler == K_IGN) return "ignore";
  if (a->handler != K_DFL) return "handler";
  return os_signal_default(signo) == OS_TERMINATE ? "kill"
         : os_signal_default(signo) == OS_STOP    ? "stop"
                                                  : "ignore";
}

/* The hooks; true: the signal is not to be delivered. */
static bool raise_signal(CoreThread *t, int signo, const siginfo_t *info, const OsAction *a) {
  t->emu->stats.signals++;
  if (!core_hooks_want(t->emu, KIT_EV_SIGNAL)) return false;
  bool fault = is_fault(signo, info);
  KitEvent ev = {.kind = KIT_EV_SIGNAL,
                 .tid = t->tid,
                 .pc = t->state->pc,
                 .signal = {.signo = signo,
                            .code = info->si_code,
                            .addr = fault ? (uint64_t)(uintptr_t)info->si_addr : 0,
                            .sender = fault ? 0 : info->si_pid,
                            .action = action_name(a, signo),
                            .siginfo = info}};
  int verdict = core_raise(t, &ev);
  if (verdict & KIT_STOP && t->stop_asked) { /* stop before it is delivered */
    KitStop stop = t->emu->stop;
    t->stop_asked = false;
    t->state->stop = 0;
    stop.pc = t->state->pc;
    core_stop(t, &stop);
  }
  return verdict & (KIT_REPLACE | KIT_DENY);
}

_Noreturn void os_die(CoreThread *t, int signo) {
  if (!os_process(t->emu)->vfork_child) {
    os_give_up_locks(t->emu);
    core_process_exit(t, 0, signo);
  }
  os_signal_suicide(signo);
}

/* Acts on one signal. old_mask: the guest's blocked set to return to. */
static void act(CoreThread *t, int signo, const siginfo_t *info, uint64_t old_mask) {
  OsThread *o = os_thread(t);
  OsProcess *p = os_process(t->emu);
  OsAction a = p->actions[signo];
  if (raise_signal(t, signo, info, &a)) a.handler = K_IGN;
  if (a.handler == K_IGN || (a.handler == K_DFL && os_signal_default(signo) != OS_TERMINATE)) {
    if (o->again) restart(t, false);
    os_set_mask(t, old_mask);
    return;
  }
  if (a.handler == K_DFL) os_die(t, signo);
  if (o->again == OS_AGAIN_ALWAYS || (o->again == OS_AGAIN_IF_ASKED && a.flags & SA_RESTART))
    restart(t, true);
  o->again = OS_DONE;
  if (!enter_handler(t, signo, info, &a, old_mask)) {
    /* No room for the frame: a forced SIGSEGV, which may have a handler with a stack of its own
     * (kernel: force_sigsegv). */
    siginfo_t segv = {.si_signo = SIGSEGV, .si_code = SI_KERNEL};
    if (signo == SIGSEGV || o->mask & BIT(SIGSEGV) || p->actions[SIGSEGV].handler == K_IGN)
      os_die(t, SIGSEGV);
    act(t, SIGSEGV, &segv, old_mask);
    return;
  }
  if (a.flags & SA_RESETHAND) {
    p->actions[signo].handler = K_DFL;
    os_signal_install(p, signo);
  }
  os_set_mask(t, o->mask | a.mask | (a.flags & SA_NODEFER ? 0 : BIT(signo)));
}

void os_deliver(CoreThread *t) {
  OsThread *o = os_thread(t);
  uint64_t old = o->has_saved_mask ? o->saved_mask : o->mask;
  if (!o->pending) { /* the world was stopped, or it was another thread's turn */
    if (o->again > OS_AGAIN_UNHANDLED) restart(t, false);
    o->again = OS_DONE;
    if (o->has_saved_mask) os_set_mask(t, old);
    o->has_saved_mask = false;
    return;
  }
  for (; o->pending;
       old = o->mask) { /* all that can be delivered now, frame upon frame, as the kernel does */
    siginfo_t info = o->info;
    o->pending = false;
    o->has_saved_mask = false;
    act(t, info.si_signo, &info, old);
  }
}

void os_fault(CoreThread *t, int signo, int code, uint64_t address) {
  OsThread *o = os_thread(t);
  OsProcess *p = os_process(t->emu);
  if (signo == SIGILL || signo == SIGFPE) address = t->state->pc;
  KitEvent ev = {.kind = KIT_EV_FAULT,
                 .tid = t->tid,
                 .pc = t->state->pc,
                 .fault = {.addr = address,
                           .is_write = t->host_fault.is_write,
                           .is_exec = address == t->state->pc,
                           .signo = signo,
                           .what = signo == SIGILL    ? "illegal instruction"
                                   : signo == SIGTRAP ? "breakpoint"
                                   : signo == SIGBUS  ? "bus error"
                                                      : "invalid access"}};
  int verdict = core_raise(t, &ev);
  bool generic = t->emu->guest->generic_syscalls;
  if (t->emu->stop_on_fault || verdict & KIT_STOP) {
    t->stop_asked = false;
    t->state->stop = 0;
    core_stop(t, &(KitStop){.reason = KIT_STOP_FAULT,
                            .signo = signo,
                            .tid = t->tid,
                            .pc = t->state->pc,
                            .address = address,
                            .is_write = t->host_fault.is_write});
    if (t->state->pc != ev.pc) return; /* the debugger moved on */
  }
  /* A load or store at an address that is not canonical: only x86's kernel says so (and does not
   * say where). It has another code for illegal instructions, too. */
  if (code == SI_KERNEL && generic) code = SEGV_MAPERR;
  if (signo == SIGILL && !generic) code = ILL_ILLOPN;
  siginfo_t info = {0};
  info.si_signo = signo;
  info.si_code = code;
  if (code != SI_KERNEL) info.si_addr = (void *)(uintptr_t)address;
  /* A forced signal kills if it is blocked or ignored (kernel/signal.c, force_sig_info). */
  if (o->mask & BIT(signo) || p->actions[signo].handler == K_IGN) {
    p->actions[signo].handler = K_DFL;
    o->mask &= ~BIT(signo);
  }
  t->host_fault.is_write = false;
  o->again = OS_DONE;
  act(t, signo, &info, o->mask);
  t->host_fault.trap_no = t->host_fault.error_code = 0;
}

int64_t os_rt_sigreturn(CoreThread *t, uint64_t a[6]) {
  OsThread *o = os_thread(t);
  GuestSignal out = {0};
  GuestMem mem = {t, mem_read, mem_write};
  (void)a;
  o->no_result = true;
  if (!t->emu->guest->signal_pop(t->state, &out, &mem)) {
    os_fault(t, SIGSEGV, SEGV_MAPERR, 0);
    return 0;
  }
  if (t->state->callstack) ir_callstack_leave_signal(t->state->callstack, t->state);
  uint32_t mode = out.altstack_flags & ~(uint32_t)SS_AUTODISARM_FLAG;
  if (mode <= SS_DISABLE &&
      !os_on_altstack(o, guest_reg(t->emu->guest, t->state, t->emu->guest->abi.sp))) {
    o->alt_sp = out.altstack_sp;
    o->alt_size = out.altstack_size;
    o->alt_flags = out.altstack_flags;
  }
  os_set_mask(t, out.mask);
  return 0;
}
