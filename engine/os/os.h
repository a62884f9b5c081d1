/* os/: Linux for the guest. The loader, the system calls (a table: syscall.def), signals,
 * processes.
 *
 * core/ calls in through os_linux (struct CoreOs). A system call goes: os_syscall (dispatch.c) ->
 * on_syscall_entry hooks -> the row's handler, or the generic pass to the host -> on_syscall_exit
 * hooks -> result register. Guest pointers are host pointers, so passing a call on needs bounds,
 * guest_prepare_write on what will be written, and translation of the few structs that differ
 * (abi.h).
 *
 * Signals. The guest's blocked mask is the host thread's mask, so pending signals, queueing and
 * process-directed delivery are the kernel's business. The host handler keeps one siginfo, blocks
 * everything else, and asks the thread to leave translated code; os_deliver then builds the guest's
 * frame and sets the mask of its handler. See signal.c. */
#ifndef OS_OS_H
#define OS_OS_H

#include <signal.h>
#include <sys/resource.h>

#include "core/core.h"

/* Results of interrupted calls that the guest does not see, as in the kernel. */
#define OS_ERESTART                                                                                \
  (-512) /* made again if the handler has SA_RESTART, or if no handler ran (ERESTARTSYS) */
#define OS_ENOTRUN (-513) /* it was not made: always made again (ERESTARTNOINTR) */
#define OS_SIGNALS 65

typedef struct OsAction { /* rt_sigaction, host byte order */
  uint64_t handler, flags, restorer, mask;
} OsAction;

typedef struct OsRow OsRow;

/* When an interrupted call is made again. */
typedef enum OsAgain {
  OS_DONE,
  OS_AGAIN_UNHANDLED /* if no handler runs */,
  OS_AGAIN_IF_ASKED /* or if it has SA_RESTART */,
  OS_AGAIN_ALWAYS
} OsAgain;

typedef struct OsThread {
  uint64_t mask;      /* guest's blocked set; mirrored into the host thread */
  sigjmp_buf *escape; /* out of the call's handler: see os_fault_in_call */
  const OsRow *row;   /* of the system call being made */
  bool pending;       /* a signal is waiting in `info` to be delivered */
  siginfo_t info;
  uint64_t alt_sp, alt_size; /* sigaltstack */
  uint32_t alt_flags;
  bool has_saved_mask; /* sigsuspend, ppoll: the mask to return to after the handler */
  uint64_t saved_mask;
  uint64_t clear_child_tid, robust_head;
  /* The system call being made, for restarting. */
  OsAgain again;
  uint64_t call_pc, call_ret; /* its instruction; the result register before it */
  bool rewound;               /* the next call is this one again, no handler having run */
  uint64_t deadline;          /* of its wait in the scheduler; 0: none yet */
  bool no_result;             /* rt_sigreturn: the registers are the ones it restored */
  /* Signals that the host never blocks but the guest does (or whose turn has not come): kept here.
   */
  uint64_t held;
  siginfo_t held_info[6];
} OsThread;

typedef struct OsSegment { /* of System V shared memory, attached */
  uint64_t va, len;
} OsSegment;

typedef struct OsProcess {
  OsAction actions[OS_SIGNALS];
  bool caught[OS_SIGNALS];     /* the engine's handler is installed */
  struct rlimit nofile, stack; /* as the guest sees them */
  struct rlimit space; /* RLIMIT_AS: not made the host's, whose address space is the engine's too */
  VEC(OsSegment) segments;
  int engine_fds[32];
  uint32_t n_engine_fds;
  uint64_t trampoline; /* guest code that calls rt_sigreturn */
  char comm[16];       /* the main thread's name at its start */
  uint64_t arg_start,
      arg_end; /* the arguments' text on the stack; the environment's, up to env_end, follows it */
  uint64_t env_end, stack_sp; /* the stack pointer at the start */
  uint8_t *auxv;
  size_t auxv_size;
  uint64_t stack_top;
  bool vfork_child;    /* this process shares the parent's memory */
  struct OsExec *exec; /* of a vfork child that is gone: freed by the parent */
  OsThread
      *main; /* the main thread's, NULL once it has ended: prefers what is sent to the process */
  OsThread *main_gone;
  int main_host_tid;
  bool signals_watched;   /* hooks want to see signals, those without effect too */
  uint64_t quiet_blocked; /* signals without default effect that the guest has blocked some time:
                             see install() */
  bool signals_owned;     /* os_signal_init has run */
  bool warned[600];       /* unknown system calls */
} OsProcess;

static inline OsThread *os_thread(CoreThread *t) { return t->os; }
static inline OsProcess *os_process(Emu *emu) { return emu->os_data; }

extern const CoreOs os_linux;

/* loader.c: opens argv[0], makes the machine's first thread. Fails with a message in emu->error. */
KitStatus os_load(Emu *emu, const char *const *argv, const char *const *envp);
/* The ELF machine of the file, 0 if it is not a 64-bit little-endian ELF program. */
uint16_t os_elf_machine(const char *path);
/* script.c: a "#!" line's interpreter and argument (NULL: none), cut out of `line` in place. False:
 * not a script. */
bool os_script_line(const char *path, char *line, size_t size, char **interp, char **arg);
/* image.c: a file was mapped executable; names its image. */
void os_image_mapped(Emu *emu, CoreThread *t, uint64_t va, uint64_t len, uint64_t offset,
                     const char *guest_path);
CoreImageRecord *os_image_add(Emu *emu, const char *path, const char *host_path, uint64_t low,
                              uint64_t high, uint64_t bias);
