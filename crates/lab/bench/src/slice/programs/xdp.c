/* Frames made, forwarded and counted by small programs in the kernel's XDP.
 *
 *     xdp send INTERFACE TO_MAC FROM_MAC SOURCE DESTINATION/BITS BYTES RATE MILLISECONDS
 *     xdp drop INTERFACE
 *     xdp redirect FROM TO MILLISECONDS
 *     xdp route FROM TO MILLISECONDS
 *
 * `send` lets the kernel run frames of BYTES out of INTERFACE: UDP of 1024 flows to random addresses
 * of DESTINATION/BITS, RATE a second (0: as fast as it goes). After MILLISECONDS, or at SIGTERM, it
 * prints "sent PACKETS NANOSECONDS".
 * `drop` takes everything that comes in and counts those frames: for every line "MILLISECONDS" it
 * prints "PACKETS ROUTED NANOSECONDS", ROUTED those that have lost one of their 64 hops; it ends
 * with its input. `redirect` hands every frame on; `route` where the kernel's tables say, with a hop
 * less, and is the shortest program that does. All print "ready" first.
 *
 * Each program is a few instructions of BPF, written here: no compiler for BPF is needed. What is
 * attached goes with the process, whatever way that ends. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum {
	/* Ethernet, IPv4 without options, UDP. */
	HEADERS = 14 + 20 + 8,
	/* Where things are in a frame. */
	TTL_AT = 22, CHECKSUM_AT = 24, DESTINATION_AT = 30, SOURCE_PORT_AT = 34, MARK_AT = 42,
	FRAME_MIN = 60, FRAME_MAX = 1514,
	FLOWS = 1024,
	HOPS = 64,
	/* Frames of one system call, those included that a paced sender only looks at: some milliseconds,
	 * because the kernel does not wait for what it is to forget while a call lasts. */
	REPEAT = 32768,
	/* A paced sender that was held up sends so much more at once. */
	CREDIT_NS = 1000000,
	INSTRUCTIONS_MAX = 128,
};

/* Ours, and nobody else's, behind the UDP header. */
static const uint64_t MARK = 0x6f74736c61632121;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof *attr);
}

/* A program that is being written. */
static struct bpf_insn code[INSTRUCTIONS_MAX];
static int length;

static int put(uint8_t op, uint8_t to, uint8_t from, int16_t offset, int32_t value)
{
	if (length == INSTRUCTIONS_MAX) {
		fprintf(stderr, "the program is too long\n");
		exit(1);
	}
	code[length] = (struct bpf_insn){ op, to, from, offset, value };
	return length++;
}

/* A jump comes from here: `land` says where to. */
static void land(int jump)
{
	code[jump].off = length - jump - 1;
}

static void put_wide(uint8_t to, uint8_t kind, uint64_t value, uint32_t high)
{
	put(BPF_LD | BPF_DW | BPF_IMM, to, kind, 0, value);
	put(0, 0, 0, 0, kind ? high : value >> 32);
}

#define MOV(to, from) put(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0)
#define MOV_IMM(to, value) put(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value)
#define ALU(op, to, from) put(BPF_ALU64 | (op) | BPF_X, to, from, 0, 0)
#define ALU_IMM(op, to, value) put(BPF_ALU64 | (op) | BPF_K, to, 0, 0, value)
#define LOAD(size, to, from, offset) put(BPF_LDX | BPF_MEM | (size), to, from, offset, 0)
#define STORE(size, to, from, offset) put(BPF_STX | BPF_MEM | (size), to, from, offset, 0)
#define STORE_IMM(size, to, offset, value) put(BPF_ST | BPF_MEM | (size), to, 0, offset, value)
#define JUMP(op, left, right) put(BPF_JMP | (op) | BPF_X, left, right, 0, 0)
#define JUMP_IMM(op, left, value) put(BPF_JMP | (op) | BPF_K, left, 0, 0, value)
#define CALL(helper) put(BPF_JMP | BPF_CALL, 0, 0, 0, helper)
#define EXIT() put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/* Leaves the frame in r7 and returns the jump of those that are shorter than `bytes`. */
static int put_frame_of(int bytes)
{
	LOAD(BPF_W, BPF_REG_7, BPF_REG_1, offsetof(struct xdp_md, data));
	LOAD(BPF_W, BPF_REG_3, BPF_REG_1, offsetof(struct xdp_md, data_end));
	MOV(BPF_REG_4, BPF_REG_7);
	ALU_IMM(BPF_ADD, BPF_REG_4, bytes);
	return JUMP(BPF_JGT, BPF_REG_4, BPF_REG_3);
}

