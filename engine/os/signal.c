/* Signals: the host's become the guest's.
 *
 * Dispositions. While a guest lives, the engine's handler is installed (raw rt_sigaction, so that glibc's reserved signals can be the guest's) for
 * every signal that the guest handles or that would kill it (so that exit hooks run and results are kept); ignored signals are
 * ignored by the host, and those whose default is to do nothing or to stop are left to the host.
 *
 * Masks. The guest's blocked set is the host thread's, except for the synchronous signals, so pending signals, queueing, choice of thread,
 * sigtimedwait, signalfd and inheritance are the kernel's. The handler keeps one siginfo and blocks everything until it has been
 * delivered: nothing is lost, the rest waits in the kernel.
 *
 * Which thread. What is sent to the process goes to any host thread that does not block it: the controller blocks everything while the guest
 * runs (between runs it sends it on), and a guest thread passes it to the main thread if that wants it, as the kernel would have chosen. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "ir/callstack.h"
#include "os/os.h"

#define KICK_SIGNAL 64
#define KICK_VALUE  0x6b69746b69746b69ull /* tells our kick from a guest's own use of the signal */
#define BIT(s)      (1ull << ((s) - 1))
#define SYNCHRONOUS (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP))
#define UNBLOCKABLE (BIT(SIGKILL) | BIT(SIGSTOP))
#define K_RESTORER  0x04000000
#define SS_AUTODISARM_FLAG (1u << 31)
#define K_DFL       0ull
#define K_IGN       1ull

typedef struct KernelAction { /* x86-64's */
  void *handler;
  uint64_t flags;
  void *restorer;
  uint64_t mask;
} KernelAction;

__asm__(".text\n.hidden os_restorer\n.globl os_restorer\n.type os_restorer, @function\nos_restorer:\n  mov $15, %rax\n  syscall\n.size os_restorer, . - os_restorer\n");
extern char os_restorer[] __attribute__((visibility("hidden")));

static KernelAction saved[OS_SIGNALS]; /* what the process had before */
static Emu *owner;                     /* whose the dispositions are */
static VEC(int) timers;                /* that the guest has made (and perhaps deleted) */

static void host_action(int signo, const KernelAction *act, KernelAction *old) { os_raw(SYS_rt_sigaction, signo, (long)(uintptr_t)act, (long)(uintptr_t)old, 8, 0, 0); }

/* ---- host masks ---------------------------------------------------------------------------------------------- */

#define NEVER_BLOCKED (SYNCHRONOUS | UNBLOCKABLE | BIT(KICK_SIGNAL))
#define QUIET         (BIT(SIGCHLD) | BIT(SIGURG) | BIT(SIGWINCH) | BIT(SIGCONT))

static uint64_t host_mask(uint64_t guest_mask) { return guest_mask & ~NEVER_BLOCKED; }

static void set_host_mask(uint64_t mask) { os_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)(uintptr_t)&mask, 0, 8, 0, 0); }

void os_block_all(uint64_t *old) {
  uint64_t all = ~(SYNCHRONOUS | UNBLOCKABLE);
  os_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)(uintptr_t)&all, (long)(uintptr_t)old, 8, 0, 0);
}
void os_restore_mask(uint64_t old) { set_host_mask(old); }

static uint32_t held_slot(int signo) {
  static const uint8_t signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, KICK_SIGNAL};
  uint32_t i = 0;
  while (signals[i] != signo) i++;
  return i;
}

/* A signal of those that the host never blocks becomes pending when the guest unblocks it. */
static void release_held(CoreThread *t) {
  OsThread *o = os_thread(t);
  uint64_t ready = o->held & ~o->mask;
  if (o->pending || !ready) return;
  int signo = __builtin_ctzll(ready) + 1;
  os_block_all(NULL);
  o->pending = true;
  o->info = o->held_info[held_slot(signo)];
  o->held &= ~BIT(signo);
  core_interrupt(t);
}

static void install(OsProcess *p, int signo);

