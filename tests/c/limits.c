/* No more descriptors: who calls waits until there is one. A descriptor that another thread closes. */
#include "trap.h"
#include <sys/resource.h>

enum { PORT_LISTEN = 5016, PORT_ECHO = 6016, PORT_READY = 6116, PORT_NEAR = 5116 };

static void near(void);

static void *closes(void *fd) {
    pause_ms(100);
    MUST(shutdown(*(int *)fd, SHUT_RDWR) == 0);
    MUST(close(*(int *)fd) == 0);
    return NULL;
}

static void here(void) {
    int listener = listens(PORT_LISTEN), spare[256], count = 0, fd;
    struct rlimit few = {64, 64};
    pthread_t thread;
    char byte;
    close(dials(address_there, PORT_READY));
    MUST(setrlimit(RLIMIT_NOFILE, &few) == 0);
    MUST(ready(listener, POLLIN) == POLLIN);
    while ((spare[count] = dup(0)) >= 0) count++;
    told("one more", spare[count]);
    told("accept", accept(listener, NULL, NULL));
    say("the caller still waits: %x", ready(listener, POLLIN));
    told("socket", socket(AF_INET, SOCK_STREAM, 0));
    while (count > 0) close(spare[--count]);
    fd = accepts(listener);
    hears("then", fd, 4);
    put(fd, "answer");
    told("the end", read(fd, &byte, 1));
    close(fd), close(listener);
    fd = dials(address_there, PORT_ECHO);
    MUST(pthread_create(&thread, NULL, closes, &fd) == 0);
    /* At its end, or closed: either is true. */
    MUST(read(fd, &byte, 1) <= 0);
    MUST(pthread_join(thread, NULL) == 0);
    told("read", read(fd, &byte, 1));
    near();
}

/* The same when it is a program of this host that calls: one descriptor is not enough for that. */
static void near(void) {
    int listener = listens(PORT_NEAR), spare[256], count = 0;
    pid_t child = fork();
    char byte;
    if (child == 0) {
        int fd = dials(address_here, PORT_NEAR);
        put(fd, "near");
        _exit(read(fd, &byte, 1) == 0 ? 0 : 1);
    }
    MUST(ready(listener, POLLIN) == POLLIN);
    while ((spare[count] = dup(0)) >= 0) count++;
    close(spare[--count]);
    int fd = accept(listener, NULL, NULL);
    MUST(fd >= 0 || errno == EMFILE);
    while (count > 0) close(spare[--count]);
    if (fd < 0) fd = accepts(listener);
    hears("caller that is near", fd, 4);
    close(fd), close(listener);
    ended("caller", child);
}

static void there(void) {
    char text[8];
    pid_t echo = fork();
    if (echo == 0) {
        echoes_to(PORT_ECHO, 1);
        _exit(0);
    }
    /* Who calls while the other end begins to listen may be its kernel's. */
    close(accepts(listens(PORT_READY)));
    int fd = dials(address_here, PORT_LISTEN);
    put(fd, "call");
    MUST(recv(fd, text, 6, MSG_WAITALL) == 6);
    close(fd);
    MUST(waitpid(echo, NULL, 0) == echo);
}
