/* What few programs do, and does not go wrong: case by case. */
#include "cases.h"
#include <dlfcn.h>

/* Numbers beyond a table of descriptors are no business of select(2), whatever stands at their bits. */
static void case_select_of_more_than_there_are(void) {
    enum { WORDS = FD_SETSIZE / 64, BEHIND = 1024 };
    static struct { unsigned long in[WORDS], behind[BEHIND], out[WORDS], more[BEHIND]; } sets;
    int ends[2];
    struct timeval little = {0, 20000};
    pair(ends);
    for (int i = 0; i < BEHIND; i++) sets.behind[i] = sets.more[i] = 0x0123456789abcdefUL;
    FD_SET(ends[1], (fd_set *)sets.in), FD_SET(ends[0], (fd_set *)sets.out);
    OK(select(64 * BEHIND, (fd_set *)sets.in, (fd_set *)sets.out, NULL, &little) == 1);
    OK(!FD_ISSET(ends[1], (fd_set *)sets.in) && FD_ISSET(ends[0], (fd_set *)sets.out));
    for (int i = 0; i < BEHIND; i++) OK(sets.behind[i] == 0x0123456789abcdefUL);
    for (int i = 0; i < BEHIND; i++) OK(sets.more[i] == 0x0123456789abcdefUL);
}

/* A library that is bound to libc before anything else calls it as the program does. */
static void case_deep_library(void) {
    int ends[2];
    char path[4096] = {0}, got = 0;
    pair(ends);
    OK(readlink("/proc/self/exe", path, sizeof path - 64) > 0);
    OK(strrchr(path, '/') != NULL);
    strcpy(strrchr(path, '/'), "/preload-deep--shared");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!library) fail(__LINE__, dlerror());
    long (*says)(int, const void *, unsigned long);
    *(void **)&says = dlsym(library, "says");
    OK(says != NULL && says(ends[0], "x", 1) == 1);
    OK(read(ends[1], &got, 1) == 1 && got == 'x');
    OK(dlopen("no such library", RTLD_NOW) == NULL && dlerror() != NULL);
}

/* A set as large as its numbers need: a number above FD_SETSIZE is one as any. */
static void case_select_of_high_numbers(void) {
    enum { NUMBER = 1999, WORDS = (NUMBER + 64) / 64 };
    struct rlimit many = {4096, 4096};
    int ends[2];
    pair(ends);
    if (setrlimit(RLIMIT_NOFILE, &many) != 0) OK(getrlimit(RLIMIT_NOFILE, &many) == 0);
    if (many.rlim_cur <= NUMBER) return;
    OK(dup2(ends[1], NUMBER) == NUMBER);
    unsigned long *in = calloc(WORDS, sizeof *in), guard = 7;
    in[NUMBER / 64] = 1UL << NUMBER % 64;
    OK(write(ends[0], "x", 1) == 1);
    OK(select(NUMBER + 1, (fd_set *)in, NULL, NULL, NULL) == 1);
    OK(in[NUMBER / 64] == 1UL << NUMBER % 64 && guard == 7);
    free(in);
}

/* What cannot be read again, once it was read, is not sent: splice(2) is for that. */
static void case_sendfile_of_what_flows(void) {
    int ends[2], pipes[2];
    char back[64];
    off_t at = 0;
    pair(ends);
    OK(pipe(pipes) == 0 && write(pipes[1], "in the pipe", 11) == 11);
    FAILS(sendfile(ends[0], pipes[0], NULL, 100), EINVAL);
    FAILS(sendfile(ends[0], pipes[0], &at, 100), ESPIPE);
    FAILS(sendfile(ends[0], ends[1], NULL, 100), EINVAL);
    OK(read(pipes[0], back, sizeof back) == 11 && memcmp(back, "in the pipe", 11) == 0);
    int zeros = open("/dev/zero", O_RDONLY), folder = open("/", O_RDONLY | O_DIRECTORY);
    OK(sendfile(ends[0], zeros, NULL, 600) == 600);
    read_all(ends[1], back, 64);
    FAILS(sendfile(ends[0], folder, NULL, 100), EINVAL);
    FAILS(sendfile(ends[0], pipes[1], NULL, 100), EBADF);
}

static volatile sig_atomic_t faulted;
static void on_fault(int signal) {
    faulted = signal;
    _exit(33);
}

