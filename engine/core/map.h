/* The guest's memory map: the one door through which guest memory appears, changes and goes.
 *
 * Guest addresses are host addresses in [CORE_LOW, CORE_LINE). The map mirrors what the host kernel
 * has there as a sorted list of areas, decides all placement itself (deterministic,
 * MAP_FIXED_NOREPLACE), raises on_map / on_unmap / on_protect, invalidates translations, and keeps
 * shadow planes in lockstep. Default layout (2^31..2^45 is left to sanitizer builds):
 *
 *   0x10000                fixed-address executables and their heap
 *   0x10000000             programs that are position-independent and made of native operations
 *   2^30 .. 2^31           their libraries, top down
 *   2^31                   --- sanitizers' ---
 *   2^45 + 2^32            position-independent executables, heap behind them
 *   2^46 - 2^33 downward   mmap area, top down
 *   2^46 - 2^32            stack top
 *   2^46 = CORE_LINE       engine, its libraries, code cache, shadow windows
 *
 * Results are addresses, or -errno as the kernel would say (so they can be handed to the guest). t
 * is the thread that asks (for hooks); NULL while loading.
 */
#ifndef CORE_MAP_H
#define CORE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CORE_LOW  0x10000ull
#define CORE_LINE (1ull << 46)
#define CORE_PAGE 4096ull

typedef struct KitEmu Emu;
typedef struct CoreThread CoreThread;
typedef struct CoreMap CoreMap;

typedef struct CoreArea {
  uint64_t start, end; /* page-aligned */
  int prot, flags;     /* guest's PROT_*, MAP_SHARED or MAP_PRIVATE, MAP_GROWSDOWN ... */
  uint64_t offset;     /* of start in the file */
  uint64_t dev, ino;
  const char *name; /* path, "[heap]", "[stack]", or ""; interned in the map */
} CoreArea;

CoreMap *core_map_new(Emu *emu);
void core_map_free(CoreMap *m); /* unmaps all guest memory */

int64_t core_mmap(Emu *emu, CoreThread *t, uint64_t va, uint64_t len, int prot, int flags, int fd,
                  uint64_t off, const char *name);
int core_munmap(Emu *emu, CoreThread *t, uint64_t va, uint64_t len);
int core_mprotect(Emu *emu, CoreThread *t, uint64_t va, uint64_t len, int prot);
int64_t core_mremap(Emu *emu, CoreThread *t, uint64_t old, uint64_t old_len, uint64_t new_len,
                    int flags, uint64_t new_va);
int core_madvise(Emu *emu, CoreThread *t, uint64_t va, uint64_t len,
                 int advice); /* DONTNEED drops plane contents? no: keeps */
int64_t core_brk(Emu *emu, CoreThread *t, uint64_t va); /* the new (or unchanged) break */
void core_set_brk(Emu *emu, uint64_t start);            /* loader: heap begins here */
/* A free range for an image of len bytes: below 2^31 region or the PIE base by `low`. Nothing is
 * mapped. */
uint64_t core_place(Emu *emu, uint64_t len, bool low);

/* First area with end > va; NULL: none. */
const CoreArea *core_area(const Emu *emu, uint64_t va);
/* emu_addr_space_ptr: the host pointer for [va, va+len) if all of it is mapped with (at least)
 * prot, else NULL. The one way by which the engine itself reaches guest memory; the pointer is good
 * until the map changes. prot 0: any mapping (debugger), see core_peek. */
void *emu_addr_space_ptr(const Emu *emu, uint64_t va, uint64_t len, int prot);
/* Must precede every write to guest memory that the guest's own stores do not make (system call
 * buffers, debugger): bounds and PROT_WRITE
 * (-EFAULT), translations invalidated and write protection for code lifted, on_mem_access. 0: go
 * ahead. */
int guest_prepare_write(Emu *emu, CoreThread *t, uint64_t va, uint64_t len);
/* Reading side: bounds, PROT_READ, on_mem_access. */
int guest_prepare_read(Emu *emu, CoreThread *t, uint64_t va, uint64_t len);
/* Copies with checks, through the two above. 0 or -EFAULT. */
int guest_read(Emu *emu, CoreThread *t, uint64_t va, void *buf, uint64_t len);
int guest_write(Emu *emu, CoreThread *t, uint64_t va, const void *buf, uint64_t len);
/* A NUL-terminated string: host pointer, or NULL (-EFAULT). *len without the NUL. */
const char *guest_string(Emu *emu, CoreThread *t, uint64_t va, size_t *len);
/* Debugger access: ignores protection (temporarily lifts it), no hooks. 0 or -EFAULT. */
int core_peek(Emu *emu, uint64_t va, void *buf, uint64_t len);
int core_poke(Emu *emu, uint64_t va, const void *buf, uint64_t len);

/* Write protection of translated pages (translate.c and fault.c): the host page loses PROT_WRITE
 * while it holds translations. */
void core_protect_code(Emu *emu, uint64_t va, uint64_t len);
/* A host write fault at va: true if it was only that protection, now lifted (translations of the
 * page are dropped). */
bool core_unprotect_code(Emu *emu, uint64_t va);

/* ---- planes: planes.c ------------------------------------------------------------------------ */

typedef struct CorePlane CorePlane;
struct IrPlane;
CorePlane *core_plane_new(Emu *emu, const char *name,
                          uint32_t bits); /* NULL: no address space (message in emu->error) */
void core_plane_free(CorePlane *p);
const struct IrPlane *core_plane_ir(const CorePlane *p);
void core_plane_fill(CorePlane *p, uint64_t va, uint64_t len, uint8_t value);
void core_plane_get(CorePlane *p, uint64_t va, uint8_t *values, size_t n);
void core_plane_set(CorePlane *p, uint64_t va, const uint8_t *values, size_t n);
bool core_plane_find(CorePlane *p, uint64_t va, uint64_t len, uint64_t *where, uint8_t *value);

#endif
