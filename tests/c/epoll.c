/* Sets of both kinds of members: levels, edges, once; the same socket in several sets; sets in sets; a
   duplicate keeps a member in its set; members of the kernel are heard in a flood of ours; and several
   threads sleep in one set. */
#include "trap.h"
#include <sys/eventfd.h>
#include <sys/timerfd.h>

enum { PORT_ECHO = 6006, PORT_FLOOD = 6106, PORT_HALF = 6206 };

static int set_of(int fd, unsigned events) {
    int set = epoll_create1(0);
    struct epoll_event event = {.events = events, .data.u32 = 1};
    MUST(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    return set;
}

static void waits(const char *what, int set, int ms) {
    struct epoll_event events[8];
    int count = epoll_wait(set, events, 8, ms);
    if (count == 1) say("%s: event %x", what, events[0].events);
    else told(what, count);
}

static void drains(int fd, size_t bytes) {
    char text[64];
    MUST(recv(fd, text, bytes, MSG_WAITALL) == (ssize_t)bytes);
}

static void kinds(void) {
    int fd = dials(address_there, PORT_ECHO);
    int level = set_of(fd, EPOLLIN), edge = set_of(fd, EPOLLIN | EPOLLET);
    int once = set_of(fd, EPOLLIN | EPOLLONESHOT), outer = set_of(level, EPOLLIN);
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT};
    waits("level, nothing there", level, 0);
    put(fd, "ab");
    waits("outer", outer, 5000);
    /* Both bytes have come, lest the second be an edge of its own. */
    char two[2];
    MUST(recv(fd, two, 2, MSG_PEEK | MSG_WAITALL) == 2);
    waits("level", level, 5000);
    waits("level again", level, 0);
    waits("edge", edge, 0);
    waits("edge again", edge, 0);
    waits("once", once, 0);
    waits("once again", once, 0);
    MUST(epoll_ctl(once, EPOLL_CTL_MOD, fd, &event) == 0);
    waits("once, armed again", once, 0);
    drains(fd, 1);
    waits("level, one byte left", level, 0);
    waits("edge, one byte left", edge, 0);
    put(fd, "c");
    waits("edge, a new byte", edge, 5000);
    drains(fd, 2);
    waits("level, all read", level, 0);
    waits("outer, all read", outer, 0);
    /* Nobody asks the inner set in between: the outer one alone must know. */
    put(fd, "x");
    waits("outer, one more", outer, 5000);
    drains(fd, 1);
    waits("outer, that is read too", outer, 0);
    struct pollfd both[2] = {{.fd = outer, .events = POLLIN}, {.fd = level, .events = POLLIN}};
    told("poll of both sets", poll(both, 2, 0));
    put(fd, "y");
    MUST(ready(fd, POLLIN) == POLLIN);
    told("poll of both sets with news", poll(both, 2, 0));
    drains(fd, 1);
    told("poll of both sets, all read", poll(both, 2, 0));
    event.events = EPOLLOUT | EPOLLET;
    MUST(epoll_ctl(edge, EPOLL_CTL_MOD, fd, &event) == 0);
    waits("edge, changed to writing", edge, 0);
    waits("edge, changed to writing, again", edge, 0);
    told("add again", epoll_ctl(edge, EPOLL_CTL_ADD, fd, &event));
    told("remove", epoll_ctl(edge, EPOLL_CTL_DEL, fd, NULL));
    told("remove again", epoll_ctl(edge, EPOLL_CTL_DEL, fd, NULL));
    int copy = dup(fd);
    put(fd, "d");
    close(fd);
    waits("level, the copy is open", level, 5000);
    drains(copy, 1);
    close(copy);
    waits("level, all are closed", level, 0);
    close(level), close(edge), close(once), close(outer);
}

