/* A program with an allocator of its own, which closes itself around each fork as jemalloc does, and
   can tell who takes memory when nobody may: a handler of a signal may have interrupted it. */
#include "cases.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

static pthread_mutex_t arena = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_known, is_forbidden;
static void closes(void) { pthread_mutex_lock(&arena); }
static void opens(void) { pthread_mutex_unlock(&arena); }
static void opens_in_child(void) { pthread_mutex_init(&arena, NULL); }

static void enters(void) {
    if (is_forbidden) abort();
    if (!atomic_exchange(&is_known, 1)) pthread_atfork(closes, opens, opens_in_child);
    pthread_mutex_lock(&arena);
}

void *malloc(size_t bytes) {
    enters();
    void *made = __libc_malloc(bytes);
    opens();
    return made;
}

void *calloc(size_t count, size_t bytes) {
    enters();
    void *made = __libc_calloc(count, bytes);
    opens();
    return made;
}

void *realloc(void *old, size_t bytes) {
    enters();
    void *made = __libc_realloc(old, bytes);
    opens();
    return made;
}

void free(void *old) {
    if (old == NULL) return;
    enters();
    __libc_free(old);
    opens();
}

static void case_fork(void) {
    int ends[2], status;
    char byte;
    pair(ends);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) _exit(write(ends[0], "x", 1) == 1 ? 7 : 8);
        OK(child > 0 && read(ends[1], &byte, 1) == 1);
        OK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    }
}

static void case_looks_take_no_memory(void) {
    enum { LIST = 40 };
    struct pollfd list[LIST];
    struct timespec now = {0, 0};
    struct timeval at_once = {0, 0};
    int ends[2], pipes[2];
    fd_set in, out;
    pair(ends);
    OK(pipe(pipes) == 0);
    for (int i = 0; i < LIST; i++) list[i] = (struct pollfd){.fd = pipes[i % 2], .events = POLLIN};
    list[20] = (struct pollfd){.fd = ends[0], .events = POLLOUT};
    list[30] = (struct pollfd){.fd = ends[1], .events = POLLIN};
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(ends[1], &in), FD_SET(pipes[0], &in), FD_SET(ends[0], &out);
    is_forbidden = 1;
    int seen[] = {poll(list, LIST, 0), poll(list, LIST, 10000), ppoll(list, LIST, &now, NULL),
                  select(64, &in, &out, NULL, &at_once)};
    list[20].events = POLLIN;
    int none = poll(list, LIST, 0);
    is_forbidden = 0;
    for (int i = 0; i < 4; i++) OK(seen[i] == 1);
    OK(none == 0);
}

static const struct test_case cases[] = {CASE(fork), CASE(looks_take_no_memory)};

int main(int count, char **arguments) {
    return run_case(cases, sizeof cases / sizeof *cases, count, arguments);
}
