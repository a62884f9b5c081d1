/* Growable arrays: a typed struct { T *at; size_t n, cap; } and macros over it.
 *
 *   VEC(int) v = {0};
 *   vec_push(&v, 42);
 *   for (size_t i = 0; i < v.n; i++) use(v.at[i]);
 *   vec_free(&v);
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <stddef.h>
#include <stdlib.h>

#include "base/arena.h"

#define VEC(T)                                                                                     \
  struct {                                                                                         \
    T *at;                                                                                         \
    size_t n, cap;                                                                                 \
  }

#define vec_reserve(v, want)                                                                       \
  do {                                                                                             \
    if ((v)->cap < (want)) {                                                                       \
      (v)->cap = (v)->cap * 2 > (want) ? (v)->cap * 2 : (want) + 4;                                \
      (v)->at = xrealloc((v)->at, (v)->cap * sizeof *(v)->at);                                     \
    }                                                                                              \
  } while (0)
#define vec_push(v, item)                                                                          \
  do {                                                                                             \
    vec_reserve(v, (v)->n + 1);                                                                    \
    (v)->at[(v)->n++] = (item);                                                                    \
  } while (0)
#define vec_pop(v)  ((v)->at[--(v)->n])
#define vec_last(v) ((v)->at[(v)->n - 1])
#define vec_free(v)                                                                                \
  do {                                                                                             \
    free((v)->at);                                                                                 \
    (v)->at = NULL;                                                                                \
    (v)->n = (v)->cap = 0;                                                                         \
  } while (0)

#endif
