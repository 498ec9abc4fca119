/* A listener and datagrams that the daemon's rules do not allow: the call says so, nobody listens there
   and nothing leaves. */
#include "trap.h"

enum { PORT_ALLOWED = 8000, PORT_DENIED = 8001 };

static int of_port(int port) {
    struct sockaddr_in name = place("0.0.0.0", port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    return fd;
}

static void datagrams(void) {
    struct sockaddr_in own = place("0.0.0.0", PORT_ALLOWED), to = place(address_there, PORT_DENIED);
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1};
    int allowed = socket(AF_INET, SOCK_DGRAM, 0), denied = socket(AF_INET, SOCK_DGRAM, 0);
    int connects = socket(AF_INET, SOCK_DGRAM, 0), sends = socket(AF_INET, SOCK_DGRAM, 0);
    told("bind", bind(allowed, (struct sockaddr *)&own, sizeof own));
    own.sin_port = htons(PORT_DENIED);
    told("bind where it is not allowed", bind(denied, (struct sockaddr *)&own, sizeof own));
    told("connect", connect(connects, (struct sockaddr *)&to, sizeof to));
    for (int i = 0; i < 2; i++) {
        told("sendto", sendto(sends, "x", 1, 0, (struct sockaddr *)&to, sizeof to));
        told("sendmsg", sendmsg(sends, &message, 0));
    }
    close(allowed), close(denied), close(connects), close(sends);
}

static void here(void) {
    int allowed = of_port(PORT_ALLOWED), denied = of_port(PORT_DENIED), value = -1;
    socklen_t bytes = sizeof value;
    struct sockaddr_in name = place("127.0.0.1", PORT_DENIED);
    told("listen", listen(allowed, 5));
    told("listen where it is not allowed", listen(denied, 5));
    MUST(getsockopt(denied, SOL_SOCKET, SO_ACCEPTCONN, &value, &bytes) == 0);
    say("it listens: %d", value);
    told("connect", connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&name, sizeof name));
    told("close", close(denied));
    datagrams();
}

static void there(void) {}
