/* Both ends on this host: what a socket answers about its buffers, its options, its peer's end, and
   calls that are out of order. */
#include "trap.h"
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { PORT_LISTEN = 5041, PORT_GONE = 5042, PORT_DONE = 6041 };

static int calls(int listener, int *accepted) {
    int fd = dials(address_here, PORT_LISTEN);
    *accepted = accepts(listener);
    return fd;
}

static void set(int fd, int level, int name, int value) {
    MUST(setsockopt(fd, level, name, &value, sizeof value) == 0);
}

static void nonblocking(int fd) {
    MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
}

/* A small send buffer is full soon, a large one late. */
static void buffers(int listener) {
    int accepted, fd = calls(listener, &accepted), value;
    socklen_t bytes = sizeof value;
    static char much[1 << 20];
    set(fd, SOL_SOCKET, SO_SNDBUF, 8192);
    MUST(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &bytes) == 0);
    say("send buffer %d", value);
    nonblocking(fd);
    set(accepted, SOL_SOCKET, SO_RCVBUF, 8192);
    long whole = 0, count;
    while ((count = send(fd, much, sizeof much, 0)) > 0)
        whole += count;
    say("less than 200000 bytes: %d", whole < 200000);
    told("send", count);
    MUST(ioctl(accepted, FIONREAD, &value) == 0);
    say("some are there: %d", value > 0);
    close(fd), close(accepted);
    /* The writer's alone counts too. */
    fd = calls(listener, &accepted);
    set(fd, SOL_SOCKET, SO_SNDBUF, 8192);
    nonblocking(fd);
    for (whole = 0; (count = send(fd, much, sizeof much, 0)) > 0;)
        whole += count;
    say("less than 250000 bytes: %d", whole < 250000);
    close(fd), close(accepted);
    /* And what it tells of itself is about what it takes. */
    fd = calls(listener, &accepted);
    MUST(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &bytes) == 0);
    char *more = calloc(3, (size_t)value);
    MUST(more != NULL);
    count = send(fd, more, 3 * (size_t)value, MSG_DONTWAIT);
    say("some of three times as much: %d", count > value / 2 && count < 3L * value);
    free(more);
    close(fd), close(accepted);
}

static void info(int listener) {
    int accepted, fd = calls(listener, &accepted);
    struct tcp_info about;
    socklen_t bytes = sizeof about;
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &about, &bytes) == 0);
    say("state %d", about.tcpi_state);
    say("segments of a size: %d %d", about.tcpi_snd_mss > 500, about.tcpi_rcv_mss > 500);
    say("window: %d, rtt: %d", about.tcpi_snd_cwnd > 0, about.tcpi_rtt > 0);
    close(accepted);
    pause_ms(30);
    bytes = sizeof about;
    MUST(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &about, &bytes) == 0);
    say("state after the peer's end %d", about.tcpi_state);
    bytes = sizeof about;
    MUST(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &about, &bytes) == 0);
    say("listener: state %d, backlog %d", about.tcpi_state, about.tcpi_sacked);
    close(fd);
}

