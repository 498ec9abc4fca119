/* UDP: sockets that were bound, connected, or neither before their first datagram; long ones, which are
   cut on their way; and what is told of each. */
#include "trap.h"
#include <sys/sendfile.h>

enum { PORT_ECHO = 6019, PORT_HERE = 5019, CALLS = 16 };

static int udp(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    MUST(fd >= 0);
    return fd;
}

static void hears_back(const char *who, int fd, size_t room) {
    static char text[65536];
    struct sockaddr_in from;
    socklen_t bytes = sizeof from;
    MUST(ready(fd, POLLIN) == POLLIN);
    ssize_t got = recvfrom(fd, text, room, MSG_TRUNC, (struct sockaddr *)&from, &bytes);
    say("%s hears %zd bytes from port %d, beginning with %c", who, got, ntohs(from.sin_port), text[0]);
}

static void has_port(const char *who, int fd) {
    struct sockaddr_in name;
    socklen_t bytes = sizeof name;
    MUST(getsockname(fd, (struct sockaddr *)&name, &bytes) == 0);
    say("%s has a port: %d, an address: %d", who, name.sin_port != 0, name.sin_addr.s_addr != 0);
}

static void neither(void) {
    struct sockaddr_in to = place(address_there, PORT_ECHO);
    int fd = udp();
    has_port("nobody", fd);
    told("send to nobody", send(fd, "a", 1, 0));
    told("sendto", sendto(fd, "abc", 3, 0, (struct sockaddr *)&to, sizeof to));
    has_port("sendto", fd);
    hears_back("sendto", fd, 8);
    told("nothing more", recv(fd, (char[1]){0}, 1, MSG_DONTWAIT));
    close(fd);

    fd = udp();
    struct iovec part = {"defg", 4};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1};
    told("sendmsg", sendmsg(fd, &message, 0));
    hears_back("sendmsg", fd, 2);
    close(fd);

    fd = udp();
    struct mmsghdr two[2] = {{.msg_hdr = message}, {.msg_hdr = message}};
    told("sendmmsg", sendmmsg(fd, two, 2, 0));
    hears_back("sendmmsg", fd, 8);
    hears_back("sendmmsg", fd, 8);
    close(fd);

    fd = udp();
    told("a bad address", sendto(fd, "h", 1, 0, (struct sockaddr *)8, sizeof to));
    told("a bad buffer", sendto(fd, (void *)8, 1, 0, (struct sockaddr *)&to, sizeof to));
    told("an empty one", sendto(fd, "", 0, 0, (struct sockaddr *)&to, sizeof to));
    MUST(ready(fd, POLLIN) == POLLIN);
    told("an empty one comes back", recv(fd, (char[1]){0}, 1, 0));
    close(fd);
}

static void connected(void) {
    struct sockaddr_in to = place(address_there, PORT_ECHO);
    int fd = udp();
    MUST(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    has_port("connected", fd);
    told("send", send(fd, "ijklm", 5, 0));
    hears_back("connected", fd, 8);
    told("write", write(fd, "no", 2));
    hears_back("connected", fd, 8);
    close(fd);
}

static void bound(void) {
    static char text[60000];
    struct sockaddr_in to = place(address_there, PORT_ECHO), own = place("0.0.0.0", PORT_HERE);
    int fd = udp();
    MUST(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    memset(text, 'p', sizeof text);
    size_t lengths[] = {1400, 1472, 1473, 4000, 60000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        told("a long one", sendto(fd, text, lengths[i], 0, (struct sockaddr *)&to, sizeof to));
        hears_back("bound", fd, sizeof text);
    }
    told("too long a one", sendto(fd, text, 65508, 0, (struct sockaddr *)&to, sizeof to));
    told("sendto", sendto(fd, "qr", 2, 0, (struct sockaddr *)&to, sizeof to));
    MUST(ready(fd, POLLIN) == POLLIN);
    told("peek", recv(fd, text, 1, MSG_PEEK | MSG_TRUNC));
    told("cut", recv(fd, text, 1, 0));
    told("and no more", recv(fd, text, 1, MSG_DONTWAIT));
    close(fd);
}

/* A file or a pipe goes as one datagram, or not at all. */
static void of_files(void) {
    static char text[70000];
    struct sockaddr_in to = place(address_there, PORT_ECHO);
    int fd = udp(), ends[2];
    char name[] = "/tmp/calisto-trap-XXXXXX";
    int from = mkstemp(name);
    off_t at = 1000;
    memset(text, 's', sizeof text);
    MUST(from >= 0 && unlink(name) == 0 && write(from, text, sizeof text) == sizeof text);
    MUST(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    told("sendfile", sendfile(fd, from, &at, 700));
    say("the place is %ld", (long)at);
    hears_back("sendfile", fd, sizeof text);
    MUST(lseek(from, -900, SEEK_END) > 0);
    told("sendfile of the rest", sendfile(fd, from, NULL, 5000));
    say("the file's own place is %ld", (long)lseek(from, 0, SEEK_CUR));
    hears_back("sendfile", fd, sizeof text);
    told("sendfile behind the end", sendfile(fd, from, NULL, 5000));
    at = 0;
    told("sendfile of too much", sendfile(fd, from, &at, sizeof text));
    say("the place is %ld", (long)at);
    told("nothing more", recv(fd, text, 1, MSG_DONTWAIT));
    MUST(pipe(ends) == 0 && write(ends[1], "through a pipe", 14) == 14);
    told("sendfile of a pipe", sendfile(fd, ends[0], NULL, 14));
    told("splice of a pipe", splice(ends[0], NULL, fd, NULL, 100, 0));
    hears_back("splice", fd, sizeof text);
    close(ends[0]), close(ends[1]), close(from), close(fd);
}

static void here(void) {
    /* Whoever answers calls has its port: a datagram that nobody waits for would be lost. */
    close(dials(address_there, PORT_ECHO));
    neither();
    connected();
    bound();
    of_files();
}

static void there(void) {
    static char text[65536];
    struct sockaddr_in own = place("0.0.0.0", PORT_ECHO), from;
    int fd = udp();
    MUST(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    close(accepts(listens(PORT_ECHO)));
    for (int i = 0; i < CALLS; i++) {
        socklen_t bytes = sizeof from;
        ssize_t got = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &bytes);
        MUST(got >= 0 && sendto(fd, text, (size_t)got, 0, (struct sockaddr *)&from, bytes) == got);
    }
}
