/* What the programs of the cases share: each case runs twice, on the kernel's sockets, which shows that
   it asks for nothing but what Linux does, and on those of the data plane. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* The most buffers of one call. */
enum { PARTS_MAX = 1024 };

/* Where nothing is. */
__attribute__((unused)) static void *volatile nowhere = (void *)8;

static inline void fail(int line, const char *what) {
    int error = errno;
    dprintf(2, "line %d: %s (errno %d, %s)\n", line, what, error, strerror(error));
    _exit(1);
}
#define OK(condition) do { if (!(condition)) fail(__LINE__, #condition); } while (0)
#define FAILS(call, error) do { errno = 0; OK((call) == -1); OK(errno == (error)); } while (0)

/* Whether the kernel itself has the connection: asked past every library. */
static inline int kernel_has(int fd) {
    struct sockaddr_storage name;
    socklen_t bytes = sizeof name;
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(SYS_getpeername), "D"((long)fd), "S"(&name), "d"(&bytes), "r"(r10)
                     : "rcx", "r11", "memory");
    return result == 0;
#else
    (void)fd; (void)name; (void)bytes;
    return getenv("ACCELERATED") == NULL;
#endif
}

static struct sockaddr_in address;

static inline int listener(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t bytes = sizeof address;
    address = (struct sockaddr_in){.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    OK(fd >= 0);
    OK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    OK(getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 && bytes == sizeof address);
    OK(listen(fd, 64) == 0);
    return fd;
}

static inline int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    OK(fd >= 0);
    OK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static inline void pair(int ends[2]) {
    int from = listener();
    ends[0] = dial();
    ends[1] = accept(from, NULL, NULL);
    OK(ends[1] >= 0);
    OK(close(from) == 0);
    int expected = getenv("ACCELERATED") == NULL;
    OK(kernel_has(ends[0]) == expected && kernel_has(ends[1]) == expected);
}

static inline void read_all(int fd, char *to, size_t bytes) {
    while (bytes > 0) {
        ssize_t count = read(fd, to, bytes);
        OK(count > 0);
        to += count;
        bytes -= (size_t)count;
    }
}

static inline int is_ready(int fd, short events, int timeout) {
    struct pollfd place = {.fd = fd, .events = events};
    OK(poll(&place, 1, timeout) >= 0);
    return place.revents;
}

static inline void milliseconds(long count) {
    struct timespec time = {count / 1000, count % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0) {}
}

static int handled;
static inline void on_signal(int signal) { handled = signal; }

static inline void handle(int signal, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    OK(sigaction(signal, &action, NULL) == 0);
}

static inline pthread_t later(void *(*run)(void *), void *argument) {
    pthread_t thread;
    OK(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

struct test_case { const char *name; void (*run)(void); };
#define CASE(name) {#name, case_##name}

/* Runs the case of that name; without one, says which there are. */
static inline int run_case(const struct test_case *cases, size_t number, int count, char **arguments) {
    alarm(60);
    for (size_t i = 0; i < number; i++) {
        if (count < 2) puts(cases[i].name);
        else if (strcmp(cases[i].name, arguments[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return count < 2 ? 0 : 2;
}