static void ends(int listener) {
    int accepted, fd = calls(listener, &accepted);
    char text[4];
    MUST(shutdown(fd, SHUT_WR) == 0);
    told("write of nothing", send(fd, text, 0, MSG_NOSIGNAL));
    told("write", send(fd, text, 1, MSG_NOSIGNAL));
    told("recv of nothing", recv(fd, text, 0, MSG_DONTWAIT));
    told("recv of nothing at an end", recv(accepted, text, 0, MSG_DONTWAIT));
    told("peek of nothing", recv(fd, text, 0, MSG_PEEK | MSG_DONTWAIT));
    told("shutdown", shutdown(fd, SHUT_RD));
    told("shutdown again", shutdown(fd, SHUT_RDWR));
    close(accepted);
    pause_ms(20);
    told("shutdown after both ends", shutdown(fd, SHUT_WR));
    told("recv", recv(fd, text, 1, MSG_DONTWAIT));
    struct sockaddr_in name;
    socklen_t bytes = sizeof name;
    told("getpeername", getpeername(fd, (struct sockaddr *)&name, &bytes));
    close(fd);
    /* Written to after the peer has closed. */
    fd = calls(listener, &accepted);
    close(accepted);
    pause_ms(20);
    told("write to an end", send(fd, "x", 1, MSG_NOSIGNAL));
    pause_ms(20);
    say("poll %x", ready(fd, POLLIN | POLLOUT | POLLRDHUP));
    told("write again", send(fd, "x", 1, MSG_NOSIGNAL));
    told("recv", recv(fd, text, 1, MSG_DONTWAIT));
    told("write once more", send(fd, "x", 1, MSG_NOSIGNAL));
    close(fd);
    /* Closed with bytes unread. */
    fd = calls(listener, &accepted);
    put(fd, "unread");
    pause_ms(20);
    close(accepted);
    pause_ms(20);
    say("poll %x", ready(fd, POLLIN | POLLOUT | POLLRDHUP));
    told("write", send(fd, "x", 1, MSG_NOSIGNAL));
    told("recv", recv(fd, text, 1, MSG_DONTWAIT));
    told("write again", send(fd, "x", 1, MSG_NOSIGNAL));
    bytes = sizeof name;
    told("getpeername", getpeername(fd, (struct sockaddr *)&name, &bytes));
    close(fd);
}

/* A negative time limit is over at once, as Linux counts it: none. */
static void limits(int listener) {
    int accepted, fd = calls(listener, &accepted);
    struct timeval negative = {-1, 0}, got = {7, 7};
    socklen_t bytes = sizeof got;
    char text[4];
    told("negative limit", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &negative, sizeof negative));
    MUST(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &bytes) == 0);
    say("it is %ld %ld", (long)got.tv_sec, (long)got.tv_usec);
    told("recv", recv(fd, text, 1, 0));
    struct timeval strange = {0, 1000000};
    told("strange limit", setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &strange, sizeof strange));
    close(fd), close(accepted);
}

static void inq(int listener) {
    int accepted, fd = calls(listener, &accepted), one = 1;
    char text[4], room[64] = {0};
    struct iovec part = {text, 2};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room,
                             .msg_controllen = sizeof room};
    told("TCP_INQ", setsockopt(accepted, IPPROTO_TCP, 36, &one, sizeof one));
    put(fd, "abcdef");
    pause_ms(20);
    told("recvmsg", recvmsg(accepted, &message, 0));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    say("control: %d", header != NULL);
    if (header != NULL)
        say("%d %d %d", header->cmsg_level, header->cmsg_type, *(int *)CMSG_DATA(header));
    close(fd), close(accepted);
}

static void told_error(int fd) {
    int error;
    socklen_t bytes = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0);
    say("error %s", error == 0 ? "none" : strerrorname_np(error));
}

/* A socket that has been shut before it is connected, and one while it is connecting. */
static void early(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[4];
    told("shutdown", shutdown(fd, SHUT_RDWR));
    told("recv", recv(fd, text, 1, MSG_DONTWAIT));
    told("send", send(fd, text, 1, MSG_NOSIGNAL));
    say("poll %x", ready(fd, POLLIN | POLLOUT | POLLRDHUP));
    close(fd);
    struct sockaddr_in nobody = place("10.77.0.99", 80);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    told("connect", connect(fd, (struct sockaddr *)&nobody, sizeof nobody));
    told("shutdown", shutdown(fd, SHUT_WR));
    say("poll %x", ready(fd, POLLOUT));
    told_error(fd);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    told("connect", connect(fd, (struct sockaddr *)&nobody, sizeof nobody));
    told("shutdown", shutdown(fd, SHUT_RDWR));
    say("poll %x", ready(fd, POLLOUT));
    told_error(fd);
    close(fd);
}

