/* What ICMP says of datagrams: who hears it, when, and the queue of errors (IP_RECVERR, IPV6_RECVERR). */
#include "trap.h"

#include <linux/errqueue.h>

enum { PORT_ECHO = 6029, PORT_CLOSED = 6030, PORT_HERE = 5029 };

/* The peer's address of IPv6 ends as that of IPv4 does. */
static const char *six_there(void) {
    static char text[64];
    snprintf(text, sizeof text, "fd77::%s", strrchr(address_there, '.') + 1);
    return text;
}

static struct sockaddr_storage at(int family, const char *address, int port) {
    struct sockaddr_storage name = {0};
    if (family == AF_INET) {
        struct sockaddr_in four = place(address, port);
        memcpy(&name, &four, sizeof four);
        return name;
    }
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    MUST(inet_pton(AF_INET6, address, &six.sin6_addr) == 1);
    memcpy(&name, &six, sizeof six);
    return name;
}

static socklen_t bytes_of(const struct sockaddr_storage *name) {
    return name->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static const char *named(const struct sockaddr *name, int with_port) {
    static char texts[4][80], text[64];
    static int next;
    char *line = texts[next++ % 4];
    unsigned port = 0;
    if (name->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)name;
        inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
        port = ntohs(four->sin_port);
    } else if (name->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)name;
        inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
        port = ntohs(six->sin6_port);
    } else {
        return "nobody";
    }
    snprintf(line, sizeof texts[0], with_port ? "%s port %u" : "%s", text, port);
    return line;
}

/* One entry of the queue of errors. */
static void queued(const char *who, int fd) {
    char text[64] = {0};
    union { char bytes[512]; struct cmsghdr align; } beside;
    struct sockaddr_storage name = {0};
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = &beside, .msg_controllen = sizeof beside};
    ssize_t got = recvmsg(fd, &message, MSG_ERRQUEUE);
    if (got < 0) {
        told(who, got);
        return;
    }
    say("%s: %zd bytes (%s) to %s, flags %x", who, got, text, named((struct sockaddr *)&name, 1),
        (unsigned)message.msg_flags);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
        struct sock_extended_err error;
        if ((one->cmsg_level != IPPROTO_IP || one->cmsg_type != IP_RECVERR) &&
            (one->cmsg_level != IPPROTO_IPV6 || one->cmsg_type != IPV6_RECVERR)) {
            say("%s: beside it, %d %d", who, one->cmsg_level, one->cmsg_type);
            continue;
        }
        memcpy(&error, CMSG_DATA(one), sizeof error);
        struct sockaddr_storage by = {0};
        memcpy(&by, CMSG_DATA(one) + sizeof error, one->cmsg_len - CMSG_LEN(sizeof error));
        say("%s: level %d, %s, origin %d, type %d, code %d, info %u, data %u, by %s", who, one->cmsg_level,
            strerrorname_np((int)error.ee_errno), error.ee_origin, error.ee_type, error.ee_code, error.ee_info,
            error.ee_data, named((struct sockaddr *)&by, 0));
    }
}

static int udp(int family, int wants_queue) {
    int fd = socket(family, SOCK_DGRAM, 0), one = 1;
    MUST(fd >= 0);
    if (wants_queue) {
        MUST(setsockopt(fd, IPPROTO_IP, IP_RECVERR, &one, sizeof one) == 0);
        MUST(family == AF_INET || setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &one, sizeof one) == 0);
    }
    return fd;
}

static void sends(int fd, const char *text, const struct sockaddr_storage *to) {
    told("sendto", sendto(fd, text, strlen(text), 0, (const struct sockaddr *)to, bytes_of(to)));
}

