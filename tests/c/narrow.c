/* A link behind a router takes shorter packets than the interface: what the router says of datagrams, to
   sockets that let themselves be cut, that do not, and that probe. */
#include "trap.h"

#include <linux/errqueue.h>
#include <net/if.h>

enum { PORT_ECHO = 6031, PORT_FAR = 9, WHOLE = 1400, NARROW = 1280 };

static struct sockaddr_storage far_away(int family, int host) {
    struct sockaddr_storage name = {0};
    char text[64];
    snprintf(text, sizeof text, family == AF_INET ? "10.99.0.%d" : "fd99::%d", host);
    if (family == AF_INET) {
        struct sockaddr_in four = place(text, PORT_FAR);
        memcpy(&name, &four, sizeof four);
        return name;
    }
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(PORT_FAR)};
    MUST(inet_pton(AF_INET6, text, &six.sin6_addr) == 1);
    memcpy(&name, &six, sizeof six);
    return name;
}

static int family, headers;
static char payload[2000];

static int udp(int discovers, int wants_queue) {
    int fd = socket(family, SOCK_DGRAM, 0), one = 1;
    int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
    MUST(fd >= 0);
    MUST(setsockopt(fd, level, family == AF_INET ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discovers, sizeof discovers) ==
         0);
    if (wants_queue) MUST(setsockopt(fd, level, family == AF_INET ? IP_RECVERR : IPV6_RECVERR, &one, sizeof one) == 0);
    return fd;
}

static void sends(const char *who, int fd, int bytes, int host) {
    struct sockaddr_storage to = far_away(family, host);
    socklen_t name_bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    char call[128];
    snprintf(call, sizeof call, "%s sends %d bytes to %d", who, bytes, host);
    told(call, sendto(fd, payload, (size_t)bytes, 0, (struct sockaddr *)&to, name_bytes));
}

static void queued(const char *who, int fd) {
    union { char bytes[512]; struct cmsghdr align; } beside;
    struct msghdr message = {.msg_control = &beside, .msg_controllen = sizeof beside};
    if (recvmsg(fd, &message, MSG_ERRQUEUE) < 0) {
        told(who, -1);
        return;
    }
    struct sock_extended_err error;
    memcpy(&error, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof error);
    say("%s: %s, origin %d, type %d, code %d, info %u", who, strerrorname_np((int)error.ee_errno), error.ee_origin,
        error.ee_type, error.ee_code, error.ee_info);
}

static void mtu_of(const char *who, int fd) {
    int mtu = 0;
    socklen_t bytes = sizeof mtu;
    int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, name = family == AF_INET ? IP_MTU : IPV6_MTU;
    if (getsockopt(fd, level, name, &mtu, &bytes) == 0) say("%s: %d", who, mtu);
    else told(who, -1);
}

static void of_family(int which) {
    char text[16];
    family = which;
    headers = family == AF_INET ? 28 : 48;
    /* Connected and not to be cut: the router's word is an error, once, and then the call's own. */
    int fd = udp(IP_PMTUDISC_DO, 0);
    struct sockaddr_storage to = far_away(family, 9);
    MUST(connect(fd, (struct sockaddr *)&to, family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) == 0);
    mtu_of("the path before", fd);
    told("connected, send", send(fd, payload, WHOLE, 0));
    told("connected, recv that waits", recv(fd, text, sizeof text, 0));
    /* The kernel hears of it a moment later. What has left till then is answered as well, however late. */
    for (int tries = 0; tries < 500 && send(fd, payload, WHOLE, 0) > 0; tries++) {
        while (!(ready(fd, POLLIN) & POLLERR)) {}
        recv(fd, text, sizeof text, MSG_DONTWAIT);
    }
    mtu_of("the path", fd);
    told("connected, send too long a one", send(fd, payload, WHOLE, 0));
    told("connected, send one more", send(fd, payload, (size_t)(NARROW - headers + 1), 0));
    told("connected, send what fits", send(fd, payload, (size_t)(NARROW - headers), 0));
    close(fd);
    /* Others know it as well, of this host alone. */
    fd = udp(IP_PMTUDISC_DO, 1);
    mtu_of("of nobody", fd);
    sends("who is not to be cut", fd, WHOLE, 9);
    queued("its queue", fd);
    sends("who is not to be cut", fd, NARROW - headers, 9);
    sends("who is not to be cut", fd, WHOLE, 10);
    while (ready(fd, 0) != POLLERR) {}
    told("recv", recv(fd, text, sizeof text, MSG_DONTWAIT));
    queued("its queue", fd);
    sends("who is not to be cut", fd, WHOLE, 10);
    queued("its queue", fd);
    close(fd);
    /* Who is to be cut is cut here. */
    fd = udp(IP_PMTUDISC_WANT, 0);
    sends("who is cut", fd, WHOLE, 9);
    sends("who is cut", fd, WHOLE, 10);
    sends("who is cut", fd, NARROW - headers, 10);
    close(fd);
    /* Who probes sends as much as its interface takes, whatever is known. */
    fd = udp(IP_PMTUDISC_PROBE, 1);
    sends("who probes", fd, WHOLE, 9);
    while (ready(fd, 0) != POLLERR) {}
    queued("its queue", fd);
    sends("who probes", fd, 1600, 9);
    queued("its queue", fd);
    close(fd);
}

static void here(void) {
    close(dials(address_there, PORT_ECHO));
    of_family(AF_INET);
    of_family(AF_INET6);
}

static void there(void) {
    int listener = listens(PORT_ECHO);
    close(accepts(listener));
    close(listener);
}
