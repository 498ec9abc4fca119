/*
 * A function of a chain of Calisto, in C.
 *
 * Compile it into a shared object:
 *   cc -O2 -shared -fPIC -I crates/functions/plugin/include mine.c -o mine.so
 * and name that in the chain's file:
 *   [[function]]
 *   kind = "shared-object"
 *   file = "mine.so"
 *   arguments = ["eth2", "10.1.0.0/16"]
 *
 * The object defines calisto_function_1, which returns what is below. The 1 is the version of this
 * interface: an object of another version is refused.
 */
#ifndef CALISTO_FUNCTION_H
#define CALISTO_FUNCTION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CALISTO_FUNCTION_VERSION 1
/* Packets in one call, at most. */
#define CALISTO_FUNCTION_BATCH 64
/* Counters of a function, at most. */
#define CALISTO_FUNCTION_COUNTERS 64

/* What is to become of a packet. */
#define CALISTO_FUNCTION_NEXT 0 /* The next function decides. */
#define CALISTO_FUNCTION_DROP 1 /* It goes no further. */
#define CALISTO_FUNCTION_OUT 2  /* It leaves by port `out`. */

/* What is known of the checksum of a packet's TCP or UDP. */
#define CALISTO_FUNCTION_UNKNOWN 0  /* Nobody has looked. */
#define CALISTO_FUNCTION_VERIFIED 1 /* It is right. */

/* A packet. Its bytes may be read and written in the call that it comes with, and not after it. */
struct calisto_function_packet {
  uint8_t *data;        /* From its Ethernet header on. */
  uint32_t len;         /* Bytes of it; may be lowered, and raised up to `room`. */
  uint32_t room;
  uint64_t received_ns; /* When the port handed it over, by the clock of `now_ns`. */
  uint16_t port;        /* Where it came from; in `leave` where it is to leave. */
  uint16_t out;         /* Of CALISTO_FUNCTION_OUT. */
  uint16_t vlan;        /* The tag that the port has taken off; 0: none. */
  uint8_t verdict;      /* Comes as CALISTO_FUNCTION_NEXT, in `leave` as CALISTO_FUNCTION_OUT. */
  uint8_t checksum;     /* CALISTO_FUNCTION_UNKNOWN or CALISTO_FUNCTION_VERIFIED. */
};

/* A counter: its name, and a sentence that says what it counts. */
struct calisto_function_counter {
  const char *name;
  const char *help;
};

/* What the chain offers while a function is made. */
struct calisto_function_host {
  const void *chain;
  /* The number that an interface has as a port of the chain; -1: it is none. */
  int (*port)(const void *chain, const char *interface);
};

/*
 * The function. Calls for one state never overlap, but may come from different threads, one after
 * the other; states of different slices are called at the same time. None of the calls but `make`,
 * `take_over` and `destroy` may wait, allocate, or take long: packets wait meanwhile.
 */
struct calisto_function {
  uint32_t version; /* CALISTO_FUNCTION_VERSION */
  uint32_t counter_count;
  const struct calisto_function_counter *counters; /* As long as the object is loaded. */
  /*
   * The state of one slice, made of the arguments of the chain's file. NULL: it cannot be made, and
   * `error` has a sentence that says why, ended by a zero.
   */
  void *(*make)(const struct calisto_function_host *host, size_t count,
                const char *const *arguments, char *error, size_t error_bytes);
  /* Judges or changes packets; checksums that a sender left open are complete. */
  void (*process)(void *state, struct calisto_function_packet *packets, size_t count,
                  uint64_t now_ns);
  /* Sees packets that are to leave, and may change or drop them. NULL: does not want to. */
  void (*leave)(void *state, struct calisto_function_packet *packets, size_t count,
                uint64_t now_ns);
  /* Writes what was counted, `counter_count` numbers. */
  void (*read)(const void *state, uint64_t *values);
  /* Goes on where `before`, whose place it takes, has come to. NULL: begins anew. */
  void (*take_over)(void *state, void *before);
  void (*destroy)(void *state);
};

const struct calisto_function *calisto_function_1(void);

#ifdef __cplusplus
}
#endif

#endif
