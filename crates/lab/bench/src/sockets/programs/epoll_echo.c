/* An echo server as many are written: one thread, level-triggered epoll, nonblocking sockets.
 *
 *     epoll_echo ADDRESS PORT [spin]
 *
 * It sleeps in epoll_wait when there is nothing to do; with `spin` it never sleeps. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 64, CHUNK = 16384 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		fail("epoll_ctl");
}

static int listen_at(const char *address, const char *port)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || inet_pton(AF_INET, address, &name.sin_addr) != 1)
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&name, sizeof name) < 0 || listen(fd, 4096) < 0)
		fail("listen");
	return fd;
}

static void accept_all(int epoll, int listener)
{
	int fd, one = 1;
	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		watch(epoll, fd);
	}
	if (errno != EAGAIN && errno != ECONNABORTED)
		fail("accept");
}

/* Writes all of it; a peer that does not read is waited for. */
static int write_all(int fd, const char *bytes, ssize_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, bytes, length);
		if (written < 0 && errno != EAGAIN)
			return -1;
		if (written < 0) {
			struct pollfd room = { .fd = fd, .events = POLLOUT };
			poll(&room, 1, -1);
			continue;
		}
		bytes += written;
		length -= written;
	}
	return 0;
}

static void echo(int fd)
{
	char bytes[CHUNK];
	ssize_t length = read(fd, bytes, sizeof bytes);
	if (length < 0 && errno == EAGAIN)
		return;
	if (length <= 0 || write_all(fd, bytes, length) < 0)
		close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: epoll_echo ADDRESS PORT [spin]\n");
		return 2;
	}
	int timeout = argc > 3 && strcmp(argv[3], "spin") == 0 ? 0 : -1;
	int listener = listen_at(argv[1], argv[2]), epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		fail("epoll_create1");
	watch(epoll, listener);
	for (;;) {
		struct epoll_event events[EVENTS];
		int count = epoll_wait(epoll, events, EVENTS, timeout);
		if (count < 0 && errno != EINTR)
			fail("epoll_wait");
		for (int at = 0; at < count; at++) {
			if (events[at].data.fd == listener)
				accept_all(epoll, listener);
			else
				echo(events[at].data.fd);
		}
	}
}
