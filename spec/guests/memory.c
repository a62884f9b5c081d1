// mmap, munmap, mprotect, mremap, brk, madvise, msync: sizes, splitting, placement, errors, shared memory.
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

enum { PAGE = 4096 };

static char *map(size_t size) {
  return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int is_mapped(char *page) {
  unsigned char resident;
  return mincore(page, PAGE, &resident) == 0;
}

static void test_map(void) {
  char *area = map(8 * PAGE);
  CHECK(area != MAP_FAILED && ((unsigned long)area & (PAGE - 1)) == 0);
  for (int i = 0; i < 8 * PAGE; i++) CHECK(area[i] == 0);
  memset(area, 1, 8 * PAGE);
  CHECK(munmap(area + 2 * PAGE, PAGE) == 0);
  CHECK(area[2 * PAGE - 1] == 1 && area[3 * PAGE] == 1);
  CHECK(!is_mapped(area + 2 * PAGE));
  char *again = mmap(area + 2 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(again == area + 2 * PAGE && again[0] == 0);
  CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
  CHECK(munmap(area + 1, PAGE) == -1 && errno == EINVAL);
  CHECK(mprotect(area, 2 * PAGE, PROT_READ) == 0);
  CHECK(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
  area[PAGE] = 3;
  CHECK(madvise(area + PAGE, PAGE, MADV_DONTNEED) == 0 && area[PAGE] == 0);
  CHECK(munmap(area, 8 * PAGE) == 0);
}

static void test_remap(void) {
  char *area = map(4 * PAGE);
  memset(area, 7, 4 * PAGE);
  char *bigger = mremap(area, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
  CHECK(bigger != MAP_FAILED && bigger[4 * PAGE - 1] == 7 && bigger[4 * PAGE] == 0);
  CHECK(mremap(bigger, 64 * PAGE, 2 * PAGE, 0) == bigger);
  CHECK(bigger[2 * PAGE - 1] == 7);
  char *target = map(8 * PAGE);
  CHECK(mremap(bigger, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
  CHECK(target[0] == 7 && !is_mapped(bigger));
  munmap(target, 8 * PAGE);
}

static void test_brk(void) {
  char *start = sbrk(0);
  CHECK(sbrk(10 * PAGE) == start);
  memset(start, 5, 10 * PAGE);
  CHECK(sbrk(-5 * PAGE) == start + 10 * PAGE);
  CHECK(start[5 * PAGE - 1] == 5);
  CHECK(sbrk(5 * PAGE) == start + 5 * PAGE);
  CHECK(start[5 * PAGE] == 0 && start[10 * PAGE - 1] == 0);
  CHECK(brk(start) == 0 && sbrk(0) == start);
}

static void test_file(void) {
  int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(ftruncate(fd, 3 * PAGE) == 0);
  char *shared = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char *private = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 2 * PAGE);
  strcpy(shared + 2 * PAGE, "through the file");
  CHECK(strcmp(private, "through the file") == 0);
  private[0] = 'T';
  CHECK(shared[2 * PAGE] == 't');
  CHECK(msync(shared, 3 * PAGE, MS_SYNC) == 0);
  char text[17] = "";
  CHECK(pread(fd, text, 16, 2 * PAGE) == 16 && strcmp(text, "through the file") == 0);
  CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 5) == MAP_FAILED && errno == EINVAL);
  close(fd);
  munmap(shared, 3 * PAGE);
  munmap(private, PAGE);
  unlink("mapped");
}

static void test_shared_with_child(void) {
  int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int *private = (int *)map(PAGE);
  pid_t child = fork();
  if (child == 0) {
    *shared = 42;
    *private = 42;
    _exit(0);
  }
  waitpid(child, NULL, 0);
  CHECK(*shared == 42 && *private == 0);
}

int main(void) {
  test_map();
  test_remap();
  test_brk();
  test_file();
  test_shared_with_child();
  return guest_verdict();
}
