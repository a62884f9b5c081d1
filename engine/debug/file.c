/* ELF files: opening, sections (inflated where they are compressed), build id, and the separate
 * debug file, found as gdb finds it (gdb manual, "Debugging Information in Separate Files"). */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "debug/image.h"

/* ---- the file, bounds-checked ---------------------------------------------------------------- */

const void *debug_at(const DebugImage *d, uint64_t off, uint64_t n) {
  return off <= d->size && n <= d->size - off ? d->map + off : NULL;
}

const char *debug_string(const DebugImage *d, const Elf64_Shdr *table, uint64_t off) {
  if (off >= table->sh_size) return NULL;
  const char *s = debug_at(d, table->sh_offset + off, table->sh_size - off);
  return s && memchr(s, 0, table->sh_size - off) ? s : NULL;
}

static const char *section_name(const DebugImage *d, const Elf64_Shdr *s) {
  const Elf64_Ehdr *eh = (const void *)d->map;
  if (eh->e_shstrndx >= d->n_sections) return "";
  const char *name = debug_string(d, &d->sections[eh->e_shstrndx], s->sh_name);
  return name ? name : "";
}

const uint8_t *debug_section(const DebugImage *d, const char *name, size_t *size,
                             const Elf64_Shdr **header) {
  for (uint32_t i = 0; i < d->n_sections; i++) {
    const Elf64_Shdr *s = &d->sections[i];
    if (s->sh_type == SHT_NOBITS || strcmp(section_name(d, s), name)) continue;
    if (header) *header = s;
    *size = s->sh_size;
    return debug_at(d, s->sh_offset, s->sh_size);
  }
  return NULL;
}

const Elf64_Shdr *debug_section_of(const DebugImage *d, uint64_t addr) {
  for (uint32_t i = 0; i < d->n_sections; i++) {
    const Elf64_Shdr *s = &d->sections[i];
    if (s->sh_flags & SHF_ALLOC && addr >= s->sh_addr && addr - s->sh_addr < s->sh_size) return s;
  }
  return NULL;
}

static uint8_t *inflated(const uint8_t *from, size_t size, size_t *out_size) {
  const Elf64_Chdr *ch = (const void *)from;
  if (size < sizeof *ch || ch->ch_type != ELFCOMPRESS_ZLIB) return NULL;
  size_t n = size - sizeof *ch;
  if (ch->ch_size / 1100 > n) return NULL; /* zlib's best ratio is 1032 */
  uint8_t *out = xmalloc(ch->ch_size + 1);
  uLongf got = ch->ch_size;
  if (uncompress(out, &got, from + sizeof *ch, n) != Z_OK || got != ch->ch_size) {
    free(out);
    return NULL;
  }
  *out_size = got;
  return out;
}

const uint8_t *debug_contents(DebugImage *d, const char *name, size_t *size) {
  const Elf64_Shdr *header;
  const uint8_t *raw = debug_section(d, name, size, &header);
  if (!raw || !(header->sh_flags & SHF_COMPRESSED)) return raw;
  for (size_t i = 0; i < d->inflated.n; i++)
    if (d->inflated.at[i].header == header) {
      *size = d->inflated.at[i].size;
      return d->inflated.at[i].at;
    }
  DebugInflated new = {.header = header};
  new.at = inflated(raw, *size, &new.size);
  vec_push(&d->inflated, new);
  *size = new.size;
  return new.at;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool map_file(DebugImage *d, const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(Elf64_Ehdr)) {
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    d->map = p == MAP_FAILED ? NULL : p;
    d->size = (size_t)st.st_size;
  }
  close(fd);
  return d->map != NULL;
}

DebugImage *debug_open(const char *path, const char *sysroot, const char *folders) {
  DebugImage *d = xcalloc(1, sizeof *d);
  d->path = xstrdup(path);
  d->sysroot = sysroot ? xstrdup(sysroot) : NULL;
  d->folders = folders ? xstrdup(folders) : NULL;
  d->arena = arena_new();
  const Elf64_Ehdr *eh = map_file(d, path) ? (const void *)d->map : NULL;
  if (!eh || memcmp(eh->e_ident, ELFMAG, SELFMAG) || eh->e_ident[EI_CLASS] != ELFCLASS64 ||
      eh->e_ident[EI_DATA] != ELFDATA2LSB) {
    debug_close(d);
    return NULL;
  }
  if (eh->e_shentsize == sizeof(Elf64_Shdr) && eh->e_shoff % 8 == 0 &&
      (d->sections = debug_at(d, eh->e_shoff, (uint64_t)eh->e_shnum * sizeof(Elf64_Shdr))))
    d->n_sections = eh->e_shnum;
  return d;
}

void debug_close(DebugImage *d) {
  if (!d) return;
  debug_close_scopes(d);
  debug_close_lines(d);
  debug_close(d->separate);
  for (size_t i = 0; i < d->inflated.n; i++) free(d->inflated.at[i].at);
  vec_free(&d->inflated);
  vec_free(&d->symbols);
  vec_free(&d->names);
  map_free(&d->by_name);
  map_free(&d->strings);
  arena_free(d->arena);
  if (d->map) munmap((void *)(uintptr_t)d->map, d->size);
  free(d->path);
  free(d->sysroot);
  free(d->folders);
  free(d);
}