void os_set_mask(CoreThread *t, uint64_t mask) {
  OsThread *o = os_thread(t);
  OsProcess *p = os_process(t->emu);
  o->mask = mask & ~UNBLOCKABLE;
  uint64_t quiet = mask & QUIET & ~p->quiet_blocked;
  p->quiet_blocked |= quiet;
  for (; quiet; quiet &= quiet - 1) install(p, __builtin_ctzll(quiet) + 1);
  if (!o->pending) set_host_mask(host_mask(mask)); /* else everything stays blocked until it is delivered */
  release_held(t);
}

void os_signal_thread(CoreThread *t) {
  OsThread *o = os_thread(t);
  if (os_process(t->emu)->main == o) os_process(t->emu)->main_host_tid = t->host_tid;
  os_set_mask(t, o->mask);
}

/* ---- the host's handler ------------------------------------------------------------------------------------------ */

typedef void HostHandler(int signo, siginfo_t *info, void *context);

static bool is_kick(const siginfo_t *info) { return info->si_code == SI_QUEUE && (uint64_t)(uintptr_t)info->si_value.sival_ptr == KICK_VALUE; }

static int64_t send_kick(int host_tid, int signo) {
  siginfo_t info = {0};
  info.si_signo = signo;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_value.sival_ptr = (void *)(uintptr_t)KICK_VALUE;
  return os_raw(SYS_rt_tgsigqueueinfo, getpid(), host_tid, signo, (long)(uintptr_t)&info, 0, 0);
}

static void block_on_return(void *context, uint64_t signals) {
  uint64_t mask;
  ucontext_t *uc = context;
  memcpy(&mask, &uc->uc_sigmask, 8);
  mask |= signals;
  memcpy(&uc->uc_sigmask, &mask, 8);
}

typedef enum Default { TERMINATE, IGNORE, STOP } Default;

static Default default_of(int signo) {
  if (BIT(signo) & QUIET) return IGNORE; /* SIGCONT's effect is the kernel's */
  switch (signo) {
  case SIGSTOP: case SIGTSTP: case SIGTTIN: case SIGTTOU: return STOP;
  default: return TERMINATE;
  }
}

static _Atomic uint64_t left_to_guest; /* signals of QUIET that the first thread blocks */

/* A signal of QUIET is no longer without effect: has the process's first thread, the controller, block it, so that the guest's threads get
 * it, and before kill() returns if it is the guest that sends it. */
static void leave_to_guest(int signo) {
  if (!owner || !owner->running || owner->is_child || atomic_load(&left_to_guest) & BIT(signo)) return;
  if (send_kick(getpid(), signo)) return;
  for (int tries = 0; tries < 1000 && !(atomic_load(&left_to_guest) & BIT(signo)); tries++) usleep(20);
}

static void as_without_us(int signo, siginfo_t *info, void *context) {
  uint64_t before = (uint64_t)(uintptr_t)saved[signo].handler;
  if (before == K_IGN || (before == K_DFL && default_of(signo) == IGNORE)) return;
  if (before == K_DFL) {
    host_action(signo, &saved[signo], NULL);
    os_raw(SYS_tgkill, getpid(), (long)os_raw(SYS_gettid, 0, 0, 0, 0, 0, 0), signo, 0, 0, 0);
    return;
  }
  HostHandler *handler;
  memcpy(&handler, &saved[signo].handler, sizeof handler);
  handler(signo, info, context);
}

/* A signal for a host thread that is no guest's, that is, outside of kit_run. The user's attempts to end a stopped guest end the process;
 * what else is the guest's waits for it. */