static int load(void)
{
	static char log[16384];
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_XDP,
		.insns = (uintptr_t)code,
		.insn_cnt = length,
		.license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log,
		.log_size = sizeof log,
		.log_level = 1,
	};
	int fd = bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0) {
		perror("BPF_PROG_LOAD");
		fprintf(stderr, "%s\n", log);
		exit(1);
	}
	return fd;
}

static uint32_t interface(const char *name)
{
	uint32_t index = if_nametoindex(name);
	if (index == 0)
		fail(name);
	return index;
}

static void attach(int program, const char *name)
{
	union bpf_attr attr = {
		.link_create = {
			.prog_fd = program,
			.target_ifindex = interface(name),
			.attach_type = BPF_XDP,
			.flags = XDP_FLAGS_DRV_MODE,
		},
	};
	if (bpf(BPF_LINK_CREATE, &attr) < 0)
		fail("BPF_LINK_CREATE");
	printf("ready\n");
	fflush(stdout);
}

/* Two numbers that a program writes and we read: its map, and the numbers themselves. */
static volatile uint64_t *numbers(int *map)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = 4,
		.value_size = 16,
		.max_entries = 1,
		.map_flags = BPF_F_MMAPABLE,
	};
	*map = bpf(BPF_MAP_CREATE, &attr);
	if (*map < 0)
		fail("BPF_MAP_CREATE");
	void *memory = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, *map, 0);
	if (memory == MAP_FAILED)
		fail("mmap of a map");
	return memory;
}

/* What the frames look like. */
struct frames {
	uint8_t bytes[FRAME_MAX];
	int length;
	/* Bits of the destination that differ, as they are in memory. */
	uint32_t destination_mask;
};

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

static void mac(const char *text, uint8_t *at)
{
	unsigned bytes[6];
	if (sscanf(text, "%x:%x:%x:%x:%x:%x", &bytes[0], &bytes[1], &bytes[2], &bytes[3], &bytes[4],
		   &bytes[5]) != 6) {
		fprintf(stderr, "%s is no MAC address\n", text);
		exit(2);
	}
	for (int byte = 0; byte < 6; byte++)
		at[byte] = bytes[byte];
}

static void address(const char *text, uint8_t *at)
{
	if (inet_pton(AF_INET, text, at) != 1) {
		fprintf(stderr, "%s is no IPv4 address\n", text);
		exit(2);
	}
}

static struct frames frames(char **words, int length)
{
	struct frames frames = { .length = length };
	uint8_t *bytes = frames.bytes;
	char *slash = strchr(words[3], '/');
	int bits = slash ? atoi(slash + 1) : 32;
	if (slash)
		*slash = 0;
	frames.destination_mask = bits <= 0 ? ~0u : htonl((uint32_t)((1ull << (32 - bits)) - 1));
	mac(words[0], bytes);
	mac(words[1], bytes + 6);
	put16(bytes + 12, 0x0800);
	bytes[14] = 0x45;
	put16(bytes + 16, length - 14);
	put16(bytes + 20, 0x4000);
	bytes[TTL_AT] = HOPS;
	bytes[TTL_AT + 1] = 17;
	address(words[2], bytes + 26);
	address(words[3], bytes + DESTINATION_AT);
	put16(bytes + SOURCE_PORT_AT, FLOWS);
	/* The port "discard", and a checksum of 0: there is none. */
	put16(bytes + 36, 9);
	put16(bytes + 38, length - 34);
	memcpy(bytes + MARK_AT, &MARK, sizeof MARK);
	return frames;
}

/* r3 becomes its own sum in one's complement. */
static void put_fold(void)
{
	for (int twice = 0; twice < 2; twice++) {
		MOV(BPF_REG_4, BPF_REG_3);
		ALU_IMM(BPF_RSH, BPF_REG_4, 16);
		ALU_IMM(BPF_AND, BPF_REG_3, 0xffff);
		ALU(BPF_ADD, BPF_REG_3, BPF_REG_4);
	}
}

