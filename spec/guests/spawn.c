// spawn PROGRAM: vfork, posix_spawn and execve of a missing and of an existing file. A failed exec in
// the child is seen by the parent at once (ENOENT), because the two share memory until then.
#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

extern char **environ;

static int reap(pid_t pid) {
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int argc, char **argv) {
  char *program = argc > 1 ? argv[1] : "/bin/true";
  char *arguments[] = {program, "21", "_exit", NULL};
  pid_t pid = -1;

  CHECK(posix_spawn(&pid, "/does/not/exist", NULL, NULL, arguments, environ) == ENOENT);
  CHECK(posix_spawn(&pid, "/etc/passwd", NULL, NULL, arguments, environ) == EACCES);
  CHECK(posix_spawnp(&pid, "no-such-command", NULL, NULL, arguments, environ) == ENOENT);
  CHECK(posix_spawn(&pid, program, NULL, NULL, arguments, environ) == 0);
  CHECK(reap(pid) == 21);

  volatile int shared = 0;
  pid = vfork();
  if (pid == 0) {
    shared = 1;
    execv("/does/not/exist", arguments);
    shared = errno;
    _exit(9);
  }
  CHECK(shared == ENOENT);
  CHECK(reap(pid) == 9);

  pid = vfork();
  if (pid == 0) {
    execv(program, arguments);
    _exit(9);
  }
  CHECK(reap(pid) == 21);

  CHECK(execv("/does/not/exist", arguments) == -1 && errno == ENOENT);
  CHECK(execv("/", arguments) == -1 && errno == EACCES);
  return guest_verdict();
}
