/* A listener that the daemon's rules do not allow: the call says so, and nobody listens there. */
#include "trap.h"

enum { PORT_ALLOWED = 8000, PORT_DENIED = 8001 };

static int of_port(int port) {
    struct sockaddr_in name = place("0.0.0.0", port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    return fd;
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
}

static void there(void) {}
