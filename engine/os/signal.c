/* Signals: the host's become the guest's.
 *
 * Dispositions. While a guest lives, the engine's handler is installed (raw rt_sigaction, so that
 * glibc's reserved signals can be the guest's) for every signal that the guest handles or that
 * would kill it (so that exit hooks run and results are kept); ignored signals are ignored by the
 * host, and those whose default is to do nothing or to stop are left to the host.
 *
 * Masks. The guest's blocked set is the host thread's, except for the synchronous signals, so
 * pending signals, queueing, choice of thread, sigtimedwait, signalfd and inheritance are the
 * kernel's. The handler keeps one siginfo and blocks everything until it has been delivered:
 * nothing is lost, the rest waits in the kernel.
 *
 * Which thread. What is sent to the process goes to any host thread that does not block it: the
 * controller blocks everything while the guest runs (between runs it sends it on), and a guest
 * thread passes it to the main thread if that wants it, as the kernel would have chosen. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/signal.h"

#define KICK_VALUE 0x6b69746b69746b69ull /* tells our kick from a guest's own use of the signal */
#define K_RESTORER 0x04000000

typedef struct KernelAction { /* x86-64's */
  void *handler;
  uint64_t flags;
  void *restorer;
  uint64_t mask;
} KernelAction;

__asm__(
    ".text\n.hidden os_restorer\n.globl os_restorer\n.type os_restorer, @function\nos_restorer:\n  "
    "mov $15, %rax\n  syscall\n.size os_restorer, . - os_restorer\n");
extern char os_restorer[] __attribute__((visibility("hidden")));

/* Where handlers begin: translated code runs with the guest's fs base, and C cannot run without its
 * own (thread-local variables, the stack protector), nor with the guest's AC. gs: is the state on
 * threads that run guest code, else its base is 0. */
#define STRING_(x) #x
#define STRING(x)  STRING_(x)
__asm__(".text\n.hidden os_signal_entry\n.globl os_signal_entry\n.type os_signal_entry, @function\n"
        "os_signal_entry:\n"
        "  pushfq\n  andl $~0x40000, (%rsp)\n  popfq\n"
        "  cmpb $0, os_has_fsgsbase(%rip)\n  je os_on_signal\n"
        "  rdgsbase %rax\n  test %rax, %rax\n  je os_on_signal\n"
        "  mov %gs:" STRING(IR_HOST_FS_AT) ", %rax\n  test %rax, %rax\n  je os_on_signal\n"
                                           "  push %rbx\n  rdfsbase %rbx\n  wrfsbase %rax\n"
                                           "  call os_on_signal\n"
                                           "  wrfsbase %rbx\n  pop %rbx\n  ret\n"
                                           ".size os_signal_entry, . - os_signal_entry\n");
extern char os_signal_entry[] __attribute__((visibility("hidden")));
bool os_has_fsgsbase __attribute__((visibility("hidden")));
#define HWCAP2_FSGSBASE 2 /* Linux, asm/hwcap2.h */

static KernelAction saved[OS_SIGNALS]; /* what the process had before */
static Emu *owner;                     /* whose the dispositions are */
static VEC(int) timers;                /* that the guest has made (and perhaps deleted) */

static void host_action(int signo, const KernelAction *act, KernelAction *old) {
  os_raw(SYS_rt_sigaction, signo, (long)(uintptr_t)act, (long)(uintptr_t)old, 8, 0, 0);
}

/* ---- host masks -------------------------------------------------------------------------- */

static uint64_t host_mask(uint64_t guest_mask) { return guest_mask & ~NEVER_BLOCKED; }

static void set_host_mask(uint64_t mask) {
  os_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)(uintptr_t)&mask, 0, 8, 0, 0);
}

void os_block_all(uint64_t *old) {
  uint64_t all = ~(SYNCHRONOUS | UNBLOCKABLE);
  os_raw(SYS_rt_sigprocmask, SIG_SETMASK, (long)(uintptr_t)&all, (long)(uintptr_t)old, 8, 0, 0);
}
void os_restore_mask(uint64_t old) { set_host_mask(old); }

uint32_t os_held_slot(int signo) {
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
  o->info = o->held_info[os_held_slot(signo)];
  o->held &= ~BIT(signo);
  core_interrupt(t);
}

