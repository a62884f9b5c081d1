// Pipes: a pipeline of forked children, EOF, EPIPE and SIGPIPE, non-blocking ends, dup2 and close-on-exec.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

// A child that copies `in` to a new pipe, adding one to each byte; returns the pipe's reading end.
static int stage(int in) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  if (fork() == 0) {
    close(ends[0]);
    unsigned char byte;
    while (read(in, &byte, 1) == 1) {
      byte++;
      if (write(ends[1], &byte, 1) != 1) _exit(1);
    }
    _exit(0);
  }
  close(in);
  close(ends[1]);
  return ends[0];
}

int main(void) {
  int first[2];
  CHECK(pipe(first) == 0);
  CHECK(write(first[1], "HAL", 3) == 3);
  close(first[1]);
  int out = stage(stage(stage(first[0])));
  char text[8] = "";
  for (int n = 0; n < 3;) n += (int)read(out, text + n, (size_t)(3 - n));
  CHECK(strcmp(text, "KDO") == 0);
  CHECK(read(out, text, 1) == 0);
  close(out);
  for (int i = 0, status; i < 3; i++) CHECK(wait(&status) > 0 && status == 0);
  CHECK(wait(NULL) == -1 && errno == ECHILD);

  int ends[2];
  CHECK(pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
  CHECK(fcntl(ends[0], F_GETFD) == FD_CLOEXEC);
  CHECK(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
  CHECK(read(ends[0], text, 1) == -1 && errno == EAGAIN);
  CHECK(dup2(ends[1], 20) == 20 && fcntl(20, F_GETFD) == 0);
  CHECK(dup3(ends[1], 21, O_CLOEXEC) == 21 && fcntl(21, F_GETFD) == FD_CLOEXEC);
  CHECK(write(20, "x", 1) == 1 && read(ends[0], text, 8) == 1);
  close(ends[0]);
  signal(SIGPIPE, SIG_IGN);
  CHECK(write(20, "x", 1) == -1 && errno == EPIPE);
  CHECK(close(55) == -1 && errno == EBADF);
  return guest_verdict();
}