static void foreign_signal(int signo, siginfo_t *info, void *context) {
  if (is_kick(info)) { /* leave_to_guest */
    block_on_return(context, BIT(signo));
    atomic_fetch_or(&left_to_guest, BIT(signo));
    return;
  }
  const uint64_t by_user = BIT(SIGINT) | BIT(SIGTERM) | BIT(SIGHUP) | BIT(SIGQUIT);
  bool lives = owner && owner->started && !owner->ended;
  bool by_timer = info->si_code == SI_TIMER || (info->si_code == SI_KERNEL && BIT(signo) & (BIT(SIGALRM) | BIT(SIGVTALRM) | BIT(SIGPROF)));
  if (owner && owner->ended && by_timer) return; /* set by the guest that was */
  if (!lives || (BIT(signo) & by_user && os_process(owner)->actions[signo].handler == K_DFL)) {
    as_without_us(signo, info, context);
    return;
  }
  block_on_return(context, BIT(signo));
  os_raw(SYS_rt_sigqueueinfo, getpid(), signo, (long)(uintptr_t)info, 0, 0, 0);
}

static void crash(int signo, const siginfo_t *info) {
  char msg[160];
  int n = snprintf(msg, sizeof msg, "kitlua: internal error: %s at %p in the engine; please report it\n", signo == SIGSEGV ? "invalid access" : "fault", info->si_addr);
  if (write(2, msg, (size_t)n) < 0) { /* nothing more to be done */ }
  KernelAction dfl = {0};
  host_action(signo, &dfl, NULL);
}

/* Sent to the process and wanted by the main thread: passed to it. SIGPIPE and SIGXFSZ look so but are the thread's own. */
static bool pass_to_main(const OsThread *o, int signo, siginfo_t *info) {
  const OsProcess *p = os_process(owner);
  const OsThread *m = p->main;
  bool to_process = info->si_code == SI_USER || info->si_code == SI_KERNEL || (signo == SIGCHLD && info->si_code > 0);
  if (owner->exiting || !m || m == o || !to_process || m->pending || (m->mask | NEVER_BLOCKED | BIT(SIGPIPE) | BIT(SIGXFSZ)) & BIT(signo)) return false;
  return !os_raw(SYS_rt_tgsigqueueinfo, getpid(), p->main_host_tid, signo, (long)(uintptr_t)info, 0, 0);
}

static void take_signal(CoreThread *t, int signo, siginfo_t *info, void *context) {
  OsThread *o = os_thread(t);
  if (!is_kick(info)) {
    bool never_blocked = BIT(signo) & NEVER_BLOCKED;
    if (pass_to_main(o, signo, info)) return;
    if (never_blocked && (o->pending || o->mask & BIT(signo))) {
      o->held_info[held_slot(signo)] = *info;
      o->held |= BIT(signo);
      return;
    }
    o->pending = true;
    o->info = *info;
    block_on_return(context, host_mask(~0ull));
  }
  os_safe_interrupted(context);
  core_interrupt(t);
}

static bool is_interrupt(int signo, const siginfo_t *info) {
  return signo == SIGINT && owner && owner->catch_interrupts && (info->si_code == SI_KERNEL || (info->si_code == SI_USER && info->si_pid != getpid()));
}

static void on_signal(int signo, siginfo_t *info, void *context) {
  int saved_errno = errno;
  CoreThread *t = core_self();
  if (BIT(signo) & SYNCHRONOUS && info->si_code > 0) {
    if (!core_host_fault(signo, info, context)) crash(signo, info);
  } else if (is_interrupt(signo, info)) {
    if (owner->running) kit_interrupt(owner);
  } else if (!t || !os_thread(t)) {
    foreign_signal(signo, info, context);
  } else {
    take_signal(t, signo, info, context);
  }
  errno = saved_errno;
}

void os_kick(CoreThread *t) { send_kick(t->host_tid, KICK_SIGNAL); }

/* ---- dispositions -------------------------------------------------------------------------------------------------- */

/* Makes the host's disposition fit the guest's. SIGCHLD and its kind, while they do nothing, are best left to the host, which drops them at
 * once; but blocked ones must be kept for sigwait and signalfd, and the kernel looks at the process's first thread only, which is no
 * guest's, to know whether they are blocked. */
