/* IPv4 callers of a listener of IPv6; one listener for the wire and for the kernel's own interfaces. */
#include "trap.h"
#include <netinet/in.h>

enum { PORT_LISTEN = 5014, PORT_ECHO = 6014 };

static void names_of(const char *which, int fd) {
    struct sockaddr_in6 name = {0};
    char text[64];
    socklen_t bytes = sizeof name;
    MUST(getpeername(fd, (struct sockaddr *)&name, &bytes) == 0);
    say("%s: family %s, %d bytes, %s", which, name.sin6_family == AF_INET6 ? "IPv6" : "other", (int)bytes,
        inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof text));
    bytes = sizeof name;
    MUST(getsockname(fd, (struct sockaddr *)&name, &bytes) == 0);
    say("own: %s, a port: %d", inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof text),
        name.sin6_port != 0);
}

static void answers(const char *which, int listener) {
    struct sockaddr_in6 name = {0};
    socklen_t bytes = sizeof name;
    int fd = accept(listener, (struct sockaddr *)&name, &bytes);
    MUST(fd >= 0);
    say("%s: accept gives %d bytes", which, (int)bytes);
    names_of(which, fd);
    hears(which, fd, 4);
    put(fd, "answer");
    close(fd);
}

static void *calls(void *address) {
    int fd = dials(address, PORT_LISTEN);
    char text[8] = {0};
    put(fd, "call");
    MUST(recv(fd, text, 6, MSG_WAITALL) == 6);
    close(fd);
    return NULL;
}

static void here(void) {
    int listener = socket(AF_INET6, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(PORT_LISTEN)};
    pthread_t thread;
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    MUST(bind(listener, (struct sockaddr *)&name, sizeof name) == 0 && listen(listener, 5) == 0);
    answers("by the wire", listener);
    MUST(pthread_create(&thread, NULL, calls, "127.0.0.1") == 0);
    answers("by loopback", listener);
    MUST(pthread_join(thread, NULL) == 0);
    close(listener);

    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    char text[64];
    snprintf(text, sizeof text, "::ffff:%s", address_there);
    name.sin6_port = htons(PORT_ECHO);
    MUST(inet_pton(AF_INET6, text, &name.sin6_addr) == 1);
    /* Until somebody listens there. */
    close(dials(address_there, PORT_ECHO));
    told("connect to a mapped address", connect(fd, (struct sockaddr *)&name, sizeof name));
    names_of("caller", fd);
    put(fd, "mapped");
    hears("caller", fd, 6);
    close(fd);
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    MUST(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) == 0);
    told("connect, IPv6 alone", connect(fd, (struct sockaddr *)&name, sizeof name));
    close(fd);
}

static void there(void) {
    pid_t echo = fork();
    if (echo == 0) {
        echoes_to(PORT_ECHO, 2);
        _exit(0);
    }
    calls((void *)address_here);
    MUST(waitpid(echo, NULL, 0) == echo);
}
