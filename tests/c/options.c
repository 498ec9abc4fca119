/* Options: what is set is told, what is not says what Linux says, an accepted connection has its
   listener's; lingering for no time is a reset. */
#include "trap.h"
#include <sys/ioctl.h>

enum { PORT_ECHO = 6013, PORT_LISTEN = 5013, PORT_RESET = 6113, PORT_LATE = 6213, PORT_READY = 6313 };

static const struct { const char *name; int level, option, value; } numbers[] = {
    {"SO_TYPE", SOL_SOCKET, SO_TYPE, -1}, {"SO_DOMAIN", SOL_SOCKET, SO_DOMAIN, -1},
    {"SO_PROTOCOL", SOL_SOCKET, SO_PROTOCOL, -1}, {"SO_ACCEPTCONN", SOL_SOCKET, SO_ACCEPTCONN, -1},
    {"SO_ERROR", SOL_SOCKET, SO_ERROR, -1}, {"SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1},
    {"SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1}, {"SO_REUSEPORT", SOL_SOCKET, SO_REUSEPORT, 1},
    {"SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1}, {"SO_RCVLOWAT", SOL_SOCKET, SO_RCVLOWAT, 1},
    {"SO_SNDBUF", SOL_SOCKET, SO_SNDBUF, 50000}, {"SO_RCVBUF", SOL_SOCKET, SO_RCVBUF, 60000},
    {"SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 3}, {"SO_MARK", SOL_SOCKET, SO_MARK, -1},
    {"TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1}, {"TCP_CORK", IPPROTO_TCP, TCP_CORK, 1},
    {"TCP_CORK", IPPROTO_TCP, TCP_CORK, 0}, {"TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 61},
    {"TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 11}, {"TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 5},
    {"TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 30000},
    {"TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384}, {"IP_TOS", IPPROTO_IP, IP_TOS, 0x10},
    {"IP_TTL", IPPROTO_IP, IP_TTL, 33}, {"of nobody", IPPROTO_TCP, 250, 1}, {"of no level", 77, 1, 1},
};

static void values(int fd) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int value = numbers[i].value;
        socklen_t bytes = sizeof value;
        say("%s", numbers[i].name);
        if (value != -1)
            told("  set", setsockopt(fd, numbers[i].level, numbers[i].option, &value, sizeof value));
        if (told("  get", getsockopt(fd, numbers[i].level, numbers[i].option, &value, &bytes)) == 0)
            say("  %d, %d bytes", value, (int)bytes);
    }
}

static void texts(int fd) {
    char name[16] = {0};
    socklen_t bytes = sizeof name;
    told("cubic", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5));
    told("TCP_CONGESTION", getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes));
    say("%s, %d bytes", name, (int)bytes);
    told("an unknown one", setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "none-such", 9));
    struct tcp_info info = {0};
    bytes = sizeof info;
    told("TCP_INFO", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes));
    say("established: %d, a window: %d, a round trip: %d", info.tcpi_state == TCP_ESTABLISHED,
        info.tcpi_snd_cwnd > 0, info.tcpi_rtt > 0);
    bytes = 8;
    told("a short TCP_INFO", getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes));
    say("%d bytes", (int)bytes);
    int one = 1;
    told("a short value", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, 2));
    struct timeval time = {3, 500000};
    bytes = sizeof time;
    told("SO_RCVTIMEO", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    memset(&time, 0, sizeof time);
    told("SO_RCVTIMEO", getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, &bytes));
    say("%ld.%06ld", (long)time.tv_sec, (long)time.tv_usec);
    int queued = -1;
    told("FIONREAD", ioctl(fd, FIONREAD, &queued));
    say("%d", queued);
    told("an ioctl of nobody", ioctl(fd, 0x5499, &queued));
}

