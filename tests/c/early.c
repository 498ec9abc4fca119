/* A socket is added to its set first, and connected, bound or told to listen then: nginx before it
   connects, asyncio before the first datagram. And a thread may sleep in the set since before. */
#include "trap.h"

enum { PORT_ECHO = 6024, PORT_UDP = 6025, PORT_NOBODY = 6026, PORT_LISTEN = 5024 };

static int set;

static void add(int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.u64 = 0xAB00000000u + (unsigned)fd};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* What the set tells of this member within a second. */
static void hears_of(const char *what, int fd) {
    struct epoll_event event = {0};
    int count = epoll_wait(set, &event, 1, 1000);
    say("%s: %d, events %x, its own: %d", what, count, count == 1 ? event.events : 0,
        count == 1 && event.data.u64 == 0xAB00000000u + (unsigned)fd);
}

/* The member can be set anew and removed. */
static void ends(int fd) {
    struct epoll_event event = {.events = EPOLLOUT};
    told("MOD", epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    told("DEL", epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    told("DEL again", epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL));
    told("close", close(fd));
}

static void connects(unsigned edge) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1;
    struct sockaddr_in name = place(address_there, PORT_ECHO), peer;
    socklen_t bytes = sizeof error, peer_bytes = sizeof peer;
    add(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | edge);
    hears_of("before connect", fd);
    told("connect", connect(fd, (struct sockaddr *)&name, sizeof name));
    hears_of("after connect", fd);
    told("SO_ERROR", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes));
    say("it is %d", error);
    told("getpeername", getpeername(fd, (struct sockaddr *)&peer, &peer_bytes));
    say("port %d", ntohs(peer.sin_port));
    told("connect", connect(fd, (struct sockaddr *)&name, sizeof name));
    told("connect", connect(fd, (struct sockaddr *)&name, sizeof name));
    put(fd, "call");
    struct epoll_event event = {.events = EPOLLIN | edge, .data.u64 = 0xAB00000000u + (unsigned)fd};
    told("MOD", epoll_ctl(set, EPOLL_CTL_MOD, fd, &event));
    hears_of("after a word", fd);
    hears("the program", fd, 4);
    ends(fd);
}

static void is_refused(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1;
    struct sockaddr_in name = place(address_there, PORT_NOBODY), peer;
    socklen_t bytes = sizeof error, peer_bytes = sizeof peer;
    add(fd, EPOLLIN | EPOLLOUT);
    told("connect", connect(fd, (struct sockaddr *)&name, sizeof name));
    hears_of("refused", fd);
    told("getpeername", getpeername(fd, (struct sockaddr *)&peer, &peer_bytes));
    told("SO_ERROR", getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes));
    say("it is %s", strerrorname_np(error));
    ends(fd);
    /* The same, told by a second call: the number is the kernel's again. */
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    add(fd, EPOLLIN | EPOLLOUT);
    told("connect", connect(fd, (struct sockaddr *)&name, sizeof name));
    hears_of("refused", fd);
    told("connect", connect(fd, (struct sockaddr *)&name, sizeof name));
    ends(fd);
}

static void datagrams(int connected, int bound) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in name = place(address_there, PORT_UDP), own = place("0.0.0.0", 0);
    char text[8] = {0};
    add(fd, EPOLLIN);
    if (bound) MUST(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    if (connected) {
        socklen_t bytes = sizeof own;
        MUST(connect(fd, (struct sockaddr *)&name, sizeof name) == 0);
        MUST(getsockname(fd, (struct sockaddr *)&own, &bytes) == 0);
        say("it sends from here: %d", own.sin_addr.s_addr == place(address_here, 0).sin_addr.s_addr);
        told("send", send(fd, "word", 4, 0));
    } else {
        told("sendto", sendto(fd, "word", 4, 0, (struct sockaddr *)&name, sizeof name));
    }
    hears_of("a datagram", fd);
    told("recv", recv(fd, text, sizeof text, 0));
    say("%s", text);
    ends(fd);
}

