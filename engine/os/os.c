/* Linux as the core sees it. */
#include <stdlib.h>
#include <sys/prctl.h>

#include "os/os.h"

static void close_os(Emu *emu) {
  OsProcess *p = emu->os_data;
  os_signal_close(emu);
  free(p->main_gone);
  free(p->auxv);
  vec_free(&p->segments);
  free(p);
  emu->os_data = NULL;
}

static void thread_init(CoreThread *t) {
  OsProcess *p = os_process(t->emu);
  if (os_thread(t) == p->main) prctl(PR_SET_NAME, p->comm);
  os_signal_thread(t);
}

const CoreOs os_linux = {
    .syscall = os_syscall,
    .deliver = os_deliver,
    .fault = os_fault,
    .thread_init = thread_init,
    .thread_exit = os_thread_exit,
    .kick = os_kick,
    .close = close_os,
};
