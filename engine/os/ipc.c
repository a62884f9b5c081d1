/* System V IPC. Message queues, semaphores and segments are the host's; what needs care are buffers
 * whose size depends on the command, the one struct that x86-64 lays out in its own way
 * (semid64_ds), and segments, which are mapped through the guest's memory map. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "os/os.h"

/* The sizes that a command of *ctl reads or writes at its pointer; a row that is not listed takes
 * no pointer. */
typedef struct IpcCommand {
  int cmd;
  uint16_t in, out;
} IpcCommand;

static int prepare(CoreThread *t, const IpcCommand *table, size_t n, int cmd, uint64_t va) {
  for (size_t i = 0; i < n; i++) {
    if (table[i].cmd != cmd) continue;
    if (table[i].in && guest_prepare_read(t->emu, t, va, table[i].in)) return -EFAULT;
    if (table[i].out && guest_prepare_write(t->emu, t, va, table[i].out)) return -EFAULT;
  }
  return 0;
}

/* ---- message queues -------------------------------------------------------------------------- */

int64_t os_msgctl(CoreThread *t, uint64_t a[6]) {
  static const IpcCommand commands[] = {{IPC_STAT, 0, 120}, {IPC_SET, 120, 0},
                                        {MSG_STAT, 0, 120}, {MSG_STAT_ANY, 0, 120},
                                        {IPC_INFO, 0, 32},  {MSG_INFO, 0, 32}};
  int err = prepare(t, commands, sizeof commands / sizeof *commands, (int)a[1], a[2]);
  return err ? err : os_raw(SYS_msgctl, (int)a[0], (int)a[1], (long)a[2], 0, 0, 0);
}

/* A message is its type and a[2] bytes of text. */
static bool message_size(uint64_t n, uint64_t *out) {
  *out = n + 8;
  return n < CORE_LINE;
}

int64_t os_msgsnd(CoreThread *t, uint64_t a[6]) {
  uint64_t n;
  if (!message_size(a[2], &n)) return -EINVAL;
  if (guest_prepare_read(t->emu, t, a[1], n)) return -EFAULT;
  return os_blocking(t, SYS_msgsnd, (long[6]){(long)a[0], (long)a[1], (long)a[2], (long)a[3]});
}

int64_t os_msgrcv(CoreThread *t, uint64_t a[6]) {
  uint64_t n;
  if (!message_size(a[2], &n)) return -EINVAL;
  if (guest_prepare_write(t->emu, t, a[1], n)) return -EFAULT;
  return os_blocking(t, SYS_msgrcv,
                     (long[6]){(long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4]});
}

/* ---- semaphores ------------------------------------------------------------------------------ */

typedef struct HostSemid { /* arch/x86/include/uapi/asm/sembuf.h */
  uint8_t perm[48];
  int64_t otime, unused1, ctime, unused2;
  uint64_t nsems, unused3, unused4;
} HostSemid;

typedef struct GenericSemid { /* include/uapi/asm-generic/sembuf.h */
  uint8_t perm[48];
  int64_t otime, ctime;
  uint64_t nsems, unused3, unused4;
} GenericSemid;
_Static_assert(sizeof(HostSemid) == 104 && sizeof(GenericSemid) == 88, "kernel's layouts");

static int64_t sem_stat(CoreThread *t, int id, int cmd, uint64_t va) {
  HostSemid h;
  int64_t r = os_raw(SYS_semctl, id, 0, cmd, (long)(uintptr_t)&h, 0, 0);
  if (r < 0) return r;
  GenericSemid g = {.otime = h.otime, .ctime = h.ctime, .nsems = h.nsems};
  memcpy(g.perm, h.perm, sizeof g.perm);
  bool generic = t->emu->guest->generic_syscalls;
  int err = guest_write(t->emu, t, va, generic ? (void *)&g : &h, generic ? sizeof g : sizeof h);
  return err ? err : r;
}

static int64_t sem_set(CoreThread *t, int id, uint64_t va) {
  HostSemid h = {0}; /* only the owner and the mode are looked at, which both have in front */
  int err = guest_read(t->emu, t, va, h.perm, sizeof h.perm);
  return err ? err : os_raw(SYS_semctl, id, 0, IPC_SET, (long)(uintptr_t)&h, 0, 0);
}