static void mixed(void) {
    int fd = dials(address_there, PORT_ECHO), doorbell = eventfd(0, 0), pipes[2];
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), set = epoll_create1(0), members[4];
    struct itimerspec soon = {.it_value.tv_nsec = 20 * 1000000};
    uint64_t one = 1;
    MUST(pipe(pipes) == 0);
    members[0] = fd, members[1] = doorbell, members[2] = pipes[0], members[3] = timer;
    for (unsigned i = 0; i < 4; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, members[i], &event) == 0);
    }
    put(fd, "x");
    MUST(write(doorbell, &one, 8) == 8 && write(pipes[1], "y", 1) == 1);
    MUST(timerfd_settime(timer, 0, &soon, NULL) == 0);
    for (unsigned seen = 0; seen != 15;) {
        struct epoll_event events[4];
        int count = epoll_wait(set, events, 4, 5000);
        MUST(count > 0);
        for (int i = 0; i < count; i++) seen |= 1U << events[i].data.u32;
    }
    say("all four kinds are told");
    close(fd), close(doorbell), close(timer), close(set), close(pipes[0]), close(pipes[1]);
}

static void flood(void) {
    int fds[4], set = epoll_create1(0), doorbell = eventfd(1, 0), is_heard = 0, rounds = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = doorbell};
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, doorbell, &event) == 0);
    for (int i = 0; i < 4; i++) {
        fds[i] = dials(address_there, PORT_FLOOD);
        event.data.fd = fds[i];
        MUST(epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event) == 0);
        MUST(ready(fds[i], POLLIN) == POLLIN);
    }
    /* One event at a time, and what is told is never read: each member has its turn all the same. */
    unsigned seen = 0;
    while ((!is_heard || seen != 15) && rounds++ < 1000) {
        MUST(epoll_wait(set, &event, 1, 5000) == 1);
        is_heard |= event.data.fd == doorbell;
        for (int i = 0; i < 4; i++) seen |= (unsigned)(event.data.fd == fds[i]) << i;
    }
    say("the kernel's member is heard: %d, ours: %x", is_heard, seen);
    for (int i = 0; i < 4; i++) close(fds[i]);
    close(set), close(doorbell);
}

static void ends(void) {
    int fd = dials(address_there, PORT_HALF);
    int set = set_of(fd, EPOLLIN | EPOLLRDHUP);
    waits("the peer has said all", set, 5000);
    MUST(shutdown(fd, SHUT_WR) == 0);
    pause_ms(50);
    waits("both have", set, 5000);
    close(fd), close(set);
}

static int shared_set, woken[2];

static void *is_woken_once(void *unused) {
    struct epoll_event event;
    char byte = 'w';
    MUST(epoll_wait(shared_set, &event, 1, -1) == 1);
    MUST(write(woken[1], &byte, 1) == 1);
    return unused;
}

/* Two threads sleep in one set: that one was woken and went away does not leave the other asleep. */
static void sleepers(void) {
    int fds[2] = {dials(address_there, PORT_ECHO), dials(address_there, PORT_ECHO)};
    pthread_t threads[2];
    char byte;
    MUST(pipe(woken) == 0);
    shared_set = set_of(fds[0], EPOLLIN | EPOLLET);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    MUST(epoll_ctl(shared_set, EPOLL_CTL_ADD, fds[1], &event) == 0);
    for (int i = 0; i < 2; i++) MUST(pthread_create(&threads[i], NULL, is_woken_once, NULL) == 0);
    pause_ms(100);
    for (int i = 0; i < 2; i++) {
        put(fds[i], "x");
        int is_awake = ready(woken[0], POLLIN) == POLLIN;
        say("thread %d is woken: %d", i, is_awake);
        if (!is_awake) return;
        MUST(read(woken[0], &byte, 1) == 1);
    }
    for (int i = 0; i < 2; i++) MUST(pthread_join(threads[i], NULL) == 0);
    close(fds[0]), close(fds[1]), close(shared_set), close(woken[0]), close(woken[1]);
}

static void here(void) {
    kinds();
    mixed();
    flood();
    ends();
    sleepers();
}

static void there(void) {
    pid_t echo = fork();
    char byte;
    if (echo == 0) {
        echoes_to(PORT_ECHO, 4);
        _exit(0);
    }
    int listener = listens(PORT_FLOOD), half = listens(PORT_HALF), fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = accepts(listener);
        put(fds[i], "many bytes that nobody reads");
    }
    int fd = accepts(half);
    MUST(shutdown(fd, SHUT_WR) == 0);
    MUST(read(fd, &byte, 1) == 0);
    MUST(waitpid(echo, NULL, 0) == echo);
}
