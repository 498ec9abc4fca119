/* A new program in the same process: it goes on with what was left open for it, a listener with callers
   in its queue as well, and what is close-on-exec is gone. */
#include "trap.h"

enum { PORT_ECHO = 6005, PORT_LISTEN = 5005 };

/* The descriptors are in the environment, as a server that upgrades itself passes them on. */
static void after(const char *text) {
    int fd, listener, gone;
    MUST(sscanf(text, "%d %d %d", &fd, &listener, &gone) == 3);
    told("the one to be closed", fcntl(gone, F_GETFD));
    hears("the new program", fd, 6);
    put(fd, "after");
    hears("the new program", fd, 5);
    int accepting = 0;
    socklen_t bytes = sizeof accepting;
    told("SO_ACCEPTCONN", getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &bytes));
    say("it listens: %d", accepting);
    for (int i = 0; i < 3; i++) {
        int call = accepts(listener);
        hears("the new program", call, 4);
        put(call, "answer");
        close(call);
    }
    close(listener);
    told("close", close(fd));
}

static void here(void) {
    const char *text = getenv("TRAP_DESCRIPTORS");
    char descriptors[64], *words[] = {(char *)self, "here", (char *)address_here,
                                      (char *)address_there, NULL};
    if (text != NULL) {
        after(text);
        return;
    }
    int fd = dials(address_there, PORT_ECHO), listener = listens(PORT_LISTEN);
    int gone = dials(address_there, PORT_ECHO);
    MUST(fcntl(gone, F_SETFD, FD_CLOEXEC) == 0);
    put(fd, "before");
    /* The callers are there before the new program is. */
    MUST(ready(listener, POLLIN) == POLLIN);
    int first = accepts(listener);
    hears("the old program", first, 4);
    close(first);
    snprintf(descriptors, sizeof descriptors, "%d %d %d", fd, listener, gone);
    MUST(setenv("TRAP_DESCRIPTORS", descriptors, 1) == 0);
    execv(self, words);
    MUST(!"the new program starts");
}

static void there(void) {
    pid_t echo = fork();
    int calls[4];
    char text[8];
    if (echo == 0) {
        echoes_to(PORT_ECHO, 2);
        _exit(0);
    }
    for (int i = 0; i < 4; i++) {
        calls[i] = dials(address_here, PORT_LISTEN);
        put(calls[i], "call");
    }
    int answers = 0;
    for (int i = 0; i < 4; i++) answers += recv(calls[i], text, 6, MSG_WAITALL) == 6;
    MUST(answers == 3);
    MUST(waitpid(echo, NULL, 0) == echo);
}
