/* Instrumentation operations that are too long for a line: shared by the interpreter and the JIT's
 * slow paths. */
#ifndef IR_PROBES_H
#define IR_PROBES_H

#include "ir/state.h"

static inline uint64_t ir_plane_test(const IrPlane *p, uint64_t va, uint32_t n) {
  if (p->limit && (va >= p->limit || p->limit - va < n)) return 0;
  uint64_t bit = va * p->bits,
           end = bit + (uint64_t)n * p->bits; /* guest addresses have spare high bits */
  while (bit < end) {
    uint64_t in_byte = bit & 7, take = 8 - in_byte < end - bit ? 8 - in_byte : end - bit;
    if (p->window[bit >> 3] >> in_byte & ((1u << take) - 1)) return 1;
    bit += take;
  }
  return 0;
}

static inline uint64_t ir_ring_open(IrRing *ring, IrState *s) {
  if (ring->next == ring->end) ring->flush(ring, s);
  char *record = ring->next;
  ring->next += ring->record_size;
  return (uint64_t)(uintptr_t)record;
}

static inline void ir_edge_ind(IrEdgeSite *site, IrState *s, uint64_t target) {
  if (!site->counter || site->last != target)
    ++*site->miss(site, s, target);
  else
    ++*site->counter;
}

static inline bool ir_nth(IrNth *n) {
  if (--n->left) return false;
  n->left = n->every;
  return true;
}

#endif
