/* A connection and a listener in several processes: each may close its copy, and nothing ends before
   the last has. A child of a program with threads finds no lock that nobody will ever open. */
#include "trap.h"

enum { PORT_ECHO = 6001, PORT_LISTEN = 5001, CALLS = 30, THREADS = 4, CHILDREN = 20 };

static void one_connection(void) {
    int fd = dials(address_there, PORT_ECHO);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        put(fd, "child");
        hears("child", fd, 5);
        _exit(close(fd));
    }
    ended("child", child);
    put(fd, "parent");
    hears("parent", fd, 6);
    /* A child that only closes, as the one that writes a snapshot. */
    child = fork();
    if (child == 0) _exit(close(fd) == 0 && close(fd) == -1 && errno == EBADF ? 0 : 1);
    ended("closer", child);
    put(fd, "again");
    hears("parent", fd, 5);
    told("close", close(fd));
}

/* Workers that share a listener, each with a set of its own. */
static void worker(int listener, int results) {
    int set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLEXCLUSIVE};
    MUST(fcntl(listener, F_SETFL, O_NONBLOCK) == 0);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, listener, &event) == 0);
    for (;;) {
        if (epoll_wait(set, &event, 1, -1) != 1) continue;
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            MUST(errno == EAGAIN);
            continue;
        }
        char byte;
        MUST(fcntl(fd, F_SETFL, 0) == 0);
        MUST(read(fd, &byte, 1) == 1);
        MUST(write(fd, &byte, 1) == 1);
        MUST(close(fd) == 0);
        MUST(write(results, &byte, 1) == 1);
    }
}

static void many_workers(void) {
    int listener = listens(PORT_LISTEN), results[2], all = 0;
    pid_t workers[3];
    char byte;
    MUST(pipe(results) == 0);
    for (int i = 0; i < 3; i++) {
        workers[i] = fork();
        if (workers[i] == 0) worker(listener, results[1]);
    }
    /* The parent keeps its copy and never accepts, as a master does. */
    while (all < CALLS) {
        MUST(read(results[0], &byte, 1) == 1);
        all += byte == 'x';
    }
    say("%d calls are served", all);
    for (int i = 0; i < 3; i++) {
        MUST(kill(workers[i], SIGKILL) == 0);
        MUST(waitpid(workers[i], NULL, 0) == workers[i]);
    }
    told("close", close(listener));
}

/* A child that closes its copy of a set takes nothing from the parent's. */
static void one_set(void) {
    int fd = dials(address_there, PORT_ECHO), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    told("nothing there", epoll_wait(set, &event, 1, 0));
    pid_t child = fork();
    if (child == 0) _exit(close(set) == 0 && close(fd) == 0 ? 0 : 1);
    ended("closer of the set", child);
    put(fd, "news");
    told("the parent's set", epoll_wait(set, &event, 1, 5000));
    hears("parent", fd, 4);
    close(fd), close(set);
}

static volatile int stops;

static void *talks(void *unused) {
    int fd = dials(address_there, PORT_ECHO);
    char byte = 'y';
    while (!stops) {
        MUST(write(fd, &byte, 1) == 1);
        MUST(read(fd, &byte, 1) == 1);
    }
    close(fd);
    return unused;
}

/* Is in the allocator, or opens and closes sockets, whenever a child is made. */
static void *allocates(void *unused) {
    while (!stops) {
        void *some = malloc(1 + (size_t)rand() % 100000);
        int set = epoll_create1(0), fd = socket(AF_INET, SOCK_STREAM, 0);
        struct epoll_event event = {.events = EPOLLIN};
        MUST(some != NULL && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
        free(some), close(fd), close(set);
    }
    return unused;
}

/* Is in a set's wait, or changes it. */
static void *waits(void *unused) {
    int fd = dials(address_there, PORT_ECHO), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    char byte = 'w';
    while (!stops) {
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
        MUST(write(fd, &byte, 1) == 1);
        MUST(epoll_wait(set, &event, 1, 10000) == 1);
        MUST(read(fd, &byte, 1) == 1);
        MUST(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL) == 0);
        event.events = EPOLLIN;
    }
    close(fd), close(set);
    return unused;
}

static void many_threads(void) {
    void *(*const work[THREADS])(void *) = {talks, talks, waits, allocates};
    pthread_t threads[THREADS];
    int good = 0;
    for (int i = 0; i < THREADS; i++) MUST(pthread_create(&threads[i], NULL, work[i], NULL) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        int status = 0;
        if (child == 0) {
            alarm(10);
            int fd = dials(address_there, PORT_ECHO), set = epoll_create1(0);
            struct epoll_event event = {.events = EPOLLIN};
            char byte = 'z', *some = malloc(5000);
            MUST(some != NULL && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
            MUST(write(fd, &byte, 1) == 1);
            MUST(epoll_wait(set, &event, 1, 10000) == 1);
            MUST(read(fd, &byte, 1) == 1);
            _exit(byte == 'z' ? 0 : 1);
        }
        MUST(waitpid(child, &status, 0) == child);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    stops = 1;
    for (int i = 0; i < THREADS; i++) MUST(pthread_join(threads[i], NULL) == 0);
    say("%d of %d children are served", good, CHILDREN);
}

static void here(void) {
    one_connection();
    one_set();
    many_workers();
    many_threads();
}

static void there(void) {
    pid_t echo = fork();
    if (echo == 0) {
        echoes_to(PORT_ECHO, 1 + THREADS + CHILDREN);
        _exit(0);
    }
    for (int i = 0; i < CALLS; i++) {
        char byte = 'x';
        int fd = dials(address_here, PORT_LISTEN);
        put(fd, "x");
        MUST(read(fd, &byte, 1) == 1 && byte == 'x');
        close(fd);
    }
    MUST(waitpid(echo, NULL, 0) == echo);
}