void os_set_mask(CoreThread *t, uint64_t mask) {
  OsThread *o = os_thread(t);
  OsProcess *p = os_process(t->emu);
  o->mask = mask & ~UNBLOCKABLE;
  uint64_t quiet = mask & QUIET & ~p->quiet_blocked;
  p->quiet_blocked |= quiet;
  for (; quiet; quiet &= quiet - 1) os_signal_install(p, __builtin_ctzll(quiet) + 1);
  if (!o->pending)
    set_host_mask(host_mask(mask)); /* else everything stays blocked until it is delivered */
  release_held(t);
}

void os_signal_thread(CoreThread *t) {
  OsThread *o = os_thread(t);
  if (os_process(t->emu)->main == o) os_process(t->emu)->main_host_tid = t->host_tid;
  os_set_mask(t, o->mask);
}

/* ---- the host's handler ------------------------------------------------------------------ */

typedef void HostHandler(int signo, siginfo_t *info, void *context);

static bool is_kick(const siginfo_t *info) {
  return info->si_code == SI_QUEUE && (uint64_t)(uintptr_t)info->si_value.sival_ptr == KICK_VALUE;
}

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

OsDefault os_signal_default(int signo) {
  if (BIT(signo) & QUIET) return OS_IGNORE; /* SIGCONT's effect is the kernel's */
  switch (signo) {
  case SIGSTOP:
  case SIGTSTP:
  case SIGTTIN:
  case SIGTTOU: return OS_STOP;
  default: return OS_TERMINATE;
  }
}

static _Atomic uint64_t left_to_guest; /* signals of QUIET that the first thread blocks */

/* A signal of QUIET is no longer without effect: has the process's first thread, the controller,
 * block it, so that the guest's threads get it, and before kill() returns if it is the guest that
 * sends it. */
static void leave_to_guest(int signo) {
  if (!owner || !owner->running || owner->is_child || atomic_load(&left_to_guest) & BIT(signo))
    return;
  if (send_kick(getpid(), signo)) return;
  for (int tries = 0; tries < 1000 && !(atomic_load(&left_to_guest) & BIT(signo)); tries++)
    usleep(20);
}

static void as_without_us(int signo, siginfo_t *info, void *context) {
  uint64_t before = (uint64_t)(uintptr_t)saved[signo].handler;
  if (before == K_IGN || (before == K_DFL && os_signal_default(signo) == OS_IGNORE)) return;
  if (before == K_DFL) {
    host_action(signo, &saved[signo], NULL);
    os_raw(SYS_tgkill, getpid(), (long)os_raw(SYS_gettid, 0, 0, 0, 0, 0, 0), signo, 0, 0, 0);
    return;
  }
  HostHandler *handler;
  memcpy(&handler, &saved[signo].handler, sizeof handler);
  handler(signo, info, context);
}

/* A signal for a host thread that is no guest's, that is, outside of kit_run. The user's attempts
 * to end a stopped guest end the process; what else is the guest's waits for it. */
static void foreign_signal(int signo, siginfo_t *info, void *context) {
  if (is_kick(info)) { /* leave_to_guest */
    block_on_return(context, BIT(signo));
    atomic_fetch_or(&left_to_guest, BIT(signo));
    return;
  }
  const uint64_t by_user = BIT(SIGINT) | BIT(SIGTERM) | BIT(SIGHUP) | BIT(SIGQUIT);
  bool lives = owner && owner->started && !owner->ended;
  bool by_timer =
      info->si_code == SI_TIMER ||
      (info->si_code == SI_KERNEL && BIT(signo) & (BIT(SIGALRM) | BIT(SIGVTALRM) | BIT(SIGPROF)));
  bool by_itself = info->si_code <= 0 && !by_timer && info->si_pid == getpid();
  if (owner && owner->ended && (by_timer || by_itself))
    return; /* the guest's that was, never taken */
  if (!lives || (BIT(signo) & by_user && os_process(owner)->actions[signo].handler == K_DFL)) {
    as_without_us(signo, info, context);
    return;
  }
  block_on_return(context, BIT(signo));
  os_raw(SYS_rt_sigqueueinfo, getpid(), signo, (long)(uintptr_t)info, 0, 0, 0);
}

