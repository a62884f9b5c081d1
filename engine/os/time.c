/* Sleeping. With other guest threads alive, sleeps run on the scheduler's clock, so that a run repeats; alone, the host sleeps. */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include "os/os.h"

#define SECOND      1000000000ull
#define MAX_SECONDS 9000000000ull /* longer than this is for ever: nanoseconds must fit */

static bool valid(const struct timespec *ts) { return ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < (long)SECOND; }

static int64_t sleep_scheduled(CoreThread *t, uint64_t ns, uint64_t rem_va) {
  uint64_t deadline = os_deadline(t, ns);
  int64_t r = os_wait(t, 0, 0, deadline);
  if (r != -EINTR) return r == -ETIMEDOUT ? 0 : r;
  uint64_t now = core_clock(t->emu), left = deadline > now ? deadline - now : 0;
  struct timespec rem = {(time_t)(left / SECOND), (long)(left % SECOND)};
  return rem_va && guest_write(t->emu, t, rem_va, &rem, sizeof rem) ? -EFAULT : -EINTR;
}

static int64_t sleep_until(CoreThread *t, clockid_t clock, int flags, uint64_t req_va, uint64_t rem_va) {
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
  if (rem_va && guest_prepare_write(t->emu, t, rem_va, sizeof req)) return -EFAULT;
  return os_blocking(t, SYS_clock_nanosleep, (long[6]){clock, flags, (long)req_va, (long)rem_va});
}

int64_t os_nanosleep(CoreThread *t, uint64_t a[6]) { return sleep_until(t, CLOCK_MONOTONIC, 0, a[0], a[1]); }
int64_t os_clock_nanosleep(CoreThread *t, uint64_t a[6]) { return sleep_until(t, (clockid_t)a[0], (int)a[1], a[2], a[3]); }
