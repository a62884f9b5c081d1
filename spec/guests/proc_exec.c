// What a program started by execve inherits and what it does not: arguments, ignored and blocked signals, pending ones, alarm,
// descriptors, id; exec in a thread; the errors of exec, and statuses of exec'ed children that signals kill.
//   proc_exec            the test; it executes itself as:   proc_exec MODE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

extern char **environ;
static const char *self;
static volatile int *volatile nowhere = (volatile int *)8;

static int child_mode(const char *mode, int argc, char **argv) {
  sigset_t now, pending;
  struct sigaction sa;
  sigprocmask(SIG_BLOCK, NULL, &now);
  sigpending(&pending);
  if (!strcmp(mode, "inherit")) {
    CHECK(sigismember(&now, SIGUSR2) && sigismember(&now, SIGSEGV) && !sigismember(&now, SIGUSR1));
    CHECK(sigismember(&pending, SIGUSR2));
    sigaction(SIGHUP, NULL, &sa);
    CHECK(sa.sa_handler == SIG_IGN);
    sigaction(SIGTRAP, NULL, &sa);
    CHECK(sa.sa_handler == SIG_IGN);
    sigaction(SIGUSR1, NULL, &sa);
    CHECK(sa.sa_handler == SIG_DFL);
    CHECK(alarm(0) > 50);
    CHECK(argc == 4 && !strcmp(argv[0], "a name") && !strcmp(argv[3], ""));
    CHECK(getpid() == atoi(argv[2]));
    CHECK(fcntl(50, F_GETFD) == 0 && fcntl(51, F_GETFD) == -1);
    return guest_failures ? 1 : 20;
  }
  if (!strcmp(mode, "segv")) *nowhere = 1;
  if (!strcmp(mode, "term")) raise(SIGTERM);
  if (!strcmp(mode, "plain")) {
    CHECK(!sigismember(&now, SIGUSR1));
    sigaction(SIGUSR1, NULL, &sa);
    CHECK(sa.sa_handler == SIG_DFL);
    return guest_failures ? 1 : 21;
  }
  return 2;
}

static int reap(pid_t pid) {
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int exec_in_child(const char *mode) {
  pid_t pid = fork();
  if (pid == 0) {
    execl(self, "self", mode, NULL);
    _exit(99);
  }
  return reap(pid);
}

static void noop(int sig) { (void)sig; }

static void inheritance(void) {
  pid_t pid = fork();
  if (pid == 0) {
    char number[16];
    sigset_t set;
    signal(SIGHUP, SIG_IGN);
    signal(SIGTRAP, SIG_IGN);
    signal(SIGUSR1, noop);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, NULL);
    kill(getpid(), SIGUSR2);
    alarm(100);
    dup2(1, 50);
    fcntl(dup2(1, 51), F_SETFD, FD_CLOEXEC);
    snprintf(number, sizeof number, "%d", getpid());
    execl(self, "a name", "inherit", number, "", NULL);
    _exit(99);
  }
  CHECK(reap(pid) == 20);
}

static void *exec_thread(void *arg) {
  (void)arg;
  execl(self, "self", "plain", NULL);
  _exit(98);
}

static void *wait_forever(void *arg) {
  for (;;) pause();
  return arg;
}

static void from_thread(void) {
  pid_t pid = fork();
  if (pid == 0) {
    pthread_t a, b;
    pthread_create(&a, NULL, wait_forever, NULL);
    pthread_create(&b, NULL, exec_thread, NULL);
    pthread_join(a, NULL);
    _exit(97);
  }
  CHECK(reap(pid) == 21);
}

static void write_file(const char *path, const char *text, int mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
  chmod(path, mode);
}

static int exec_errno(const char *path) {
  char *argv[] = {"x", NULL};
  return execve(path, argv, environ) == -1 ? errno : 0;
}

static void errors(void) {
  char dir[] = "/tmp/proc_execXXXXXX", a[64], b[64], path[128];
  CHECK(mkdtemp(dir));
  CHECK(exec_errno("/does/not/exist") == ENOENT);
  CHECK(exec_errno("") == ENOENT);
  CHECK(exec_errno("/") == EACCES);
  CHECK(exec_errno("/etc/passwd/x") == ENOTDIR);
  snprintf(a, sizeof a, "%s/a", dir);
  snprintf(b, sizeof b, "%s/b", dir);
  write_file(a, "#!/does/not/exist\n", 0700);
  CHECK(exec_errno(a) == ENOENT);
  write_file(a, "neither script nor program", 0700);
  CHECK(exec_errno(a) == ENOEXEC);
  write_file(a, "", 0700);
  CHECK(exec_errno(a) == ENOEXEC);
  write_file(a, "\177ELF", 0700);
  CHECK(exec_errno(a) == ENOEXEC);
  snprintf(path, sizeof path, "#!%s\n", a);
  write_file(a, path, 0700);
  CHECK(exec_errno(a) == ELOOP);
  CHECK(symlink(b, b) == 0 && exec_errno(b) == ELOOP);
  CHECK(syscall(SYS_execve, self, nowhere, environ) == -1 && errno == EFAULT);
  CHECK(syscall(SYS_execve, nowhere, NULL, environ) == -1 && errno == EFAULT);
  unlink(a);
  unlink(b);
  rmdir(dir);
}

static void by_descriptor(void) {
  int fd = open(self, O_RDONLY | O_CLOEXEC);
  pid_t pid = fork();
  if (pid == 0) {
    char *argv[] = {"self", "plain", NULL};
    syscall(SYS_execveat, fd, "", argv, environ, AT_EMPTY_PATH);
    _exit(99);
  }
  CHECK(reap(pid) == 21);
  close(fd);
}

// posix_spawn with attributes: what the child does to its signals must not touch the parent.
static void spawning(void) {
  posix_spawnattr_t attr;
  sigset_t set, now;
  struct sigaction sa;
  pid_t pid;
  char *argv[] = {"self", "plain", NULL};
  signal(SIGUSR1, noop);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  posix_spawnattr_init(&attr);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setsigdefault(&attr, &set);
  sigemptyset(&set);
  posix_spawnattr_setsigmask(&attr, &set);
  posix_spawnattr_setpgroup(&attr, 0);
  for (int i = 0; i < 3; i++) {
    CHECK(posix_spawn(&pid, self, NULL, &attr, argv, environ) == 0);
    CHECK(reap(pid) == 21);
  }
  sigprocmask(SIG_BLOCK, NULL, &now);
  sigaction(SIGUSR1, NULL, &sa);
  CHECK(sigismember(&now, SIGUSR1) && sa.sa_handler == noop);
}

int main(int argc, char **argv) {
  char path[4096];
  if (argc > 1) return child_mode(argv[1], argc, argv);
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n < 0 ? 0 : n] = 0;
  self = path;
  CHECK(exec_in_child("plain") == 21);
  inheritance();
  CHECK(exec_in_child("segv") == -SIGSEGV);
  CHECK(exec_in_child("term") == -SIGTERM);
  from_thread();
  errors();
  by_descriptor();
  spawning();
  return guest_verdict();
}
