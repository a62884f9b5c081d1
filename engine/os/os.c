/* Linux as the core sees it. */
#include <stdlib.h>

#include "os/os.h"

static void close_os(Emu *emu) {
  OsProcess *p = emu->os_data;
  os_signal_close(emu);
  free(p->cmdline);
  free(p->auxv);
  free(p);
  emu->os_data = NULL;
}

const CoreOs os_linux = {
    .syscall = os_syscall,
    .deliver = os_deliver,
    .fault = os_fault,
    .thread_init = os_signal_thread,
    .thread_exit = os_thread_exit,
    .kick = os_kick,
    .close = close_os,
};
