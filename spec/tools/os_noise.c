/* Random system calls with hostile arguments: the engine must stand them all. Built for a guest and
 * run under kitlua by os_spec.lua.
 *
 *   os_noise SEED ROUNDS        prints "survived" at its end; what the calls give is not judged
 *
 * Calls that would end the program, stop it for ever, take its own memory away, or change things
 * outside of it are left out. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define LAST_NUMBER 470

static const short left_out[] = {
    SYS_acct,
    SYS_add_key,
    SYS_adjtimex,
    SYS_bpf,
    SYS_brk,
    SYS_capset,
    SYS_chroot,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_clone,
    SYS_clone3,
    SYS_close,
    SYS_close_range,
    SYS_delete_module,
    SYS_dup3,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_execve,
    SYS_execveat,
    SYS_exit,
    SYS_exit_group,
    SYS_fallocate,
    SYS_fanotify_init,
    SYS_fchmod,
    SYS_fchown,
    SYS_fcntl,
    SYS_finit_module,
    SYS_ftruncate,
    SYS_init_module,
    SYS_ioctl,
    SYS_ioprio_set,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_kill,
    SYS_linkat,
    SYS_lookup_dcookie,
    SYS_madvise,
    SYS_memfd_create,
    SYS_mknodat,
    SYS_mmap,
    SYS_mount,
    SYS_mprotect,
    SYS_mq_open,
    SYS_mremap,
    SYS_msgctl,
    SYS_msgget,
    SYS_munmap,
    SYS_nfsservctl,
    SYS_personality,
    SYS_pidfd_send_signal,
    SYS_pivot_root,
    SYS_pkey_mprotect,
    SYS_ppoll,
    SYS_prctl,
    SYS_prlimit64,
    SYS_process_vm_writev,
    SYS_pselect6,
    SYS_ptrace,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_quotactl,
    SYS_reboot,
    SYS_remap_file_pages,
    SYS_renameat2,
    SYS_request_key,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigqueueinfo,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_rt_tgsigqueueinfo,
    SYS_sched_setaffinity,
    SYS_sched_setattr,
    SYS_sched_setparam,
    SYS_sched_setscheduler,
    SYS_seccomp,
    SYS_semctl,
    SYS_semget,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_setdomainname,
    SYS_setfsgid,
    SYS_setfsuid,
    SYS_setgid,
    SYS_setgroups,
    SYS_sethostname,
    SYS_setitimer,
    SYS_setns,
    SYS_setpriority,
    SYS_setregid,
    SYS_setresgid,
    SYS_setresuid,
    SYS_setreuid,
    SYS_setrlimit,
    SYS_setsid,
    SYS_settimeofday,
    SYS_setuid,
    SYS_shmat,
    SYS_shmctl,
    SYS_shmdt,
    SYS_shmget,
    SYS_sigaltstack,
    SYS_swapoff,
    SYS_swapon,
    SYS_symlinkat,
    SYS_sync,
    SYS_syslog,
    SYS_tgkill,
    SYS_timer_create,
    SYS_tkill,
    SYS_truncate,
    SYS_umount2,
    SYS_unlinkat,
    SYS_unshare,
    SYS_vhangup,
    SYS_write,
    SYS_writev,
};

static uint64_t state;
static uint64_t next(void) { /* xorshift64 */
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static char *buffer, *edge; /* a page, and one behind which nothing is mapped */

static uint64_t word(void) {
  switch (next() % 16) {
  case 0: return 0;
  case 1: return next();
  case 2:
  case 3: return (uint64_t)buffer + next() % 4096;
  case 4:
  case 5: return (uint64_t)buffer + 8 * (next() % 512);
  case 6: return (uint64_t)edge + 4096 - next() % 64;
  case 7: return (1ull << 46) + next() % (1ull << 40);   /* the engine's half */
  case 8: return 0x7f0000000000 + next() % (1ull << 36); /* its libraries */
  case 9: return 0x555555554000 + next() % (1 << 24);    /* itself, without address randomisation */
  case 10: return (1ull << 46) - next() % 8192;
  case 11: return -(next() % 4096);
  case 12: return 1ull << next() % 64;
  case 13: return next() % 1100;
  case 14: return next() % 64;
  default: return next() % 8;
  }
}

static int is_left_out(long number) {
  for (unsigned i = 0; i < sizeof left_out / sizeof *left_out; i++)
    if (left_out[i] == number) return 1;
  return 0;
}

static void on_alarm(int signo) { (void)signo; }

int main(int argc, char **argv) {
  state = strtoull(argc > 1 ? argv[1] : "1", NULL, 0) * 0x9e3779b97f4a7c15 | 1;
  edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  buffer = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(edge + 4096, 4096);
  signal(SIGXFSZ, SIG_IGN); /* standard output is a file that somebody reads: it must not grow to a
                               hole of gigabytes */
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){64 << 20, 64 << 20});
  sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL); /* ends calls that wait */
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 2000}, {0, 2000}}, NULL);
  for (long round = strtol(argc > 2 ? argv[2] : "1000", NULL, 0); round--;) {
    long number = (long)(next() % LAST_NUMBER);
    if (is_left_out(number)) continue;
    if (round % 64 == 0)
      for (int i = 0; i < 512; i++) ((uint64_t *)buffer)[i] = word();
    syscall(number, word(), word(), word(), word(), word(), word());
  }
  return puts("survived") < 0;
}
