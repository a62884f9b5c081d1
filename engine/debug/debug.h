/* debug/: what ELF and DWARF say of an address: symbols, lines, inlined calls, how to unwind,
 * variables.
 *
 * Works on files, by file addresses (runtime address minus the image's load bias), for any 64-bit
 * little-endian machine; api/ adds the load bias and the guest's registers and memory. Nothing is
 * read before it is asked for. Files are not trusted.
 *
 *   DebugImage *d = debug_open("/lib/x86_64-linux-gnu/libc.so.6", NULL, NULL);
 *   DebugSymbol s;
 *   if (debug_symbol_at(d, addr, &s)) printf("%s+%llu\n", s.name, addr - s.addr);
 *   DebugFrame f[16];
 *   size_t n = debug_lookup(d, addr, f, 16);   // f[0]: the innermost inlined function ...
 *                                              // f[n-1]: the function itself
 *
 * What an object was stripped of is taken from its separate debug file.
 *
 * file.c: ELF files, sections, build id, the separate debug file.  symbols.c: .symtab, else
 * .dynsym, and PLT entries as name@plt.  lines.c: line tables, from .debug_line alone.  scopes.c:
 * functions and inlined calls through libdwarf, a unit at a time.  unwind.c: call frame information
 * through libdwarf.  vars.c: variables in scope. */
#ifndef DEBUG_DEBUG_H
#define DEBUG_DEBUG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DebugImage DebugImage;

typedef struct DebugSymbol {
  const char *name;
  uint64_t addr, size; /* size 0 in the file: up to the next symbol */
  bool is_function;
  bool is_indirect; /* STT_GNU_IFUNC: addr is the resolver's */
} DebugSymbol;

typedef struct DebugFrame {
  const char *function; /* NULL unknown */
  const char *file;     /* NULL unknown */
  int line;             /* 0 unknown */
  bool inlined;         /* into the next frame */
} DebugFrame;

/* Registers by DWARF number, and memory, of the frame being looked at. */
typedef struct DebugRegs {
  void *ctx;
  bool (*get)(void *ctx, int reg, uint64_t *value);
  bool (*read)(void *ctx, uint64_t va, void *buf, size_t n);
} DebugRegs;

#define DEBUG_MAX_REGS 96

/* The caller's registers; those not `known` are lost. */
typedef struct DebugUnwound {
  uint64_t cfa, ret;
  bool signal_frame;
  bool known[DEBUG_MAX_REGS];
  uint64_t value[DEBUG_MAX_REGS];
} DebugUnwound;

/* How to leave a frame at an address, where stack pointer, frame pointer and memory are all it takes.
 * Offsets are from the CFA. */
typedef struct DebugRule {
  bool known;   /* else debug_unwind may know */
  bool end;     /* the outermost frame: there is no caller */
  bool by_fp;   /* CFA = frame pointer + cfa, else stack pointer + cfa */
  bool ra_kept; /* the return address is in its register */
  bool fp_kept; /* the frame pointer is the caller's */
  int32_t cfa, ra, fp;
} DebugRule;

typedef struct DebugVariable {
  const char *name, *type;
  bool is_argument;
  uint64_t size, address; /* address: runtime; 0: not in memory */
  uint8_t encoding;       /* DW_ATE_*; 0: not a base type or pointer */
  uint8_t value[16];
  bool available;
} DebugVariable;

/* folders: where separate debug files are looked for before SYSROOT/usr/lib/debug and
 * /usr/lib/debug; colon-separated, as gdb's debug-file-directory. Either may be NULL. NULL: not a
 * readable ELF file. */
DebugImage *debug_open(const char *path, const char *sysroot, const char *folders);
void debug_close(DebugImage *d);
const char *debug_build_id(DebugImage *d); /* hex, "" */

bool debug_symbol_at(DebugImage *d, uint64_t addr, DebugSymbol *out);
bool debug_symbol_named(DebugImage *d, const char *name, DebugSymbol *out);
bool debug_is_function_entry(DebugImage *d, uint64_t addr);
void debug_symbols(DebugImage *d, void (*fn)(void *ctx, const DebugSymbol *s),
                   void *ctx); /* by address */

/* The file and line of addr, from the line table alone, and where they end: the next address that
 * may have others. False: unknown. */
typedef struct DebugLine {
  const char *file; /* NULL unknown */
  int line;
  uint64_t end;
} DebugLine;
bool debug_line_at(DebugImage *d, uint64_t addr, DebugLine *out);
/* Where code of a source line begins; the number of places, of which the first max are in out. */
size_t debug_line_addresses(DebugImage *d, const char *file, int line, uint64_t *out, size_t max);

/* Function, file and line of addr, the innermost inlined call first. */
size_t debug_lookup(DebugImage *d, uint64_t addr, DebugFrame *out, size_t max);

/* The function around addr as .eh_frame has it, which stripping leaves alone. */
bool debug_extent(DebugImage *d, uint64_t addr, uint64_t *start, uint64_t *size);
/* False: no call frame information for addr. */
bool debug_unwind(DebugImage *d, uint64_t addr, const DebugRegs *regs, DebugUnwound *out);
/* sp, fp, ra: DWARF numbers of those registers, -1: none. */
DebugRule debug_rule(DebugImage *d, uint64_t addr, int sp, int fp, int ra);
/* Variables in scope at addr, innermost scope first; bias turns their file addresses into runtime
 * ones. */
void debug_variables(DebugImage *d, uint64_t addr, uint64_t bias, uint64_t cfa,
                     const DebugRegs *regs, void (*fn)(void *ctx, const DebugVariable *v),
                     void *ctx);

#endif
