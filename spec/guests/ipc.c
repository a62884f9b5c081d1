// System V and POSIX message queues, semaphores and shared memory; several messages at once; openat2; epoll_pwait2.
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

union semun {
  int val;
  struct semid_ds *buf;
  unsigned short *array;
};

static void queues(void) {
  struct {
    long type;
    char text[32];
  } message = {7, "hello"}, got;
  struct msqid_ds ds;
  int id = msgget(IPC_PRIVATE, 0600);
  CHECK(id >= 0 && msgsnd(id, &message, 6, 0) == 0);
  CHECK(msgctl(id, IPC_STAT, &ds) == 0 && ds.msg_qnum == 1 && ds.msg_lspid == getpid());
  CHECK(msgrcv(id, &got, sizeof got.text, 7, 0) == 6 && strcmp(got.text, "hello") == 0);
  CHECK(msgrcv(id, &got, sizeof got.text, 0, IPC_NOWAIT) == -1 && errno == ENOMSG);
  CHECK(msgsnd(id, (void *)-4096l, 6, 0) == -1 && errno == EFAULT);
  CHECK(msgctl(id, IPC_RMID, NULL) == 0);
}

static void semaphores(void) {
  unsigned short values[3] = {4, 5, 6}, back[3] = {0};
  struct semid_ds ds;
  int id = semget(IPC_PRIVATE, 3, 0640);
  CHECK(id >= 0 && semctl(id, 0, SETALL, (union semun){.array = values}) == 0);
  CHECK(semctl(id, 0, GETALL, (union semun){.array = back}) == 0 && back[0] == 4 && back[2] == 6);
  CHECK(semctl(id, 0, IPC_STAT, (union semun){.buf = &ds}) == 0 && ds.sem_nsems == 3 && (ds.sem_perm.mode & 0777) == 0640 && ds.sem_ctime > 0);
  ds.sem_perm.mode = 0600;
  CHECK(semctl(id, 0, IPC_SET, (union semun){.buf = &ds}) == 0);
  CHECK(semctl(id, 0, IPC_STAT, (union semun){.buf = &ds}) == 0 && (ds.sem_perm.mode & 0777) == 0600);
  CHECK(semop(id, (struct sembuf[]){{0, -4, 0}, {1, 2, 0}}, 2) == 0);
  CHECK(semctl(id, 0, GETVAL) == 0 && semctl(id, 1, GETVAL) == 7);
  CHECK(semop(id, (struct sembuf[]){{0, -1, IPC_NOWAIT}}, 1) == -1 && errno == EAGAIN);
  CHECK(semctl(id, 0, IPC_RMID) == 0);
}

static void segments(void) {
  struct shmid_ds ds;
  int id = shmget(IPC_PRIVATE, 10000, 0600), status;
  CHECK(id >= 0);
  char *a = shmat(id, NULL, 0), *b = shmat(id, NULL, SHM_RDONLY);
  CHECK(a != (void *)-1 && b != (void *)-1 && a != b);
  strcpy(a + 5000, "shared");
  CHECK(strcmp(b + 5000, "shared") == 0);
  CHECK(shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_nattch == 2 && ds.shm_segsz == 10000);
  if (fork() == 0) {
    strcpy(a, "from the child");
    _exit(0);
  }
  CHECK(wait(&status) > 0 && status == 0 && strcmp(b, "from the child") == 0);
  CHECK(shmat(id, a + 4096, 0) == (void *)-1 && errno == EINVAL);
  CHECK(shmdt(b) == 0 && shmdt(b) == -1 && errno == EINVAL && shmdt(a) == 0);
  CHECK(shmctl(id, IPC_RMID, NULL) == 0);
}

static void posix_queue(void) {
  char text[64] = "", name[64];
  unsigned priority = 0;
  snprintf(name, sizeof name, "/guest-%d", getpid());
  mqd_t q = mq_open(name, O_CREAT | O_RDWR, 0600, &(struct mq_attr){.mq_maxmsg = 2, .mq_msgsize = 64});
  CHECK(q >= 0 && mq_send(q, "one", 4, 1) == 0 && mq_send(q, "two", 4, 9) == 0);
  CHECK(mq_receive(q, text, sizeof text, &priority) == 4 && priority == 9 && strcmp(text, "two") == 0);
  CHECK(mq_unlink(name) == 0 && close(q) == 0);
}

static void many_messages(void) {
  int sv[2];
  char in[2][8] = {"abc", "defgh"}, out[2][8] = {{0}};
  struct iovec iov_in[2] = {{in[0], 3}, {in[1], 5}}, iov_out[2] = {{out[0], 8}, {out[1], 8}};
  struct mmsghdr send[2] = {{{.msg_iov = &iov_in[0], .msg_iovlen = 1}, 0}, {{.msg_iov = &iov_in[1], .msg_iovlen = 1}, 0}};
  struct mmsghdr recv[2] = {{{.msg_iov = &iov_out[0], .msg_iovlen = 1}, 0}, {{.msg_iov = &iov_out[1], .msg_iovlen = 1}, 0}};
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, sv) == 0);
  CHECK(sendmmsg(sv[0], send, 2, 0) == 2 && send[1].msg_len == 5);
  CHECK(recvmmsg(sv[1], recv, 2, 0, NULL) == 2 && recv[0].msg_len == 3 && strcmp(out[1], "defgh") == 0);

  int ep = epoll_create1(0);
  struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 0x1122334455667788}, got;
  CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, sv[1], &ev) == 0 && write(sv[0], "x", 1) == 1);
  CHECK(syscall(441, ep, &got, 1, &(struct timespec){1, 0}, NULL, 8) == 1 && got.data.u64 == ev.data.u64);
  CHECK(read(sv[1], out, 8) == 1 && syscall(441, ep, &got, 1, &(struct timespec){0, 1000000}, NULL, 8) == 0);
}

static void partly_mapped(void) {
  long page = sysconf(_SC_PAGESIZE);
  int fds[2];
  char *block = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(munmap(block + page, page) == 0 && pipe(fds) == 0);
  CHECK(write(fds[1], "12345678", 8) == 8 && read(fds[0], block + page - 16, page) == 8);
  int fd = open("partly", O_CREAT | O_RDWR | O_TRUNC, 0600);
  CHECK(write(fd, block + page - 16, page) == 16 && lseek(fd, 0, SEEK_END) == 16);
  CHECK(read(fd, block + page, 10) == 0); /* at the end of the file nobody looks at the buffer */
  struct { unsigned long flags, mode, resolve; } how = {O_RDONLY, 0, 0x08 /* RESOLVE_BENEATH */};
  int again = syscall(437, AT_FDCWD, "partly", &how, sizeof how);
  CHECK(again >= 0);
  CHECK(syscall(437, AT_FDCWD, "../nothing", &how, sizeof how) == -1 && errno == EXDEV);
  unlink("partly");
}

int main(void) {
  queues();
  semaphores();
  segments();
  posix_queue();
  many_messages();
  partly_mapped();
  return guest_verdict();
}
