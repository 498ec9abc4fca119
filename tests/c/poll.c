/* poll and select with long lists of both kinds, and masks of signals that hold for the wait alone. */
#include "trap.h"
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>

enum { PORT_ECHO = 6007, LIST = 1500 };

static volatile sig_atomic_t handled;
static void on_signal(int number) { handled = number; }

static void long_list(int fd) {
    static struct pollfd list[LIST];
    int pipes[2];
    MUST(pipe(pipes) == 0);
    for (int i = 0; i < LIST; i++) list[i] = (struct pollfd){.fd = pipes[0], .events = POLLIN};
    list[7] = (struct pollfd){.fd = -1, .events = POLLIN};
    list[1400] = (struct pollfd){.fd = fd, .events = POLLIN | POLLOUT};
    list[1499] = (struct pollfd){.fd = 999, .events = POLLIN};
    told("poll", poll(list, LIST, 5000));
    say("closed: %x, ours: %x, left out: %x", list[1499].revents, list[1400].revents, list[7].revents);
    list[1499].fd = -1;
    list[1400].events = POLLIN;
    told("nothing there", poll(list, LIST, 20));
    put(fd, "a");
    told("ours", poll(list, LIST, 5000));
    MUST(write(pipes[1], "b", 1) == 1);
    told("both kinds", poll(list, LIST, 5000));
    hears("reader", fd, 1);
    told("the kernel's", poll(list, LIST, 5000));
    close(pipes[0]), close(pipes[1]);
}

static void sets(int fd) {
    struct timeval time = {5, 0};
    int pipes[2];
    fd_set in, out;
    MUST(pipe(pipes) == 0);
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(fd, &in), FD_SET(pipes[0], &in), FD_SET(fd, &out);
    told("select", select(64, &in, &out, NULL, &time));
    say("readable: %d and %d, writable: %d", FD_ISSET(fd, &in) != 0, FD_ISSET(pipes[0], &in) != 0,
        FD_ISSET(fd, &out) != 0);
    put(fd, "c");
    FD_ZERO(&in);
    FD_SET(fd, &in), FD_SET(pipes[0], &in);
    told("select", select(64, &in, NULL, NULL, &time));
    say("some time is left: %d", time.tv_sec < 5 || time.tv_usec > 0);
    say("readable: %d and %d", FD_ISSET(fd, &in) != 0, FD_ISSET(pipes[0], &in) != 0);
    hears("reader", fd, 1);
    close(pipes[0]), close(pipes[1]);
}

/* A signal that is blocked but for the wait comes in the wait, and not before. */
static void masks(int fd) {
    struct sigaction action = {.sa_handler = on_signal};
    struct timespec time = {5, 0};
    struct epoll_event event = {.events = EPOLLIN};
    sigset_t blocked, none;
    fd_set in;
    int set = epoll_create1(0);
    MUST(sigaction(SIGUSR1, &action, NULL) == 0 && sigemptyset(&none) == 0);
    MUST(sigemptyset(&blocked) == 0 && sigaddset(&blocked, SIGUSR1) == 0);
    MUST(pthread_sigmask(SIG_BLOCK, &blocked, NULL) == 0);
    MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
    struct pollfd one = {.fd = fd, .events = POLLIN};
    for (int which = 0; which < 3; which++) {
        MUST(kill(getpid(), SIGUSR1) == 0);
        say("before: %d", handled);
        FD_ZERO(&in);
    FD_SET(fd, &in);
        if (which == 0) told("ppoll", ppoll(&one, 1, &time, &none));
        if (which == 1) told("pselect", pselect(fd + 1, &in, NULL, NULL, &time, &none));
        if (which == 2) told("epoll_pwait", epoll_pwait(set, &event, 1, 5000, &none));
        say("in the wait: %d", handled == SIGUSR1);
        handled = 0;
    }
    close(set);
}

enum { MANY = 4 << 20 };

static volatile int still_talk = 2;
static int talked;

static void *writes_many(void *unused) {
    static char text[3000];
    for (int left = MANY; left > 0;) {
        int part = left < (int)sizeof text ? left : (int)sizeof text;
        ssize_t count = send(talked, text, (size_t)part, MSG_NOSIGNAL);
        if (count <= 0) break;
        left -= (int)count;
    }
    __sync_fetch_and_sub(&still_talk, 1);
    return unused;
}

static void *reads_many(void *bytes) {
    static char text[1000];
    ssize_t count;
    while (*(int *)bytes < MANY && (count = read(talked, text, sizeof text)) > 0) {
        *(int *)bytes += (int)count;
    }
    __sync_fetch_and_sub(&still_talk, 1);
    return bytes;
}

/* A thread that looks while others read and write sees no end and no error that there is not. */
static void looks_on(void) {
    int bytes = 0, seen = 0;
    pthread_t writer, reader;
    talked = dials(address_there, PORT_ECHO);
    MUST(pthread_create(&writer, NULL, writes_many, NULL) == 0);
    MUST(pthread_create(&reader, NULL, reads_many, &bytes) == 0);
    while (still_talk > 0) {
        struct pollfd one = {.fd = talked, .events = POLLIN | POLLOUT | POLLRDHUP};
        MUST(poll(&one, 1, 0) >= 0);
        seen |= one.revents;
    }
    MUST(pthread_join(writer, NULL) == 0 && pthread_join(reader, NULL) == 0);
    say("%d bytes have come back, and what was not to be seen: %x", bytes,
        seen & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL));
    close(talked);
}

/* By number the kernel is asked: it writes what remains of the time, and looks at the mask's length. */
static void by_number(int fd) {
    struct timespec time = {0, 20 * 1000 * 1000};
    struct pollfd one = {.fd = fd, .events = POLLIN};
    sigset_t none;
    sigemptyset(&none);
    told("ppoll by number", syscall(SYS_ppoll, &one, 1, &time, &none, 8));
    say("%ld s and %ld ns remain", (long)time.tv_sec, time.tv_nsec);
    one.events = POLLOUT;
    time = (struct timespec){1000, 0};
    told("ppoll by number", syscall(SYS_ppoll, &one, 1, &time, NULL, 0));
    say("some remains: %d", time.tv_sec > 900 && time.tv_sec < 1000);
    told("a mask of another length", syscall(SYS_ppoll, &one, 1, &time, &none, 128));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    time = (struct timespec){0, 20 * 1000 * 1000};
    struct { sigset_t *mask; size_t bytes; } argument = {&none, 8};
    told("pselect6 by number", syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &time, &argument));
    say("%ld s and %ld ns remain", (long)time.tv_sec, time.tv_nsec);
    argument.bytes = 4;
    told("a mask of another length", syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &time, &argument));
}

static void here(void) {
    struct rlimit many = {2048, 4096};
    MUST(setrlimit(RLIMIT_NOFILE, &many) == 0);
    int fd = dials(address_there, PORT_ECHO);
    long_list(fd);
    sets(fd);
    masks(fd);
    by_number(fd);
    close(fd);
    looks_on();
}

static void there(void) { echoes_to(PORT_ECHO, 2); }
