/* Every number of every level that a TCP or UDP socket may be given, whether there is such an option or
   not: set and read on sockets of each kind, before and after they are connected, listen or have a port,
   and whether they still talk. */
#include "trap.h"
#include <netinet/in.h>
#include <netinet/udp.h>

enum { PORT_ECHO = 6040, PORT_UDP = 6041, PORT_LISTEN = 6042, PORT_OWN = 6043 };

static const struct { const char *name; int level, most; } levels[] = {
    {"SOL_SOCKET", SOL_SOCKET, 100}, {"IPPROTO_IP", IPPROTO_IP, 110}, {"IPPROTO_IPV6", IPPROTO_IPV6, 90},
    {"IPPROTO_TCP", IPPROTO_TCP, 60}, {"IPPROTO_UDP", IPPROTO_UDP, 110},
};

/* With these a socket says nothing any more, or says it at one byte a second. */
static int is_mute(int level, int name) {
    return (level == IPPROTO_TCP && name == TCP_REPAIR) || (level == SOL_SOCKET && (name == SO_MAX_PACING_RATE || name == SO_BINDTOIFINDEX))
        || (level == IPPROTO_UDP && (name == UDP_CORK || name == UDP_ENCAP))
        || (level == IPPROTO_IPV6 && name == IPV6_V6ONLY);
}

static struct sockaddr_in6 mapped(int port) {
    char text[64];
    snprintf(text, sizeof text, "::ffff:%s", address_there);
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    MUST(inet_pton(AF_INET6, text, &name.sin6_addr) == 1);
    return name;
}

/* IPPROTO_IPV6 is for sockets of IPv6, which talk to the same peer. */
static int opens(int level, int type) {
    int fd = socket(level == IPPROTO_IPV6 ? AF_INET6 : AF_INET, type, 0);
    MUST(fd >= 0);
    return fd;
}

static int reaches(int fd, int level, int port) {
    struct sockaddr_in name = place(address_there, port);
    struct sockaddr_in6 six = mapped(port);
    return level == IPPROTO_IPV6 ? connect(fd, (struct sockaddr *)&six, sizeof six)
                                 : connect(fd, (struct sockaddr *)&name, sizeof name);
}

static void gets_a_port(int fd, int level, int port) {
    struct sockaddr_in name = place("0.0.0.0", port);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    int one = 1;
    MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    MUST((level == IPPROTO_IPV6 ? bind(fd, (struct sockaddr *)&six, sizeof six)
                                : bind(fd, (struct sockaddr *)&name, sizeof name)) == 0);
}

/* What setsockopt(2) and getsockopt(2) say, in words without a blank. */
static int says(char *to, size_t room, int fd, int level, int name) {
    /* One is the number of the interface of loopback, which leads nowhere. */
    int is_interface = (level == SOL_SOCKET && name == SO_BINDTOIFINDEX) || (level == IPPROTO_IP && name == IP_UNICAST_IF)
        || (level == IPPROTO_IPV6 && name == IPV6_UNICAST_IF);
    int one = is_interface ? 9999 : 1;
    unsigned char value[512] = {0};
    socklen_t bytes = sizeof value;
    int set = setsockopt(fd, level, name, &one, sizeof one);
    int count = snprintf(to, room, "set:%s", set == 0 ? "0" : strerrorname_np(errno));
    int get = getsockopt(fd, level, name, value, &bytes);
    count += snprintf(to + count, room - (size_t)count, " get:%s", get == 0 ? "0" : strerrorname_np(errno));
    /* Only what was chosen is the same everywhere. */
    int is_where = level == SOL_SOCKET && name == SO_INCOMING_CPU;
    if (set == 0 && get == 0 && bytes == sizeof one && !is_where)
        snprintf(to + count, room - (size_t)count, " is:%d", *(int *)value);
    return set == 0;
}

