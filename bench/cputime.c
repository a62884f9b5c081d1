// Runs a command and reports the CPU time of its whole process tree:
//   cputime REPORT STDIN STDOUT STDERR SECONDS COMMAND [ARGS...]
// REPORT gets "user_us system_us max_rss_kib status"; status is as in a shell (128+N for a signal),
// or 124 if the command was killed after SECONDS. Descendants count if they were waited for:
// those are what wait4 adds up.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static volatile sig_atomic_t late;

static void on_alarm(int signo) {
  (void)signo;
  late = 1;
  kill(-child, SIGKILL); // the group: what it started must end as well
}

static void fail(const char *what) {
  fprintf(stderr, "cputime: %s: %s\n", what, strerror(errno));
  _exit(125);
}

static void redirect(int fd, const char *path, int flags) {
  int from = open(path, flags, 0644);
  if (from < 0 || dup2(from, fd) < 0) fail(path);
  if (from != fd) close(from);
}

static void run(char **argv) {
  setpgid(0, 0);
  redirect(0, argv[2], O_RDONLY);
  redirect(1, argv[3], O_WRONLY | O_CREAT | O_TRUNC);
  redirect(2, argv[4], O_WRONLY | O_CREAT | O_TRUNC);
  execvp(argv[6], argv + 6);
  fail(argv[6]);
}

static long long microseconds(struct timeval t) { return t.tv_sec * 1000000ll + t.tv_usec; }

int main(int argc, char **argv) {
  if (argc < 7)
    return fprintf(stderr, "usage: cputime REPORT STDIN STDOUT STDERR SECONDS COMMAND...\n"), 125;
  child = fork();
  if (child < 0) fail("fork");
  if (child == 0) run(argv);
  setpgid(child, child);
  signal(SIGALRM, on_alarm);
  alarm((unsigned)atoi(argv[5]));
  int status;
  struct rusage used;
  while (wait4(child, &status, 0, &used) < 0)
    if (errno != EINTR) fail("wait4");
  int code = late ? 124 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  FILE *report = fopen(argv[1], "w");
  if (!report) fail(argv[1]);
  fprintf(report, "%lld %lld %ld %d\n", microseconds(used.ru_utime), microseconds(used.ru_stime),
          used.ru_maxrss, code);
  return fclose(report) ? 125 : 0;
}
