/* librte_hash as the Calisto paper uses it: rte_hash_lookup, and on a miss rte_hash_add_key_data,
 * keyed by the 32-bit flow hash. Same flows, same order as the bench that runs this.
 *
 * Arguments after those of the EAL: seed, flows, later packets. Prints nanoseconds of
 * the thread's CPU time per packet: first packets, then later ones. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_lcore.h>

#define WORKERS 4

/* SplitMix64 (Steele, Lea, Flood, 2014). */
static uint64_t next_random(uint64_t *state)
{
	uint64_t word = (*state += UINT64_C(0x9e3779b97f4a7c15));

	word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
	return word ^ (word >> 31);
}

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t next_worker;

/* One packet: where its flow stands, after entering it if it is new. */
static uint64_t steer(struct rte_hash *table, const uint32_t *hash)
{
	int32_t position = rte_hash_lookup(table, hash);

	if (position >= 0)
		return (uint64_t)position;
	next_worker = next_worker + 1 == WORKERS ? 0 : next_worker + 1;
	if (rte_hash_add_key_data(table, hash, (void *)(uintptr_t)next_worker) != 0) {
		fprintf(stderr, "rte_hash is full\n");
		exit(1);
	}
	return next_worker;
}

static uint64_t steer_all(struct rte_hash *table, const uint32_t *hashes, size_t count)
{
	uint64_t sum = 0;

	for (size_t at = 0; at < count; at++)
		sum += steer(table, &hashes[at]);
	return sum;
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);

	if (used < 0 || argc - used < 4) {
		fprintf(stderr, "usage: rte_hash EAL... -- SEED FLOWS LATER (%s)\n",
			rte_strerror(rte_errno));
		return 2;
	}
	argv += used;
	uint64_t state = strtoull(argv[1], NULL, 0);
	size_t flows = strtoull(argv[2], NULL, 0), later = strtoull(argv[3], NULL, 0);
	uint32_t *first = malloc(flows * sizeof(*first)), *then = malloc(later * sizeof(*then));
	struct rte_hash_parameters parameters = {
		.name = "hash_to_core",
		.entries = (uint32_t)flows,
		.key_len = sizeof(uint32_t),
		/* The fastest that DPDK has. */
		.hash_func = rte_hash_crc,
		.socket_id = (int)rte_socket_id(),
	};
	struct rte_hash *table = rte_hash_create(&parameters);

	if (first == NULL || then == NULL || table == NULL) {
		fprintf(stderr, "no memory: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	for (size_t at = 0; at < flows; at++)
		first[at] = (uint32_t)next_random(&state);
	for (size_t at = 0; at < later; at++)
		then[at] = first[(next_random(&state) >> 32) % flows];

	/* Once unmeasured, so that no page fault is counted. */
	uint64_t sum = steer_all(table, first, flows);
	rte_hash_reset(table);

	uint64_t start = cpu_ns();
	sum += steer_all(table, first, flows);
	uint64_t middle = cpu_ns();
	sum += steer_all(table, then, later);
	uint64_t end = cpu_ns();

	printf("rte_hash %.3f %.3f sum %" PRIu64 "\n", (double)(middle - start) / (double)flows,
	       (double)(end - middle) / (double)later, sum);
	return 0;
}