static void install(OsProcess *p, int signo) {
  if (signo == SIGKILL || signo == SIGSTOP) return;
  const OsAction *a = &p->actions[signo];
  KernelAction act = {.flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | K_RESTORER, .restorer = os_restorer};
  bool synchronous = BIT(signo) & SYNCHRONOUS;
  bool catch = synchronous || (signo == SIGINT && owner->catch_interrupts) || signo == KICK_SIGNAL || (a->handler != K_DFL && a->handler != K_IGN) || (a->handler == K_DFL && (default_of(signo) == TERMINATE || (p->quiet_blocked | (p->signals_watched ? QUIET : 0)) & BIT(signo)));
  if (catch) {
    memcpy(&act.handler, &(void (*)(int, siginfo_t *, void *)){on_signal}, sizeof act.handler);
    act.mask = synchronous ? 0 : ~SYNCHRONOUS;
    if (synchronous) act.flags |= SA_NODEFER;
    act.flags |= a->flags & (SA_NOCLDSTOP | SA_NOCLDWAIT);
  } else {
    act = (KernelAction){.handler = (void *)(uintptr_t)a->handler, .flags = (a->flags & (SA_NOCLDSTOP | SA_NOCLDWAIT)) | K_RESTORER, .restorer = os_restorer};
  }
  p->caught[signo] = catch;
  host_action(signo, &act, NULL);
  if (catch && BIT(signo) & QUIET) leave_to_guest(signo);
}

void os_signal_init(Emu *emu) {
  OsProcess *p = emu->os_data;
  for (int s = 1; s < OS_SIGNALS; s++) {
    host_action(s, NULL, &saved[s]);
    if ((uint64_t)(uintptr_t)saved[s].handler == K_IGN) p->actions[s].handler = K_IGN;
  }
  owner = emu;
  left_to_guest = 0;
  p->main = os_thread(emu->threads_first);
  os_raw(SYS_rt_sigprocmask, SIG_SETMASK, 0, (long)(uintptr_t)&p->main->mask, 8, 0, 0);
  p->quiet_blocked = p->main->mask & QUIET;
  for (int s = 1; s < OS_SIGNALS; s++) install(p, s);
  p->signals_owned = true;
}

void os_watch_signals(Emu *emu, bool on) {
  OsProcess *p = os_process(emu);
  p->signals_watched = on;
  for (int s = 1; s < OS_SIGNALS; s++)
    if (BIT(s) & QUIET) install(p, s);
}

void kit_catch_interrupts(KitEmu *emu, bool on) {
  emu->catch_interrupts = on;
  if (os_process(emu)->signals_owned) install(os_process(emu), SIGINT);
}

void os_signal_close(Emu *emu) {
  OsProcess *p = emu->os_data;
  if (!p->signals_owned) return;
  const struct itimerval off = {0};
  for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) os_raw(SYS_setitimer, which, (long)(uintptr_t)&off, 0, 0, 0, 0);
  for (size_t i = 0; i < timers.n; i++) os_raw(SYS_timer_delete, timers.at[i], 0, 0, 0, 0, 0);
  vec_free(&timers);
  for (int s = 1; s < OS_SIGNALS; s++)
    if (s != SIGKILL && s != SIGSTOP) host_action(s, &saved[s], NULL);
  owner = NULL;
}

/* ---- delivery --------------------------------------------------------------------------------------------------------- */

static bool mem_read(void *ctx, uint64_t va, void *buf, size_t n) {
  CoreThread *t = ctx;
  return !guest_read(t->emu, t, va, buf, n);
}
static bool mem_write(void *ctx, uint64_t va, const void *buf, size_t n) {
  CoreThread *t = ctx;
  return !guest_write(t->emu, t, va, buf, n);
}

/* (kernel: on_sig_stack, which grows downward: its lowest address is not on it) */
static bool on_altstack(const OsThread *o, uint64_t sp) {
  if (o->alt_flags & (SS_DISABLE | (uint32_t)SS_AUTODISARM_FLAG)) return false;
  return sp > o->alt_sp && sp - o->alt_sp <= o->alt_size;
}

