// poll, select, epoll, eventfd, timerfd, signalfd and inotify-free waiting, each with data and with a timeout.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "guest.h"

static void test_poll(int in, int out) {
  struct pollfd both[2] = {{.fd = in, .events = POLLIN}, {.fd = out, .events = POLLOUT}};
  char byte;
  CHECK(poll(both, 2, 0) == 1 && both[0].revents == 0 && both[1].revents == POLLOUT);
  CHECK(poll(both, 1, 5) == 0);
  CHECK(write(out, "x", 1) == 1);
  CHECK(poll(both, 2, 1000) == 2 && both[0].revents == POLLIN);
  fd_set set;
  FD_ZERO(&set);
  FD_SET(in, &set);
  struct timeval wait = {1, 0};
  CHECK(select(in + 1, &set, NULL, NULL, &wait) == 1 && FD_ISSET(in, &set));
  CHECK(read(in, &byte, 1) == 1);
  wait = (struct timeval){0, 5000};
  CHECK(select(in + 1, &set, NULL, NULL, &wait) == 0 && !FD_ISSET(in, &set));
  struct pollfd bad = {.fd = 99, .events = POLLIN};
  CHECK(poll(&bad, 1, 0) == 1 && bad.revents == POLLNVAL);
}

static void test_epoll(int in, int out) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1122334455667788}, got[4];
  char byte;
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, in, &event) == 0);
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, in, &event) == -1 && errno == EEXIST);
  event.data.u64 = 7;
  event.events = EPOLLOUT | EPOLLONESHOT;
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, out, &event) == 0);
  CHECK(epoll_wait(epoll, got, 4, 0) == 1 && got[0].data.u64 == 7 && got[0].events == EPOLLOUT);
  CHECK(epoll_wait(epoll, got, 4, 5) == 0);
  CHECK(write(out, "y", 1) == 1);
  CHECK(epoll_wait(epoll, got, 4, 1000) == 1 && got[0].data.u64 == 0x1122334455667788);
  CHECK(read(in, &byte, 1) == 1);
  CHECK(epoll_ctl(epoll, EPOLL_CTL_DEL, in, NULL) == 0);
  close(epoll);
}

static void test_eventfd(void) {
  int fd = eventfd(3, EFD_NONBLOCK);
  uint64_t value = 4;
  CHECK(write(fd, &value, 8) == 8);
  CHECK(read(fd, &value, 8) == 8 && value == 7);
  CHECK(read(fd, &value, 8) == -1 && errno == EAGAIN);
  close(fd);
  fd = eventfd(2, EFD_SEMAPHORE);
  CHECK(read(fd, &value, 8) == 8 && value == 1);
  close(fd);
}

static void test_timerfd(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  struct itimerspec when = {{0, 1000000}, {0, 1000000}}, now;
  uint64_t ticks = 0, total = 0;
  CHECK(timerfd_settime(fd, 0, &when, NULL) == 0);
  while (total < 5 && read(fd, &ticks, 8) == 8) total += ticks;
  CHECK(total >= 5);
  CHECK(timerfd_gettime(fd, &now) == 0 && now.it_interval.tv_nsec == 1000000);
  close(fd);
}

static void test_signalfd(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  struct signalfd_siginfo info;
  CHECK(read(fd, &info, sizeof info) == -1 && errno == EAGAIN);
  kill(getpid(), SIGUSR1);
  CHECK(read(fd, &info, sizeof info) == sizeof info);
  CHECK(info.ssi_signo == SIGUSR1 && info.ssi_pid == (uint32_t)getpid() && info.ssi_code == SI_USER);
  close(fd);
}

int main(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  test_poll(ends[0], ends[1]);
  test_epoll(ends[0], ends[1]);
  test_eventfd();
  test_timerfd();
  test_signalfd();
  return guest_verdict();
}
