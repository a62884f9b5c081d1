/* Private to api/: the implementation of kit/emu.h over the layers below. */
#ifndef API_API_H
#define API_API_H

#include "core/core.h"
#include "core/run.h"

bool api_is_entry(Emu *emu, uint64_t pc);
void api_close_images(Emu *emu); /* symbols.c: debug information and records */
struct DebugImage;
struct DebugImage *api_debug(Emu *emu, CoreImageRecord *r); /* NULL: not a readable ELF file */
/* The image that pc is in. Later ones first: one may have taken the place of one that was unmapped.
 */
CoreImageRecord *api_record_at(Emu *emu, uint64_t pc);
/* Return addresses by all means there are (innermost first: the thread's pc); how many. */
size_t api_walk(Emu *emu, const CoreThread *t, uint64_t *pcs, size_t max);
/* stacks.c */
uint32_t api_stack_here(CoreThread *t, uint32_t max, bool at_entry);
void api_stacks_free(Emu *emu);
/* The thread that a call with tid means (0: the current one); NULL and an error if there is none.
 */
CoreThread *api_thread(Emu *emu, int tid);

#endif
