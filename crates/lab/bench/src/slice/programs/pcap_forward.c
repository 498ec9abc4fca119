/* A bridge by libpcap, as many are written: pcap_dispatch() here, pcap_inject() there.
 *
 *     pcap_forward FROM TO MILLISECONDS
 *
 * The library is loaded at run time (libpcap0.8), so that its headers need not be installed; the few
 * declarations below are those of pcap(3PCAP). It never sleeps, says "ready", and ends by itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

typedef struct pcap pcap_t;
struct pcap_pkthdr {
	struct timeval ts;
	unsigned caplen, len;
};
typedef void (*handler)(unsigned char *user, const struct pcap_pkthdr *, const unsigned char *);

enum { BURST = 64, SNAPLEN = 2048, BUFFER_BYTES = 8 << 20, TIMEOUT_MS = 1, SPINS = 1024, D_IN = 1 };

static void *library;

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);
	if (!found) {
		fprintf(stderr, "libpcap has no %s\n", name);
		exit(1);
	}
	return found;
}

#define DECLARE(result, name, ...) static result (*name)(__VA_ARGS__)
DECLARE(pcap_t *, pcap_create, const char *, char *);
DECLARE(int, pcap_set_snaplen, pcap_t *, int);
DECLARE(int, pcap_set_promisc, pcap_t *, int);
DECLARE(int, pcap_set_timeout, pcap_t *, int);
DECLARE(int, pcap_set_buffer_size, pcap_t *, int);
DECLARE(int, pcap_activate, pcap_t *);
DECLARE(int, pcap_setnonblock, pcap_t *, int, char *);
DECLARE(int, pcap_setdirection, pcap_t *, int);
DECLARE(int, pcap_dispatch, pcap_t *, int, handler, unsigned char *);
DECLARE(int, pcap_inject, pcap_t *, const void *, size_t);
DECLARE(char *, pcap_geterr, pcap_t *);

static void load(void)
{
	library = dlopen("libpcap.so.0.8", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "absent (apt-get install libpcap0.8): %s\n", dlerror());
		exit(1);
	}
	pcap_create = symbol("pcap_create");
	pcap_set_snaplen = symbol("pcap_set_snaplen");
	pcap_set_promisc = symbol("pcap_set_promisc");
	pcap_set_timeout = symbol("pcap_set_timeout");
	pcap_set_buffer_size = symbol("pcap_set_buffer_size");
	pcap_activate = symbol("pcap_activate");
	pcap_setnonblock = symbol("pcap_setnonblock");
	pcap_setdirection = symbol("pcap_setdirection");
	pcap_dispatch = symbol("pcap_dispatch");
	pcap_inject = symbol("pcap_inject");
	pcap_geterr = symbol("pcap_geterr");
}

static pcap_t *open_at(const char *name)
{
	char error[256] = "";
	pcap_t *pcap = pcap_create(name, error);
	if (!pcap) {
		fprintf(stderr, "%s: %s\n", name, error);
		exit(1);
	}
	pcap_set_snaplen(pcap, SNAPLEN);
	pcap_set_promisc(pcap, 1);
	pcap_set_timeout(pcap, TIMEOUT_MS);
	pcap_set_buffer_size(pcap, BUFFER_BYTES);
	if (pcap_activate(pcap) < 0 || pcap_setnonblock(pcap, 1, error) < 0 ||
	    pcap_setdirection(pcap, D_IN) < 0) {
		fprintf(stderr, "%s: %s\n", name, pcap_geterr(pcap));
		exit(1);
	}
	return pcap;
}

static void forward(unsigned char *to, const struct pcap_pkthdr *header, const unsigned char *bytes)
{
	/* What does not fit is dropped, as a wire would. */
	pcap_inject((pcap_t *)to, bytes, header->caplen);
}

static double seconds(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: pcap_forward FROM TO MILLISECONDS\n");
		return 2;
	}
	load();
	pcap_t *from = open_at(argv[1]), *to = open_at(argv[2]);
	printf("ready\n");
	fflush(stdout);
	double end = seconds() + atoi(argv[3]) / 1e3;
	while (seconds() < end) {
		for (int spin = 0; spin < SPINS; spin++) {
			if (pcap_dispatch(from, BURST, forward, (unsigned char *)to) < 0) {
				fprintf(stderr, "%s\n", pcap_geterr(from));
				return 1;
			}
		}
	}
	return 0;
}
