/* Calls that signals interrupt, go on after them or time out; threads that are canceled; a handler that
   closes what the program waits for, and one that reads in the middle of a read. */
#include "trap.h"
#include <sys/syscall.h>
#include <sys/time.h>

enum { PORT_ECHO = 6011, PORT_FLOOD = 6111 };

static int used;
static volatile sig_atomic_t handled;
static void on_signal(int number) { handled = number; }
static void on_close(int number) {
    (void)number;
    close(used);
    handled = 1;
}

static void handles(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
}

static void soon(int ms) {
    struct itimerval time = {.it_value = {0, ms * 1000}};
    MUST(setitimer(ITIMER_REAL, &time, NULL) == 0);
}

/* Again and again, so that one comes while the call waits, however late that begins; with 0: no more. */
static void every(int ms) {
    struct itimerval time = {.it_interval = {0, ms * 1000}, .it_value = {0, ms * 1000}};
    MUST(setitimer(ITIMER_REAL, &time, NULL) == 0);
}

/* Has something come back later than the signal comes. */
static void *answers(void *fd) {
    pause_ms(150);
    put(*(int *)fd, "x");
    return NULL;
}

static void interrupted(int fd) {
    pthread_t thread;
    char byte;
    handles(on_signal, 0);
    every(50);
    told("read", read(fd, &byte, 1));
    every(0);
    say("handled: %d", handled == SIGALRM);
    handles(on_signal, SA_RESTART);
    handled = 0;
    MUST(pthread_create(&thread, NULL, answers, &fd) == 0);
    every(50);
    told("read that goes on", read(fd, &byte, 1));
    every(0);
    say("handled: %d", handled == SIGALRM);
    MUST(pthread_join(thread, NULL) == 0);
    /* poll never goes on. */
    struct pollfd one = {.fd = fd, .events = POLLIN};
    every(50);
    told("poll", poll(&one, 1, 20000));
    every(0);
    struct timeval limit = {0, 80000};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    told("read with a limit", read(fd, &byte, 1));
    limit = (struct timeval){20, 0};
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    every(20);
    told("read with a limit and a signal", read(fd, &byte, 1));
    every(0);
    limit.tv_sec = 0;
    MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
}

/* As the kernel has it. */
struct own_action { void *handler; unsigned long flags; void *restorer; unsigned long mask; };

static void *answers_late(void *fd) {
    pause_ms(1500);
    put(*(int *)fd, "x");
    return NULL;
}

static void ends(const char *how, int fd) {
    pthread_t thread;
    char byte;
    MUST(pthread_create(&thread, NULL, answers_late, &fd) == 0);
    every(50);
    told(how, read(fd, &byte, 1));
    every(0);
    MUST(pthread_join(thread, NULL) == 0);
    MUST(ready(fd, POLLIN) == POLLIN && read(fd, &byte, 1) == 1);
}

/* By other ways than sigaction. */
static void set_otherwise(int fd) {
    struct own_action action;
    handles(on_signal, SA_RESTART);
    MUST(syscall(SYS_rt_sigaction, SIGALRM, NULL, &action, sizeof action.mask) == 0);
    action.flags &= ~(unsigned long)SA_RESTART;
    MUST(syscall(SYS_rt_sigaction, SIGALRM, &action, NULL, sizeof action.mask) == 0);
    ends("read that a handler ends which was set by number", fd);
    handles(on_signal, SA_RESTART);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    MUST(sigset(SIGALRM, on_signal) != SIG_ERR);
    ends("read that a handler of sigset ends", fd);
}

static void cleans(void *unused) {
    (void)unused;
    say("a canceled thread cleans up");
}

static void *reads(void *fd) {
    char byte;
    pthread_cleanup_push(cleans, NULL);
    told("read", read(*(int *)fd, &byte, 1));
    pthread_cleanup_pop(0);
    return NULL;
}

static void canceled(int fd) {
    pthread_t thread;
    void *result;
    for (int i = 0; i < 3; i++) {
        MUST(pthread_create(&thread, NULL, reads, &fd) == 0);
        pause_ms(50);
        MUST(pthread_cancel(thread) == 0);
        MUST(pthread_join(thread, &result) == 0);
        say("canceled: %d", result == PTHREAD_CANCELED);
    }
    put(fd, "after");
    hears("after that", fd, 5);
}

static void closed(int fd) {
    char byte;
    used = fd;
    handles(on_close, 0);
    soon(50);
    /* Interrupted, or closed: either is true. */
    MUST(read(fd, &byte, 1) == -1);
    told("read again", read(fd, &byte, 1));
    /* And in the middle of calls that do not wait. */
    for (int i = 0; i < 20; i++) {
        used = dials(address_there, PORT_ECHO);
        handled = 0;
        soon(1 + i % 3);
        while (!handled && send(used, "yyyyyyyy", 8, MSG_NOSIGNAL | MSG_DONTWAIT) != 0) {}
    }
    say("closed in a handler, 20 times");
}

enum { BREAKS = 200, PART = 1 << 16 };

/* Waits for a byte in the middle of a read, maybe of the very same bytes. */
static void on_read(int number) {
    int error = errno;
    char byte;
    (void)number;
    if (handled < BREAKS) handled += read(used, &byte, 1) == 1 || errno == EAGAIN;
    errno = error;
}

static void within(void) {
    static char text[PART];
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    used = dials(address_there, PORT_FLOOD);
    handled = 0;
    handles(on_read, SA_RESTART);
    MUST(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (handled < BREAKS) MUST(read(used, text, PART) > 0 || errno == EAGAIN);
    MUST(setitimer(ITIMER_REAL, &never, NULL) == 0);
    say("%d handlers have read in the middle of reads", handled);
    close(used);
}

static volatile sig_atomic_t news_fd = -1;
static volatile long news_band;

static void on_news(int number, siginfo_t *about, void *unused) {
    (void)number, (void)unused;
    if (!(about->si_band & POLLIN)) return;
    news_band = about->si_band;
    news_fd = about->si_fd;
}

static void tells_its_news(const char *which, int fd) {
    news_fd = -1;
    put(fd, "x");
    for (int i = 0; i < 1000 && news_fd < 0; i++) pause_ms(5);
    say("%s: it is told which has news: %d, and what: %lx", which, news_fd == fd, news_band);
    hears("reader", fd, 1);
}

static void asks_for(int fd) {
    MUST(fcntl(fd, F_SETSIG, SIGRTMIN) == 0 && fcntl(fd, F_SETOWN, getpid()) == 0);
    MUST(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC) == 0);
}

/* A signal of the program's choice says which descriptor has news. */
static void chosen(void) {
    struct sigaction action = {.sa_sigaction = on_news, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sockaddr_in name = place(address_there, PORT_ECHO);
    MUST(sigaction(SIGRTMIN, &action, NULL) == 0);
    int fd = dials(address_there, PORT_ECHO);
    asks_for(fd);
    tells_its_news("connected", fd);
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    asks_for(fd);
    MUST(connect(fd, (struct sockaddr *)&name, sizeof name) == 0);
    tells_its_news("before it was connected", fd);
    close(fd);
}

static void here(void) {
    int fd = dials(address_there, PORT_ECHO);
    interrupted(fd);
    set_otherwise(fd);
    canceled(fd);
    closed(fd);
    chosen();
    within();
}

static void there(void) {
    static char text[PART];
    pid_t flood = fork();
    if (flood == 0) {
        int fd = accepts(listens(PORT_FLOOD));
        while (send(fd, text, PART, MSG_NOSIGNAL) > 0) {}
        _exit(0);
    }
    echoes_to(PORT_ECHO, 23);
}