static const char *talks(int fd, int level, int name) {
    static char text[16];
    if (is_mute(level, name)) return "unasked";
    memset(text, 0, sizeof text);
    if (send(fd, "word", 4, MSG_NOSIGNAL) != 4) return strerrorname_np(errno);
    if (ready(fd, POLLIN) == 0) return "silent";
    ssize_t got = recv(fd, text, sizeof text - 1, 0);
    return got < 0 ? strerrorname_np(errno) : text;
}

static void here(void) {
    close(dials(address_there, PORT_ECHO));
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        int level = levels[i].level;
        for (int name = 1; name <= levels[i].most; name++) {
            char said[160];
            int fd = opens(level, SOCK_STREAM);
            says(said, sizeof said, fd, level, name);
            const char *end = reaches(fd, level, PORT_ECHO) == 0 ? talks(fd, level, name) : strerrorname_np(errno);
            say("%s %d tcp early %s talks:%s", levels[i].name, name, said, end);
            close(fd);

            fd = opens(level, SOCK_STREAM);
            MUST(reaches(fd, level, PORT_ECHO) == 0);
            says(said, sizeof said, fd, level, name);
            say("%s %d tcp late %s talks:%s", levels[i].name, name, said, talks(fd, level, name));
            close(fd);

            fd = opens(level, SOCK_STREAM);
            gets_a_port(fd, level, PORT_LISTEN);
            MUST(listen(fd, 4) == 0);
            says(said, sizeof said, fd, level, name);
            say("%s %d tcp listener %s", levels[i].name, name, said);
            close(fd);

            fd = opens(level, SOCK_DGRAM);
            says(said, sizeof said, fd, level, name);
            end = reaches(fd, level, PORT_UDP) == 0 ? talks(fd, level, name) : strerrorname_np(errno);
            say("%s %d udp early %s talks:%s", levels[i].name, name, said, end);
            close(fd);

            fd = opens(level, SOCK_DGRAM);
            gets_a_port(fd, level, PORT_OWN);
            MUST(reaches(fd, level, PORT_UDP) == 0);
            says(said, sizeof said, fd, level, name);
            say("%s %d udp late %s talks:%s", levels[i].name, name, said, talks(fd, level, name));
            close(fd);
        }
    }
    /* The peer's end. */
    int fd = dials(address_there, PORT_ECHO);
    put(fd, "end");
    hears("the peer", fd, 3);
    close(fd);
}

static void there(void) {
    int listener = listens(PORT_ECHO), udp = socket(AF_INET, SOCK_DGRAM, 0), last = -1;
    struct sockaddr_in name = place("0.0.0.0", PORT_UDP), from;
    MUST(bind(udp, (struct sockaddr *)&name, sizeof name) == 0);
    struct pollfd fds[64] = {{.fd = listener, .events = POLLIN}, {.fd = udp, .events = POLLIN}};
    nfds_t open = 2;
    /* A connection in repair (TCP_REPAIR) is closed without a word: it stays until the end. */
    for (;;) {
        MUST(poll(fds, open, -1) > 0);
        char text[64];
        if (fds[1].revents & POLLIN) {
            socklen_t bytes = sizeof from;
            ssize_t got = recvfrom(udp, text, sizeof text, 0, (struct sockaddr *)&from, &bytes);
            if (got >= 0) sendto(udp, text, (size_t)got, 0, (struct sockaddr *)&from, bytes);
        }
        for (nfds_t i = open; i-- > 2;) {
            if (fds[i].revents == 0) continue;
            ssize_t got = recv(fds[i].fd, text, sizeof text, 0);
            if (got > 0 && send(fds[i].fd, text, (size_t)got, MSG_NOSIGNAL) == got) {
                if (got == 3 && memcmp(text, "end", 3) == 0) last = fds[i].fd;
                continue;
            }
            if (fds[i].fd == last) return;
            close(fds[i].fd);
            fds[i] = fds[--open];
        }
        if (fds[0].revents & POLLIN && open < 64) {
            fds[open++] = (struct pollfd){.fd = accepts(listener), .events = POLLIN};
            fds[open - 1].revents = 0;
        }
    }
}
