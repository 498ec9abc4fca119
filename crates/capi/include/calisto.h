/* libcalisto: applications that take whole packets from the Calisto daemon and send packets.
 *
 *   calisto_attach, then for each worker a thread that repeats
 *     calisto_receive, work, calisto_send or calisto_done, calisto_flush, and
 *     calisto_wait when there was nothing
 *   and at the end calisto_detach.
 *
 * Numbers: 0 or more is success, less than 0 is one of the errors below, and calisto_error says
 * it in words.
 *
 * Threads: calisto_attach, calisto_worker, calisto_port and calisto_error may be called by any
 * thread. A worker and its packets belong to one thread at a time; a second one gets
 * CALISTO_BUSY. calisto_detach must be the last call. A process that forks goes on in one of the
 * two only.
 *
 * When the daemon dies or lets go of the application, every call for a worker says CALISTO_DETACHED
 * within a second; none waits longer. Detach then, and attach again.
 *
 * Generated from crates/capi: see there to change it.
 */

#ifndef CALISTO_H
#define CALISTO_H

#include <stdint.h>

/**
 * A null pointer, a number out of range, or a packet that is not with the application.
 */
#define CALISTO_INVALID -1

/**
 * The attachment has ended: detach, and attach again.
 */
#define CALISTO_DETACHED -2

/**
 * Another thread is in a call for the same worker.
 */
#define CALISTO_BUSY -3

/**
 * No daemon answers: it may be started later.
 */
#define CALISTO_NO_DAEMON -4

/**
 * The daemon refused: the same request will be refused again.
 */
#define CALISTO_REFUSED -5

/**
 * The packet is no UDP packet that can be answered, or the answer has no room in it.
 */
#define CALISTO_NOT_UDP -6

/**
 * The kernel refused something.
 */
#define CALISTO_SYSTEM -7

/**
 * A bug of this library.
 */
#define CALISTO_PANIC -8

/**
 * Nobody has looked at the packet's checksums.
 */
#define CALISTO_CHECKSUM_UNKNOWN 0

/**
 * They are right.
 */
#define CALISTO_CHECKSUM_VERIFIED 1

/**
 * The link is trusted and they may be half done: never forward them unchanged.
 */
#define CALISTO_CHECKSUM_PARTIAL 2

/**
 * As a timeout: without end.
 */
#define CALISTO_FOREVER UINT64_MAX

/**
 * An attached application.
 */
struct calisto_app;

/**
 * A worker: one thread's share of an application.
 */
struct calisto_worker;

/**
 * What an application asks for. Set all of it to zero first: zero means the default.
 */
struct calisto_options {
  /**
   * The daemon's socket; null: what the environment variable CALISTO_APPS says, or else
   * /run/calisto/apps.sock.
   */
  const char *socket;
  /**
   * What people call the application: 1 to 32 letters, digits, '-', '_' and '.'.
   */
  const char *name;
  /**
   * Whose packets it wants: `listen_count` texts such as "udp:10.0.0.2:53".
   */
  const char *const *listen;
  /**
   * How many texts `listen` has, 64 at most.
   */
  uint32_t listen_count;
  /**
   * Workers, one for each thread that is to work: 1 to 64; 0: one.
   */
  uint32_t workers;
  /**
   * Buffers for received packets, all workers together; 0: the daemon's default.
   */
  uint32_t frames;
  /**
   * Bytes of a buffer, 2048 or 4096; 0: the daemon's default.
   */
  uint32_t frame_bytes;
  /**
   * How long to go on trying while there is no daemon, in nanoseconds.
   */
  uint64_t wait_ns;
  /**
   * Zero.
   */
  uint64_t reserved[4];
};

/**
 * A port of the daemon.
 */
struct calisto_port {
  /**
   * Its name, good until calisto_detach.
   */
  const char *name;
  /**
   * Bytes of the largest IP packet that it takes.
   */
  uint32_t mtu;
  /**
   * Its Ethernet address, if `has_mac` is not zero.
   */
  uint8_t mac[6];
  /**
   * Whether it has one.
   */
  uint8_t has_mac;
  /**
   * Zero.
   */
  uint8_t reserved;
};

/**
 * A packet that is with the application, from its Ethernet header on. Read and write
 * `data[0 .. len]`; to make it longer, raise `len` up to `room`. Other fields than `len`, `port`
 * and the bytes are read only. After calisto_send or calisto_done took it, `data` is null.
 */
