/* Ends, one way and both ways, in order and not; of listeners too; and the signal of a broken pipe. */
#include "trap.h"

enum { PORT_ECHO = 6009, PORT_RESET = 6109, PORT_LISTEN = 5009, PORT_CLOSE = 6209 };

static volatile sig_atomic_t pipes;
static pthread_t receiver;
static void on_signal(int number) {
    (void)number;
    pipes++;
    receiver = pthread_self();
}

static void one_way(void) {
    int fd = dials(address_there, PORT_ECHO);
    char byte;
    put(fd, "last words");
    told("shutdown", shutdown(fd, SHUT_WR));
    told("write", send(fd, "x", 1, MSG_NOSIGNAL));
    hears("reader", fd, 10);
    told("the end", read(fd, &byte, 1));
    told("the end again", read(fd, &byte, 1));
    say("poll: %x", ready(fd, POLLIN | POLLOUT | POLLRDHUP));
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    told("shutdown of nothing", shutdown(fd, SHUT_WR));
    told("read of nothing", read(fd, &byte, 1));
    told("shutdown in no way", shutdown(fd, 7));
    close(fd);
    fd = dials(address_there, PORT_ECHO);
    told("shutdown for reading", shutdown(fd, SHUT_RD));
    told("read", read(fd, &byte, 1));
    put(fd, "x");
    close(fd);
}

static void reset(void) {
    int fd = dials(address_there, PORT_RESET);
    char byte;
    MUST(recv(fd, &byte, 1, 0) == 1);
    put(fd, "go");
    say("poll: %x", ready(fd, POLLIN) & (POLLERR | POLLHUP | POLLIN));
    pause_ms(100);
    told("read of a reset", read(fd, &byte, 1));
    told("read again", read(fd, &byte, 1));
    told("write", send(fd, "x", 1, MSG_NOSIGNAL));
    say("signals: %d", pipes);
    told("write with a signal", write(fd, "x", 1));
    say("signals: %d, to this thread: %d", pipes, pthread_equal(receiver, pthread_self()) != 0);
    close(fd);
}

/* The peer has closed and does not read: what is written is answered by a reset. */
static void deaf(void) {
    int fd = dials(address_there, PORT_CLOSE);
    char byte;
    told("the end", read(fd, &byte, 1));
    told("write", send(fd, "x", 1, MSG_NOSIGNAL));
    /* Until the reset is here. */
    ready(fd, 0);
    told("write again", send(fd, "x", 1, MSG_NOSIGNAL));
    told("and again", send(fd, "x", 1, MSG_NOSIGNAL));
    close(fd);
}

static void *stops(void *listener) {
    pause_ms(100);
    told("shutdown of the listener", shutdown(*(int *)listener, SHUT_RDWR));
    return NULL;
}

static void listener(void) {
    int fd = listens(PORT_LISTEN), result, error;
    pthread_t thread;
    MUST(pthread_create(&thread, NULL, stops, &fd) == 0);
    result = accept(fd, NULL, NULL);
    error = errno;
    MUST(pthread_join(thread, NULL) == 0);
    errno = error;
    told("accept", result);
    told("accept again", accept(fd, NULL, NULL));
    told("listen again", listen(fd, 5));
    close(fd);
}

static void here(void) {
    struct sigaction action = {.sa_handler = on_signal};
    MUST(sigaction(SIGPIPE, &action, NULL) == 0);
    one_way();
    reset();
    deaf();
    listener();
}

static void there(void) {
    struct linger none = {1, 0};
    pid_t echo = fork();
    char text[2];
    if (echo == 0) {
        echoes_to(PORT_ECHO, 2);
        _exit(0);
    }
    int resets = listens(PORT_RESET), closes = listens(PORT_CLOSE), fd = accepts(resets);
    put(fd, "x");
    MUST(recv(fd, text, 2, MSG_WAITALL) == 2);
    MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    close(fd);
    close(accepts(closes));
    MUST(waitpid(echo, NULL, 0) == echo);
}
