/* What the flags of sending and receiving do, and what bad lists and bad pointers get. */
#include "trap.h"
#include <limits.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

enum { PORT_ECHO = 6010 };

static void waits_for(int fd, int bytes) {
    int there = 0;
    for (int tries = 0; there < bytes && tries < 1000; tries++) {
        MUST(ioctl(fd, FIONREAD, &there) == 0);
        pause_ms(2);
    }
    say("%d bytes are there", there);
}

static void receiving(int fd) {
    char text[16] = {0};
    told("nothing there", recv(fd, text, 1, MSG_DONTWAIT));
    put(fd, "abcdef");
    waits_for(fd, 6);
    told("peek", recv(fd, text, 3, MSG_PEEK));
    say("%.3s", text);
    told("peek again", recv(fd, text, 6, MSG_PEEK));
    told("discard", recv(fd, NULL, 2, MSG_TRUNC));
    told("zero bytes", recv(fd, text, 0, 0));
    told("the rest", recv(fd, text, sizeof text, 0));
    say("%.4s", text);
    put(fd, "12345678");
    told("all of them", recv(fd, text, 8, MSG_WAITALL));
    told("errors", recv(fd, text, 1, MSG_ERRQUEUE | MSG_DONTWAIT));
    told("urgent, none", recv(fd, text, 1, MSG_OOB));
    told("a flag of nobody", recv(fd, text, 1, MSG_DONTWAIT | 0x10000000));
}

static void sending(int fd) {
    struct iovec many[IOV_MAX + 1], parts[3] = {{"ab", 2}, {NULL, 0}, {"c", 1}};
    struct msghdr message = {.msg_iov = many, .msg_iovlen = IOV_MAX + 1};
    char text[8];
    told("zero bytes", send(fd, "", 0, 0));
    told("more to come", send(fd, "a", 1, MSG_MORE));
    told("the rest", send(fd, "b", 1, 0));
    hears("caller", fd, 2);
    for (int i = 0; i <= IOV_MAX; i++) many[i] = (struct iovec){"x", 1};
    told("too many parts, writev", writev(fd, many, IOV_MAX + 1));
    told("too many parts, sendmsg", sendmsg(fd, &message, 0));
    told("no parts", writev(fd, parts, 0));
    told("parts", writev(fd, parts, 3));
    hears("caller", fd, 3);
    told("with an address", sendto(fd, "d", 1, 0, (struct sockaddr *)&(struct sockaddr_in){0}, 16));
    hears("caller", fd, 1);
    parts[0] = (struct iovec){text, 4}, parts[1] = (struct iovec){text + 4, 4};
    put(fd, "12345678");
    waits_for(fd, 8);
    told("readv", readv(fd, parts, 2));
    say("%.8s", text);
    told("pread", pread(fd, text, 1, 0));
    told("lseek", lseek(fd, 0, SEEK_SET));
}

static void pointers(int fd) {
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct msghdr *nowhere = (struct msghdr *)8;
    char *volatile bad = (char *)8;
    MUST(page != MAP_FAILED && mprotect(page + 4096, 4096, PROT_NONE) == 0);
    told("write from nowhere", write(fd, bad, 5));
    told("sendmsg of nowhere", sendmsg(fd, nowhere, 0));
    int pair[2];
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    told("sendmsg of nowhere, by a plain socket", sendmsg(pair[0], nowhere, 0));
    told("recvmsg to nowhere, by a plain socket", recvmsg(pair[1], nowhere, MSG_DONTWAIT));
    close(pair[0]), close(pair[1]);
    put(fd, "abcdefgh");
    waits_for(fd, 8);
    told("read to nowhere", read(fd, bad, 8));
    told("recvmsg to nowhere", recvmsg(fd, nowhere, MSG_DONTWAIT));
    waits_for(fd, 8);
    struct iovec parts[2] = {{page + 4092, 4}, {bad, 4}};
    /* All or nothing, or what there was room for: Linux leaves it open. */
    MUST(readv(fd, parts, 2) <= 4);
    say("%.4s", page + 4092);
    MUST(recv(fd, page, 8, MSG_DONTWAIT) >= -1);
    told("getsockname to nowhere", getsockname(fd, (struct sockaddr *)bad, (socklen_t *)page));
    told("setsockopt from nowhere", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, bad, 4));
    told("epoll_wait to nowhere", epoll_wait(epoll_create1(0), (struct epoll_event *)bad, 1, 0));
}

static void here(void) {
    int fd = dials(address_there, PORT_ECHO);
    receiving(fd);
    sending(fd);
    pointers(fd);
    close(fd);
}

static void there(void) { echoes_to(PORT_ECHO, 1); }
