/* Connecting without waiting, its errors, once each; a second time; from a bound port. */
#include "trap.h"
#include <sys/ioctl.h>

enum { PORT_ECHO = 6008, PORT_NONE = 6108 };

static int error_of(int fd) {
    int error = -1;
    socklen_t bytes = sizeof error;
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0);
    return error;
}

static void says_error(const char *when, int fd) {
    int error = error_of(fd);
    say("%s: %s", when, error == 0 ? "no error" : strerrorname_np(error));
}

static int connects(int fd, const char *address, int port) {
    struct sockaddr_in name = place(address, port);
    return connect(fd, (struct sockaddr *)&name, sizeof name);
}

static void without_waiting(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in name;
    socklen_t bytes = sizeof name;
    told("getpeername before", getpeername(fd, (struct sockaddr *)&name, &bytes));
    told("connect", connects(fd, address_there, PORT_ECHO));
    say("it is ready: %x", ready(fd, POLLOUT));
    says_error("SO_ERROR", fd);
    told("connect again", connects(fd, address_there, PORT_ECHO));
    told("connect once more", connects(fd, address_there, PORT_ECHO));
    told("getpeername", getpeername(fd, (struct sockaddr *)&name, &bytes));
    say("port %d", ntohs(name.sin_port));
    MUST(fcntl(fd, F_SETFL, 0) == 0);
    put(fd, "now");
    hears("caller", fd, 3);
    close(fd);
}

static void refused(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
    told("connect", connects(fd, address_there, PORT_NONE));
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    MUST(epoll_wait(set, &event, 1, 5000) == 1);
    say("event %x", event.events);
    says_error("SO_ERROR", fd);
    says_error("SO_ERROR again", fd);
    told("write", send(fd, "x", 1, MSG_NOSIGNAL));
    told("read", recv(fd, &event, 1, 0));
    close(set), close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    told("connect, waiting", connects(fd, address_there, PORT_NONE));
    says_error("SO_ERROR is read by connect", fd);
    told("the same descriptor to another port", connects(fd, address_there, PORT_ECHO));
    put(fd, "then");
    hears("caller", fd, 4);
    close(fd);
}

static void unreachable(void) {
    /* An address of the wire's network that nobody has: no answer to who has it. */
    struct sockaddr_in name = place(address_there, PORT_ECHO);
    name.sin_addr.s_addr = htonl((ntohl(name.sin_addr.s_addr) & 0xffffff00U) | 99);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    told("connect to nobody", connect(fd, (struct sockaddr *)&name, sizeof name));
    close(fd);
}

static void limits_its_wait(void) {
    struct timeval time = {0, 100000};
    struct sockaddr_in name = place(address_there, PORT_ECHO);
    name.sin_addr.s_addr = htonl((ntohl(name.sin_addr.s_addr) & 0xffffff00U) | 98);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
    told("connect with a limit", connect(fd, (struct sockaddr *)&name, sizeof name));
    close(fd);
}

static void bound(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in own = place("0.0.0.0", 7008), name;
    socklen_t bytes = sizeof name;
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    told("bind", bind(fd, (struct sockaddr *)&own, sizeof own));
    told("connect from there", connects(fd, address_there, PORT_ECHO));
    MUST(getsockname(fd, (struct sockaddr *)&name, &bytes) == 0);
    say("its own port is %d, its address %s", ntohs(name.sin_port), inet_ntoa(name.sin_addr));
    told("the port is taken", bind(other, (struct sockaddr *)&own, sizeof own));
    put(fd, "bound");
    hears("caller", fd, 5);
    close(fd), close(other);
}

static void here(void) {
    close(dials(address_there, PORT_ECHO));
    without_waiting();
    refused();
    unreachable();
    limits_its_wait();
    bound();
}

static void there(void) { echoes_to(PORT_ECHO, 4); }