/* The values of all semaphores: as many as the set has. */
static int64_t sem_all(CoreThread *t, int id, int cmd, uint64_t va) {
  HostSemid h;
  int64_t r = os_raw(SYS_semctl, id, 0, IPC_STAT, (long)(uintptr_t)&h, 0, 0);
  if (r < 0) return r;
  int err = (cmd == GETALL ? guest_prepare_write : guest_prepare_read)(t->emu, t, va, h.nsems * 2);
  return err ? err : os_raw(SYS_semctl, id, 0, cmd, (long)va, 0, 0);
}

int64_t os_semctl(CoreThread *t, uint64_t a[6]) {
  int id = (int)a[0], cmd = (int)a[2];
  switch (cmd) {
  case IPC_STAT:
  case SEM_STAT:
  case SEM_STAT_ANY: return sem_stat(t, id, cmd, a[3]);
  case IPC_SET: return sem_set(t, id, a[3]);
  case GETALL:
  case SETALL: return sem_all(t, id, cmd, a[3]);
  case IPC_INFO:
  case SEM_INFO:
    if (guest_prepare_write(t->emu, t, a[3], sizeof(struct seminfo))) return -EFAULT;
    break;
  default: break;
  }
  return os_raw(SYS_semctl, id, (int)a[1], cmd, (long)a[3], 0, 0);
}

/* ---- segments -------------------------------------------------------------------------------- */

int64_t os_shmctl(CoreThread *t, uint64_t a[6]) {
  static const IpcCommand commands[] = {{IPC_STAT, 0, 112}, {IPC_SET, 112, 0},
                                        {SHM_STAT, 0, 112}, {SHM_STAT_ANY, 0, 112},
                                        {IPC_INFO, 0, 72},  {SHM_INFO, 0, 48}};
  int err = prepare(t, commands, sizeof commands / sizeof *commands, (int)a[1], a[2]);
  return err ? err : os_raw(SYS_shmctl, (int)a[0], (int)a[1], (long)a[2], 0, 0, 0);
}

int64_t os_shmat(CoreThread *t, uint64_t a[6]) {
  struct shmid_ds ds;
  char name[24];
  int id = (int)a[0], how = (int)a[2],
      place = a[1] ? how & SHM_REMAP ? MAP_FIXED : MAP_FIXED_NOREPLACE : 0;
  uint64_t va = how & SHM_RND ? a[1] & ~(CORE_PAGE - 1) : a[1];
  if (shmctl(id, IPC_STAT, &ds)) return -errno;
  if (va % CORE_PAGE || (!va && how & SHM_REMAP)) return -EINVAL;
  int prot = PROT_READ | (how & SHM_RDONLY ? 0 : PROT_WRITE) | (how & SHM_EXEC ? PROT_EXEC : 0);
  snprintf(name, sizeof name, "/SYSV%08x", (unsigned)ds.shm_perm.__key);
  int64_t at = core_mmap(t->emu, t, va, ds.shm_segsz, prot,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | place, -1, 0, name);
  if (at < 0) return at == -EEXIST ? -EINVAL : at;
  int64_t r = os_raw(SYS_shmat, id, (long)at, SHM_REMAP | (how & SHM_RDONLY), 0, 0, 0);
  if (r < 0) {
    core_munmap(t->emu, t, (uint64_t)at, ds.shm_segsz);
    return r;
  }
  OsProcess *p = os_process(t->emu);
  vec_push(&p->segments, ((OsSegment){(uint64_t)at, ds.shm_segsz}));
  return at;
}

int64_t os_shmdt(CoreThread *t, uint64_t a[6]) {
  OsProcess *p = os_process(t->emu);
  for (size_t i = 0; i < p->segments.n; i++) {
    OsSegment s = p->segments.at[i];
    const CoreArea *area = core_area(t->emu, s.va);
    if (s.va != a[0]) continue;
    p->segments.at[i] = p->segments.at[--p->segments.n];
    if (!area || area->start > s.va || strncmp(area->name, "/SYSV", 5))
      return -EINVAL; /* unmapped in some other way */
    return core_munmap(t->emu, t, s.va, s.len);
  }
  return -EINVAL;
}
