/* A program that closes every descriptor, as daemons do at their start, and goes on: nothing of what the
   sockets need was its own to close. */
#include "trap.h"

enum { PORT_ECHO = 6018 };

static void here(void) {
    int out = fcntl(1, F_DUPFD, 700), fd;
    for (int round = 0; round < 3; round++) {
        fd = dials(address_there, PORT_ECHO);
        put(fd, "hello");
        hears("caller", fd, 5);
        int left = dials(address_there, PORT_ECHO);
        /* One that is left open is ended with the others. */
        if (round == 0) for (int other = 3; other < 700; other++) close(other);
        if (round == 1) MUST(close_range(3, 699, 0) == 0);
        if (round == 2) MUST(close_range(3, 699, 0) == 0 && close_range(701, ~0U, 0) == 0);
        told("write", send(left, "x", 1, MSG_NOSIGNAL));
        fd = dials(address_there, PORT_ECHO);
        put(fd, "again");
        hears("caller", fd, 5);
        close(fd);
    }
    MUST(dup2(out, 1) == 1);
    say("that was all");
}

static void there(void) { echoes_to(PORT_ECHO, 9); }