static void inherited(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, idle = 77, value;
    struct sockaddr_in name = place("0.0.0.0", PORT_LISTEN);
    socklen_t bytes = sizeof value;
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    MUST(setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0);
    MUST(setsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) == 0);
    MUST(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    MUST(fcntl(listener, F_SETFL, O_NONBLOCK) == 0 && fcntl(listener, F_SETFD, FD_CLOEXEC) == 0);
    MUST(bind(listener, (struct sockaddr *)&name, sizeof name) == 0 && listen(listener, 5) == 0);
    close(dials(address_there, PORT_READY));
    MUST(ready(listener, POLLIN) == POLLIN);
    int fd = accepts(listener);
    say("flags %x, %x", fcntl(fd, F_GETFL) & O_NONBLOCK, fcntl(fd, F_GETFD));
    MUST(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &bytes) == 0);
    say("SO_KEEPALIVE %d", value);
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &bytes) == 0);
    say("TCP_KEEPIDLE %d", value);
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes) == 0);
    say("TCP_NODELAY %d", value);
    close(fd);
    MUST(ready(listener, POLLIN) == POLLIN);
    fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    say("flags %x, %x", fcntl(fd, F_GETFL) & O_NONBLOCK, fcntl(fd, F_GETFD));
    close(fd);
    told("nobody calls", accept(listener, NULL, NULL));
    close(listener);
}

static void resets(void) {
    struct linger none = {1, 0};
    int fd = dials(address_there, PORT_RESET), watch = dials(address_there, PORT_RESET);
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    close(fd);
    hears("watcher", watch, 10);
    close(watch);
}

/* Sends more than the peer takes before it reads. */
static int fills(int seconds) {
    static char text[65536];
    struct linger linger = {1, seconds};
    int fd = dials(address_there, PORT_LATE);
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    size_t left = 8 * sizeof text;
    while (left > 0 && poll(&one, 1, 200) > 0) {
        ssize_t count = send(fd, text, left < sizeof text ? left : sizeof text, MSG_DONTWAIT);
        if (count > 0) left -= (size_t)count;
    }
    return fd;
}

static volatile int was_told;

static void *tells(void *watch) {
    pause_ms(100);
    was_told = 1;
    put(*(int *)watch, "read");
    return NULL;
}

/* close() waits until the peer has all, or for as long as it may. */
static void lingers(void) {
    int first = fills(60), second = fills(1), watch = dials(address_there, PORT_LATE);
    pthread_t thread;
    told("close of what nobody reads", close(second));
    MUST(pthread_create(&thread, NULL, tells, &watch) == 0);
    told("close of what is read late", close(first));
    say("it was read before: %d", was_told);
    MUST(pthread_join(thread, NULL) == 0);
    hears("watcher", watch, 3);
    close(watch);
}

static void here(void) {
    int fd = dials(address_there, PORT_ECHO);
    values(fd);
    put(fd, "round");
    hears("caller", fd, 5);
    texts(fd);
    close(fd);
    inherited();
    resets();
    lingers();
}

static void there(void) {
    char byte, text[4096];
    int late = socket(AF_INET, SOCK_STREAM, 0), room = 16384;
    struct sockaddr_in name = place("0.0.0.0", PORT_LATE);
    MUST(setsockopt(late, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0);
    MUST(bind(late, (struct sockaddr *)&name, sizeof name) == 0 && listen(late, 5) == 0);
    pid_t echo = fork();
    if (echo == 0) {
        echoes_to(PORT_ECHO, 1);
        _exit(0);
    }
    int listener = listens(PORT_RESET);
    /* Who calls while the other end begins to listen may be its kernel's. */
    close(accepts(listens(PORT_READY)));
    for (int i = 0; i < 2; i++) {
        int fd = dials(address_here, PORT_LISTEN);
        MUST(read(fd, &byte, 1) == 0);
        close(fd);
    }
    int first = accepts(listener), second = accepts(listener);
    long count = read(first, &byte, 1);
    put(second, count < 0 && errno == ECONNRESET ? "ECONNRESET" : "no reset, ");
    MUST(read(second, &byte, 1) == 0);
    first = accepts(late), second = accepts(late);
    int watch = accepts(late);
    MUST(recv(watch, text, 4, MSG_WAITALL) == 4);
    while (read(first, text, sizeof text) > 0) {}
    put(watch, "all");
    MUST(read(watch, &byte, 1) == 0);
    MUST(waitpid(echo, NULL, 0) == echo);
}