/* An error that ICMP has brought is told by all that wait for it. */
static void nobody_has_the_port(void) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in name = place(address_there, PORT_NOBODY);
    char text[8];
    add(fd, EPOLLIN);
    MUST(connect(fd, (struct sockaddr *)&name, sizeof name) == 0);
    told("send", send(fd, "word", 4, 0));
    say("poll: %x", ready(fd, POLLIN));
    hears_of("an error", fd);
    fd_set reading;
    FD_ZERO(&reading);
    FD_SET(fd, &reading);
    struct timeval second = {1, 0};
    told("select", select(fd + 1, &reading, NULL, NULL, &second));
    told("recv", recv(fd, text, sizeof text, 0));
    told("recv", recv(fd, text, sizeof text, 0));
    ends(fd);
}

/* Many datagrams by one call, to where only the kernel leads. */
static void many_to_loopback(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), other = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own = place("0.0.0.0", 0), name = place("127.0.0.1", 0);
    socklen_t bytes = sizeof own;
    char text[8] = {0};
    MUST(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    MUST(bind(other, (struct sockaddr *)&own, sizeof own) == 0);
    MUST(getsockname(other, (struct sockaddr *)&own, &bytes) == 0);
    name.sin_port = own.sin_port;
    struct iovec part = {"word", 4};
    struct mmsghdr all[2] = {0};
    for (int i = 0; i < 2; i++)
        all[i].msg_hdr = (struct msghdr){
            .msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &part, .msg_iovlen = 1};
    told("sendmmsg", sendmmsg(fd, all, 2, 0));
    say("%u and %u bytes", all[0].msg_len, all[1].msg_len);
    told("recv", recv(other, text, sizeof text, 0));
    told("recv", recv(other, text, sizeof text, 0));
    close(fd), close(other);
}

static void listens_late(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in name = place("0.0.0.0", PORT_LISTEN);
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    MUST(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    add(fd, EPOLLIN);
    MUST(listen(fd, 8) == 0);
    struct epoll_event event;
    while (epoll_wait(set, &event, 1, 1000) == 0) {}
    say("a caller: events %x", event.events);
    int call = accepts(fd);
    hears("the listener", call, 4);
    close(call);
    ends(fd);
}

static void *sleeps(void *fd) {
    struct epoll_event event = {0};
    int count = epoll_wait(set, &event, 1, 10000);
    say("the sleeper: %d, events %x", count, count == 1 ? event.events : 0);
    (void)fd;
    return NULL;
}

static void somebody_sleeps_already(void) {
    pthread_t thread;
    set = epoll_create1(0);
    MUST(pthread_create(&thread, NULL, sleeps, NULL) == 0);
    pause_ms(200);
    int fd = dials(address_there, PORT_ECHO);
    add(fd, EPOLLIN);
    put(fd, "call");
    MUST(pthread_join(thread, NULL) == 0);
    hears("the program", fd, 4);
    ends(fd);
}

static void here(void) {
    close(dials(address_there, PORT_ECHO));
    set = epoll_create1(0);
    MUST(set >= 0);
    connects(0);
    connects(EPOLLET);
    is_refused();
    datagrams(0, 0);
    datagrams(1, 0);
    datagrams(0, 1);
    nobody_has_the_port();
    many_to_loopback();
    listens_late();
    somebody_sleeps_already();
}

static void there(void) {
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = place("0.0.0.0", PORT_UDP), from;
    MUST(bind(udp, (struct sockaddr *)&name, sizeof name) == 0);
    pid_t answers = fork();
    if (answers == 0) {
        char text[8];
        for (int i = 0; i < 3; i++) {
            socklen_t bytes = sizeof from;
            ssize_t count = recvfrom(udp, text, sizeof text, 0, (struct sockaddr *)&from, &bytes);
            MUST(sendto(udp, text, (size_t)count, 0, (struct sockaddr *)&from, bytes) == count);
        }
        _exit(0);
    }
    pid_t echo = fork();
    if (echo == 0) {
        echoes_to(PORT_ECHO, 4);
        _exit(0);
    }
    int call = dials(address_here, PORT_LISTEN);
    put(call, "call");
    MUST(waitpid(answers, NULL, 0) == answers);
    MUST(waitpid(echo, NULL, 0) == echo);
}
