/* What the programs of the traps share. Each is started twice: `PROGRAM there HERE THERE` on Linux at
   the other end, which plays the peer, and `PROGRAM here HERE THERE`, once on Linux and once on
   Calisto, which prints what it sees. HERE and THERE are IPv4 addresses. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *address_here, *address_there, *self;

/* What the program under test does, and what its peer does meanwhile. */
static void here(void);
static void there(void);

/* A line of what is seen. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char line[512];
    va_list words;
    va_start(words, format);
    int bytes = vsnprintf(line, sizeof line - 1, format, words);
    va_end(words);
    line[bytes++] = '\n';
    if (write(1, line, (size_t)bytes) != bytes) _exit(3);
}

/* A call and its result, with the name of its error. */
static long told(const char *call, long result) {
    int error = errno;
    if (result < 0) say("%s: %s", call, strerrorname_np(error));
    else say("%s: %ld", call, result);
    errno = error;
    return result;
}

/* What must be true for the rest to make sense. */
static void must_hold(int holds, int line, const char *what) {
    if (holds) return;
    dprintf(2, "line %d: %s (%s)\n", line, what, strerror(errno));
    _exit(1);
}
#define MUST(condition) must_hold(condition, __LINE__, #condition)

static void pause_ms(long count) {
    struct timespec time = {count / 1000, count % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0) {}
}

static struct sockaddr_in place(const char *address, int port) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    MUST(inet_pton(AF_INET, address, &name.sin_addr) == 1);
    return name;
}

/* A listener on all addresses. */
static int listens(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in name = place("0.0.0.0", port);
    MUST(fd >= 0);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    MUST(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    MUST(listen(fd, 128) == 0);
    return fd;
}

static int accepts(int listener) {
    int fd = accept(listener, NULL, NULL);
    MUST(fd >= 0);
    return fd;
}

/* Connects as soon as somebody listens. */
static int dials(const char *address, int port) {
    struct sockaddr_in name = place(address, port);
    for (int tries = 0; tries < 2000; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        MUST(fd >= 0);
        if (connect(fd, (struct sockaddr *)&name, sizeof name) == 0) return fd;
        MUST(errno == ECONNREFUSED);
        MUST(close(fd) == 0);
        pause_ms(5);
    }
    MUST(!"somebody listens");
    return -1;
}

static void put(int fd, const char *text) {
    size_t bytes = strlen(text);
    MUST(send(fd, text, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
}

/* Reads exactly this many bytes and says them. */
static void hears(const char *who, int fd, size_t bytes) {
    char text[256] = {0};
    size_t got = 0;
    while (got < bytes) {
        ssize_t count = read(fd, text + got, bytes - got);
        if (count <= 0) {
            told(who, count);
            return;
        }
        got += (size_t)count;
    }
    say("%s hears %s", who, text);
}

/* The peer: gives everything back until the end, then ends too. */
static void echoes(int fd) {
    char text[65536];
    ssize_t bytes;
    while ((bytes = read(fd, text, sizeof text)) > 0) {
        for (ssize_t done = 0; done < bytes;) {
            ssize_t count = send(fd, text + done, (size_t)(bytes - done), MSG_NOSIGNAL);
            if (count < 0) break;
            done += count;
        }
    }
    close(fd);
}

/* The peer: `count` connections to echo, at once. */
static void echoes_to(int port, int count) {
    int listener = listens(port);
    for (int i = 0; i < count; i++) {
        int fd = accepts(listener);
        pid_t child = fork();
        MUST(child >= 0);
        if (child == 0) {
            close(listener);
            echoes(fd);
            _exit(0);
        }
        close(fd);
    }
    close(listener);
    while (wait(NULL) > 0) {}
}

/* What poll(2) says within a second. */
static int ready(int fd, short events) {
    struct pollfd one = {.fd = fd, .events = events};
    MUST(poll(&one, 1, 1000) >= 0);
    return one.revents;
}

static void ended(const char *who, pid_t child) {
    int status = 0;
    MUST(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) say("%s ends with %d", who, WEXITSTATUS(status));
    else say("%s is ended by signal %d", who, WTERMSIG(status));
}

int main(int count, char **words) {
    if (count < 4) return 2;
    self = words[0];
    address_here = words[2];
    address_there = words[3];
    (void)told; (void)hears; (void)echoes_to; (void)ready; (void)ended; (void)put; (void)dials;
    if (strcmp(words[1], "here") == 0) here();
    else if (strcmp(words[1], "there") == 0) there();
    else return 2;
    return 0;
}
