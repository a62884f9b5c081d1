/* Sleeping. With other guest threads alive, sleeps run on the scheduler's clock, so that a run
 * repeats; alone, the host sleeps. */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include "os/os.h"

#define SECOND      1000000000ull
#define MAX_SECONDS 9000000000ull /* longer than this is for ever: nanoseconds must fit */

static bool valid(const struct timespec *ts) {
  return ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < (long)SECOND;
}

static int64_t sleep_scheduled(CoreThread *t, uint64_t ns, uint64_t rem_va) {
  uint64_t deadline = os_deadline(t, ns);
  int64_t r = os_wait(t, 0, 0, deadline);
  if (r != -EINTR) return r == -ETIMEDOUT ? 0 : r;
  uint64_t now = core_clock(t->emu), left = deadline > now ? deadline - now : 0;
  struct timespec rem = {(time_t)(left / SECOND), (long)(left % SECOND)};
  return rem_va && guest_write(t->emu, t, rem_va, &rem, sizeof rem) ? -EFAULT : -EINTR;
}

static uint64_t monotonic(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

/* A relative sleep of the host's: its end is fixed when it begins, so that going on after an
 * interruption does not prolong it. */
static int64_t sleep_host(CoreThread *t, uint64_t ns, uint64_t rem_va) {
  OsThread *o = os_thread(t);
  if (!o->deadline) o->deadline = monotonic() + ns;
  struct timespec end = {(time_t)(o->deadline / SECOND), (long)(o->deadline % SECOND)};
  int64_t r = os_blocking(t, SYS_clock_nanosleep,
                          (long[6]){CLOCK_MONOTONIC, TIMER_ABSTIME, (long)(uintptr_t)&end, 0});
  if (r != -EINTR) return r;
  uint64_t now = monotonic(), left = o->deadline > now ? o->deadline - now : 0;
  struct timespec rem = {(time_t)(left / SECOND), (long)(left % SECOND)};
  return rem_va && guest_write(t->emu, t, rem_va, &rem, sizeof rem) ? -EFAULT : r;
}

/* So far away that nobody will see it. */
static uint64_t to_ns(const struct timespec *ts) {
  const uint64_t far = UINT64_MAX / 4;
  return (uint64_t)ts->tv_sec > far / SECOND
             ? far
             : (uint64_t)ts->tv_sec * SECOND + (uint64_t)ts->tv_nsec;
}

static int64_t sleep_until(CoreThread *t, clockid_t clock, int flags, uint64_t req_va,
                           uint64_t rem_va) {
  struct timespec req, now;
  int err = guest_read(t->emu, t, req_va, &req, sizeof req);
  if (err) return err;
  if (!valid(&req)) return -EINVAL;
  if (t->emu->n_threads > 1 && (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME)) {
    uint64_t secs = (uint64_t)req.tv_sec < MAX_SECONDS ? (uint64_t)req.tv_sec : MAX_SECONDS;
    uint64_t ns = secs * SECOND + (uint64_t)req.tv_nsec;
    if (flags & TIMER_ABSTIME) {
      clock_gettime(clock, &now);
      uint64_t have = (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
      ns = ns > have ? ns - have : 0;
    }
    return sleep_scheduled(t, ns, flags & TIMER_ABSTIME ? 0 : rem_va);
  }
  if (!(flags & TIMER_ABSTIME) && (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME))
    return sleep_host(t, to_ns(&req), rem_va);
  if (rem_va && guest_prepare_write(t->emu, t, rem_va, sizeof req)) return -EFAULT;
  return os_blocking(t, SYS_clock_nanosleep, (long[6]){clock, flags, (long)req_va, (long)rem_va});
}

int64_t os_sleep(CoreThread *t, uint64_t ns) {
  int64_t r = os_wait(t, 0, 0, ns == UINT64_MAX ? UINT64_MAX : os_deadline(t, ns));
  return r == -ETIMEDOUT ? 0 : r == OS_ERESTART ? -EINTR : r;
}

int64_t os_nanosleep(CoreThread *t, uint64_t a[6]) {
  return sleep_until(t, CLOCK_MONOTONIC, 0, a[0], a[1]);
}
int64_t os_clock_nanosleep(CoreThread *t, uint64_t a[6]) {
  return sleep_until(t, (clockid_t)a[0], (int)a[1], a[2], a[3]);
}