/* Writes the headers anew into each frame, because those that come back were changed on their
 * way, and sends it out of interface `out`; one every `interval` ns unless that is 0. */
static int sender(const struct frames *frames, uint32_t out, uint64_t interval, int map)
{
	int wait = -1, first, late;
	length = 0;
	MOV(BPF_REG_6, BPF_REG_1);
	if (interval) {
		/* numbers[0]: when the next frame is due. */
		CALL(BPF_FUNC_ktime_get_ns);
		put_wide(BPF_REG_8, BPF_PSEUDO_MAP_VALUE, map, 0);
		LOAD(BPF_DW, BPF_REG_2, BPF_REG_8, 0);
		first = JUMP_IMM(BPF_JNE, BPF_REG_2, 0);
		MOV(BPF_REG_2, BPF_REG_0);
		land(first);
		wait = JUMP(BPF_JLT, BPF_REG_0, BPF_REG_2);
		ALU_IMM(BPF_SUB, BPF_REG_0, CREDIT_NS);
		late = JUMP(BPF_JGE, BPF_REG_2, BPF_REG_0);
		MOV(BPF_REG_2, BPF_REG_0);
		land(late);
		ALU_IMM(BPF_ADD, BPF_REG_2, interval);
		STORE(BPF_DW, BPF_REG_8, BPF_REG_2, 0);
	}
	CALL(BPF_FUNC_get_prandom_u32);
	MOV(BPF_REG_1, BPF_REG_6);
	int bad = put_frame_of(HEADERS);
	for (int at = 0; at + 4 <= HEADERS; at += 4) {
		int32_t word;
		memcpy(&word, frames->bytes + at, 4);
		STORE_IMM(BPF_W, BPF_REG_7, at, word);
	}
	STORE_IMM(BPF_H, BPF_REG_7, 40, 0);
	/* The source port: as many as there are flows. */
	MOV(BPF_REG_2, BPF_REG_0);
	ALU_IMM(BPF_AND, BPF_REG_2, FLOWS - 1);
	STORE(BPF_H, BPF_REG_7, BPF_REG_2, SOURCE_PORT_AT);
	/* The destination, and with it the checksum of what does not differ. */
	uint32_t base, sum = 0;
	memcpy(&base, frames->bytes + DESTINATION_AT, 4);
	base &= ~frames->destination_mask;
	for (int at = 14; at < DESTINATION_AT; at += 2) {
		uint16_t word;
		memcpy(&word, frames->bytes + at, 2);
		sum += at == CHECKSUM_AT ? 0 : word;
	}
	put(BPF_ALU | BPF_AND | BPF_K, BPF_REG_0, 0, 0, frames->destination_mask);
	put(BPF_ALU | BPF_OR | BPF_K, BPF_REG_0, 0, 0, base);
	STORE(BPF_W, BPF_REG_7, BPF_REG_0, DESTINATION_AT);
	MOV(BPF_REG_3, BPF_REG_0);
	ALU_IMM(BPF_RSH, BPF_REG_3, 16);
	ALU_IMM(BPF_AND, BPF_REG_0, 0xffff);
	ALU(BPF_ADD, BPF_REG_3, BPF_REG_0);
	ALU_IMM(BPF_ADD, BPF_REG_3, sum);
	put_fold();
	ALU_IMM(BPF_XOR, BPF_REG_3, 0xffff);
	STORE(BPF_H, BPF_REG_7, BPF_REG_3, CHECKSUM_AT);
	/* numbers[1]: frames sent. Nobody else writes it. */
	put_wide(BPF_REG_8, BPF_PSEUDO_MAP_VALUE, map, 0);
	LOAD(BPF_DW, BPF_REG_2, BPF_REG_8, 8);
	ALU_IMM(BPF_ADD, BPF_REG_2, 1);
	STORE(BPF_DW, BPF_REG_8, BPF_REG_2, 8);
	MOV_IMM(BPF_REG_1, out);
	MOV_IMM(BPF_REG_2, 0);
	CALL(BPF_FUNC_redirect);
	EXIT();
	land(bad);
	if (wait >= 0)
		land(wait);
	MOV_IMM(BPF_REG_0, XDP_DROP);
	EXIT();
	return load();
}

static volatile sig_atomic_t is_told_to_end;

static void end(int signal)
{
	is_told_to_end = signal;
}

