/* What a call costs that has nothing to do with the network: reads of one byte of /dev/zero.
 *
 *     read_zero ADDRESS PORT
 *
 * It is a server too, as most programs are whose reads matter: it listens, and nobody comes. For each
 * line on its input it prints the median of many batches in nanoseconds for one read. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCHES = 301, READS = 500 };

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
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: read_zero ADDRESS PORT\n");
		return 2;
	}
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), zero = open("/dev/zero", O_RDONLY);
	if (listener < 0 || zero < 0 || inet_pton(AF_INET, argv[1], &name.sin_addr) != 1)
		fail("open");
	if (bind(listener, (struct sockaddr *)&name, sizeof name) < 0 || listen(listener, 16) < 0)
		fail("listen");
	char line[16];
	while (fgets(line, sizeof line, stdin)) {
		static uint64_t batches[BATCHES];
		for (int batch = 0; batch < BATCHES; batch++) {
			uint64_t began = now();
			for (int at = 0; at < READS; at++) {
				char byte;
				if (read(zero, &byte, 1) != 1)
					fail("read");
			}
			batches[batch] = now() - began;
		}
		qsort(batches, BATCHES, sizeof *batches, by_size);
		printf("%.2f\n", batches[BATCHES / 2] / (double)READS);
		fflush(stdout);
	}
	return 0;
}
