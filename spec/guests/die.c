// die SIGNUM: dies of that signal's default action (or prints "survived").
// die store|load|high|kernel|noncanonical|rodata|jump|noexec|abort|trap|stack|thread: dies of what it does.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "guest.h"

// Kept from the compiler, which would warn of or drop an access that cannot be right.
static char *volatile low = (char *)0x10, *volatile high = (char *)0x7fffffff0000;
static char *volatile kernel = (char *)0xffffffff80000000, *volatile odd = (char *)0x1234567812345678;
static const char read_only[] = "constant";
static const char *volatile constant = read_only;

static NOINLINE long overflow(long depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  long below = depth < 0 ? 0 : overflow(depth + 1);
  return below + frame[0];
}

static void *crash(void *arg) {
  *(volatile int *)arg = 1;
  return NULL;
}

static void do_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, crash, (void *)8);
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "11";
  puts("before");
  fflush(stdout);
  if (strcmp(how, "store") == 0) *(volatile char *)low = 1;
  else if (strcmp(how, "load") == 0) (void)*(volatile char *)low;
  else if (strcmp(how, "high") == 0) *(volatile char *)high = 1;
  else if (strcmp(how, "kernel") == 0) (void)*(volatile char *)kernel;
  else if (strcmp(how, "noncanonical") == 0) (void)*(volatile char *)odd;
  else if (strcmp(how, "rodata") == 0) *(volatile char *)(char *)constant = 1;
  else if (strcmp(how, "jump") == 0) ((void (*)(void))(void *)low)();
  else if (strcmp(how, "noexec") == 0) ((void (*)(void))(void *)&argc)();
  else if (strcmp(how, "abort") == 0) abort();
  else if (strcmp(how, "trap") == 0) __builtin_trap();
  else if (strcmp(how, "stack") == 0) overflow(1);
  else if (strcmp(how, "thread") == 0) do_thread();
  else {
    signal(atoi(how), SIG_DFL);
    kill(getpid(), atoi(how));
  }
  puts("survived");
  return 0;
}