static void *signals_again(void *unused) {
    for (int i = 0; i < 40; i++) {
        milliseconds(50);
        kill(getpid(), SIGUSR1);
    }
    return unused;
}

/* A child of vfork has handlers and descriptors of its own in the memory of its parent. */
static void case_vfork_changes_nothing_of_its_parent(void) {
    int ends[2], status;
    char byte;
    struct sigaction seen;
    pair(ends);
    handle(SIGUSR1, 0);
    OK(signal(SIGSEGV, on_fault) == SIG_DFL);
    OK(write(ends[0], nowhere, 1) == -1 && errno == EFAULT);
    pid_t child = vfork();
    if (child == 0) {
        signal(SIGUSR1, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        /* Numbers that the parent has for its sockets are given out anew. */
        close(ends[0]), close(ends[1]);
        int one = socket(AF_INET, SOCK_STREAM, 0), two = socket(AF_INET, SOCK_DGRAM, 0);
        _exit(one == ends[0] || one == ends[1] || two == ends[0] ? 7 : 8);
    }
    OK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    OK(write(ends[0], "x", 1) == 1 && read(ends[1], &byte, 1) == 1);
    OK(sigaction(SIGSEGV, NULL, &seen) == 0 && seen.sa_handler == on_fault);
    pthread_t thread = later(signals_again, NULL);
    FAILS(read(ends[1], &byte, 1), EINTR);
    OK(pthread_join(thread, NULL) == 0);
    child = fork();
    if (child == 0) {
        *(volatile char *)nowhere = 0;
        _exit(1);
    }
    OK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 33);
}

/* A ring would read and write past the library. Without liburing there is nothing to refuse. */
static void case_rings_are_refused(void) {
    int (*queue)(unsigned, void *, unsigned), (*queue_with)(unsigned, void *, void *);
    static char room[4096];
    *(void **)&queue = dlsym(RTLD_DEFAULT, "io_uring_queue_init");
    *(void **)&queue_with = dlsym(RTLD_DEFAULT, "io_uring_queue_init_params");
    if (getenv("ACCELERATED") == NULL) return;
    OK(queue != NULL && queue_with != NULL);
    OK(queue(8, room, 0) == -ENOSYS && queue_with(8, room, room + 2048) == -ENOSYS);
    FAILS(syscall(SYS_io_uring_setup, 8, room), ENOSYS);
}

static void forks(int number) {
    int error = errno, status;
    pid_t child = fork();
    if (child == 0) _exit(5);
    OK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
    errno = error;
    handled += number == SIGALRM;
}

/* Each call is interrupted somewhere, within locks too. */
static void case_fork_in_a_handler(void) {
    struct sigaction action = {.sa_handler = forks, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1500}, {0, 1500}}, never = {{0, 0}, {0, 0}};
    struct epoll_event event = {.events = EPOLLOUT};
    int ends[2], set = epoll_create1(0);
    pair(ends);
    alarm(0);
    pid_t watch = fork();
    if (watch == 0) {
        milliseconds(50000);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    handled = 0;
    OK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (handled < 400) {
        OK(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event) == 0);
        OK(epoll_wait(set, &event, 1, 0) == 1 || errno == EINTR);
        OK(epoll_ctl(set, EPOLL_CTL_MOD, ends[0], &event) == 0);
        OK(epoll_ctl(set, EPOLL_CTL_DEL, ends[0], &event) == 0);
    }
    OK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    OK(kill(watch, SIGKILL) == 0 && waitpid(watch, NULL, 0) == watch);
}

/* What the mask lets through ends a call that does not wait, if nothing is ready. */
static void case_masks_of_calls_that_do_not_wait(void) {
    int ends[2];
    sigset_t blocked, none;
    struct timespec now = {0, 0};
    fd_set in;
    pair(ends);
    handle(SIGUSR1, SA_RESTART);
    sigemptyset(&none), sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    OK(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0 && raise(SIGUSR1) == 0);
    struct pollfd one = {.fd = ends[1], .events = POLLOUT};
    OK(ppoll(&one, 1, &now, &none) == 1 && handled == 0);
    one.events = POLLIN;
    FAILS(ppoll(&one, 1, &now, &none), EINTR);
    OK(handled == SIGUSR1);
    handled = 0;
    OK(ppoll(&one, 1, &now, &none) == 0 && raise(SIGUSR1) == 0);
    FD_ZERO(&in);
    FD_SET(ends[1], &in);
    FAILS(pselect(ends[1] + 1, &in, NULL, NULL, &now, &none), EINTR);
    OK(handled == SIGUSR1);
}

