/* Options that change packets: each on a connection, a listener or a UDP socket of its own port, so that
   who listens to the wire can tell them apart. What they say is said too. */
#include "trap.h"
#include <netinet/in.h>

enum { EARLY = 6060, LATE, SEGMENTS, MAPPED, SIX, UDP, UDP_SIX, LISTENS = 6070, LISTENS_LATE, DONE = 6079 };

static void set(int fd, int level, int name, int value) {
    MUST(setsockopt(fd, level, name, &value, sizeof value) == 0);
}

static void is(const char *what, int fd, int level, int name) {
    int value = -7;
    socklen_t bytes = sizeof value;
    MUST(getsockopt(fd, level, name, &value, &bytes) == 0);
    say("%s is %d", what, value);
}

static struct sockaddr_in6 six(const char *address, int port) {
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    MUST(inet_pton(AF_INET6, address, &name.sin6_addr) == 1);
    return name;
}

/* There and back, so that what is set next is of later packets. */
static void round_trip(int fd, size_t bytes) {
    char text[8192];
    memset(text, 'x', sizeof text);
    MUST(send(fd, text, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
    for (size_t got = 0; got < bytes;) {
        ssize_t count = recv(fd, text, sizeof text, 0);
        MUST(count > 0);
        got += (size_t)count;
    }
}

static void reaches(int fd, int port) {
    struct sockaddr_in name = place(address_there, port);
    MUST(connect(fd, (struct sockaddr *)&name, sizeof name) == 0);
}

static void reaches_six(int fd, const char *address, int port) {
    struct sockaddr_in6 name = six(address, port);
    MUST(connect(fd, (struct sockaddr *)&name, sizeof name) == 0);
}

static void answers(int listener) {
    int fd = accepts(listener);
    is("accepted: IP_TOS", fd, IPPROTO_IP, IP_TOS);
    is("accepted: IP_TTL", fd, IPPROTO_IP, IP_TTL);
    is("accepted: TCP_MAXSEG", fd, IPPROTO_TCP, TCP_MAXSEG);
    is("accepted: SO_MAX_PACING_RATE", fd, SOL_SOCKET, SO_MAX_PACING_RATE);
    is("accepted: TCP_SYNCNT", fd, IPPROTO_TCP, TCP_SYNCNT);
    round_trip(fd, 4000);
    set(fd, IPPROTO_IP, IP_TOS, 0x48);
    set(fd, IPPROTO_IP, IP_TTL, 77);
    is("accepted: IP_TTL", fd, IPPROTO_IP, IP_TTL);
    round_trip(fd, 10);
    shutdown(fd, SHUT_WR);
    char byte;
    MUST(recv(fd, &byte, 1, 0) == 0);
    close(fd);
}

static void settings(int listener) {
    set(listener, IPPROTO_IP, IP_TOS, 0x10);
    set(listener, IPPROTO_IP, IP_TTL, 20);
    set(listener, IPPROTO_TCP, TCP_MAXSEG, 600);
    set(listener, IPPROTO_TCP, TCP_SYNCNT, 3);
    set(listener, SOL_SOCKET, SO_MAX_PACING_RATE, 50000000);
}

static void here(void) {
    char mapped[64], there6[64];
    snprintf(mapped, sizeof mapped, "::ffff:%s", address_there);
    /* Everybody listens when the last one does. */
    close(dials(address_there, DONE));
    FILE *file = fopen("there6", "r");
    MUST(file != NULL && fscanf(file, "%63s", there6) == 1);
    fclose(file);

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    set(fd, IPPROTO_IP, IP_TOS, 0xb8);
    set(fd, IPPROTO_IP, IP_TTL, 33);
    reaches(fd, EARLY);
    round_trip(fd, 10);
    is("early: IP_TOS", fd, IPPROTO_IP, IP_TOS);
    is("early: IP_TTL", fd, IPPROTO_IP, IP_TTL);
    close(fd);

    fd = socket(AF_INET, SOCK_STREAM, 0);
    reaches(fd, LATE);
    round_trip(fd, 10);
    set(fd, IPPROTO_IP, IP_TOS, 0x23);
    set(fd, IPPROTO_IP, IP_TTL, 44);
    is("late: IP_TOS", fd, IPPROTO_IP, IP_TOS);
    round_trip(fd, 10);
    set(fd, IPPROTO_IP, IP_TTL, -1);
    is("late: IP_TTL", fd, IPPROTO_IP, IP_TTL);
    set(fd, IPPROTO_IP, IP_TOS, 0);
    round_trip(fd, 10);
    close(fd);

    fd = socket(AF_INET, SOCK_STREAM, 0);
    set(fd, IPPROTO_TCP, TCP_MAXSEG, 700);
    is("before: TCP_MAXSEG", fd, IPPROTO_TCP, TCP_MAXSEG);
    reaches(fd, SEGMENTS);
    is("connected: TCP_MAXSEG", fd, IPPROTO_TCP, TCP_MAXSEG);
    round_trip(fd, 5000);
    set(fd, IPPROTO_TCP, TCP_MAXSEG, 300);
    is("set late: TCP_MAXSEG", fd, IPPROTO_TCP, TCP_MAXSEG);
    round_trip(fd, 5000);
    close(fd);

    fd = socket(AF_INET6, SOCK_STREAM, 0);
    set(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x48);
    set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9);
    set(fd, IPPROTO_IP, IP_TOS, 0x20);
    reaches_six(fd, mapped, MAPPED);
    round_trip(fd, 10);
    close(fd);

    fd = socket(AF_INET6, SOCK_STREAM, 0);
    set(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x48);
    set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9);
    reaches_six(fd, there6, SIX);
    round_trip(fd, 10);
    set(fd, IPPROTO_IPV6, IPV6_TCLASS, -1);
    set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 200);
    is("of IPv6: IPV6_TCLASS", fd, IPPROTO_IPV6, IPV6_TCLASS);
    is("of IPv6: IPV6_UNICAST_HOPS", fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS);
    round_trip(fd, 10);
    close(fd);

    fd = socket(AF_INET, SOCK_DGRAM, 0);
    set(fd, IPPROTO_IP, IP_TOS, 0x2d);
    reaches(fd, UDP);
    round_trip(fd, 10);
    set(fd, IPPROTO_IP, IP_TTL, 17);
    set(fd, IPPROTO_IP, IP_TOS, 0x02);
    is("UDP: IP_TTL", fd, IPPROTO_IP, IP_TTL);
    is("UDP: IP_TOS", fd, IPPROTO_IP, IP_TOS);
    round_trip(fd, 10);
    close(fd);

    fd = socket(AF_INET6, SOCK_DGRAM, 0);
    set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 5);
    reaches_six(fd, there6, UDP_SIX);
    round_trip(fd, 10);
    set(fd, IPPROTO_IPV6, IPV6_TCLASS, 0xfe);
    round_trip(fd, 10);
    close(fd);

    fd = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;
    struct sockaddr_in name = place("0.0.0.0", LISTENS);
    set(fd, SOL_SOCKET, SO_REUSEADDR, one);
    settings(fd);
    MUST(bind(fd, (struct sockaddr *)&name, sizeof name) == 0 && listen(fd, 5) == 0);
    answers(fd);
    close(fd);

    fd = socket(AF_INET, SOCK_STREAM, 0);
    name = place("0.0.0.0", LISTENS_LATE);
    set(fd, SOL_SOCKET, SO_REUSEADDR, one);
    MUST(bind(fd, (struct sockaddr *)&name, sizeof name) == 0 && listen(fd, 5) == 0);
    settings(fd);
    /* It may not have been told yet who calls meanwhile. */
    int gate = listens(DONE);
    close(accepts(gate));
    close(gate);
    answers(fd);
    close(fd);
}

