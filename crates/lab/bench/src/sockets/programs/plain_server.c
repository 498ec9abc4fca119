/* A server that accepts, receives, sends and closes: one thread, level-triggered epoll.
 *
 *     plain_server ADDRESS PORT [hoard]
 *
 * A request that begins with L is answered by a mebibyte, every other one by 64 bytes. With `hoard`
 * it accepts and never reads. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 64, DESCRIPTORS = 1 << 17, SHORT = 64, LONG = 1 << 20 };

static char text[LONG];

/* What is still to be sent, by descriptor; before the request: nothing is known. */
static int left[DESCRIPTORS];
enum { UNKNOWN = -1 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void watch(int epoll, int how, int fd, unsigned events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };
	if (epoll_ctl(epoll, how, fd, &event) < 0)
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

static void serve(int epoll, int fd)
{
	char request[4096];
	if (left[fd] == UNKNOWN) {
		ssize_t length = recv(fd, request, sizeof request, 0);
		if (length < 0 && errno == EAGAIN)
			return;
		if (length <= 0) {
			close(fd);
			return;
		}
		left[fd] = request[0] == 'L' ? LONG : SHORT;
		watch(epoll, EPOLL_CTL_MOD, fd, EPOLLOUT);
	}
	ssize_t sent = send(fd, text, left[fd], MSG_NOSIGNAL);
	if (sent < 0 && errno == EAGAIN)
		return;
	left[fd] = sent < 0 ? 0 : left[fd] - sent;
	if (left[fd] == 0)
		close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: plain_server ADDRESS PORT [hoard]\n");
		return 2;
	}
	int hoards = argc > 3 && strcmp(argv[3], "hoard") == 0;
	struct rlimit most;
	if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
		most.rlim_cur = most.rlim_max;
		setrlimit(RLIMIT_NOFILE, &most);
	}
	memset(text, '.', sizeof text);
	int listener = listen_at(argv[1], argv[2]), epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		fail("epoll_create1");
	watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
	for (;;) {
		struct epoll_event events[EVENTS];
		int count = epoll_wait(epoll, events, EVENTS, -1);
		if (count < 0 && errno != EINTR)
			fail("epoll_wait");
		for (int at = 0; at < count; at++) {
			int fd = events[at].data.fd;
			if (fd != listener) {
				serve(epoll, fd);
				continue;
			}
			while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
				if (fd >= DESCRIPTORS) {
					close(fd);
					continue;
				}
				left[fd] = UNKNOWN;
				if (!hoards)
					watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
			}
		}
	}
}
