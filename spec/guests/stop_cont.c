// A parent sees its child stop and go on: SIGSTOP, WUNTRACED, SIGCONT, WCONTINUED, SIGKILL.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

int main(void) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    for (;;) pause();
  }
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  kill(child, SIGCONT);
  CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
  kill(child, SIGKILL);
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  return guest_verdict();
}