struct calisto_packet {
  /**
   * Its first byte.
   */
  uint8_t *data;
  /**
   * Its bytes.
   */
  uint32_t len;
  /**
   * The largest `len`.
   */
  uint32_t room;
  /**
   * When the port handed it to the daemon: nanoseconds of CLOCK_MONOTONIC.
   */
  uint64_t received_at_ns;
  /**
   * The hash of its flow, computed by the daemon.
   */
  uint32_t flow_hash;
  /**
   * The group of flows that it belongs to, which one worker owns.
   */
  uint32_t flow_group;
  /**
   * The port that it came from, or by which it is to leave: see calisto_port.
   */
  uint16_t port;
  /**
   * Bytes from `data` to its IP header.
   */
  uint16_t l3_offset;
  /**
   * Bytes from `data` to its UDP or TCP header.
   */
  uint16_t l4_offset;
  /**
   * One of the CALISTO_CHECKSUM numbers.
   */
  uint8_t checksum;
  /**
   * Zero.
   */
  uint8_t reserved;
  /**
   * The library's own name for it; zero once it was given back.
   */
  uint64_t handle;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Attaches to the daemon and stores the application in `*app`. Returns 0, or a negative number
 * (then `*app` is null and calisto_error(NULL) says why).
 *
 * The caller's part:
 * `options` and what it points to can be read, and `app` can be written.
 */
int calisto_attach(const struct calisto_options *options, struct calisto_app **app);

/**
 * Worker `n` of the application, from 0; null when there is none. It is good until calisto_detach,
 * and each worker is for one thread at a time.
 *
 * The caller's part:
 * `app` came from calisto_attach and was not detached, or is null.
 */
struct calisto_worker *calisto_worker(const struct calisto_app *app, uint32_t n);

/**
 * Stores what is known of port `n` in `*port`. Returns 0, or CALISTO_INVALID when there is none.
 *
 * The caller's part:
 * As for calisto_worker, and `port` can be written or is null.
 */
int calisto_port(const struct calisto_app *app, uint32_t n, struct calisto_port *port);

/**
 * Why the attachment has ended, if it has; else why the last call that failed in this thread did.
 * Empty when nothing did. The text is good until the next call of this library in this thread.
 *
 * The caller's part:
 * As for calisto_worker.
 */
const char *calisto_error(const struct calisto_app *app);

/**
 * Ends the attachment and frees the application and its workers; packets that were not sent are
 * lost. No other thread may be in a call for it, and nothing of it may be used afterwards. Null
 * does nothing.
 *
 * The caller's part:
 * As for calisto_worker, and as said.
 */
void calisto_detach(struct calisto_app *app);

/**
 * Receives up to `max` packets into `packets`; never waits. Returns how many, or a negative
 * number. What was given back before is shown to the daemon, as by calisto_flush. Give every
 * packet back soon, with calisto_send or calisto_done: flows that are to move to another worker
 * wait for it.
 *
 * The caller's part:
 * `worker` came from calisto_worker and its application was not detached, or is null; `packets`
 * has room for `max`. The content of the array does not matter.
 */
int calisto_receive(struct calisto_worker *worker, struct calisto_packet *packets, uint32_t max);

/**
 * Has the first packets of the array sent, as many as the ring to the daemon has room for. Returns
 * how many; the rest stays with the application: offer it again. A packet that is wrong ends the
 * call before it, and is an error when it is the first. calisto_flush shows them to the daemon.
 *
 * The caller's part:
 * As for calisto_receive, with `count` packets.
 */
int calisto_send(struct calisto_worker *worker, struct calisto_packet *packets, uint32_t count);

/**
 * Gives the first packets of the array back unsent, as many as the ring to the daemon has room
 * for. As calisto_send otherwise.
 *
 * The caller's part:
 * As for calisto_send.
 */
int calisto_done(struct calisto_worker *worker, struct calisto_packet *packets, uint32_t count);

/**
 * Stores an empty packet in `*packet`, for one that answers nothing: write it, set `len` and
 * `port`, and send it. Returns 1, or 0 while all are under way, or a negative number.
 *
 * The caller's part:
 * As for calisto_receive, with one packet.
 */
int calisto_take(struct calisto_worker *worker, struct calisto_packet *packet);

/**
 * Turns a received UDP packet around in place: addresses and ports change places, and both
 * checksums are computed anew. `payload` (`payload_len` bytes, not in the packet itself) replaces
 * what it carried; null keeps that. Returns 0 (send it then), or CALISTO_NOT_UDP (give it back
 * then), or another negative number.
 *
 * The caller's part:
 * As for calisto_receive, with one packet; `payload` can be read.
 */
int calisto_reply(struct calisto_worker *worker,
                  struct calisto_packet *packet,
                  const uint8_t *payload,
                  uint32_t payload_len);

/**
 * Shows the daemon what was sent and given back, and wakes it if it sleeps. Returns 0, or a
 * negative number.
 *
 * The caller's part:
 * As for calisto_receive.
 */
int calisto_flush(struct calisto_worker *worker);

/**
 * Waits until there is something to receive, `timeout_ns` nanoseconds at most (or
 * CALISTO_FOREVER). Returns 1 if there is, 0 if not, or a negative number: CALISTO_DETACHED at
 * once when the daemon dies. A signal ends it early. What was given back is shown to the daemon,
 * as by calisto_flush.
 *
 * The caller's part:
 * As for calisto_receive.
 */
int calisto_wait(struct calisto_worker *worker, uint64_t timeout_ns);

/**
 * For a loop of the application's own: a descriptor that poll finds readable when the daemon has
 * woken this worker (after calisto_arm), and hung up when the daemon is gone. Do not read or close
 * it. Returns it, or a negative number.
 *
 * The caller's part:
 * As for calisto_receive.
 */
int calisto_fd(struct calisto_worker *worker);

/**
 * Asks to be woken through calisto_fd. Returns 1 when there is something to receive already (do
 * not sleep), or 0, or a negative number. Call calisto_disarm after every sleep.
 *
 * The caller's part:
 * As for calisto_receive.
 */
int calisto_arm(struct calisto_worker *worker);

/**
 * Takes back what calisto_arm asked for. Returns 0, or a negative number.
 *
 * The caller's part:
 * As for calisto_receive.
 */
int calisto_disarm(struct calisto_worker *worker);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CALISTO_H */