static int send_frames(char **words)
{
	/* It ends the system call that is under way, too. */
	struct sigaction action = { .sa_handler = end };
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	int bytes = atoi(words[5]), map;
	uint64_t rate = strtoull(words[6], NULL, 10), milliseconds = strtoull(words[7], NULL, 10);
	if (bytes < FRAME_MIN || bytes > FRAME_MAX) {
		fprintf(stderr, "frames have %d to %d bytes\n", FRAME_MIN, FRAME_MAX);
		return 2;
	}
	struct frames made = frames(words + 1, bytes);
	volatile uint64_t *number = numbers(&map);
	int program = sender(&made, interface(words[0]), rate ? 1000000000 / rate : 0, map);
	/* A program that is attached somewhere is known to the dispatcher of XDP; else each call would make it
	 * known and forgotten, which takes 30 ms. Nothing comes in here. */
	attach(program, words[0]);
	struct itimerval timer = {
		.it_value = { milliseconds / 1000, milliseconds % 1000 * 1000 },
	};
	setitimer(ITIMER_REAL, &timer, NULL);
	uint64_t began = now_ns();
	while (!is_told_to_end) {
		union bpf_attr attr = {
			.test = {
				.prog_fd = program,
				.data_in = (uintptr_t)made.bytes,
				.data_size_in = made.length,
				.repeat = REPEAT,
				.flags = BPF_F_TEST_XDP_LIVE_FRAMES,
			},
		};
		if (bpf(BPF_PROG_TEST_RUN, &attr) < 0 && errno != EINTR)
			fail("BPF_PROG_TEST_RUN");
	}
	printf("sent %llu %llu\n", (unsigned long long)number[1],
	       (unsigned long long)(now_ns() - began));
	return 0;
}

static int drop_frames(char **words)
{
	int map;
	volatile uint64_t *number = numbers(&map);
	length = 0;
	int short_one = put_frame_of(MARK_AT + sizeof MARK);
	LOAD(BPF_DW, BPF_REG_2, BPF_REG_7, MARK_AT);
	put_wide(BPF_REG_3, 0, MARK, 0);
	int others = JUMP(BPF_JNE, BPF_REG_2, BPF_REG_3);
	put_wide(BPF_REG_8, BPF_PSEUDO_MAP_VALUE, map, 0);
	MOV_IMM(BPF_REG_2, 1);
	put(BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_8, BPF_REG_2, 0, BPF_ADD);
	LOAD(BPF_B, BPF_REG_4, BPF_REG_7, TTL_AT);
	int bridged = JUMP_IMM(BPF_JNE, BPF_REG_4, HOPS - 1);
	put(BPF_STX | BPF_ATOMIC | BPF_DW, BPF_REG_8, BPF_REG_2, 8, BPF_ADD);
	land(short_one);
	land(others);
	land(bridged);
	MOV_IMM(BPF_REG_0, XDP_DROP);
	EXIT();
	attach(load(), words[0]);
	char line[32];
	while (fgets(line, sizeof line, stdin)) {
		uint64_t began = now_ns(), packets = number[0], routed = number[1];
		usleep(atoi(line) * 1000);
		printf("%llu %llu %llu\n", (unsigned long long)(number[0] - packets),
		       (unsigned long long)(number[1] - routed),
		       (unsigned long long)(now_ns() - began));
		fflush(stdout);
	}
	return 0;
}

static int redirect_frames(char **words)
{
	length = 0;
	MOV_IMM(BPF_REG_1, interface(words[1]));
	MOV_IMM(BPF_REG_2, 0);
	CALL(BPF_FUNC_redirect);
	EXIT();
	attach(load(), words[0]);
	poll(NULL, 0, atoi(words[2]));
	return 0;
}

/* Where something of what the kernel is asked is: at the start of the stack. */
#define ASKED(field) ((int)offsetof(struct bpf_fib_lookup, field) - (int)sizeof(struct bpf_fib_lookup))

