// sig_events MODE: what a tool sees of signals and processes.
//   tour        a handled signal, a child that a signal kills, a vfork child, then death by SIGTERM
//   spin        computes for ever;  sleep: waits for ever
//   exec PROG   a child that executes PROG; prints the status as the shell would
//   timer       leaves with a fast timer still running
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static volatile sig_atomic_t hits;
static volatile long count;

static void hit(int sig) {
  (void)sig;
  hits++;
}

static int wait_status(void) {
  int status = 0;
  wait(&status);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int tour(void) {
  signal(SIGUSR1, hit);
  raise(SIGUSR1);
  printf("hits %d\n", hits);
  fflush(stdout);
  if (fork() == 0) {
    kill(getpid(), SIGTERM);
    _exit(0);
  }
  printf("child %d\n", wait_status());
  if (vfork() == 0) _exit(6);
  printf("vfork child %d\n", wait_status());
  fflush(stdout);
  raise(SIGTERM);
  puts("survived");
  return 3;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "tour";
  struct itimerval fast = {{0, 50}, {0, 50}};
  if (!strcmp(mode, "tour")) return tour();
  if (!strcmp(mode, "spin"))
    for (;;) count++;
  if (!strcmp(mode, "sleep"))
    for (;;) pause();
  if (!strcmp(mode, "exec")) {
    if (fork() == 0) {
      execv(argv[2], argv + 2);
      _exit(127);
    }
    printf("status %d\n", wait_status());
    return 0;
  }
  signal(SIGALRM, hit);
  setitimer(ITIMER_REAL, &fast, NULL);
  while (hits < 20) count++;
  return guest_verdict();
}
