/* A server that drops its rights and its view of the files after its start, and forks workers then. */
#include "trap.h"
#include <grp.h>

enum { PORT_LISTEN = 5017, PORT_ECHO = 6017, PORT_READY = 6117, NOBODY = 65534 };

static void here(void) {
    int listener = listens(PORT_LISTEN);
    close(dials(address_there, PORT_READY));
    MUST(chroot("/dev/shm") == 0);
    MUST(chdir("/") == 0);
    MUST(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    told("a port of root's", bind(socket(AF_INET, SOCK_STREAM, 0),
                                  (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET,
                                                                           .sin_port = htons(80)},
                                  sizeof(struct sockaddr_in)));
    pid_t worker = fork();
    MUST(worker >= 0);
    if (worker == 0) {
        int fd = accepts(listener);
        hears("worker", fd, 4);
        put(fd, "answer");
        int out = dials(address_there, PORT_ECHO);
        put(out, "out");
        hears("worker", out, 3);
        _exit(0);
    }
    ended("worker", worker);
    int fd = dials(address_there, PORT_ECHO);
    put(fd, "master");
    hears("master", fd, 6);
}

static void there(void) {
    char text[8];
    pid_t echo = fork();
    if (echo == 0) {
        echoes_to(PORT_ECHO, 2);
        _exit(0);
    }
    /* Who calls while the other end begins to listen may be its kernel's. */
    close(accepts(listens(PORT_READY)));
    int fd = dials(address_here, PORT_LISTEN);
    put(fd, "call");
    MUST(recv(fd, text, 6, MSG_WAITALL) == 6);
    MUST(waitpid(echo, NULL, 0) == echo);
}