static int route_frames(char **words)
{
	enum { ASKED_BYTES = sizeof(struct bpf_fib_lookup) };
	length = 0;
	MOV(BPF_REG_6, BPF_REG_1);
	int short_one = put_frame_of(34);
	LOAD(BPF_H, BPF_REG_2, BPF_REG_7, 12);
	int no_ipv4 = JUMP_IMM(BPF_JNE, BPF_REG_2, htons(0x0800));
	LOAD(BPF_B, BPF_REG_2, BPF_REG_7, 14);
	int options = JUMP_IMM(BPF_JNE, BPF_REG_2, 0x45);
	LOAD(BPF_B, BPF_REG_2, BPF_REG_7, TTL_AT);
	int last_hop = JUMP_IMM(BPF_JLE, BPF_REG_2, 1);
	for (int at = -ASKED_BYTES; at < 0; at += 8)
		STORE_IMM(BPF_DW, BPF_REG_10, at, 0);
	STORE_IMM(BPF_B, BPF_REG_10, ASKED(family), AF_INET);
	LOAD(BPF_H, BPF_REG_2, BPF_REG_7, 16);
	put(BPF_ALU | BPF_END | BPF_TO_BE, BPF_REG_2, 0, 0, 16);
	STORE(BPF_H, BPF_REG_10, BPF_REG_2, ASKED(tot_len));
	LOAD(BPF_W, BPF_REG_2, BPF_REG_7, 26);
	STORE(BPF_W, BPF_REG_10, BPF_REG_2, ASKED(ipv4_src));
	LOAD(BPF_W, BPF_REG_2, BPF_REG_7, DESTINATION_AT);
	STORE(BPF_W, BPF_REG_10, BPF_REG_2, ASKED(ipv4_dst));
	LOAD(BPF_W, BPF_REG_2, BPF_REG_6, offsetof(struct xdp_md, ingress_ifindex));
	STORE(BPF_W, BPF_REG_10, BPF_REG_2, ASKED(ifindex));
	MOV(BPF_REG_1, BPF_REG_6);
	MOV(BPF_REG_2, BPF_REG_10);
	ALU_IMM(BPF_ADD, BPF_REG_2, -ASKED_BYTES);
	MOV_IMM(BPF_REG_3, ASKED_BYTES);
	MOV_IMM(BPF_REG_4, 0);
	CALL(BPF_FUNC_fib_lookup);
	int no_route = JUMP_IMM(BPF_JNE, BPF_REG_0, 0);
	/* One hop less is one more in the first byte of the checksum. */
	LOAD(BPF_H, BPF_REG_2, BPF_REG_7, CHECKSUM_AT);
	ALU_IMM(BPF_ADD, BPF_REG_2, htons(0x0100));
	MOV(BPF_REG_3, BPF_REG_2);
	ALU_IMM(BPF_RSH, BPF_REG_3, 16);
	ALU(BPF_ADD, BPF_REG_2, BPF_REG_3);
	STORE(BPF_H, BPF_REG_7, BPF_REG_2, CHECKSUM_AT);
	LOAD(BPF_B, BPF_REG_2, BPF_REG_7, TTL_AT);
	ALU_IMM(BPF_SUB, BPF_REG_2, 1);
	STORE(BPF_B, BPF_REG_7, BPF_REG_2, TTL_AT);
	for (int at = 0; at < 6; at += 2) {
		LOAD(BPF_H, BPF_REG_2, BPF_REG_10, ASKED(dmac) + at);
		STORE(BPF_H, BPF_REG_7, BPF_REG_2, at);
		LOAD(BPF_H, BPF_REG_2, BPF_REG_10, ASKED(smac) + at);
		STORE(BPF_H, BPF_REG_7, BPF_REG_2, 6 + at);
	}
	LOAD(BPF_W, BPF_REG_1, BPF_REG_10, ASKED(ifindex));
	MOV_IMM(BPF_REG_2, 0);
	CALL(BPF_FUNC_redirect);
	EXIT();
	land(short_one);
	land(no_ipv4);
	land(options);
	land(last_hop);
	land(no_route);
	MOV_IMM(BPF_REG_0, XDP_PASS);
	EXIT();
	attach(load(), words[0]);
	poll(NULL, 0, atoi(words[2]));
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	if (strcmp(verb, "send") == 0 && argc == 10)
		return send_frames(argv + 2);
	if (strcmp(verb, "drop") == 0 && argc == 3)
		return drop_frames(argv + 2);
	if (strcmp(verb, "redirect") == 0 && argc == 5)
		return redirect_frames(argv + 2);
	if (strcmp(verb, "route") == 0 && argc == 5)
		return route_frames(argv + 2);
	fprintf(stderr, "usage: xdp send|drop|redirect|route ...\n");
	return 2;
}