/* Builds the handler's frame. mask: what sigreturn goes back to. */
static bool enter_handler(CoreThread *t, int signo, const void *info, const OsAction *a, uint64_t mask) {
  OsThread *o = os_thread(t);
  const Guest *g = t->emu->guest;
  GuestSignal sig = {.signo = signo, .handler = a->handler, .restorer = a->restorer, .flags = a->flags, .mask = mask,
                     .altstack_sp = o->alt_sp, .altstack_size = o->alt_size, .trampoline = os_process(t->emu)->trampoline};
  uint64_t sp = guest_reg(g, t->state, g->abi.sp), low = 0, high = sp;
  memcpy(sig.siginfo, info, sizeof sig.siginfo);
  sig.altstack_flags = o->alt_flags;
  sig.on_altstack = a->flags & SA_ONSTACK && !(o->alt_flags & SS_DISABLE) && !on_altstack(o, sp);
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
  if (t->state->callstack) ir_callstack_enter_signal(t->state->callstack, t->state, a->handler, low, high);
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
  return default_of(signo) == TERMINATE ? "kill" : default_of(signo) == STOP ? "stop" : "ignore";
}

/* The hooks; true: the signal is not to be delivered. */
static bool raise_signal(CoreThread *t, int signo, const siginfo_t *info, const OsAction *a) {
  t->emu->stats.signals++;
  if (!core_hooks_want(t->emu, KIT_EV_SIGNAL)) return false;
  bool fault = BIT(signo) & SYNCHRONOUS && info->si_code > 0;
  KitEvent ev = {.kind = KIT_EV_SIGNAL, .tid = t->tid, .pc = t->state->pc,
                 .signal = {.signo = signo, .code = info->si_code, .addr = fault ? (uint64_t)(uintptr_t)info->si_addr : 0, .sender = fault ? 0 : info->si_pid,
                            .action = action_name(a, signo), .siginfo = info}};
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
  const KernelAction dfl = {0};
  host_action(signo, &dfl, NULL);
  set_host_mask(~BIT(signo));
  os_raw(SYS_kill, getpid(), signo, 0, 0, 0, 0);
  os_raw(SYS_exit_group, 128 + signo, 0, 0, 0, 0, 0);
  __builtin_unreachable();
}