static void *gives_back(void *argument) {
    int fd = *(int *)argument;
    struct sockaddr_storage from;
    char text[64];
    for (;;) {
        socklen_t bytes = sizeof from;
        ssize_t got = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &bytes);
        if (got < 0) return NULL;
        sendto(fd, text, (size_t)got, 0, (struct sockaddr *)&from, bytes);
    }
}

static void *echoes_all(void *argument) {
    echoes(accepts(*(int *)argument));
    return NULL;
}

static void there(void) {
    static int fds[8];
    pthread_t threads[8];
    int count = 0, one = 1;
    for (int port = EARLY; port <= UDP_SIX; port++) {
        struct sockaddr_in6 name = six("::", port);
        int is_udp = port >= UDP;
        fds[count] = socket(AF_INET6, is_udp ? SOCK_DGRAM : SOCK_STREAM, 0);
        set(fds[count], SOL_SOCKET, SO_REUSEADDR, one);
        MUST(bind(fds[count], (struct sockaddr *)&name, sizeof name) == 0);
        if (!is_udp) MUST(listen(fds[count], 5) == 0);
        MUST(pthread_create(&threads[count], NULL, is_udp ? gives_back : echoes_all, &fds[count]) == 0);
        count++;
    }
    int done = listens(DONE);
    close(accepts(done));
    echoes(dials(address_here, LISTENS));
    close(dials(address_here, DONE));
    echoes(dials(address_here, LISTENS_LATE));
}