static void datagrams(void) {
    int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = place(address_here, PORT_LISTEN);
    char text[8] = {0};
    MUST(bind(to, (struct sockaddr *)&name, sizeof name) == 0);
    MUST(connect(from, (struct sockaddr *)&name, sizeof name) == 0);
    told("more", send(from, "ab", 2, MSG_MORE));
    pause_ms(20);
    say("poll %x", ready(to, POLLIN));
    told("send", send(from, "cd", 2, 0));
    pause_ms(20);
    told("recv", recv(to, text, sizeof text, MSG_DONTWAIT));
    say("%s", text);
    told("urgent", send(from, "x", 1, MSG_OOB));
    told("urgent recv", recv(to, text, 1, MSG_OOB | MSG_DONTWAIT));
    close(from), close(to);
}

static void bad_select(void) {
    told("select", syscall(SYS_select, 4, (void *)8, NULL, NULL, NULL));
    told("poll", syscall(SYS_poll, (void *)8, 1, 0));
}

/* A port that nobody listens at any more. */
static void gone(void) {
    struct sockaddr_in name = place(address_here, PORT_GONE);
    int refused = 0;
    for (int round = 0; round < 20; round++) {
        int listener = listens(PORT_GONE);
        close(dials(address_here, PORT_GONE));
        close(listener);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        refused += connect(fd, (struct sockaddr *)&name, sizeof name) < 0 && errno == ECONNREFUSED;
        close(fd);
    }
    say("refused: %d", refused);
}

/* One pair of addresses and ports is one connection at a time. */
static void twice(int listener) {
    struct sockaddr_in own = place(address_here, 5999), name = place(address_here, PORT_LISTEN);
    int fds[2], accepted;
    for (int at = 0; at < 2; at++) {
        fds[at] = socket(AF_INET, SOCK_STREAM, 0);
        set(fds[at], SOL_SOCKET, SO_REUSEADDR, 1);
        told("bind", bind(fds[at], (struct sockaddr *)&own, sizeof own));
        told("connect", connect(fds[at], (struct sockaddr *)&name, sizeof name));
    }
    accepted = accepts(listener);
    close(fds[0]), close(fds[1]), close(accepted);
}

static volatile int signals_seen, urgent_seen;

static void on_io(int signal) {
    (void)signal;
    signals_seen++;
}

static void on_urgent(int signal) {
    (void)signal;
    urgent_seen++;
}

static void by_signal(int listener) {
    int accepted, fd = calls(listener, &accepted);
    signal(SIGIO, on_io), signal(SIGURG, on_urgent);
    told("owner", fcntl(accepted, F_SETOWN, getpid()));
    say("owner is me: %d", fcntl(accepted, F_GETOWN) == getpid());
    told("async", fcntl(accepted, F_SETFL, fcntl(accepted, F_GETFL) | O_ASYNC));
    say("async: %d", (fcntl(accepted, F_GETFL) & O_ASYNC) != 0);
    put(fd, "x");
    for (int i = 0; i < 1000 && signals_seen == 0; i++) pause_ms(5);
    say("SIGIO: %d", signals_seen > 0);
    told("urgent", send(fd, "!", 1, MSG_OOB));
    for (int i = 0; i < 1000 && urgent_seen == 0; i++) pause_ms(5);
    say("SIGURG: %d", urgent_seen > 0);
    signal(SIGIO, SIG_IGN), signal(SIGURG, SIG_IGN);
    close(fd), close(accepted);
}

static void here(void) {
    int listener = listens(PORT_LISTEN);
    say("-- buffers"), buffers(listener);
    say("-- info"), info(listener);
    say("-- ends"), ends(listener);
    say("-- limits"), limits(listener);
    say("-- inq"), inq(listener);
    say("-- early"), early();
    say("-- datagrams"), datagrams();
    say("-- bad select"), bad_select();
    say("-- gone"), gone();
    say("-- twice"), twice(listener);
    say("-- by signal"), by_signal(listener);
    close(listener);
    close(dials(address_there, PORT_DONE));
}

static void there(void) {
    close(accepts(listens(PORT_DONE)));
}
