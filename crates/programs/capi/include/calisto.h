/* libcalisto: sockets that the Calisto daemon serves, applications that take whole packets, and
 * slices.
 *
 * Sockets:
 *   calisto_session_open once, then calisto_tcp_listen and calisto_tcp_accept, or
 *     calisto_tcp_connect, then calisto_tcp_read and calisto_tcp_write, which wait
 *   What the daemon does not take goes on with the kernel, with the same calls. When the daemon
 *   dies, its connections fail with ECONNRESET within a second.
 *
 * Packets:
 *   calisto_attach, then for each worker a thread that repeats
 *     calisto_receive, work, calisto_send or calisto_done, calisto_flush, and
 *     calisto_wait when there was nothing
 *   and at the end calisto_detach.
 *
 * Slices (a queue of every NIC, some CPUs, their memory; no daemon):
 *   calisto_slice_open, then a loop of
 *     calisto_slice_read_multi, work, calisto_slice_write_multi
 *   and at the end calisto_slice_close.
 *
 * Numbers: 0 or more is success, less than 0 is one of the errors below, and calisto_error says
 * it in words; for CALISTO_SYSTEM calisto_errno says which errno.
 *
 * Threads: calisto_attach, calisto_worker, calisto_port and calisto_error may be called by any
 * thread. A worker, or a slice, and its packets belong to one thread at a time; a second one gets
 * CALISTO_BUSY. calisto_detach must be the last call. A process that forks goes on in one of the
 * two only.
 *
 * When the daemon dies or lets go of the application, every call for a worker says CALISTO_DETACHED
 * within a second; none waits longer. Detach then, and attach again.
 *
 * Generated from crates/programs/capi: see there to change it.
 */

#ifndef CALISTO_H
#define CALISTO_H

#include <stddef.h>
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
 * The packet's checksums were not looked at.
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
 * In `flags` of a packet that is written: do not send it.
 */
#define CALISTO_SLICE_SKIP 1

/**
 * In `flags` of a packet that is written: sum from `checksum_start` to its end, with what lies at
 * `checksum_start + checksum_offset` (the sum of a pseudo-header, or zero) included, and write the
 * checksum there. By the device, where it can.
 */
#define CALISTO_SLICE_CHECKSUM 2

/**
 * An attached application.
 */
struct calisto_app;

/**
 * A TCP listener. Any number of threads may accept.
 */
struct calisto_listener;

/**
 * A process's connection to the daemon for its sockets. Any number of threads may use it.
 */
struct calisto_session;

/**
 * A slice. One thread at a time is in a call for it.
 */
struct calisto_slice;

/**
 * A TCP connection. One thread may read while another one writes.
 */
struct calisto_stream;

/**
 * A UDP socket. Any number of threads may use it.
 */
struct calisto_udp;

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

/**
 * What a slice is to be made of. Set all of it to zero first: zero means the default.
 */
struct calisto_slice_options {
  /**
   * Its ports with blanks between, such as "xdp:eth0@1 xdp:eth1@1": queue 1 of both. Queue 0 may
   * be left out. The kernel's packet sockets instead of AF_XDP: "af_packet:eth0".
   */
  const char *ports;
  /**
   * The CPUs that its thread is to run on, such as "2-3"; null: wherever it is.
   */
  const char *cpus;
  /**
   * Which packets it takes, as tcpdump would say it, such as "udp port 53"; null: all of its
   * queues. What it does not take is the kernel's.
   */
  const char *filter;
  /**
   * What people call it; null: "slice".
   */
  const char *name;
  /**
   * Buffers that its ports share; 0: 4096 for each port.
   */
  uint32_t frames;
  /**
   * Bytes of a buffer, 2048 or 4096; 0: 4096.
   */
  uint32_t frame_bytes;
  /**
   * Zero.
   */
  uint64_t reserved[4];
};

/**
 * A packet of a slice, from its Ethernet header on. Read and write `data[0 .. len]`; to make it
 * longer, raise `len` up to `room`. After calisto_slice_write_multi took it, `data` is null.
 */
