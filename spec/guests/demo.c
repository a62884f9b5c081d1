// What `make demo` profiles: makes up a text, counts its words in a hash table, sorts them with a
// quicksort of its own, and prints the most frequent. The work is spread unevenly over few functions.
#include <stdint.h>

#include "guest.h"

enum { WORDS = 60000, BUCKETS = 512, SHOWN = 5 };

typedef struct Word {
  char text[12];
  unsigned count;
  struct Word *next;
} Word;

static Word *buckets[BUCKETS];
static Word *sorted[BUCKETS * 4];
static unsigned distinct;

static NOINLINE uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

// A word of two or three syllables; low numbers, and so certain words, are more likely.
static NOINLINE void make_word(uint32_t *state, char *out) {
  static const char *const syllables[8] = {"ka", "lu", "mi", "no", "ra", "se", "to", "vi"};
  unsigned length = 2 + (next_random(state) & 1);
  *out = 0;
  for (unsigned i = 0; i < length; i++) strcat(out, syllables[(next_random(state) & next_random(state)) & 7]);
}

static NOINLINE unsigned hash_word(const char *text) {
  unsigned h = 2166136261u;
  while (*text) h = (h ^ (unsigned char)*text++) * 16777619u;
  return h % BUCKETS;
}

static NOINLINE void count_word(const char *text) {
  Word **slot = &buckets[hash_word(text)];
  for (Word *w = *slot; w; w = w->next) {
    if (strcmp(w->text, text) == 0) {
      w->count++;
      return;
    }
  }
  Word *fresh = calloc(1, sizeof *fresh);
  strcpy(fresh->text, text);
  fresh->count = 1;
  fresh->next = *slot;
  *slot = fresh;
  sorted[distinct++] = fresh;
}

static NOINLINE int before(const Word *a, const Word *b) {
  return a->count != b->count ? a->count > b->count : strcmp(a->text, b->text) < 0;
}

static NOINLINE void quicksort(Word **list, int n) {
  if (n < 2) return;
  const Word *pivot = list[n / 2];
  int i = 0, j = n - 1;
  for (;;) {
    while (before(list[i], pivot)) i++;
    while (before(pivot, list[j])) j--;
    if (i >= j) break;
    Word *swap = list[i];
    list[i++] = list[j];
    list[j--] = swap;
  }
  quicksort(list, i);
  quicksort(list + i, n - i);
}

int main(void) {
  uint32_t state = 2463534242u;
  char text[16];
  for (int i = 0; i < WORDS; i++) {
    make_word(&state, text);
    count_word(text);
  }
  quicksort(sorted, (int)distinct);
  printf("%d words, %u of them distinct\n", WORDS, distinct);
  for (int i = 0; i < SHOWN; i++) printf("%6u %s\n", sorted[i]->count, sorted[i]->text);
  return 0;
}
