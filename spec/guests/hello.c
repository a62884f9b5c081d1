// The first program: one line through stdio.
#include <stdio.h>

int main(void) {
  puts("hello, world");
  return 0;
}
