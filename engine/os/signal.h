/* Private to os/'s signals: signal.c (the host's side), deliver.c (the guest's frames) and
 * sigcalls.c (system calls). */
#ifndef OS_SIGNAL_H
#define OS_SIGNAL_H

#include "os/os.h"

#define BIT(s)      (1ull << ((s)-1))
#define SYNCHRONOUS (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP))
#define UNBLOCKABLE (BIT(SIGKILL) | BIT(SIGSTOP))
#define KICK_SIGNAL 64 /* makes a host thread leave what it is in; the guest may use it, too */
/* What a host thread never blocks; if the guest does, it is kept in OsThread.held. */
#define NEVER_BLOCKED (SYNCHRONOUS | UNBLOCKABLE | BIT(KICK_SIGNAL))
/* Without effect by default (SIGCONT's is the kernel's). */
#define QUIET (BIT(SIGCHLD) | BIT(SIGURG) | BIT(SIGWINCH) | BIT(SIGCONT))

#define K_DFL              0ull /* OsAction.handler */
#define K_IGN              1ull
#define SS_AUTODISARM_FLAG (1u << 31)

typedef enum OsDefault { OS_TERMINATE, OS_IGNORE, OS_STOP } OsDefault;
OsDefault os_signal_default(int signo);

/* signal.c */
void os_signal_install(OsProcess *p, int signo); /* makes the host's disposition fit the guest's */
_Noreturn void
os_signal_suicide(int signo);     /* this process dies of it, hooks and all not being asked */
uint32_t os_held_slot(int signo); /* in OsThread.held_info */
void os_timer_made(int id);       /* the guest has made this timer */

/* deliver.c */
bool os_on_altstack(const OsThread *o, uint64_t sp);

#endif
