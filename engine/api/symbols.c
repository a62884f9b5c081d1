/* Images and symbols of kit/emu.h over debug/. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

void api_close_images(Emu *emu) {
  for (size_t i = 0; i < emu->images.n; i++) {
    CoreImageRecord *r = emu->images.at[i];
    free((char *)r->pub.path);
    free((char *)r->pub.host_path);
    free(r);
  }
  vec_free(&emu->images);
}

size_t kit_image_count(KitEmu *emu) { return emu->images.n; }
const KitImage *kit_image(KitEmu *emu, size_t i) { return i < emu->images.n ? &emu->images.at[i]->pub : NULL; }

const KitImage *kit_image_at(KitEmu *emu, uint64_t pc) {
  for (size_t i = emu->images.n; i-- > 0;)
    if (pc >= emu->images.at[i]->pub.low && pc < emu->images.at[i]->pub.high) return &emu->images.at[i]->pub;
  return NULL;
}
KitStatus kit_symbol(KitEmu *emu, const char *name, KitSymbol *out) { (void)out; return core_fail(emu, KIT_E_NOT_FOUND, "no symbol '%s'", name); }
KitStatus kit_symbol_at(KitEmu *emu, uint64_t pc, KitSymbol *out) { (void)out; return core_fail(emu, KIT_E_NOT_FOUND, "no symbol at 0x%llx", (unsigned long long)pc); }
void kit_symbols(KitEmu *emu, const char *pattern, void (*fn)(void *ctx, const KitSymbol *s), void *ctx) { (void)emu; (void)pattern; (void)fn; (void)ctx; }
size_t kit_lookup(KitEmu *emu, uint64_t pc, KitFrame *out, size_t max) { (void)emu; (void)pc; (void)out; (void)max; return 0; }
KitStatus kit_line_addresses(KitEmu *emu, const char *file, int line, uint64_t *out, size_t max, size_t *n) { (void)file; (void)line; (void)out; (void)max; *n = 0; return core_fail(emu, KIT_E_NOT_FOUND, "no line"); }
size_t kit_backtrace(KitEmu *emu, int tid, KitFrame *out, size_t max) { (void)emu; (void)tid; (void)out; (void)max; return 0; }
KitStatus kit_locals(KitEmu *emu, int tid, size_t frame, void (*fn)(void *ctx, const KitVariable *v), void *ctx) { (void)tid; (void)frame; (void)fn; (void)ctx; return core_fail(emu, KIT_E_NOT_FOUND, "no locals"); }
