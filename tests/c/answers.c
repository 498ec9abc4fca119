/* A UDP server that waits for each datagram and gives it back, until it is told to end. */
#include "trap.h"

enum { PORT_HERE = 5015 };

static void here(void) {
    struct sockaddr_in own = place("0.0.0.0", PORT_HERE), from;
    char text[64];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    say("ready");
    for (;;) {
        socklen_t bytes = sizeof from;
        ssize_t got = recvfrom(fd, text, sizeof text, 0, (struct sockaddr *)&from, &bytes);
        MUST(got >= 0 && sendto(fd, text, (size_t)got, 0, (struct sockaddr *)&from, bytes) == got);
        if (got == 3 && memcmp(text, "end", 3) == 0) return;
    }
}

static void there(void) {}
