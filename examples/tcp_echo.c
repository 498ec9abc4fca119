/* TCP echo over libcalisto: sockets with blocking calls, a thread for each connection.
 *
 *   cc -std=c99 -I crates/programs/capi/include examples/tcp_echo.c -L target/release -lcalisto -lpthread -o tcp_echo
 *   LD_LIBRARY_PATH=target/release ./tcp_echo 0.0.0.0:7
 *
 * CALISTO_APPS names the daemon's socket, if it is not the usual one.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>

#include "calisto.h"

#define BYTES 16384

/* Sends all of it. Returns 0, or an error. */
static int write_all(const struct calisto_stream *stream, const char *bytes, size_t count)
{
    size_t done = 0;
    while (done < count) {
        int some = calisto_tcp_write(stream, bytes + done, count - done);
        if (some < 0)
            return some;
        done += (size_t)some;
    }
    return 0;
}

static void *serve(void *argument)
{
    struct calisto_stream *stream = argument;
    char bytes[BYTES];
    int count;
    while ((count = calisto_tcp_read(stream, bytes, sizeof bytes)) > 0) {
        count = write_all(stream, bytes, (size_t)count);
        if (count < 0)
            break;
    }
    if (count < 0)
        fprintf(stderr, "a connection has ended: %s\n", calisto_error(NULL));
    calisto_tcp_close(stream);
    return NULL;
}

static int fail(const char *doing)
{
    fprintf(stderr, "cannot %s: %s\n", doing, calisto_error(NULL));
    return 1;
}

int main(int argc, char **argv)
{
    struct calisto_session *session;
    struct calisto_listener *listener;
    struct calisto_stream *stream;
    char address[64];

    if (argc != 2) {
        fprintf(stderr, "usage: %s ADDRESS:PORT, such as 0.0.0.0:7\n", argv[0]);
        return 2;
    }
    if (calisto_session_open(NULL, "tcp-echo", &session) < 0)
        return fail("attach");
    if (calisto_tcp_listen(session, argv[1], &listener) < 0)
        return fail("listen");
    if (calisto_tcp_listener_address(listener, address, sizeof address) < 0)
        return fail("tell where it listens");
    printf("listens on %s\n", address);
    fflush(stdout);
    while (calisto_tcp_accept(listener, &stream) == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, stream) != 0) {
            calisto_tcp_close(stream);
            continue;
        }
        pthread_detach(thread);
    }
    return fail("accept");
}