static void *writes_soon(void *fd) {
    milliseconds(50);
    OK(write(*(int *)fd, "x", 1) == 1);
    return NULL;
}

/* A list has as many places as there may be descriptors, and no more. */
static void case_poll_of_the_longest_list(void) {
    enum { MOST = 128 };
    static struct pollfd list[MOST + 1];
    struct rlimit old, low;
    char byte;
    int ends[2];
    pair(ends);
    int from = listener();
    OK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    low = (struct rlimit){MOST, old.rlim_max};
    OK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    for (int i = 0; i <= MOST; i++) list[i] = (struct pollfd){.fd = ends[1], .events = POLLIN};
    OK(poll(list, MOST, 30) == 0);
    FAILS(poll(list, MOST + 1, 30), EINVAL);
    pthread_t thread = later(writes_soon, &ends[0]);
    OK(poll(list, MOST, -1) == MOST && read(ends[1], &byte, 1) == 1);
    OK(pthread_join(thread, NULL) == 0);
    /* Where no place is left out by us. */
    for (int i = 0; i < MOST; i++) list[i].fd = from;
    OK(poll(list, MOST, 30) == 0);
    OK(setrlimit(RLIMIT_NOFILE, &old) == 0);
}

static void one_line(const char *meant, int fd) {
    char line[64] = {0};
    read_all(fd, line, strlen(meant));
    OK(strcmp(line, meant) == 0);
}

/* A caller at standard input and output, as a small server has it, and the terminal again. */
static void case_standard_streams(void) {
    int ends[2], old[3], pipes[2];
    char line[64];
    pair(ends);
    OK(pipe(pipes) == 0);
    for (int i = 0; i < 3; i++) OK((old[i] = dup(i)) >= 0);
    OK(dup2(pipes[1], 1) == 1);
    printf("begun before, ");
    for (int i = 0; i < 3; i++) OK(dup2(ends[0], i) == i);
    printf("a line of %s\n", "stdio");
    OK(fflush(stdout) == 0);
    one_line("begun before, a line of stdio\n", ends[1]);
    puts("puts");
    OK(putchar('c') == 'c' && fflush(NULL) == 0);
    one_line("puts\nc", ends[1]);
    fprintf(stderr, "an error\n");
    one_line("an error\n", ends[1]);
    OK(write(ends[1], "first\nsecond\n", 13) == 13);
    OK(fgets(line, sizeof line, stdin) == line && strcmp(line, "first\n") == 0);
    OK(scanf("%63s", line) == 1 && strcmp(line, "second") == 0 && getchar() == '\n');
    OK(fileno(stdin) == 0 && fileno(stdout) == 1 && fileno(stderr) == 2);
    FAILS(fseek(stdout, 0, SEEK_CUR), ESPIPE);
    for (int i = 0; i < 3; i++) OK(dup2(i == 1 ? pipes[1] : old[i], i) == i);
    printf("back again\n");
    OK(fflush(stdout) == 0);
    one_line("back again\n", pipes[0]);
    OK(freopen("/dev/null", "w", stdout) == stdout && fileno(stdout) == 1);
    OK(printf("to nobody\n") == 10 && fflush(stdout) == 0);
    OK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    FAILS(read(ends[1], line, 1), EAGAIN);
    /* And from a socket to a file. */
    OK(dup2(ends[0], 1) == 1);
    OK(freopen("/dev/null", "w", stdout) == stdout && fileno(stdout) == 1);
    OK(write(1, "nobody", 6) == 6 && printf("nobody") == 6 && fflush(stdout) == 0);
    FAILS(read(ends[1], line, 1), EAGAIN);
    OK(dup2(old[1], 1) == 1);
}