/* Acts on one signal. old_mask: the guest's blocked set to return to. */
static void act(CoreThread *t, int signo, const siginfo_t *info, uint64_t old_mask) {
  OsThread *o = os_thread(t);
  OsProcess *p = os_process(t->emu);
  OsAction a = p->actions[signo];
  if (raise_signal(t, signo, info, &a)) a.handler = K_IGN;
  if (a.handler == K_IGN || (a.handler == K_DFL && default_of(signo) != TERMINATE)) {
    if (o->again) restart(t, false);
    os_set_mask(t, old_mask);
    return;
  }
  if (a.handler == K_DFL) os_die(t, signo);
  if (o->again == OS_AGAIN_ALWAYS || (o->again == OS_AGAIN_IF_ASKED && a.flags & SA_RESTART)) restart(t, true);
  o->again = OS_DONE;
  if (!enter_handler(t, signo, info, &a, old_mask)) {
    /* No room for the frame: a forced SIGSEGV, which may have a handler with a stack of its own (kernel: force_sigsegv). */
    siginfo_t segv = {.si_signo = SIGSEGV, .si_code = SI_KERNEL};
    if (signo == SIGSEGV || o->mask & BIT(SIGSEGV) || p->actions[SIGSEGV].handler == K_IGN) os_die(t, SIGSEGV);
    act(t, SIGSEGV, &segv, old_mask);
    return;
  }
  if (a.flags & SA_RESETHAND) {
    p->actions[signo].handler = K_DFL;
    install(p, signo);
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
  for (; o->pending; old = o->mask) { /* all that can be delivered now, frame upon frame, as the kernel does */
    siginfo_t info = o->info;
    o->pending = false;
    o->has_saved_mask = false;
    act(t, info.si_signo, &info, old);
  }
}

void os_fault(CoreThread *t, int signo, int code, uint64_t address) {
  OsThread *o = os_thread(t);
  OsProcess *p = os_process(t->emu);
  KitEvent ev = {.kind = KIT_EV_FAULT, .tid = t->tid, .pc = t->state->pc,
                 .fault = {.addr = address, .is_write = t->host_fault.is_write, .is_exec = address == t->state->pc, .signo = signo,
                           .what = signo == SIGILL ? "illegal instruction" : signo == SIGTRAP ? "breakpoint" : signo == SIGBUS ? "bus error" : "invalid access"}};
  int verdict = core_raise(t, &ev);
  if (t->emu->stop_on_fault || verdict & KIT_STOP) {
    t->stop_asked = false;
    t->state->stop = 0;
    core_stop(t, &(KitStop){.reason = KIT_STOP_FAULT, .signo = signo, .tid = t->tid, .pc = t->state->pc, .address = address, .is_write = t->host_fault.is_write});
    if (t->state->pc != ev.pc) return; /* the debugger moved on */
  }
  /* A load or store at an address that is not canonical: only x86's kernel says so (and does not say where). */
  if (code == SI_KERNEL && t->emu->guest->generic_syscalls) code = SEGV_MAPERR;
  siginfo_t info = {0};
  info.si_signo = signo;
  info.si_code = code;
  info.si_addr = (void *)(uintptr_t)address;
  /* A forced signal kills if it is blocked or ignored (kernel/signal.c, force_sig_info). */
  if (o->mask & BIT(signo) || p->actions[signo].handler == K_IGN) {
    p->actions[signo].handler = K_DFL;
    o->mask &= ~BIT(signo);
  }
  t->host_fault.is_write = false;
  o->again = OS_DONE;
  act(t, signo, &info, o->mask);
}

/* ---- the calls --------------------------------------------------------------------------------------------------------- */

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
  if (mode <= SS_DISABLE && !on_altstack(o, guest_reg(t->emu->guest, t->state, t->emu->guest->abi.sp))) {
    o->alt_sp = out.altstack_sp;
    o->alt_size = out.altstack_size;
    o->alt_flags = out.altstack_flags;
  }
  os_set_mask(t, out.mask);
  return 0;
}

typedef struct GuestAction { /* the generic ABI has no restorer */
  uint64_t handler, flags, mask;
} GuestAction;

int64_t os_rt_sigaction(CoreThread *t, uint64_t a[6]) {
  OsProcess *p = os_process(t->emu);
  int signo = (int)a[0];
  bool generic = t->emu->guest->generic_syscalls;
  GuestAction g;
  OsAction new;
  if (a[3] != 8 || signo < 1 || signo >= OS_SIGNALS || (a[1] && (signo == SIGKILL || signo == SIGSTOP))) return -EINVAL;
  OsAction old = p->actions[signo];
  if (a[1]) {
    int err = guest_read(t->emu, t, a[1], generic ? (void *)&g : &new, generic ? sizeof g : sizeof new);
    if (err) return err;
    if (generic) new = (OsAction){g.handler, g.flags, 0, g.mask};
    new.mask &= ~UNBLOCKABLE;
  }
  if (a[2]) {
    GuestAction o = {old.handler, old.flags, old.mask};
    int err = guest_write(t->emu, t, a[2], generic ? (void *)&o : &old, generic ? sizeof o : sizeof old);
    if (err) return err;
  }
  if (a[1]) {
    p->actions[signo] = new;
    install(p, signo);
  }
  return 0;
}