void os_images_unmapped(Emu *emu, CoreThread *t, uint64_t va, uint64_t len);
/* Stands before variables of the guest's that kitlua, executed with them, must not obey itself. */
#define OS_SET_ASIDE "KITLUA_GUEST:"
/* stack.c: initial stack; returns the stack pointer, 0 if it does not fit. */
typedef struct OsStackInfo {
  const char *const *argv, *const *envp;
  const char *execfn;
  uint64_t entry, phdr, phent, phnum, interp_base;
} OsStackInfo;
uint64_t os_make_stack(Emu *emu, const OsStackInfo *info);

/* path.c: the host's path for a guest's: the sysroot is tried first for absolute paths that exist
 * there. The result is `path` itself or `buf`. */
const char *os_host_path(const Emu *emu, const char *path, char *buf, size_t size);
/* proc.c: files of /proc that show the guest's view. A descriptor, or -1: not one of them, -errno.
 */
int os_proc_open(CoreThread *t, const char *path, int flags);
/* The guest's program if the path is a link to it (/proc/self/exe), else NULL. */
const char *os_proc_exe(CoreThread *t, const char *path);
/* The path is of one of the engine's descriptors in /proc. */
bool os_proc_hidden(CoreThread *t, const char *path);
/* file.c */
bool os_is_engine_fd(const Emu *emu, int fd);

/* dispatch.c */
void os_syscall(CoreThread *t);
/* For the host's signal handler: a fault of the engine's at a guest address ends t's call with
 * EFAULT. Does not return then. */
void os_fault_in_call(CoreThread *t, uint64_t address);
/* Raw host call; -errno on failure. */
int64_t os_raw(long nr, long a, long b, long c, long d, long e, long f);

/* safe_syscall.c */
/* A host call that may block: gives up the baton (if others could use it). A signal ends it:
 * -EINTR, OS_ERESTART or OS_ENOTRUN. */
int64_t os_blocking(CoreThread *t, long nr, const long args[6]);
int64_t os_safe_call(const volatile uint32_t *interrupt, long nr, const long args[6])
    __attribute__((visibility("hidden")));
void os_safe_interrupted(void *context); /* for the host's signal handler */
/* core_wait with the same results; os_deadline: that time from now, or what was left when the call
 * was interrupted. */
int64_t os_wait(CoreThread *t, uint64_t key, uint32_t mask, uint64_t deadline);
uint64_t os_deadline(CoreThread *t, uint64_t ns);
/* time.c: sleeps on the scheduler's clock; UINT64_MAX: until a signal. 0, -EINTR or OS_ENOTRUN. */
int64_t os_sleep(CoreThread *t, uint64_t ns);

/* signal.c */
void os_signal_init(Emu *emu);
void os_signal_close(Emu *emu);
/* Around the host's execve: what the guest ignores is ignored by the host, even if we need to catch
 * it. */
void os_signal_before_exec(Emu *emu);
void os_signal_after_exec(Emu *emu); /* it failed */
void os_watch_signals(Emu *emu, bool on);
void os_signal_thread(CoreThread *t); /* host mask of a new guest thread: call on it */
void os_deliver(CoreThread *t);
void os_fault(CoreThread *t, int signo, int code, uint64_t address);
void os_set_mask(CoreThread *t, uint64_t mask);
void os_kick(CoreThread *t);
/* The guest's death by signo: exit hooks run; a vfork child just goes. */
_Noreturn void os_die(CoreThread *t, int signo);
int64_t os_blocking_masked(CoreThread *t, uint64_t mask, long nr,
                           const long args[6]); /* ppoll and its kind */
void os_block_all(uint64_t *old);               /* host mask of the calling thread */
void os_restore_mask(uint64_t old);

/* process.c */
void os_thread_exit(CoreThread *t);
void os_give_up_locks(
    Emu *emu); /* the process dies: robust futexes are marked, their waiters woken */
int os_host_tid(Emu *emu,
                int tid); /* the main guest thread's id is the pid, its host thread has another */

/* exec.c */
void os_exec_free(struct OsExec *e);

/* tables.c: what the rows say, parsed once. */
typedef enum OsKind {
  OSK_NONE,
  OSK_int,
  OSK_uint,
  OSK_hex,
  OSK_mode,
  OSK_sig,
  OSK_ptr,
  OSK_fd,
  OSK_dirfd,
  OSK_tid,
  OSK_path,
  OSK_pathnull,
  OSK_str,
  OSK_flags,
  OSK_enum,
  OSK_in,
  OSK_out,
  OSK_outstr,
  OSK_outp,
  OSK_sin,
  OSK_sout,
  OSK_inout,
  OSK_iovi,
  OSK_iovo,
  OSK_msghdri,
  OSK_msghdro,
  OSK_mmsghdri,
  OSK_mmsghdro,
  OSK_sai,
  OSK_sao,
  OSK_pollfds,
  OSK_epollevents,
  OSK_fdset,
  OSK_fdpair,
  OSK_sigset,
  OSK_sigsetout,
  OSK_waitstatus,
  OSK_argv,
  OSK_envp,
  OSK_ptrout,
  OS_KINDS
} OsKind;

typedef int64_t OsHandler(CoreThread *t, uint64_t a[6]);

struct OsRow {
  const char *name;
  int16_t nr_generic, nr_x64;
  OsHandler *handler;
  const char *classes, *ret, *args;
  /* parsed from args: */
  bool parsed;
  uint8_t n_args;
  struct OsArg {
    uint8_t kind;  /* OsKind */
    int8_t len;    /* argument that holds the length, -1: none, -2: the result */
    uint16_t size; /* of sin, sout, inout */
  } arg[6];
  KitSyscallInfo info;
};

OsRow *os_row(const Emu *emu, int nr); /* NULL: no such number */

/* The handlers (one declaration a row; most rows share one). */
#define SYSCALL(name, generic, x64, how, classes, ret, args) OsHandler how;
#include "os/syscall.def"

#endif
