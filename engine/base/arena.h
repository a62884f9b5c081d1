/* Arena: bump allocation freed all at once. Memory is zeroed and 16-byte aligned; running out of
 * host memory ends the process through base_oom (one message, exit 125), so no caller checks for
 * NULL. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
Arena *arena_new_sized(size_t bytes); /* about this much is going to be needed */
void arena_free(Arena *a);
void *arena_alloc(Arena *a, size_t size);
char *arena_strdup(Arena *a, const char *s);

#define arena_new_array(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))

/* malloc family that cannot return NULL. */
void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
char *xstrdup(const char *s);
_Noreturn void base_oom(size_t size);

#endif
