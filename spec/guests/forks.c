// forks N (default 10): N children, each of which leaves with its own status; the parent reaps them all.
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static NOINLINE int child_work(int id) {
  int sum = 0;
  for (int i = 0; i <= id; i++) sum += i;
  return sum;
}

int main(int argc, char **argv) {
  int children = argc > 1 ? atoi(argv[1]) : 10;
  pid_t pids[100];
  int memory = 1;
  CHECK(children <= 100);
  for (int i = 0; i < children; i++) {
    pids[i] = fork();
    if (pids[i] == 0) {
      memory = i; // the parent must not see this
      _exit(child_work(memory) % 256);
    }
    CHECK(pids[i] > 0);
  }
  CHECK(memory == 1);
  for (int i = 0; i < children; i++) {
    int status;
    CHECK(waitpid(pids[i], &status, 0) == pids[i]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == child_work(i) % 256);
  }
  printf("%d children\n", children);
  return guest_verdict();
}