static void crash(int signo, const siginfo_t *info) {
  char msg[160];
  int n = snprintf(msg, sizeof msg,
                   "kitlua: internal error: %s at %p in the engine; please report it\n",
                   signo == SIGSEGV ? "invalid access" : "fault", info->si_addr);
  if (write(2, msg, (size_t)n) < 0) { /* nothing more to be done */
  }
  KernelAction dfl = {0};
  host_action(signo, &dfl, NULL);
}

/* Sent to the process and wanted by the main thread: passed to it. SIGPIPE and SIGXFSZ look so but
 * are the thread's own. */
static bool pass_to_main(const OsThread *o, int signo, siginfo_t *info) {
  const OsProcess *p = os_process(owner);
  const OsThread *m = p->main;
  bool to_process = info->si_code == SI_USER || info->si_code == SI_KERNEL ||
                    (signo == SIGCHLD && info->si_code > 0);
  if (owner->exiting || !m || m == o || !to_process || m->pending ||
      (m->mask | NEVER_BLOCKED | BIT(SIGPIPE) | BIT(SIGXFSZ)) & BIT(signo))
    return false;
  return !os_raw(SYS_rt_tgsigqueueinfo, getpid(), p->main_host_tid, signo, (long)(uintptr_t)info, 0,
                 0);
}

static void take_signal(CoreThread *t, int signo, siginfo_t *info, void *context) {
  OsThread *o = os_thread(t);
  if (!is_kick(info)) {
    bool never_blocked = BIT(signo) & NEVER_BLOCKED;
    if (pass_to_main(o, signo, info)) return;
    if (never_blocked && (o->pending || o->mask & BIT(signo))) {
      o->held_info[os_held_slot(signo)] = *info;
      o->held |= BIT(signo);
      return;
    }
    o->pending = true;
    o->info = *info;
    block_on_return(context, host_mask(~0ull));
  }
  os_safe_interrupted(context);
  core_interrupt_here(t, context);
}

/* Handlers of the CPU's signals block nothing, as they may be left by a jump. When one returns all
 * the same, another signal may have come meanwhile: it must still be the last. */
static void still_pending(CoreThread *t, void *context) {
  os_block_all(NULL);
  if (t && os_thread(t) && os_thread(t)->pending) block_on_return(context, host_mask(~0ull));
}

static bool is_interrupt(int signo, const siginfo_t *info) {
  return signo == SIGINT && owner && owner->catch_interrupts &&
         (info->si_code == SI_KERNEL || (info->si_code == SI_USER && info->si_pid != getpid()));
}

__attribute__((visibility("hidden"))) HostHandler os_on_signal;
void os_on_signal(int signo, siginfo_t *info, void *context) {
  int saved_errno = errno;
  CoreThread *t = core_self();
  if (BIT(signo) & SYNCHRONOUS && info->si_code > 0) {
    if (!core_host_fault(signo, info, context)) {
      os_fault_in_call(t, (uint64_t)(uintptr_t)info->si_addr);
      crash(signo, info);
    }
  } else if (is_interrupt(signo, info)) {
    if (owner->running) kit_interrupt(owner);
  } else if (!t || !os_thread(t)) {
    foreign_signal(signo, info, context);
  } else {
    take_signal(t, signo, info, context);
  }
  if (BIT(signo) & SYNCHRONOUS) still_pending(t, context);
  errno = saved_errno;
}

void os_kick(CoreThread *t) { send_kick(t->host_tid, KICK_SIGNAL); }

/* ---- dispositions ------------------------------------------------------------------------ */

static bool must_catch(const OsProcess *p, int signo) {
  uint64_t handler = p->actions[signo].handler;
  if (BIT(signo) & SYNCHRONOUS || signo == KICK_SIGNAL) return true;
  if (signo == SIGINT && owner->catch_interrupts) return true;
  if (handler != K_DFL) return handler != K_IGN;
  if (os_signal_default(signo) == OS_TERMINATE) return true;
  return BIT(signo) & QUIET && (p->signals_watched || p->quiet_blocked & BIT(signo));
}