/* A stream may be made of a socket first, and connected then. */
static void case_streams_of_what_is_connected_later(void) {
    char line[64];
    int from = listener(), fd = socket(AF_INET, SOCK_STREAM, 0);
    FILE *stream = fdopen(fd, "w");
    OK(stream != NULL && fileno(stream) == fd);
    FAILS(fseek(stream, 0, SEEK_SET), ESPIPE);
    OK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    int other = accept(from, NULL, NULL);
    OK(fprintf(stream, "hello\n") == 6 && fclose(stream) == 0);
    one_line("hello\n", other);
    OK(read(other, line, 1) == 0);
    FAILS(fcntl(fd, F_GETFD), EBADF);
}

static atomic_int how_often, has_ended;
static void counts(int signal) { how_often += signal != 0; }

static void handles(int signal, int flags) {
    struct sigaction action = {.sa_handler = counts, .sa_flags = flags};
    OK(sigaction(signal, &action, NULL) == 0);
}

static pthread_t waits;
static void (*then)(void);
static int end_to_write, other_end;

static void *goes_on_three_times(void *unused) {
    for (int i = 0; i < 3; i++) {
        int before = how_often;
        milliseconds(60);
        pthread_kill(waits, SIGUSR1);
        while (how_often == before) milliseconds(1);
    }
    milliseconds(60);
    then();
    return unused;
}

static void *ends_it(void *unused) {
    milliseconds(60);
    pthread_kill(waits, SIGUSR1);
    /* Until the call has ended, however late it begins to wait. */
    while (!has_ended) {
        milliseconds(60);
        pthread_kill(waits, SIGUSR2);
    }
    return unused;
}

/* After this, the call that is next is ended by a signal. */
static pthread_t will_be_ended(void) {
    has_ended = 0;
    return later(ends_it, NULL);
}

static void writes_a_byte(void) { OK(write(end_to_write, "x", 1) == 1); }
static void calls(void) { OK((other_end = dial()) >= 0); }

/* A handler with SA_RESTART lets the call go on that it interrupts, whatever others are for. */
static void case_each_signal_ends_calls_or_not(void) {
    int ends[2], made;
    char byte;
    pair(ends);
    waits = pthread_self(), end_to_write = ends[0];
    handles(SIGUSR1, SA_RESTART), handles(SIGUSR2, 0);
    then = writes_a_byte;
    pthread_t thread = later(goes_on_three_times, NULL);
    OK(read(ends[1], &byte, 1) == 1 && how_often == 3 && pthread_join(thread, NULL) == 0);
    thread = will_be_ended();
    FAILS(read(ends[1], &byte, 1), EINTR);
    has_ended = 1;
    OK(pthread_join(thread, NULL) == 0);
    int from = listener();
    then = calls, how_often = 0;
    thread = later(goes_on_three_times, NULL);
    made = accept(from, NULL, NULL);
    OK(made >= 0 && how_often == 3 && pthread_join(thread, NULL) == 0);
    thread = will_be_ended();
    FAILS(accept(from, NULL, NULL), EINTR);
    has_ended = 1;
    OK(pthread_join(thread, NULL) == 0);
}

/* A child that was made past the C library has memory of its own, and what it sets there holds. */
static void case_a_child_by_number_has_its_own(void) {
    int ends[2], status;
    char byte;
    pair(ends);
    waits = pthread_self();
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        int set[2] = {signal(SIGUSR2, SIG_IGN) == SIG_DFL, close(ends[0])};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        while (fd >= 0 && fd < ends[0]) fd = socket(AF_INET, SOCK_STREAM, 0);
        int is_new = send(fd, "not to be seen", 14, MSG_NOSIGNAL) == -1;
        _exit(set[0] && set[1] == 0 && fd == ends[0] && is_new ? 7 : 8);
    }
    OK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    OK(write(ends[0], "x", 1) == 1 && read(ends[1], &byte, 1) == 1 && byte == 'x');
}

static const struct test_case cases[] = {
    CASE(select_of_more_than_there_are), CASE(select_of_high_numbers),
    CASE(sendfile_of_what_flows), CASE(vfork_changes_nothing_of_its_parent),
    CASE(rings_are_refused), CASE(fork_in_a_handler), CASE(masks_of_calls_that_do_not_wait),
    CASE(poll_of_the_longest_list), CASE(standard_streams),
    CASE(streams_of_what_is_connected_later), CASE(each_signal_ends_calls_or_not),
    CASE(a_child_by_number_has_its_own), CASE(deep_library),
};

int main(int count, char **arguments) {
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
