// Sockets: TCP and UDP over loopback against a thread, a Unix pair passing a descriptor, options, names,
// sendmsg/recvmsg with several parts, shutdown.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "guest.h"

static void *echo_server(void *arg) {
  int connection = accept(*(int *)arg, NULL, NULL);
  char buffer[256];
  ssize_t n;
  while ((n = recv(connection, buffer, sizeof buffer, 0)) > 0) send(connection, buffer, (size_t)n, MSG_NOSIGNAL);
  close(connection);
  return NULL;
}

static void test_tcp(void) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(listen(listener, 4) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0 && address.sin_port != 0);
  pthread_t server;
  pthread_create(&server, NULL, echo_server, &listener);

  int client = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(connect(client, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
  struct sockaddr_in peer;
  length = sizeof peer;
  CHECK(getpeername(client, (struct sockaddr *)&peer, &length) == 0 && peer.sin_port == address.sin_port);
  char reply[64] = "";
  for (int i = 0; i < 20; i++) {
    char text[16];
    int n = snprintf(text, sizeof text, "message %d", i);
    CHECK(send(client, text, (size_t)n, 0) == n);
    CHECK(recv(client, reply, (size_t)n, MSG_WAITALL) == n && memcmp(reply, text, (size_t)n) == 0);
  }
  CHECK(shutdown(client, SHUT_WR) == 0);
  CHECK(recv(client, reply, 1, 0) == 0);
  pthread_join(server, NULL);
  close(client);
  close(listener);
}

static void test_udp(void) {
  int a = socket(AF_INET, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, from;
  socklen_t length = sizeof address;
  CHECK(bind(a, (struct sockaddr *)&address, sizeof address) == 0);
  getsockname(a, (struct sockaddr *)&address, &length);
  CHECK(sendto(b, "datagram", 8, 0, (struct sockaddr *)&address, sizeof address) == 8);
  char text[32];
  length = sizeof from;
  CHECK(recvfrom(a, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 8);
  CHECK(length == sizeof from && from.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
  close(a);
  close(b);
}

static void test_unix(void) {
  int pair[2], ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  CHECK(pipe(ends) == 0);
  union {
    char bytes[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
  } control = {0};
  struct iovec parts[2] = {{"de", 2}, {"scriptor", 8}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = &control,
                           .msg_controllen = sizeof control};
  control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
                                    .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(&control.header), &ends[1], sizeof(int));
  CHECK(sendmsg(pair[0], &message, 0) == 10);

  char first[5], second[16];
  struct iovec into[2] = {{first, 5}, {second, 16}};
  memset(&control, 0, sizeof control);
  struct msghdr received = {.msg_iov = into, .msg_iovlen = 2, .msg_control = &control,
                            .msg_controllen = sizeof control};
  CHECK(recvmsg(pair[1], &received, 0) == 10);
  CHECK(memcmp(first, "descr", 5) == 0 && memcmp(second, "iptor", 5) == 0);
  struct cmsghdr *header = CMSG_FIRSTHDR(&received);
  int passed = -1;
  CHECK(header && header->cmsg_type == SCM_RIGHTS);
  if (header) memcpy(&passed, CMSG_DATA(header), sizeof passed);
  CHECK(write(passed, "!", 1) == 1 && read(ends[0], first, 1) == 1 && first[0] == '!');
  struct ucred who;
  socklen_t length = sizeof who;
  CHECK(getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.pid == getpid());
}

int main(void) {
  test_tcp();
  test_udp();
  test_unix();
  return guest_verdict();
}
