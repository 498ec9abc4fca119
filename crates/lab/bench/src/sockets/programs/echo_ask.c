/* A client of an echo server on the same host: one connection, one request at a time.
 *
 *     echo_ask ADDRESS PORT MILLISECONDS [spin]
 *
 * Prints requests a second and the median and the 95th percentile in nanoseconds. It blocks in recv;
 * with `spin` it looks again until something has come. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BYTES = 64, SAMPLES_MAX = 1 << 24 };

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static void ask(int fd, int flags)
{
	char request[BYTES] = "a request of as many bytes as its answer", answer[BYTES];
	if (send(fd, request, BYTES, 0) != BYTES)
		fail("send");
	for (size_t got = 0; got < BYTES;) {
		ssize_t length = recv(fd, answer + got, BYTES - got, flags);
		if (length == 0 || (length < 0 && errno != EAGAIN))
			fail("recv");
		got += length > 0 ? (size_t)length : 0;
	}
	if (memcmp(request, answer, BYTES) != 0) {
		fprintf(stderr, "the answer is not the request\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: echo_ask ADDRESS PORT MILLISECONDS [spin]\n");
		return 2;
	}
	int flags = argc > 4 && strcmp(argv[4], "spin") == 0 ? MSG_DONTWAIT : 0;
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	uint32_t *samples = malloc(SAMPLES_MAX * sizeof *samples);
	if (fd < 0 || !samples || inet_pton(AF_INET, argv[1], &name.sin_addr) != 1)
		fail("socket");
	if (connect(fd, (struct sockaddr *)&name, sizeof name) < 0)
		fail("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	for (int warm = 0; warm < 2000; warm++)
		ask(fd, flags);
	uint64_t began = now(), time = began, end = began + atoll(argv[3]) * 1000000;
	size_t count = 0;
	while (time < end && count < SAMPLES_MAX) {
		ask(fd, flags);
		uint64_t after = now();
		samples[count++] = (uint32_t)(after - time);
		time = after;
	}
	double seconds = (time - began) / 1e9;
	qsort(samples, count, sizeof *samples, by_size);
	printf("%.1f %u %u\n", count / seconds, samples[count / 2], samples[count * 95 / 100]);
	return 0;
}
