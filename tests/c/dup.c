/* Duplicates: one description with its flags, a descriptor each with its own; dup2 over a socket closes
   it; who waits on a socket that is replaced wakes up. */
#include "trap.h"

enum { PORT_ECHO = 6003, PORT_END = 6103 };

static int socket_of_reader;

static void on_signal(int number) { (void)number; }

static void *reads(void *unused) {
    char byte;
    /* Linux reads on until the signal; to wake at once is as good. */
    MUST(read(socket_of_reader, &byte, 1) <= 0);
    told("read of what replaced it", read(socket_of_reader, &byte, 1));
    return unused;
}

static void flags_of(const char *which, int fd) {
    say("%s: close-on-exec %d, nonblocking %d", which, fcntl(fd, F_GETFD) & FD_CLOEXEC,
        (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}

static void flags(void) {
    int first = dials(address_there, PORT_ECHO), second = dup(first);
    int third = fcntl(first, F_DUPFD_CLOEXEC, 100), fourth = dup3(first, 90, O_CLOEXEC);
    char byte;
    say("F_DUPFD_CLOEXEC gives %s, dup3 gives %d", third >= 100 ? "what was asked for" : "less", fourth);
    MUST(fcntl(third, F_SETFL, O_NONBLOCK) == 0);
    flags_of("first", first);
    flags_of("second", second);
    flags_of("third", third);
    flags_of("fourth", fourth);
    told("read", read(first, &byte, 1));
    MUST(fcntl(second, F_SETFL, 0) == 0);
    flags_of("third", third);
    told("close", close(first));
    told("close", close(first));
    told("close", close(fourth));
    put(second, "two");
    hears("third", third, 3);
    told("dup3 onto itself", dup3(third, third, 0));
    told("dup2 of nothing", dup2(first, third));
    put(third, "three");
    hears("second", second, 5);
    close(second);
    close(third);
}

static void replaces(void) {
    int old = dials(address_there, PORT_END), other = dials(address_there, PORT_ECHO);
    int watch = dials(address_there, PORT_END);
    MUST(dup2(other, old) == old);
    /* The peer of the first connection tells over the second that the first has ended. */
    hears("watcher", watch, 5);
    put(old, "other");
    hears("other", old, 5);
    close(old);
    close(other);
    close(watch);
}

/* As a virtual machine of Java closes a socket that a thread reads. */
static void wakes(void) {
    struct sigaction action = {.sa_handler = on_signal};
    pthread_t reader;
    int dead[2];
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, dead) == 0);
    MUST(shutdown(dead[0], SHUT_RDWR) == 0);
    socket_of_reader = dials(address_there, PORT_ECHO);
    MUST(pthread_create(&reader, NULL, reads, NULL) == 0);
    pause_ms(100);
    MUST(dup2(dead[0], socket_of_reader) == socket_of_reader);
    MUST(pthread_kill(reader, SIGUSR1) == 0);
    MUST(pthread_join(reader, NULL) == 0);
}

static void here(void) {
    flags();
    replaces();
    wakes();
}

static void there(void) {
    pid_t echo = fork();
    if (echo == 0) {
        echoes_to(PORT_ECHO, 3);
        _exit(0);
    }
    char byte;
    int listener = listens(PORT_END), first = accepts(listener), second = accepts(listener);
    MUST(read(first, &byte, 1) == 0);
    put(second, "ended");
    MUST(read(second, &byte, 1) == 0);
    MUST(waitpid(echo, NULL, 0) == echo);
}