int64_t os_rt_sigprocmask(CoreThread *t, uint64_t a[6]) {
  OsThread *o = os_thread(t);
  uint64_t set = 0, old = o->mask;
  if (a[3] != 8) return -EINVAL;
  if (a[1] && guest_read(t->emu, t, a[1], &set, 8)) return -EFAULT;
  if (a[1]) {
    switch ((int)a[0]) {
    case SIG_BLOCK: set |= old; break;
    case SIG_UNBLOCK: set = old & ~set; break;
    case SIG_SETMASK: break;
    default: return -EINVAL;
    }
  }
  if (a[2] && guest_write(t->emu, t, a[2], &old, 8)) return -EFAULT;
  if (a[1]) os_set_mask(t, set);
  return 0;
}

int64_t os_rt_sigpending(CoreThread *t, uint64_t a[6]) {
  OsThread *o = os_thread(t);
  uint64_t set = 0;
  if (a[1] > 8) return -EINVAL;
  os_raw(SYS_rt_sigpending, (long)(uintptr_t)&set, 8, 0, 0, 0, 0);
  set = (set | o->held) & o->mask;
  return guest_write(t->emu, t, a[0], &set, a[1]);
}

/* Waiting calls under another blocked set. A signal that the guest could have had before is delivered before. */
int64_t os_blocking_masked(CoreThread *t, uint64_t mask, long nr, const long args[6]) {
  OsThread *o = os_thread(t);
  uint64_t before = o->mask;
  if (o->pending) return OS_ENOTRUN;
  os_set_mask(t, mask);
  int64_t r = os_blocking(t, nr, args);
  if (o->pending && (r == -EINTR || r == OS_ERESTART || r == OS_ENOTRUN)) {
    o->has_saved_mask = true; /* os_deliver goes on from there */
    o->saved_mask = before;
    return -EINTR;
  }
  if (o->pending && before & BIT(o->info.si_signo)) { /* the call succeeded all the same: the signal stays pending */
    os_raw(SYS_rt_tgsigqueueinfo, getpid(), t->host_tid, o->info.si_signo, (long)(uintptr_t)&o->info, 0, 0);
    o->pending = false;
  }
  os_set_mask(t, before);
  return r;
}

int64_t os_rt_sigsuspend(CoreThread *t, uint64_t a[6]) {
  uint64_t mask;
  if (a[1] != 8) return -EINVAL;
  if (guest_read(t->emu, t, a[0], &mask, 8)) return -EFAULT;
  return os_blocking_masked(t, mask & ~UNBLOCKABLE, SYS_pause, (long[6]){0});
}

int64_t os_pause(CoreThread *t, uint64_t a[6]) {
  (void)a;
  return os_blocking(t, SYS_pause, (long[6]){0});
}

int64_t os_rt_sigtimedwait(CoreThread *t, uint64_t a[6]) {
  OsThread *o = os_thread(t);
  uint64_t set;
  if (a[3] != 8) return -EINVAL;
  if (guest_read(t->emu, t, a[0], &set, 8)) return -EFAULT;
  if (a[1] && guest_prepare_write(t->emu, t, a[1], 128)) return -EFAULT;
  if (a[2] && guest_prepare_read(t->emu, t, a[2], 16)) return -EFAULT;
  if (o->held & set) {
    int signo = __builtin_ctzll(o->held & set) + 1;
    o->held &= ~BIT(signo);
    return a[1] && guest_write(t->emu, t, a[1], &o->held_info[held_slot(signo)], 128) ? -EFAULT : signo;
  }
  set &= ~NEVER_BLOCKED;
  int64_t r = os_blocking(t, SYS_rt_sigtimedwait, (long[6]){(long)(uintptr_t)&set, (long)a[1], (long)a[2], 8});
  return r == OS_ERESTART ? -EINTR : r;
}

