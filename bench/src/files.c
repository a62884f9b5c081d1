// Syscall-heavy: small files written, looked at, read, renamed and removed, where it runs.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long use(int i) {
  char name[32], other[32], text[512];
  struct stat st;
  snprintf(name, sizeof name, "bench-file-%d", i % 10);
  snprintf(other, sizeof other, "bench-name-%d", i % 10);
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) return -1;
  memset(text, 'a' + i % 26, sizeof text);
  for (int k = 0; k < 4; k++)
    if (write(fd, text, sizeof text) != sizeof text) return -1;
  long sum = fstat(fd, &st) ? -1 : st.st_size;
  for (int k = 0; k < 12; k++) {
    if (lseek(fd, 160 * k, SEEK_SET) != 160 * k || read(fd, text, 128) != 128) return -1;
    sum += text[k];
  }
  close(fd);
  if (rename(name, other) || stat(other, &st) || access(name, F_OK) == 0) return -1;
  return unlink(other) ? -1 : sum + st.st_size;
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 100, sum = 0;
  for (long i = 0; i < rounds; i++) {
    long got = use((int)i);
    if (got < 0) return perror("files"), 1;
    sum += got;
  }
  printf("%ld\n", sum);
}
