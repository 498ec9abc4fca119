/* A bridge as recvmmsg(2) and sendmmsg(2) make one: packet sockets, no rings.
 *
 *     mmsg_forward FROM TO MILLISECONDS
 *
 * Frames that come in at FROM go out of TO. It never sleeps, says "ready", and ends by itself. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { BURST = 64, FRAME_MAX = 2048, BUFFER_BYTES = 8 << 20, SPINS = 1024 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int open_at(const char *name, int protocol)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = if_nametoindex(name),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || address.sll_ifindex == 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
		fail(name);
	return fd;
}

static void set(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof value) < 0)
		fail("setsockopt");
}

static double seconds(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static char bytes[BURST][FRAME_MAX];
	static struct iovec parts[BURST];
	static struct mmsghdr messages[BURST];
	if (argc != 4) {
		fprintf(stderr, "usage: mmsg_forward FROM TO MILLISECONDS\n");
		return 2;
	}
	/* Whoever sends only needs to receive nothing: protocol 0. */
	int from = open_at(argv[1], ETH_P_ALL), to = open_at(argv[2], 0);
	set(from, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES);
	set(from, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
	set(to, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES);
	set(to, SOL_PACKET, PACKET_QDISC_BYPASS, 1);
	for (int at = 0; at < BURST; at++)
		messages[at].msg_hdr = (struct msghdr){ .msg_iov = &parts[at], .msg_iovlen = 1 };
	printf("ready\n");
	fflush(stdout);
	double end = seconds() + atoi(argv[3]) / 1e3;
	while (seconds() < end) {
		for (int spin = 0; spin < SPINS; spin++) {
			for (int at = 0; at < BURST; at++)
				parts[at] = (struct iovec){ bytes[at], FRAME_MAX };
			int count = recvmmsg(from, messages, BURST, MSG_DONTWAIT, NULL);
			for (int at = 0; at < count; at++)
				parts[at].iov_len = messages[at].msg_len;
			/* What does not fit is dropped, as a wire would. */
			if (count > 0)
				sendmmsg(to, messages, count, MSG_DONTWAIT);
		}
	}
	return 0;
}