struct calisto_slice_packet {
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
   * Which of the slice's ports it came from, counted from 0; by which it is to leave, when
   * written.
   */
  uint16_t port;
  /**
   * CALISTO_SLICE_SKIP, CALISTO_SLICE_CHECKSUM; 0 when it was just read.
   */
  uint16_t flags;
  /**
   * Bytes from `data` to where the sum begins, for CALISTO_SLICE_CHECKSUM.
   */
  uint16_t checksum_start;
  /**
   * Bytes from there to the checksum.
   */
  uint16_t checksum_offset;
  /**
   * The library's own name for it; zero once it was taken.
   */
  uint64_t handle;
};

/**
 * A number that a slice or one of its ports has counted.
 */
struct calisto_slice_counter {
  /**
   * What is counted, such as "read" or "rx_packets".
   */
  char name[32];
  /**
   * The same as a sentence.
   */
  char help[128];
  /**
   * How many.
   */
  uint64_t value;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Of the call of this library that failed last in this thread: what the kernel would have set
 * errno to (errno(3)), such as ECONNRESET or EAGAIN, if it returned CALISTO_SYSTEM; else 0.
 */
int calisto_errno(void);

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

/**
 * Connects to the daemon for sockets, once in each process, and stores that in `*session`.
 * `socket` is the daemon's socket (null: what CALISTO_APPS says, or else /run/calisto/apps.sock),
 * `name` what people call the application. Returns 0, or a negative number.
 *
 * The caller's part:
 * Both texts end with a zero or are null, and `session` can be written.
 */
int calisto_session_open(const char *socket, const char *name, struct calisto_session **session);

/**
 * Ends the connection when the last of its sockets is closed. No call for `session` may be under
 * way or follow. Null does nothing.
 *
 * The caller's part:
 * `session` came from calisto_session_open and was not closed, or is null.
 */
void calisto_session_close(struct calisto_session *session);

/**
 * Connects to `to` (such as "10.0.0.2:7"), waits for that for at most `timeout_ns` nanoseconds (or
 * CALISTO_FOREVER), and stores the connection in `*stream`. What the daemon does not take is the
 * kernel's. Returns 0, or a negative number.
 *
 * The caller's part:
 * `session` is open, `to` ends with a zero, and `stream` can be written.
 */
int calisto_tcp_connect(const struct calisto_session *session,
                        const char *to,
                        uint64_t timeout_ns,
                        struct calisto_stream **stream);

/**
 * Listens on `at` (such as "0.0.0.0:7"; port 0: one that is free) and stores the listener in
 * `*listener`. Returns 0, or a negative number.
 *
 * The caller's part:
 * `session` is open, `at` ends with a zero, and `listener` can be written.
 */
int calisto_tcp_listen(const struct calisto_session *session,
                       const char *at,
                       struct calisto_listener **listener);

/**
 * Waits for a connection and stores it in `*stream`. Returns 0, or a negative number.
 *
 * The caller's part:
 * `listener` is open, and `stream` can be written.
 */
int calisto_tcp_accept(const struct calisto_listener *listener, struct calisto_stream **stream);

/**
 * Writes the address that a listener has, as text, to `to`, which has room for `bytes` bytes.
 * Returns its length, or a negative number.
 *
 * The caller's part:
 * `listener` is open, and that many bytes can be written.
 */
int calisto_tcp_listener_address(const struct calisto_listener *listener,
                                 char *to,
                                 uintptr_t bytes);

/**
 * Writes the address of a connection's peer, as calisto_tcp_listener_address does.
 *
 * The caller's part:
 * `stream` is open, and that many bytes can be written.
 */
int calisto_tcp_peer_address(const struct calisto_stream *stream, char *to, uintptr_t bytes);

/**
 * Waits for bytes and reads up to `bytes` of them (2^31 - 1 at most) to `to`. Returns how many, 0
 * at the end of the stream, or a negative number.
 *
 * The caller's part:
 * `stream` is open, and that many bytes can be written.
 */
int calisto_tcp_read(const struct calisto_stream *stream, void *to, uintptr_t bytes);

/**
 * Waits for room and writes some of `bytes` bytes from `from`. Returns how many, or a negative
 * number. A peer that is gone makes no SIGPIPE.
 *
 * The caller's part:
 * `stream` is open, and that many bytes can be read.
 */
int calisto_tcp_write(const struct calisto_stream *stream, const void *from, uintptr_t bytes);

/**
 * A read waits for `read_ns` and a write for `write_ns` nanoseconds at most (or CALISTO_FOREVER);
 * then they fail with CALISTO_SYSTEM and EAGAIN. Returns 0, or a negative number.
 *
 * The caller's part:
 * `stream` is open.
 */
int calisto_tcp_set_timeouts(const struct calisto_stream *stream,
                             uint64_t read_ns,
                             uint64_t write_ns);

/**
 * Whether small segments are sent at once (1) or wait for acknowledgements (0): TCP_NODELAY.
 * Returns 0, or a negative number.
 *
 * The caller's part:
 * `stream` is open.
 */
int calisto_tcp_set_nodelay(const struct calisto_stream *stream, int is_on);

/**
 * Ends the sending: the peer sees the end of the stream. Returns 0, or a negative number.
 *
 * The caller's part:
 * `stream` is open.
 */
int calisto_tcp_shutdown(const struct calisto_stream *stream);

/**
 * Returns 1 if the daemon serves the connection, 0 if the kernel does, or a negative number.
 *
 * The caller's part:
 * `stream` is open.
 */
int calisto_tcp_is_accelerated(const struct calisto_stream *stream);

/**
 * Closes a connection: what was written is still sent. No call for it may be under way or follow.
 * Null does nothing.
 *
 * The caller's part:
 * `stream` is open, or null.
 */
void calisto_tcp_close(struct calisto_stream *stream);

/**
 * Closes a listener. No call for it may be under way or follow. Null does nothing.
 *
 * The caller's part:
 * `listener` is open, or null.
 */
void calisto_tcp_unlisten(struct calisto_listener *listener);

/**
 * Takes datagrams to `at` (such as "0.0.0.0:7"; port 0: one that is free) and stores the socket in
 * `*udp`. Returns 0, or a negative number.
 *
 * The caller's part:
 * `session` is open, `at` ends with a zero, and `udp` can be written.
 */
int calisto_udp_bind(const struct calisto_session *session,
                     const char *at,
                     struct calisto_udp **udp);

/**
 * Sends `bytes` bytes from `from` as one datagram to `to` (such as "10.0.0.2:7"). Returns how
 * many, or a negative number.
 *
 * The caller's part:
 * `udp` is open, that many bytes can be read, and `to` ends with a zero.
 */
int calisto_udp_send(const struct calisto_udp *udp,
                     const void *from,
                     uintptr_t bytes,
                     const char *to);

/**
 * Waits for a datagram and takes up to `bytes` bytes of it to `to`; the rest is lost. From whom it
 * came is written as text to `peer`, which has room for `peer_bytes` bytes (64 are enough), or is
 * null. Returns how many bytes were taken, or a negative number.
 *
 * The caller's part:
 * `udp` is open, and that many bytes can be written.
 */
int calisto_udp_receive(const struct calisto_udp *udp,
                        void *to,
                        uintptr_t bytes,
                        char *peer,
                        uintptr_t peer_bytes);

/**
 * A receive waits for `read_ns` nanoseconds at most (or CALISTO_FOREVER); then it fails with
 * CALISTO_SYSTEM and EAGAIN. Returns 0, or a negative number.
 *
 * The caller's part:
 * `udp` is open.
 */
int calisto_udp_set_timeout(const struct calisto_udp *udp, uint64_t read_ns);

/**
 * Writes the address that the socket has, as calisto_tcp_listener_address does.
 *
 * The caller's part:
 * `udp` is open, and that many bytes can be written.
 */
int calisto_udp_address(const struct calisto_udp *udp, char *to, uintptr_t bytes);

/**
 * Closes the socket. No call for it may be under way or follow. Null does nothing.
 *
 * The caller's part:
 * `udp` is open, or null.
 */
void calisto_udp_close(struct calisto_udp *udp);

/**
 * Opens a slice and stores it in `*slice`. Returns 0, or a negative number (then `*slice` is null
 * and calisto_error(NULL) says why). Needs no daemon; its queues are its alone until it is closed.
 *
 * The caller's part:
 * `options` and what it points to can be read, and `slice` can be written.
 */
int calisto_slice_open(const struct calisto_slice_options *options, struct calisto_slice **slice);

/**
 * Reads up to `max` packets into `packets`, from every port in turn. When there is none it waits,
 * `timeout_ns` nanoseconds at most (CALISTO_FOREVER: without end; 0: not at all). Returns how
 * many, or a negative number; 0 also when a signal came. Every packet must be written again, if
 * only to be skipped: the slice has `frames` buffers and no more.
 *
 * The caller's part:
 * `slice` came from calisto_slice_open and was not closed, or is null; `packets` has room for
 * `max`. The content of the array does not matter.
 */
int calisto_slice_read_multi(struct calisto_slice *slice,
                             struct calisto_slice_packet *packets,
                             uint32_t max,
                             uint64_t timeout_ns);

/**
 * Sends each packet of the array by the port that it names, or takes it back unsent if its flags
 * say CALISTO_SLICE_SKIP. Returns how many were taken, or a negative number. The others, for which
 * a port had no room, are moved to the front of the array: write them again, or skip them. Packets
 * to one port keep their order.
 *
 * A packet that is wrong (too long, of another slice) is an error, and none is taken.
 *
 * The caller's part:
 * As for calisto_slice_read_multi, with `count` packets that it has given.
 */
int calisto_slice_write_multi(struct calisto_slice *slice,
                              struct calisto_slice_packet *packets,
                              uint32_t count);

/**
 * Closes the slice: its queues are the kernel's again, packets that were not written are lost. No
 * other thread may be in a call for it, and nothing of it may be used afterwards. Null does
 * nothing.
 *
 * The caller's part:
 * As for calisto_slice_read_multi, and as said.
 */
void calisto_slice_close(struct calisto_slice *slice);

/**
 * Lets the calling thread, which is to be the slice's own, run on the slice's CPUs only. Returns
 * 0, or a negative number.
 *
 * The caller's part:
 * `slice` came from calisto_slice_open and was not closed, or is null.
 */
int calisto_slice_pin(struct calisto_slice *slice);

/**
 * Writes the CPUs of the slice's two halves as text, such as "2-3": those of its thread to `user`,
 * and to `kernel` where the kernel works for port `port`, in words. Either may be null. Each has
 * `bytes` bytes; what has no room is cut. Returns 0, or a negative number.
 *
 * The caller's part:
 * As for calisto_slice_pin; `user` and `kernel` can be written.
 */
int calisto_slice_get_cpus(struct calisto_slice *slice,
                           uint32_t port,
                           char *user,
                           char *kernel,
                           uintptr_t bytes);

/**
 * Changes the CPUs of the slice's two halves: `user` of its thread, which calisto_slice_pin then
 * takes; `kernel` those on which the kernel works for it (interrupts, or threads for devices
 * without). Null leaves a half as it is. Returns 0, or a negative number.
 *
 * The caller's part:
 * As for calisto_slice_pin; both texts end with a zero or are null.
 */
int calisto_slice_set_cpus(struct calisto_slice *slice, const char *user, const char *kernel);

/**
 * From now on the slice takes only what `filter` wants, as tcpdump would say it; null: every
 * packet of its queues. What it does not take is the kernel's. Packets that came before may still
 * be read. Returns 0, or a negative number.
 *
 * The caller's part:
 * As for calisto_slice_pin; `filter` ends with a zero or is null.
 */
int calisto_slice_attach_filter(struct calisto_slice *slice, const char *filter);

/**
 * For a loop of the application's own: a descriptor that poll finds readable when there may be
 * something to read. Before each sleep on it call this again, and read once more with a timeout of
 * 0. From the first call on each packet costs more: without need of it, let
 * calisto_slice_read_multi wait. Do not read or close it. Returns it, or a negative number.
 *
 * The caller's part:
 * As for calisto_slice_pin.
 */
int calisto_slice_poll_fd(struct calisto_slice *slice);

/**
 * Stores counter `n` in `*counter`: of the slice itself when `port` is negative, else of that
 * port. Returns 1, or 0 when there are no more than `n`, or a negative number.
 *
 * The caller's part:
 * As for calisto_slice_pin, and `counter` can be written or is null.
 */
int calisto_slice_counter(struct calisto_slice *slice,
                          int port,
                          uint32_t n,
                          struct calisto_slice_counter *counter);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CALISTO_H */
