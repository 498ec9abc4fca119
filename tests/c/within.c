/* Both ends on this host: resets are told from ends, and at once, and urgent data go there too. */
#include "trap.h"

enum { PORT_LISTEN = 5029, PORT_GONE = 5030, PORT_DONE = 6029 };

static int calls(int listener, int *accepted) {
    int fd = dials(address_here, PORT_LISTEN);
    *accepted = accepts(listener);
    return fd;
}

static void urgent(int listener, int inlined) {
    int accepted, fd = calls(listener, &accepted), one = inlined;
    char text[16] = {0};
    MUST(setsockopt(accepted, SOL_SOCKET, SO_OOBINLINE, &one, sizeof one) == 0);
    told("nothing urgent", recv(accepted, text, 1, MSG_OOB));
    put(fd, "ab");
    told("send", send(fd, "!", 1, MSG_OOB));
    put(fd, "cd");
    say("poll: %x", ready(accepted, POLLIN | POLLPRI));
    told("sockatmark", sockatmark(accepted));
    told("recv", recv(accepted, text, sizeof text - 1, 0));
    say("%s", text);
    told("sockatmark", sockatmark(accepted));
    memset(text, 0, sizeof text);
    told("urgent", recv(accepted, text, 1, MSG_OOB));
    say("%s", text);
    memset(text, 0, sizeof text);
    told("recv", recv(accepted, text, sizeof text - 1, 0));
    say("%s", text);
    close(fd), close(accepted);
}

/* Bytes that came before a reset are read; then it is told, once. */
static void resets(int listener, int by_caller) {
    int accepted, fd = calls(listener, &accepted);
    int from = by_caller ? fd : accepted, to = by_caller ? accepted : fd;
    struct linger now = {1, 0};
    char text[8] = {0};
    put(from, "word");
    MUST(setsockopt(from, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    close(from);
    say("poll: %x", ready(to, POLLIN | POLLRDHUP));
    told("recv", recv(to, text, sizeof text, 0));
    told("recv", recv(to, text, sizeof text, 0));
    told("recv", recv(to, text, sizeof text, 0));
    told("send", send(to, "x", 1, MSG_NOSIGNAL));
    close(to);
}

/* Callers that nobody has accepted have heard when the call returns that ends their listener. */
static void gone(int by_shutdown) {
    int resets = 0, times = 30;
    for (int i = 0; i < times; i++) {
        int listener = listens(PORT_GONE), fd = dials(address_here, PORT_GONE);
        char text[8];
        put(fd, "word");
        if (by_shutdown) MUST(shutdown(listener, SHUT_RD) == 0);
        else MUST(close(listener) == 0);
        resets += recv(fd, text, sizeof text, MSG_DONTWAIT) < 0 && errno == ECONNRESET;
        close(fd);
        if (by_shutdown) close(listener);
    }
    /* Of Linux's own not all have, if another thread does what is left of an interrupt. */
    say("most were told at once: %d", resets > times / 2);
}

static void here(void) {
    int listener = listens(PORT_LISTEN);
    urgent(listener, 0);
    resets(listener, 1);
    resets(listener, 0);
    close(listener);
    gone(0);
    gone(1);
    close(dials(address_there, PORT_DONE));
}

static void there(void) {
    close(accepts(listens(PORT_DONE)));
}
