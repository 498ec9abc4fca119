/* What stands beside the bytes of a datagram that is sent: its class, its source, the length of its
   segments. The peer says what it has seen. */
#include "trap.h"
#include <netinet/in.h>
#include <netinet/udp.h>

enum { PORT_UDP = 6050, DATAGRAMS = 7 };

/* Sends `text` with one number beside it. */
static void sends(int fd, const char *text, int level, int kind, const void *value, size_t bytes) {
    char beside[CMSG_SPACE(sizeof(struct in_pktinfo))] = {0};
    struct iovec part = {(void *)text, strlen(text)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = beside, .msg_controllen = CMSG_SPACE(bytes)};
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    *first = (struct cmsghdr){.cmsg_len = CMSG_LEN(bytes), .cmsg_level = level, .cmsg_type = kind};
    memcpy(CMSG_DATA(first), value, bytes);
    told(text, sendmsg(fd, &message, 0));
}

static void hears_datagrams(int fd, int count) {
    for (int i = 0; i < count; i++) {
        char text[64] = {0};
        MUST(ready(fd, POLLIN) == POLLIN);
        MUST(recv(fd, text, sizeof text - 1, 0) > 0);
        say("the peer saw %s", text);
    }
}

static void here(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), class = 2, nonsense = 1;
    struct sockaddr_in peer = place(address_there, PORT_UDP);
    MUST(connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0);
    MUST(send(fd, "plain", 5, 0) == 5);
    hears_datagrams(fd, 1);
    sends(fd, "class", IPPROTO_IP, IP_TOS, &class, sizeof class);
    hears_datagrams(fd, 1);
    unsigned short segment = 3;
    sends(fd, "onetwo345", IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment);
    hears_datagrams(fd, 3);
    struct in_pktinfo source = {0};
    MUST(inet_pton(AF_INET, address_here, &source.ipi_spec_dst) == 1);
    sends(fd, "source", IPPROTO_IP, IP_PKTINFO, &source, sizeof source);
    hears_datagrams(fd, 1);
    sends(fd, "nonsense", IPPROTO_IP, 200, &nonsense, sizeof nonsense);
    MUST(send(fd, "again", 5, 0) == 5);
    hears_datagrams(fd, 1);
    close(fd);
}

static void there(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    struct sockaddr_in name = place("0.0.0.0", PORT_UDP), from;
    MUST(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof one) == 0);
    MUST(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    for (int i = 0; i < DATAGRAMS; i++) {
        char text[32] = {0}, beside[64], answer[64];
        struct iovec part = {text, sizeof text - 1};
        struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1,
                                 .msg_control = beside, .msg_controllen = sizeof beside};
        MUST(recvmsg(fd, &message, 0) >= 0);
        struct cmsghdr *first = CMSG_FIRSTHDR(&message);
        MUST(first != NULL);
        int bytes = snprintf(answer, sizeof answer, "%s of class %d", text, *CMSG_DATA(first));
        MUST(sendto(fd, answer, (size_t)bytes, 0, (struct sockaddr *)&from, message.msg_namelen) == bytes);
    }
}
