/* Waiting for descriptors: poll, select, epoll. Signal masks are swapped by the host call itself; a
 * signal that ends the wait is then delivered with the mask from before (OsThread.saved_mask). The
 * generic ABI's epoll_event is not packed as x86-64's is. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "os/os.h"

#define MAX_EPOLL 4096

/* Runs a waiting call under another blocked set, given by the guest at mask_va (0: the present
 * one). */
static int64_t with_mask(CoreThread *t, uint64_t mask_va, uint64_t size, long nr, long args[6]) {
  uint64_t mask;
  if (!mask_va) return os_blocking(t, nr, args);
  if (size != 8) return -EINVAL;
  if (guest_read(t->emu, t, mask_va, &mask, 8)) return -EFAULT;
  return os_blocking_masked(t, mask, nr, args);
}

/* Waiting for nothing but time, with other guest threads alive: on the scheduler's clock, as sleeps
 * are. */
static bool only_time(CoreThread *t, uint64_t n, uint64_t mask_va) {
  return !n && !mask_va && t->emu->n_threads > 1;
}

/* unit: nanoseconds of the second word, of a timespec or timeval. What is left of the time is
 * written back, as Linux does: nothing. */
static int64_t sleep_for(CoreThread *t, uint64_t timeout_va, int64_t unit) {
  int64_t time[2];
  if (!timeout_va) return os_sleep(t, UINT64_MAX);
  if (guest_read(t->emu, t, timeout_va, time, sizeof time)) return -EFAULT;
  if (time[0] < 0 || time[1] < 0 || time[1] >= 1000000000 / unit) return -EINVAL;
  int64_t r = time[0] > 9000000000 ? os_sleep(t, UINT64_MAX)
                                   : os_sleep(t, (uint64_t)(time[0] * 1000000000 + time[1] * unit));
  const int64_t none[2] = {0, 0};
  return r || !guest_write(t->emu, t, timeout_va, none, sizeof none) ? r : -EFAULT;
}

static int64_t poll_fds(CoreThread *t, uint64_t fds, uint64_t n) {
  if (n > 100000) return -EINVAL;
  return n ? guest_prepare_write(t->emu, t, fds, n * sizeof(struct pollfd)) : 0;
}

int64_t os_poll(CoreThread *t, uint64_t a[6]) {
  int64_t err = poll_fds(t, a[0], a[1]);
  if (only_time(t, a[1], 0))
    return os_sleep(t, (int)a[2] < 0 ? UINT64_MAX : (uint64_t)(int)a[2] * 1000000);
  return err ? err : os_blocking(t, SYS_poll, (long[6]){(long)a[0], (long)a[1], (int)a[2]});
}

int64_t os_ppoll(CoreThread *t, uint64_t a[6]) {
  int64_t err = poll_fds(t, a[0], a[1]);
  if (only_time(t, a[1], a[3])) return sleep_for(t, a[2], 1);
  if (!err && a[2]) err = guest_prepare_write(t->emu, t, a[2], 16);
  return err ? err
             : with_mask(t, a[3], a[4], SYS_ppoll,
                         (long[6]){(long)a[0], (long)a[1], (long)a[2], 0, 8});
}

static int64_t fd_sets(CoreThread *t, const uint64_t a[6]) {
  uint64_t bytes = ((uint64_t)(uint32_t)a[0] + 63) / 64 * 8;
  if ((int)a[0] < 0 || bytes > 1 << 20) return -EINVAL;
  for (int i = 1; i <= 3; i++)
    if (a[i] && bytes && guest_prepare_write(t->emu, t, a[i], bytes)) return -EFAULT;
  return a[4] ? guest_prepare_write(t->emu, t, a[4], 16) : 0;
}

int64_t os_select(CoreThread *t, uint64_t a[6]) {
  int64_t err = fd_sets(t, a);
  if (!err && only_time(t, a[0], 0)) return sleep_for(t, a[4], 1000);
  return err ? err
             : os_blocking(t, SYS_select,
                           (long[6]){(int)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4]});
}

int64_t os_pselect6(CoreThread *t, uint64_t a[6]) {
  uint64_t set[2] = {0, 8};
  int64_t err = fd_sets(t, a);
  if (!err && a[5]) err = guest_read(t->emu, t, a[5], set, sizeof set);
  if (!err && only_time(t, a[0], set[0])) return sleep_for(t, a[4], 1);
  return err ? err
             : with_mask(t, set[0], set[1], SYS_pselect6,
                         (long[6]){(int)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], 0});
}

/* ---- epoll ----------------------------------------------------------------------------------- */

typedef struct GenericEpollEvent {
  uint32_t events, pad;
  uint64_t data;
} GenericEpollEvent;

int64_t os_epoll_ctl(CoreThread *t, uint64_t a[6]) {
  struct epoll_event ev = {0};
  GenericEpollEvent g;
  if (os_is_engine_fd(t->emu, (int)a[0]) || os_is_engine_fd(t->emu, (int)a[2])) return -EBADF;
  if (a[1] != EPOLL_CTL_DEL) {
    bool generic = t->emu->guest->generic_syscalls;
    if (guest_read(t->emu, t, a[3], generic ? (void *)&g : &ev, generic ? sizeof g : sizeof ev))
      return -EFAULT;
    if (generic) {
      ev.events = g.events;
      ev.data.u64 = g.data;
    }
  }
  return os_raw(SYS_epoll_ctl, (long)a[0], (long)a[1], (long)a[2], (long)(uintptr_t)&ev, 0, 0);
}

static int64_t epoll_wait_masked(CoreThread *t, const uint64_t a[6], uint64_t mask_va,
                                 uint64_t mask_size) {
  int max = (int)a[2];
  if (max <= 0 || max > MAX_EPOLL)
    return max <= 0 ? -EINVAL
                    : epoll_wait_masked(t, (uint64_t[6]){a[0], a[1], MAX_EPOLL, a[3]}, mask_va,
                                        mask_size);
  if (os_is_engine_fd(t->emu, (int)a[0])) return -EBADF;
  size_t size =
      t->emu->guest->generic_syscalls ? sizeof(GenericEpollEvent) : sizeof(struct epoll_event);
  if (guest_prepare_write(t->emu, t, a[1], (uint64_t)max * size)) return -EFAULT;
  struct epoll_event *evs = xmalloc((size_t)max * sizeof *evs);
  int64_t n =
      with_mask(t, mask_va, mask_size,
                os_thread(t)->row->handler == os_epoll_pwait2 ? SYS_epoll_pwait2 : SYS_epoll_pwait,
                (long[6]){(long)a[0], (long)(uintptr_t)evs, max, (long)a[3], 0, 8});
  for (int64_t i = 0; i < n; i++) {
    char *to = (char *)(uintptr_t)a[1] + (size_t)i * size;
    memcpy(to, &evs[i].events, sizeof evs[i].events);
    memcpy(to + size - sizeof evs[i].data, &evs[i].data, sizeof evs[i].data);
  }
  free(evs);
  return n;
}

/* The timeout is a timespec, which the host's call takes. */
int64_t os_epoll_pwait2(CoreThread *t, uint64_t a[6]) {
  return epoll_wait_masked(t, a, a[4], a[5]);
}
int64_t os_epoll_wait(CoreThread *t, uint64_t a[6]) { return epoll_wait_masked(t, a, 0, 8); }
int64_t os_epoll_pwait(CoreThread *t, uint64_t a[6]) { return epoll_wait_masked(t, a, a[4], a[5]); }