/* What waits, and how it is told. */
static void alone(int family, const char *address) {
    struct sockaddr_storage closed = at(family, address, PORT_CLOSED), echo = at(family, address, PORT_ECHO);
    int fd = udp(family, 1), set = epoll_create1(0);
    char text[64] = {0};
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    MUST(set >= 0);
    sends(fd, "to nobody", &closed);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    MUST(epoll_wait(set, &event, 1, 5000) == 1);
    say("the set: %x, poll: %x", event.events & ~(unsigned)EPOLLOUT, (unsigned)ready(fd, POLLIN));
    told("recv", recv(fd, text, sizeof text, MSG_DONTWAIT));
    told("recv again", recv(fd, text, sizeof text, MSG_DONTWAIT));
    say("poll: %x", (unsigned)ready(fd, POLLIN));
    queued("queue", fd);
    queued("queue again", fd);
    struct pollfd one = {.fd = fd, .events = POLLIN};
    told("nothing is left", poll(&one, 1, 0));
    /* An error comes before a datagram that came before it. */
    sends(fd, "first", &echo);
    MUST(ready(fd, POLLIN) == POLLIN);
    sends(fd, "second", &closed);
    while (!(ready(fd, POLLIN) & POLLERR)) {}
    told("recv with an error", recv(fd, text, sizeof text, MSG_DONTWAIT));
    told("recv behind it", recv(fd, text, sizeof text, MSG_DONTWAIT));
    queued("queue", fd);
    /* A call that sends tells it, too, and sends nothing. */
    sends(fd, "third", &closed);
    MUST(ready(fd, 0) == POLLERR);
    sends(fd, "fourth", &echo);
    sends(fd, "fifth", &echo);
    /* The queue has something until it is read. */
    while (!(ready(fd, POLLIN) & POLLIN)) {}
    ssize_t got = recv(fd, text, sizeof text, 0);
    say("%.*s is what comes back", (int)(got > 0 ? got : 0), text);
    int error = 0;
    socklen_t bytes = sizeof error;
    queued("queue", fd);
    /* Two errors: what is taken from the queue leaves the next one to be told. */
    sends(fd, "sixth", &closed);
    MUST(ready(fd, 0) == POLLERR);
    MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0);
    say("SO_ERROR: %s", error ? strerrorname_np(error) : "none");
    sends(fd, "seventh", &closed);
    for (;;) {
        /* Until both are there. */
        MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0);
        if (error) break;
        pause_ms(1);
    }
    queued("queue", fd);
    told("recv between two", recv(fd, text, sizeof text, MSG_DONTWAIT));
    queued("queue", fd);
    told("recv at the end", recv(fd, text, sizeof text, MSG_DONTWAIT));
    told("recv of the queue", recv(fd, text, sizeof text, MSG_ERRQUEUE | MSG_DONTWAIT));
    told("recvfrom of the queue", recvfrom(fd, text, sizeof text, MSG_ERRQUEUE, NULL, NULL));
    struct mmsghdr many[1] = {{.msg_hdr = {0}}};
    told("recvmmsg of the queue", recvmmsg(fd, many, 1, MSG_ERRQUEUE, NULL));
    close(set);
    close(fd);
}

static void connected(int family, const char *address) {
    struct sockaddr_storage closed = at(family, address, PORT_CLOSED);
    int fd = udp(family, 1);
    char text[64] = {0};
    MUST(connect(fd, (struct sockaddr *)&closed, bytes_of(&closed)) == 0);
    told("send", send(fd, "alone", 5, 0));
    told("recv that waits", recv(fd, text, sizeof text, 0));
    queued("queue", fd);
    told("send", send(fd, "once", 4, 0));
    MUST(ready(fd, 0) == POLLERR);
    told("send with an error", send(fd, "more", 4, 0));
    queued("queue", fd);
    queued("queue again", fd);
    close(fd);
    /* Without a queue: told once, to whom it is connected. */
    fd = udp(family, 0);
    MUST(connect(fd, (struct sockaddr *)&closed, bytes_of(&closed)) == 0);
    told("send", send(fd, "alone", 5, 0));
    told("recv that waits", recv(fd, text, sizeof text, 0));
    queued("no queue", fd);
    close(fd);
}

/* Asked for when it is served already, and given up. */
static void late(int family, const char *address) {
    struct sockaddr_storage closed = at(family, address, PORT_CLOSED), echo = at(family, address, PORT_ECHO);
    struct sockaddr_storage own = at(family, family == AF_INET ? "0.0.0.0" : "::", PORT_HERE);
    int fd = udp(family, 0), one = 1, none = 0;
    char text[64] = {0};
    MUST(bind(fd, (struct sockaddr *)&own, bytes_of(&own)) == 0);
    sends(fd, "unheard", &closed);
    sends(fd, "echo", &echo);
    told("an echo", recv(fd, text, sizeof text, 0));
    int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
    int name = family == AF_INET ? IP_RECVERR : IPV6_RECVERR;
    told("set", setsockopt(fd, level, name, &one, sizeof one));
    sends(fd, "heard", &closed);
    told("recv that waits", recv(fd, text, sizeof text, 0));
    queued("queue", fd);
    told("unset", setsockopt(fd, level, name, &none, sizeof none));
    sends(fd, "unheard again", &closed);
    sends(fd, "echo again", &echo);
    told("an echo", recv(fd, text, sizeof text, 0));
    queued("queue", fd);
    close(fd);
}

static void here(void) {
    close(dials(address_there, PORT_ECHO));
    alone(AF_INET, address_there);
    alone(AF_INET6, six_there());
    connected(AF_INET, address_there);
    connected(AF_INET6, six_there());
    late(AF_INET, address_there);
    late(AF_INET6, six_there());
    close(dials(address_there, PORT_ECHO));
}

/* Gives datagrams back until the second caller comes. */
static void there(void) {
    struct sockaddr_storage own = at(AF_INET6, "::", PORT_ECHO), from;
    int fd = udp(AF_INET6, 0), listener = listens(PORT_ECHO);
    MUST(bind(fd, (struct sockaddr *)&own, bytes_of(&own)) == 0);
    close(accepts(listener));
    for (;;) {
        char text[256];
        socklen_t bytes = sizeof from;
        struct pollfd two[2] = {{.fd = fd, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
        MUST(poll(two, 2, -1) > 0);
        if (two[1].revents) break;
        ssize_t got = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &bytes);
        MUST(got >= 0 && sendto(fd, text, (size_t)got, 0, (struct sockaddr *)&from, bytes) == got);
    }
    close(accepts(listener));
}