int64_t os_sigaltstack(CoreThread *t, uint64_t a[6]) {
  struct { uint64_t sp; uint32_t flags, pad; uint64_t size; } new, old;
  OsThread *o = os_thread(t);
  const Guest *g = t->emu->guest;
  bool on = on_altstack(o, guest_reg(g, t->state, g->abi.sp));
  if (a[0] && guest_read(t->emu, t, a[0], &new, sizeof new)) return -EFAULT;
  if (a[1]) {
    old.sp = o->alt_sp;
    old.flags = (o->alt_size ? on ? SS_ONSTACK : 0 : SS_DISABLE) | (o->alt_flags & (uint32_t)SS_AUTODISARM_FLAG);
    old.pad = 0;
    old.size = o->alt_size;
    if (guest_write(t->emu, t, a[1], &old, sizeof old)) return -EFAULT;
  }
  if (!a[0]) return 0;
  if (on) return -EPERM;
  uint32_t mode = new.flags & ~(uint32_t)SS_AUTODISARM_FLAG;
  if (mode != SS_DISABLE && mode != 0 && mode != SS_ONSTACK) return -EINVAL;
  if (mode == SS_DISABLE) {
    new.sp = new.size = 0;
  } else if (new.size < 2048) {
    return -ENOMEM; /* MINSIGSTKSZ of the generic ABI */
  }
  o->alt_sp = new.sp;
  o->alt_size = new.size;
  o->alt_flags = new.flags; /* as given, SS_ONSTACK too (kernel: do_sigaltstack) */
  return 0;
}

int64_t os_signalfd4(CoreThread *t, uint64_t a[6]) {
  if (a[2] != 8) return -EINVAL;
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  if (guest_prepare_read(t->emu, t, a[1], 8)) return -EFAULT;
  return os_raw(SYS_signalfd4, (int)a[0], (long)a[1], 8, os_thread(t)->row->n_args > 3 ? (long)a[3] : 0, 0, 0);
}

/* ---- sending ---------------------------------------------------------------------------------------------------------------- */

int64_t os_kill(CoreThread *t, uint64_t a[6]) {
  (void)t;
  return os_raw(SYS_kill, (int)a[0], (int)a[1], 0, 0, 0, 0);
}

int64_t os_tkill(CoreThread *t, uint64_t a[6]) {
  if ((int)a[0] <= 0) return -EINVAL;
  return os_raw(SYS_tkill, os_host_tid(t->emu, (int)a[0]), (int)a[1], 0, 0, 0, 0);
}

int64_t os_tgkill(CoreThread *t, uint64_t a[6]) {
  if ((int)a[0] <= 0 || (int)a[1] <= 0) return -EINVAL;
  int tid = (int)a[0] == getpid() ? os_host_tid(t->emu, (int)a[1]) : (int)a[1];
  return os_raw(SYS_tgkill, (int)a[0], tid, (int)a[2], 0, 0, 0);
}

int64_t os_rt_tgsigqueueinfo(CoreThread *t, uint64_t a[6]) {
  if (guest_prepare_read(t->emu, t, a[3], 128)) return -EFAULT;
  int tid = (int)a[0] == getpid() ? os_host_tid(t->emu, (int)a[1]) : (int)a[1];
  return os_raw(SYS_rt_tgsigqueueinfo, (int)a[0], tid, (int)a[2], (long)a[3], 0, 0);
}

/* SIGEV_THREAD_ID names a guest thread. */
int64_t os_timer_create(CoreThread *t, uint64_t a[6]) {
  uint8_t sev[64];
  int id;
  if (a[1] && guest_read(t->emu, t, a[1], sev, sizeof sev)) return -EFAULT;
  if (guest_prepare_write(t->emu, t, a[2], 4)) return -EFAULT;
  if (a[1]) {
    int32_t notify, tid;
    memcpy(&notify, sev + 12, 4);
    memcpy(&tid, sev + 16, 4);
    if (notify == SIGEV_THREAD_ID) tid = os_host_tid(t->emu, tid);
    memcpy(sev + 16, &tid, 4);
  }
  int64_t r = os_raw(SYS_timer_create, (long)a[0], a[1] ? (long)(uintptr_t)sev : 0, (long)(uintptr_t)&id, 0, 0, 0);
  if (r) return r;
  vec_push(&timers, id);
  return guest_write(t->emu, t, a[2], &id, 4);
}