const char *debug_intern(DebugImage *d, const char *s) {
  uint64_t hash = 14695981039346656037ull;
  for (const char *p = s; *p; p++) hash = (hash ^ (uint8_t)*p) * 1099511628211ull;
  for (const char *have; (have = map_get(&d->strings, hash)); hash++)
    if (!strcmp(have, s)) return have;
  char *copy = arena_strdup(d->arena, s);
  map_put(&d->strings, hash, copy);
  return copy;
}

const char *debug_build_id(DebugImage *d) {
  size_t size;
  const uint8_t *note = debug_section(d, ".note.gnu.build-id", &size, NULL);
  if (d->build_id[0] || !note || size < 16) return d->build_id;
  uint32_t n;
  memcpy(&n, note + 4, 4);
  for (uint32_t i = 0; i < n && i < 36 && 16 + i < size; i++)
    snprintf(d->build_id + 2 * i, 3, "%02x", note[16 + i]);
  return d->build_id;
}

/* ---- the separate debug file ----------------------------------------------------------------- */

typedef struct Search {
  DebugImage *d;
  const char *id;         /* build id, "" */
  const char *link;       /* .gnu_debuglink's name, NULL */
  uint32_t crc;           /* of the file it names */
  char folder[PATH_MAX];  /* of the object */
  const char *guest_path; /* the folder without the sysroot */
} Search;

/* The file at path, if it is d's: by build id where both have one, else by checksum. */
static bool take(Search *s, const char *path, bool by_link) {
  DebugImage *f = access(path, R_OK) ? NULL : debug_open(path, NULL, NULL);
  if (!f) return false;
  const char *id = debug_build_id(f);
  bool ok =
      s->id[0] && id[0] ? !strcmp(s->id, id) : by_link && crc32(0, f->map, (uInt)f->size) == s->crc;
  if (ok && f->size == s->d->size && !memcmp(f->map, s->d->map, f->size)) ok = false; /* itself */
  f->is_separate = true;
  if (ok)
    s->d->separate = f;
  else
    debug_close(f);
  return ok;
}

static bool try_folder(Search *s, const char *debug_folder, size_t n) {
  char path[2 * PATH_MAX];
  if (s->id[0] && s->id[1]) {
    snprintf(path, sizeof path, "%.*s/.build-id/%.2s/%s.debug", (int)n, debug_folder, s->id,
             s->id + 2);
    if (take(s, path, false)) return true;
  }
  if (!s->link) return false;
  snprintf(path, sizeof path, "%.*s%s/%s", (int)n, debug_folder, s->guest_path, s->link);
  return take(s, path, true);
}

static bool try_list(Search *s, const char *list) {
  for (; list && *list; list += strcspn(list, ":"), list += *list == ':')
    if (try_folder(s, list, strcspn(list, ":"))) return true;
  return false;
}

static void read_link(Search *s) {
  size_t size;
  const uint8_t *p = debug_section(s->d, ".gnu_debuglink", &size, NULL);
  const uint8_t *end = p ? memchr(p, 0, size) : NULL;
  size_t at = end ? ((size_t)(end - p) + 4) & ~(size_t)3 : 0;
  if (!end || end == p || at + 4 > size || memchr(p, '/', (size_t)(end - p))) return;
  memcpy(&s->crc, p + at, 4);
  s->link = (const char *)p;
}

static void find_folder(Search *s) {
  if (!realpath(s->d->path, s->folder)) s->folder[0] = 0;
  char *slash = strrchr(s->folder, '/');
  if (slash) *slash = 0;
  const char *root = s->d->sysroot;
  size_t n = root ? strlen(root) : 0;
  while (n && root[n - 1] == '/') n--;
  bool below = n && !strncmp(s->folder, root, n) && (!s->folder[n] || s->folder[n] == '/');
  s->guest_path = s->folder + (below ? n : 0);
}

DebugImage *debug_separate(DebugImage *d) {
  if (d->separate_tried || d->is_separate) return d->separate;
  d->separate_tried = true;
  Search s = {.d = d, .id = debug_build_id(d)};
  char path[2 * PATH_MAX];
  read_link(&s);
  if (!s.id[0] && !s.link) return NULL;
  find_folder(&s);
  if (try_list(&s, d->folders)) return d->separate;
  snprintf(path, sizeof path, "%s/%s", s.folder, s.link ? s.link : "");
  if (s.link && take(&s, path, true)) return d->separate;
  snprintf(path, sizeof path, "%s/.debug/%s", s.folder, s.link ? s.link : "");
  if (s.link && take(&s, path, true)) return d->separate;
  const char *root = d->sysroot ? d->sysroot : "";
  snprintf(path, sizeof path, "%s%s", root, DEBUG_FOLDER);
  if (try_list(&s, path) || !strcmp(root, "/") || !root[0]) return d->separate;
  try_list(&s, DEBUG_FOLDER);
  return d->separate;
}

DebugImage *debug_with(DebugImage *d, const char *section) {
  size_t n;
  if (debug_section(d, section, &n, NULL)) return d;
  DebugImage *s = debug_separate(d);
  return s && debug_section(s, section, &n, NULL) ? s : NULL;
}
