/* Options that only the kernel carries out: a socket that is given one before it is connected, listens
   or has a port, keeps what it was promised. */
#include "trap.h"
#include <netinet/in.h>

enum { PORT_ECHO = 6027, PORT_LISTEN = 5027, PORT_UDP = 5028 };

static void talks(const char *what, int fd) {
    struct sockaddr_in name = place(address_there, PORT_ECHO);
    MUST(connect(fd, (struct sockaddr *)&name, sizeof name) == 0);
    put(fd, "word");
    hears(what, fd, 4);
}

static void promised(const char *what, int level, int name) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, value = 0;
    socklen_t bytes = sizeof value;
    told(what, setsockopt(fd, level, name, &one, sizeof one));
    talks(what, fd);
    told(what, getsockopt(fd, level, name, &value, &bytes));
    say("it is %d", value);
    close(fd);
}

static void here(void) {
    int one = 1, zero = 0;
    close(dials(address_there, PORT_ECHO));
    promised("SO_MARK", SOL_SOCKET, SO_MARK);
    promised("IP_MINTTL", IPPROTO_IP, IP_MINTTL);
    promised("TCP_LINGER2", IPPROTO_TCP, TCP_LINGER2);
    promised("SO_TIMESTAMPING", SOL_SOCKET, SO_TIMESTAMPING);
    /* A duplicate is the same socket. */
    int first = socket(AF_INET, SOCK_STREAM, 0);
    MUST(setsockopt(first, SOL_SOCKET, SO_MARK, &one, sizeof one) == 0);
    int second = dup(first);
    talks("the duplicate", second);
    put(first, "word");
    hears("the first", first, 4);
    close(first), close(second);
    /* What has a half of the kernel's goes back there. */
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = place("0.0.0.0", PORT_UDP), peer = place(address_there, PORT_UDP);
    MUST(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    told("SO_MARK late", setsockopt(fd, SOL_SOCKET, SO_MARK, &one, sizeof one));
    MUST(sendto(fd, "word", 4, 0, (struct sockaddr *)&peer, sizeof peer) == 4);
    hears("the UDP socket", fd, 4);
    close(fd);
    /* Switched off, it is nothing. */
    fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(setsockopt(fd, SOL_SOCKET, SO_MARK, &zero, sizeof zero) == 0);
    talks("without a mark", fd);
    close(fd);
}

static void there(void) {
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = place("0.0.0.0", PORT_UDP), from;
    MUST(bind(udp, (struct sockaddr *)&name, sizeof name) == 0);
    pid_t echo = fork();
    if (echo == 0) {
        echoes_to(PORT_ECHO, 7);
        _exit(0);
    }
    char text[8];
    socklen_t bytes = sizeof from;
    MUST(recvfrom(udp, text, sizeof text, 0, (struct sockaddr *)&from, &bytes) == 4);
    MUST(sendto(udp, text, 4, 0, (struct sockaddr *)&from, bytes) == 4);
    MUST(waitpid(echo, NULL, 0) == echo);
}
