/* Misuses of memory, one for each first argument: what memcheck.lua is to find. Without arguments: none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wuse-after-free"
#pragma GCC diagnostic ignored "-Wfree-nonheap-object"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"

struct node {
  struct node *next;
  char text[8];
};

static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static char *(*volatile put)(char *, const char *) = strcpy;
static size_t (*volatile length)(const char *) = strlen;
static void *(*volatile make)(size_t) = malloc;
static volatile char sink;
struct node *volatile kept;

__attribute__((noipa)) static void store(volatile char *p) { *(volatile long *)(volatile void *)p = 1; }

static struct node *chain(int n) {
  struct node *list = NULL;
  while (n--) {
    struct node *more = malloc(sizeof *more);
    more->next = list;
    list = more;
  }
  return list;
}

static void leaks(void) {
  kept = chain(3);
  struct node *volatile lost = chain(4);
  lost = NULL;
  char *inside = malloc(100);
  kept->next->next->next = (struct node *)(void *)(inside + 10);
  inside = make(0);
}

static int misuse(const char *what) {
  volatile char *p = malloc(40);
  if (!strcmp(what, "over")) p[40] = 1;
  if (!strcmp(what, "under")) sink = p[-1];
  if (!strcmp(what, "word")) store(p + 36);
  if (!strcmp(what, "freed")) free((void *)p), sink = p[8];
  if (!strcmp(what, "twice")) free((void *)p), free((void *)p);
  if (!strcmp(what, "middle")) free((void *)(p + 16)), free((void *)p);
  if (!strcmp(what, "copy")) copy((void *)p, (const void *)(p + 8), 40);
  if (!strcmp(what, "overlap")) copy((void *)(p + 8), (const void *)p, 16);
  if (!strcmp(what, "string")) put((char *)malloc(4), "four");
  if (!strcmp(what, "unended")) memset((void *)p, 'x', 40), sink = (char)length((const char *)p);
  if (!strcmp(what, "syscall")) sink = (char)write(1, (const void *)p, 41);
  if (!strcmp(what, "fishy")) sink = make((size_t)-(long)length(what)) != NULL;
  if (!strcmp(what, "realloc")) p = realloc((void *)p, 20), sink = p[20];
  if (!strcmp(what, "null")) sink = *(volatile char *)8;
  if (!strcmp(what, "leaks")) leaks();
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1) return misuse(argv[1]);
  struct node *list = chain(5);
  for (struct node *next; list; list = next) next = list->next, free(list);
  char *text = malloc(6);
  put(text, "hello");
  printf("%s %zu\n", text, length(text));
  free(text);
  return 0;
}
