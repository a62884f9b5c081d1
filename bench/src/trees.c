// Call-heavy: expression trees of objects whose operations are called through pointers, four kinds
// of them; indirect calls, recursion, a tree that changes shape. Nodes come from a pool, so that
// this is not about malloc.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct Node Node;
typedef struct {
  int64_t (*value)(const Node *);
  long (*count)(const Node *, int (*wanted)(const Node *));
} Methods;
struct Node {
  const Methods *methods;
  Node *left, *right;
  int64_t number;
};

static Node pool[1 << 16];
static int used;
static uint64_t seed = 1;

static unsigned next_random(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(seed >> 33);
}

static int64_t value(const Node *n) { return n->methods->value(n); }
static int64_t leaf_value(const Node *n) { return n->number; }
static int64_t sum_value(const Node *n) { return value(n->left) + value(n->right); }
static int64_t xor_value(const Node *n) { return value(n->left) ^ value(n->right); }
static int64_t scale_value(const Node *n) { return value(n->left) * 3 - n->number; }

static long leaf_count(const Node *n, int (*wanted)(const Node *)) { return wanted(n); }
static long one_count(const Node *n, int (*wanted)(const Node *)) {
  return wanted(n) + n->left->methods->count(n->left, wanted);
}
static long two_count(const Node *n, int (*wanted)(const Node *)) {
  return one_count(n, wanted) + n->right->methods->count(n->right, wanted);
}

static const Methods leaf = {leaf_value, leaf_count}, scale = {scale_value, one_count};
static const Methods sum = {sum_value, two_count}, exclusive = {xor_value, two_count};

static Node *build(int depth) {
  Node *n = &pool[used++];
  unsigned kind = depth ? next_random() % 8 : 8;
  n->number = next_random() % 1000;
  n->methods = kind == 8 ? &leaf : kind == 0 ? &scale : kind < 5 ? &sum : &exclusive;
  if (kind < 8) n->left = build(depth - 1);
  if (kind < 8 && kind) n->right = build(depth - 1);
  return n;
}

static int is_even(const Node *n) { return n->number % 2 == 0; }
static int is_scale(const Node *n) { return n->methods == &scale; }

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 10, counted = 0;
  int64_t total = 0;
  for (long r = 0; r < rounds; r++) {
    used = 0;
    Node *root = build(13);
    for (int i = 0; i < 8; i++) {
      total = total * 31 + value(root);
      counted += root->methods->count(root, i % 2 ? is_even : is_scale);
    }
  }
  printf("%lld %ld\n", (long long)total, counted);
}
