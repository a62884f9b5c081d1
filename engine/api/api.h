/* Private to api/: the implementation of kit/emu.h over the layers below. */
#ifndef API_API_H
#define API_API_H

#include "core/core.h"
#include "core/run.h"

bool api_is_entry(Emu *emu, uint64_t pc);
void api_close_images(Emu *emu); /* symbols.c: debug information and records */
/* The thread that a call with tid means (0: the current one); NULL and an error if there is none.
 */
CoreThread *api_thread(Emu *emu, int tid);

#endif
