// Uses some megabytes of stack: a large frame, alloca in a loop, a thread with a large stack of its own.
#include <alloca.h>
#include <pthread.h>

#include "guest.h"

static NOINLINE long sum_frame(int seed) {
  volatile unsigned char frame[3 << 20];
  for (unsigned i = 0; i < sizeof frame; i += 997) frame[i] = (unsigned char)(i + (unsigned)seed);
  long sum = 0;
  for (unsigned i = 0; i < sizeof frame; i += 997) sum += frame[i];
  return sum;
}

static NOINLINE long sum_alloca(void) {
  long sum = 0;
  for (int i = 1; i < 1000; i++) {
    volatile char *block = alloca((size_t)i);
    block[i - 1] = 1;
    sum += block[i - 1];
  }
  return sum;
}

static void *on_thread(void *arg) {
  long *result = arg;
  *result = sum_frame(1);
  return NULL;
}

int main(void) {
  long first = sum_frame(1), second = 0;
  CHECK(first > 0);
  CHECK(sum_alloca() == 999);
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 16 << 20);
  pthread_create(&thread, &attributes, on_thread, &second);
  pthread_join(thread, NULL);
  CHECK(first == second);
  return guest_verdict();
}