/* Makes the host's disposition fit the guest's. SIGCHLD and its kind, while they do nothing, are
 * best left to the host, which drops them at once; but blocked ones must be kept for sigwait and
 * signalfd, and the kernel looks at the process's first thread only, which is no guest's, to know
 * whether they are blocked. */
void os_signal_install(OsProcess *p, int signo) {
  if (signo == SIGKILL || signo == SIGSTOP) return;
  const OsAction *a = &p->actions[signo];
  KernelAction act = {.flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | K_RESTORER,
                      .restorer = os_restorer};
  bool synchronous = BIT(signo) & SYNCHRONOUS, catch = must_catch(p, signo);
  if (catch) {
    act.handler = os_signal_entry;
    act.mask = synchronous ? 0 : ~SYNCHRONOUS;
    if (synchronous) act.flags |= SA_NODEFER;
    act.flags |= a->flags & (SA_NOCLDSTOP | SA_NOCLDWAIT);
  } else {
    act = (KernelAction){.handler = (void *)(uintptr_t)a->handler,
                         .flags = (a->flags & (SA_NOCLDSTOP | SA_NOCLDWAIT)) | K_RESTORER,
                         .restorer = os_restorer};
  }
  p->caught[signo] = catch;
  host_action(signo, &act, NULL);
  if (catch && BIT(signo) & QUIET) leave_to_guest(signo);
}

void os_signal_before_exec(Emu *emu) {
  const KernelAction ignore = {.handler = (void *)(uintptr_t)K_IGN};
  for (int s = 1; s < OS_SIGNALS; s++)
    if (os_process(emu)->actions[s].handler == K_IGN) host_action(s, &ignore, NULL);
}

void os_signal_after_exec(Emu *emu) {
  for (int s = 1; s < OS_SIGNALS; s++) os_signal_install(os_process(emu), s);
}

void os_signal_init(Emu *emu) {
  OsProcess *p = emu->os_data;
  for (int s = 1; s < OS_SIGNALS; s++) {
    host_action(s, NULL, &saved[s]);
    if ((uint64_t)(uintptr_t)saved[s].handler == K_IGN) p->actions[s].handler = K_IGN;
  }
  owner = emu;
  os_has_fsgsbase = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE;
  left_to_guest = 0;
  p->main = os_thread(emu->threads_first);
  os_raw(SYS_rt_sigprocmask, SIG_SETMASK, 0, (long)(uintptr_t)&p->main->mask, 8, 0, 0);
  p->quiet_blocked = p->main->mask & QUIET;
  for (int s = 1; s < OS_SIGNALS; s++) os_signal_install(p, s);
  p->signals_owned = true;
}

void os_watch_signals(Emu *emu, bool on) {
  OsProcess *p = os_process(emu);
  p->signals_watched = on;
  for (int s = 1; s < OS_SIGNALS; s++)
    if (BIT(s) & QUIET) os_signal_install(p, s);
}

void kit_catch_interrupts(KitEmu *emu, bool on) {
  emu->catch_interrupts = on;
  if (os_process(emu)->signals_owned) os_signal_install(os_process(emu), SIGINT);
}

void os_signal_close(Emu *emu) {
  OsProcess *p = emu->os_data;
  if (!p->signals_owned) return;
  const struct itimerval off = {0};
  for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++)
    os_raw(SYS_setitimer, which, (long)(uintptr_t)&off, 0, 0, 0, 0);
  for (size_t i = 0; i < timers.n; i++) os_raw(SYS_timer_delete, timers.at[i], 0, 0, 0, 0, 0);
  vec_free(&timers);
  for (int s = 1; s < OS_SIGNALS; s++)
    if (s != SIGKILL && s != SIGSTOP) host_action(s, &saved[s], NULL);
  owner = NULL;
}

_Noreturn void os_signal_suicide(int signo) {
  const KernelAction dfl = {0};
  host_action(signo, &dfl, NULL);
  set_host_mask(~BIT(signo));
  os_raw(SYS_kill, getpid(), signo, 0, 0, 0, 0);
  os_raw(SYS_exit_group, 128 + signo, 0, 0, 0, 0, 0);
  __builtin_unreachable();
}

void os_timer_made(int id) { vec_push(&timers, id); }
